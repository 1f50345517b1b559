//! The kernel's own forwarder: an XDP program on each interface that packets come from sends every one of
//! them out of another interface, on the core and in the moment that the driver receives it. Nothing of it
//! runs here: this process loads the programs, reads their counters, and takes them with it when it ends,
//! however it ends.
//!
//! What is counted. The program counts each packet that it is given ([`RedirectCounts::received`]). Whether the
//! other interface has taken it, the kernel tells nobody but its tracepoints: `xdp_devmap_xmit` says how many
//! packets of a batch went out, and from which device they came, as a pointer. Which pointer is ours, the
//! tracepoint `xdp_redirect` says, whose events carry the number of our map. So a first program listens there
//! until a packet of each way has come by, then [`Redirect::settle`] takes it away, because it costs each packet
//! some ten nanoseconds; a second one counts what has gone out.
//!
//! Where to tap. What a native program takes, no tap of that interface sees: tap the sender's end of the wire, or
//! what arrives behind the other interface.
//!
//! A pair of virtual interfaces (veth) takes redirected packets only if its other end polls: GRO has to be on
//! there (`ethtool -K PEER gro on`), or an XDP program. Else all packets are lost, which
//! [`RedirectCounts::failed`] tells.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use crate::error::DataplaneError;
use crate::placement::in_namespace;
use crate::port::PortSpec;
use crate::port::af_packet::{open_socket, port_error};
use crate::port::af_xdp::{NEEDS_BPF, attach_program};
use crate::sys::bpf::{self, CounterMap, DeviceMap, NumberMap};
use crate::sys::bpf_code::{Code, FUNC_REDIRECT_MAP, Key, XDP_DROP};
use crate::sys::socket::PacketSocket;

/// Counters of a way.
const COUNTERS: u32 = 2;

/// What became of the packets of one way, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedirectCounts {
    /// Packets that the program was given.
    pub received: u64,
    /// Packets that the other interface took; where that can't be known ([`Redirect::knows_failures`]), those that
    /// were received.
    pub sent: u64,
    /// Packets that it did not take, and that are lost. While packets are under way some of them count as such.
    pub failed: u64,
}

/// Programs that stand on interfaces, until this is dropped.
#[derive(Debug)]
pub struct Redirect {
    forwarding_paths: Vec<DirectionProgram>,
    counters: CounterMap,
    /// The device that packets of each way come from, as the kernel's pointer; 0 before the first packet.
    devices: NumberMap,
    /// Counts what goes out.
    observer: Option<OwnedFd>,
    /// Learns the devices.
    learner: Mutex<Option<OwnedFd>>,
}

/// The program of a way.
#[derive(Debug)]
struct DirectionProgram {
    interface: String,
    native: bool,
    _link: OwnedFd,
    /// Has a network card receive frames for other addresses.
    _promiscuous: PacketSocket,
}

impl Redirect {
    /// Attaches a program for each way, from a port to a port, natively where the driver can; from then on
    /// packets are forwarded. Both directions of a forwarder are two ways; an interface is the start of one at most.
    ///
    /// # Errors
    /// No such interface, another XDP program on it, no root (or CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW), a kernel
    /// without BPF.
    pub fn open(forwarding_paths: &[(PortSpec<'_>, PortSpec<'_>)]) -> Result<Self, DataplaneError> {
        let first = forwarding_paths.first().map_or("", |(from, _)| from.interface);
        let count = forwarding_paths.len() as u32;
        let map = |what| port_error(first, what, NEEDS_BPF);
        let targets = DeviceMap::new(count).map_err(map("making a BPF map of interfaces"))?;
        let counters = CounterMap::new(count * COUNTERS).map_err(map("making a BPF map of counters"))?;
        let devices = NumberMap::new(count).map_err(map("making a BPF map of devices"))?;
        for (forwarding_path, (_, to)) in forwarding_paths.iter().enumerate() {
            in_namespace(to.netns, || {
                let next = "can frames leave it that are not from the stack?";
                let index = open_socket(to.interface)?.interface();
                let inserted = targets.insert(forwarding_path as u32, index);
                inserted.map_err(port_error(to.interface, "making it the target of a redirection", next))
            })??;
        }
        // Before the first packet can come.
        let (learner, observer) = observe(&targets, &counters, &devices, count).unzip();
        let mut programs = Vec::new();
        for (forwarding_path, (from, _)) in forwarding_paths.iter().enumerate() {
            let code = redirection(&targets, &counters, forwarding_path as u32);
            let program = in_namespace(from.netns, || attach(from.interface, &code))??;
            programs.push(program);
        }
        Ok(Self { forwarding_paths: programs, counters, devices, observer, learner: Mutex::new(learner) })
    }

