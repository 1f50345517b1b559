//! A forwarder inside the kernel. An XDP program on each source interface redirects all packets to another
//! interface. It runs on the core on which the driver receives a packet, at the time of reception. This
//! process loads the programs and reads their counters. The programs are removed when the process exits, even
//! after SIGKILL.
//!
//! The program of a direction counts all packets that it receives ([`RedirectCounts::received`]). Only
//! tracepoints show whether the other interface accepted these packets. For each batch, `xdp_devmap_xmit`
//! reports the number of sent packets and a pointer to the source device. Two further programs evaluate these
//! reports. The first one finds the pointers of our devices. It listens on the tracepoint `xdp_redirect`,
//! whose events contain the ID of our map, until it has seen one packet of each direction.
//! [`Redirect::settle`] then removes this program, because it costs about ten nanoseconds per packet. The
//! second program counts the sent packets.
//!
//! Placement of taps: taps on an interface do not see packets that a native program receives there. Tap the
//! sender's end of the wire, or the wire after the other interface.
//!
//! A veth interface accepts redirected packets only if its peer polls: the peer must have GRO enabled
//! (`ethtool -K PEER gro on`) or an XDP program attached. Otherwise all packets are lost, which
//! [`RedirectCounts::failed`] shows.

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

/// Number of counters per direction.
const COUNTERS: u32 = 2;

/// Packet counts of one or several directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedirectCounts {
    /// Packets received by the program.
    pub received: u64,
    /// Packets accepted by the other interface, or the number of received packets if this is unknown
    /// ([`Redirect::knows_failures`]).
    pub sent: u64,
    /// Packets that the other interface rejected. They are lost. This number temporarily includes packets in
    /// flight.
    pub failed: u64,
}

/// Attached programs. Dropping this detaches them.
#[derive(Debug)]
pub struct Redirect {
    forwarding_paths: Vec<DirectionProgram>,
    counters: CounterMap,
    /// Source device of each direction, as a kernel pointer; 0 before the first packet.
    devices: NumberMap,
    /// Counts sent packets.
    observer: Option<OwnedFd>,
    /// Finds the pointers of the devices.
    learner: Mutex<Option<OwnedFd>>,
}

/// The program of one direction.
#[derive(Debug)]
struct DirectionProgram {
    interface: String,
    native: bool,
    _link: OwnedFd,
    /// Makes a NIC receive frames for other addresses.
    _promiscuous: PacketSocket,
}

impl Redirect {
    /// Attaches a program for each direction, natively if the driver supports it. Packets are forwarded from
    /// then on. A bidirectional forwarder has two directions. Each interface can be the source of at most one
    /// direction.
    ///
    /// # Errors
    /// Returns an error if an interface does not exist or has another XDP program, if the kernel has no BPF,
    /// or without root privileges (or CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW).
    pub fn open(forwarding_paths: &[(PortSpec<'_>, PortSpec<'_>)]) -> Result<Self, DataplaneError> {
        let first = forwarding_paths.first().map_or("", |(from, _)| from.interface);
        let count = forwarding_paths.len() as u32;
        let map = |what| port_error(first, what, NEEDS_BPF);
        let targets = DeviceMap::new(count).map_err(map("creating a BPF map of interfaces"))?;
        let counters = CounterMap::new(count * COUNTERS).map_err(map("creating a BPF map of counters"))?;
        let devices = NumberMap::new(count).map_err(map("creating a BPF map of devices"))?;
        for (forwarding_path, (_, to)) in forwarding_paths.iter().enumerate() {
            in_namespace(to.netns, || {
                let next = "check that its driver supports XDP redirection";
                let index = open_socket(to.interface)?.interface();
                let inserted = targets.insert(forwarding_path as u32, index);
                inserted.map_err(port_error(
                    to.interface,
                    "adding the interface as a redirection target",
                    next,
                ))
            })??;
        }
        // Must be attached before the first packet arrives.
        let (learner, observer) = observe(&targets, &counters, &devices, count).unzip();
        let mut programs = Vec::new();
        for (forwarding_path, (from, _)) in forwarding_paths.iter().enumerate() {
            let code = redirection(&targets, &counters, forwarding_path as u32);
            let program = in_namespace(from.netns, || attach(from.interface, &code))??;
            programs.push(program);
        }
        Ok(Self { forwarding_paths: programs, counters, devices, observer, learner: Mutex::new(learner) })
    }

    /// The source interfaces, each with `true` if its program runs natively in the driver, before a packet
    /// has a socket buffer. `false` means generic XDP in the network stack.
    pub fn modes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.forwarding_paths
            .iter()
            .map(|forwarding_path| (forwarding_path.interface.as_str(), forwarding_path.native))
    }

    /// Whether rejected packets of a direction are counted. This needs a native program and permission to
    /// trace the kernel (root or CAP_PERFMON).
    pub fn knows_failures(&self, forwarding_path: usize) -> bool {
        self.observer.is_some() && self.forwarding_paths[forwarding_path].native
    }

    /// Current packet counts of a direction.
    ///
    /// # Errors
    /// Returns errors of bpf(2); none are expected.
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

    /// Current packet counts of all directions together.
    ///
    /// # Errors
    /// Same as [`Redirect::counts`].
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

    /// Removes the program that listens to every packet as soon as it has seen one packet of each direction.
    /// Should be called periodically.
    pub fn settle(&self) {
        let mut learner = self.learner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known =
            |forwarding_path: usize| self.devices.get(forwarding_path as u32).is_ok_and(|device| device != 0);
        // Sent packets are not counted for generic programs, so the pointers of their devices are not needed.
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
    // No lock is needed: no other program runs on this CPU until this one ends.
    code.look_up(counters.fd(), Key::Number(forwarding_path * COUNTERS)).skip_if(0, 0);
    code.load(1, 0, 0).add(1, 1).store(0, 0, 1).here();
    code.map(1, targets.fd()).set(2, forwarding_path).set(3, XDP_DROP).call(FUNC_REDIRECT_MAP).exit();
    code
}

/// Attaches the programs that find the devices and count sent packets. `None` if tracepoints are not
/// available.
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

/// Offset of an argument of a tracepoint (include/trace/events/xdp.h of the kernel). Each takes eight bytes.
const fn argument(number: i16) -> i16 {
    number * 8
}

/// For each redirection `(device, program, target, error, map type, map, place in the map)`: `if (map ==
/// ours) devices[place] = device`.
fn learning(map: u32, devices: &NumberMap) -> Code {
    let mut code = Code::default();
    code.copy(6, 1).load(1, 6, argument(5)).skip_unless(1, map);
    code.load(7, 6, argument(0)).load(8, 6, argument(6));
    code.look_up(devices.fd(), Key::Register(8)).skip_if(0, 0).store(0, 0, 7);
    code.here().set(0, 0).exit();
    code
}

/// For each sent batch `(source device, target, sent, dropped, error)`: `if (device ==
/// devices[forwarding_path]) counters[forwarding_path][1] += sent`.
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