    /// The interfaces that packets come from, and whether the program runs in the driver there, before a packet has
    /// a socket buffer. False: generic XDP, in the stack.
    pub fn modes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.forwarding_paths
            .iter()
            .map(|forwarding_path| (forwarding_path.interface.as_str(), forwarding_path.native))
    }

    /// Whether it is counted which packets of a way were not taken. The kernel tells so of native programs, to
    /// whom it lets trace (root, or CAP_PERFMON).
    pub fn knows_failures(&self, forwarding_path: usize) -> bool {
        self.observer.is_some() && self.forwarding_paths[forwarding_path].native
    }

    /// What became of the packets of a way so far.
    ///
    /// # Errors
    /// None but what bpf(2) has of its own.
    pub fn counts(&self, forwarding_path: usize) -> Result<RedirectCounts, DataplaneError> {
        let read = |counter: u32| {
            let value = self.counters.sum(forwarding_path as u32 * COUNTERS + counter);
            value.map_err(port_error(
                &self.forwarding_paths[forwarding_path].interface,
                "reading BPF counters",
                NEEDS_BPF,
            ))
        };
        let received = read(0)?;
        let sent = if self.knows_failures(forwarding_path) { read(1)? } else { received };
        Ok(RedirectCounts { received, sent, failed: received.saturating_sub(sent) })
    }

    /// What became of the packets of all ways so far.
    ///
    /// # Errors
    /// As [`Redirect::counts`].
    pub fn total(&self) -> Result<RedirectCounts, DataplaneError> {
        let mut total = RedirectCounts::default();
        for forwarding_path in 0..self.forwarding_paths.len() {
            let counts = self.counts(forwarding_path)?;
            total.received += counts.received;
            total.sent += counts.sent;
            total.failed += counts.failed;
        }
        Ok(total)
    }

    /// Takes away what listens to each packet, once it has heard one of each way. To be called now and then.
    pub fn settle(&self) {
        let mut learner = self.learner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known =
            |forwarding_path: usize| self.devices.get(forwarding_path as u32).is_ok_and(|device| device != 0);
        // A generic program's packets are of no interest to who counts.
        if (0..self.forwarding_paths.len())
            .all(|forwarding_path| !self.forwarding_paths[forwarding_path].native || known(forwarding_path))
        {
            *learner = None;
        }
    }
}

fn attach(interface: &str, code: &Code) -> Result<DirectionProgram, DataplaneError> {
    let socket = open_socket(interface)?;
    let program = bpf::load_xdp(code, c"wiretail_redir");
    let program = program.map_err(port_error(interface, "loading an XDP program", NEEDS_BPF))?;
    let (link, native) = attach_program(interface, &socket, &program)?;
    Ok(DirectionProgram { interface: interface.to_owned(), native, _link: link, _promiscuous: socket })
}

/// `counters[forwarding_path][0] += 1; return bpf_redirect_map(&targets, forwarding_path, XDP_DROP)`.
fn redirection(targets: &DeviceMap, counters: &CounterMap, forwarding_path: u32) -> Code {
    let mut code = Code::default();
    // There is no other program on this processor until this one ends: nothing to lock.
    code.look_up(counters.fd(), Key::Number(forwarding_path * COUNTERS)).skip_if(0, 0);
    code.load(1, 0, 0).add(1, 1).store(0, 0, 1).here();
    code.map(1, targets.fd()).set(2, forwarding_path).set(3, XDP_DROP).call(FUNC_REDIRECT_MAP).exit();
    code
}

/// Starts to learn the devices and to count what goes out; None where tracepoints can't be had.
fn observe(
    targets: &DeviceMap,
    counters: &CounterMap,
    devices: &NumberMap,
    forwarding_paths: u32,
) -> Option<(OwnedFd, OwnedFd)> {
    let listen = |code: &Code, name: &CStr, event: &CStr| {
        bpf::attach_to_tracepoint(&bpf::load_tracepoint(code, name).ok()?, event).ok()
    };
    let learner = listen(&learning(targets.id().ok()?, devices), c"wiretail_learn", c"xdp_redirect")?;
    let observer =
        listen(&observing(counters, devices, forwarding_paths), c"wiretail_sent", c"xdp_devmap_xmit")?;
    Some((learner, observer))
}

/// Where an argument of a tracepoint (include/trace/events/xdp.h of the kernel) is, each in eight bytes.
const fn argument(number: i16) -> i16 {
    number * 8
}

/// At each redirection `(device, program, target, error, map type, map, place in the map)`:
/// `if (map == ours) devices[place] = device`.
fn learning(map: u32, devices: &NumberMap) -> Code {
    let mut code = Code::default();
    code.copy(6, 1).load(1, 6, argument(5)).skip_unless(1, map);
    code.load(7, 6, argument(0)).load(8, 6, argument(6));
    code.look_up(devices.fd(), Key::Register(8)).skip_if(0, 0).store(0, 0, 7);
    code.here().set(0, 0).exit();
    code
}

/// At each batch that goes out `(device it came from, target, sent, dropped, error)`:
/// `if (device == devices[forwarding_path]) counters[forwarding_path][1] += sent`.
fn observing(counters: &CounterMap, devices: &NumberMap, forwarding_paths: u32) -> Code {
    let mut code = Code::default();
    code.copy(6, 1).load(7, 6, argument(0)).load(8, 6, argument(2));
    for forwarding_path in 0..forwarding_paths {
        code.look_up(devices.fd(), Key::Number(forwarding_path))
            .skip_if(0, 0)
            .load(1, 0, 0)
            .skip_unless_same(1, 7);
        code.look_up(counters.fd(), Key::Number(forwarding_path * COUNTERS + 1)).skip_if(0, 0);
        code.load(1, 0, 0).add_register(1, 8).store(0, 0, 1).here();
    }
    code.set(0, 0).exit();
    code
}
