//! Ports on AF_XDP sockets: an XDP program hands every received packet to the socket before the stack sees
//! it, and frames go from the socket straight to the driver.
//!
//! Where to tap. What such a port receives, taps on the same interface do not see: the program runs
//! before them. The ingress tap then belongs on the sender's end of the wire
//! ([`Direction::Out`](crate::timestamper::Direction::Out)), and the load generator must send through the
//! queueing discipline ([`TxPlan::qdisc_bypass`](crate::port::af_packet::TxPlan) false), or that tap
//! misses its frames. On the far end of what such a port sends, a tap works as ever. What such a port sends
//! itself bypasses the queueing discipline: no tap of the sending interface sees it.
//!
//! One queue: an interface with several receiving queues spreads packets over all of them, and a port
//! that serves one would lose the others to the stack. It is refused; `ethtool -L` sets their number.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::af_packet::{SEND_BUFFER, is_long_ago, open_socket, port_error};
use super::{BATCH_MAX, PortSpec, Received, RxPort, TxPort};
use crate::error::{DataplaneError, plan};
use crate::placement::in_namespace;
use crate::sys::bpf::{self, Attach, SocketMap};
use crate::sys::bpf_code::{Code, FUNC_REDIRECT_MAP, XDP_PASS};
use crate::sys::mapping::{Mapping, PAGE_LEN};
use crate::sys::socket::PacketSocket;
use crate::sys::xsk_rx::XskRx;
use crate::sys::xsk_socket::{CHUNK_LEN, XskSocket};
use crate::sys::xsk_tx::XskTx;

/// Frames that may be on their way out. More than a batch: on veth a frame is done with when the far
/// end has taken it.
const TX_SLOTS: usize = 2048;

/// Entries of a ring that has to exist, but is not used.
const UNUSED_SLOTS: usize = 64;

/// The kernel gives a queue free some time after its last socket was closed.
const BUSY: Duration = Duration::from_millis(500);

/// What a program in the kernel takes.
pub(crate) const NEEDS_BPF: &str =
    "needs root, or CAP_BPF and CAP_NET_ADMIN, and a kernel with CONFIG_BPF_SYSCALL";

/// How an interface does AF_XDP: what is not possible falls back to what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpMode {
    /// The program runs in the driver; false: in the stack, on a socket buffer (generic XDP). None: the
    /// port only sends, and there is no program.
    pub native: Option<bool>,
    /// The network card reads and writes the socket's memory; false: the kernel copies.
    pub zero_copy: bool,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = match self.native {
            Some(true) => "native XDP, ",
            Some(false) => "generic XDP, ",
            None => "",
        };
        write!(out, "{program}{}", if self.zero_copy { "zero copy" } else { "copy" })
    }
}

/// A receiving AF_XDP port.
#[derive(Debug)]
pub(crate) struct XdpRx {
    // Dropped first: the program lets packets pass to the stack again before their socket is gone.
    _link: OwnedFd,
    ring: XskRx,
    mode: XdpMode,
    /// Has the card receive frames for other addresses.
    _promiscuous: PacketSocket,
}

/// A sending AF_XDP port.
#[derive(Debug)]
pub struct XdpTx {
    ring: XskTx,
    mode: XdpMode,
    last_error: Option<i32>,
}

/// What is wanted of an interface. A queue has one socket: who wants both, has to say so at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Halves {
    /// Chunks of reception, a power of two; None: no reception.
    pub(crate) rx_slots: Option<usize>,
    pub(crate) tx: bool,
}

impl XdpRx {
    /// What this interface can do.
    pub(crate) fn mode(&self) -> XdpMode {
        self.mode
    }
}

impl XdpTx {
    /// Opens a port that only sends. Nothing else may send or receive by AF_XDP on this interface.
    ///
    /// # Errors
    /// No such interface, no CAP_NET_RAW, another AF_XDP socket on the interface, no memory (its amount is
    /// limited by RLIMIT_MEMLOCK, unless one has CAP_IPC_LOCK).
    pub fn open(port: &PortSpec<'_>) -> Result<Self, DataplaneError> {
        let (_, tx) = open(port, Halves { rx_slots: None, tx: true })?;
        Ok(tx.expect("it was asked for"))
    }

    /// What this interface can do.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

/// Opens both halves of a port, or one of them.
pub(crate) fn open(
    port: &PortSpec<'_>,
    halves: Halves,
) -> Result<(Option<XdpRx>, Option<XdpTx>), DataplaneError> {
    in_namespace(port.netns, || open_here(port.interface, halves))?
}

fn open_here(interface: &str, halves: Halves) -> Result<(Option<XdpRx>, Option<XdpTx>), DataplaneError> {
    let step = |step, next| port_error(interface, step, next);
    let packet = open_socket(interface)?;
    let index = packet.interface();
    // Before the socket is bound: some drivers give their queues away only while a program is attached.
    // As long as the map is empty it lets all pass.
    let program = match halves.rx_slots {
        Some(_) => Some(attach(interface, &packet)?),
        None => None,
    };
    let (rx_slots, tx_slots) = (halves.rx_slots.unwrap_or(0), if halves.tx { TX_SLOTS } else { 0 });
    let memory = Mapping::anonymous((rx_slots + tx_slots) * CHUNK_LEN);
    let memory = memory.map_err(step("memory for packets", "ask for fewer slots"))?;
    let old = "does this kernel have CONFIG_XDP_SOCKETS?";
    let socket = XskSocket::open().map_err(step("opening an AF_XDP socket", old))?;
    let locked = "ask for fewer slots, raise the limit (`ulimit -l`) or grant CAP_IPC_LOCK";
    socket.register(&memory).map_err(step("XDP_UMEM_REG", locked))?;
    make_rings(&socket, rx_slots, tx_slots).map_err(step("the rings of AF_XDP", "ask for fewer slots"))?;
    socket.send_buffer(SEND_BUFFER).map_err(step("SO_SNDBUF", old))?;
    bind(&socket, index).map_err(step(
        "binding an AF_XDP socket",
        "is the interface up, and has no other AF_XDP socket (`ss --xdp`)?",
    ))?;
    let zero_copy = socket.is_zero_copy().map_err(step("XDP_OPTIONS", old))?;
    let mapped = step("mapping the rings of AF_XDP", "ask for fewer slots");
    let socket = Arc::new(socket);
    let (rx_memory, tx_memory) = match (halves.rx_slots, halves.tx) {
        (Some(slots), true) => {
            let (rx, tx) = memory.split(slots * CHUNK_LEN);
            (Some(rx), Some(tx))
        }
        (Some(_), false) => (Some(memory), None),
        (None, _) => (None, Some(memory)),
    };
    let mode = XdpMode { native: program.as_ref().map(|program| program.native), zero_copy };
    let tx = tx_memory.filter(|_| halves.tx).map(|memory| {
        let ring = XskTx::new(socket.clone(), memory, (rx_slots * CHUNK_LEN) as u64)?;
        Ok(XdpTx { ring, mode, last_error: None })
    });
    let tx = tx.transpose().map_err(&mapped)?;
    let Some((memory, program)) = rx_memory.zip(program) else { return Ok((None, tx)) };
    let ring = XskRx::new(socket.clone(), memory, zero_copy).map_err(&mapped)?;
    program.map.insert(0, &*socket).map_err(step("adding the socket to the XDP program's map", old))?;
    Ok((Some(XdpRx { _link: program.link, ring, mode, _promiscuous: packet }), tx))
}

/// A program on an interface, not yet connected with a socket.
struct Program {
    map: SocketMap,
    link: OwnedFd,
    native: bool,
}

fn attach(interface: &str, packet: &PacketSocket) -> Result<Program, DataplaneError> {
    let queues = packet.rx_queues(interface);
    if queues > 1 {
        let expected = "1: set it with `ethtool -L INTERFACE combined 1` (or `rx 1`)";
        return Err(plan(format!("number of receiving queues of {interface}"), queues, expected));
    }
    let step = |step, next| port_error(interface, step, next);
    let map = SocketMap::new(1).map_err(step("making a BPF map", NEEDS_BPF))?;
    let program = bpf::load_xdp(&to_socket(&map), c"wiretail_to_xsk");
    let program = program.map_err(step("loading an XDP program", NEEDS_BPF))?;
    let (link, native) = attach_program(interface, packet, &program)?;
    Ok(Program { map, link, native })
}

/// Where rx_queue_index stands in struct xdp_md.
const QUEUE_AT: i16 = 16;

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: what no socket takes goes on into the
/// stack.
fn to_socket(map: &SocketMap) -> Code {
    let mut code = Code::default();
    code.load_word(2, 1, QUEUE_AT).map(1, map.fd()).set(3, XDP_PASS).call(FUNC_REDIRECT_MAP).exit();
    code
}

/// Attaches a loaded program to the interface that `packet` is opened on, natively where the driver can; true
/// if so. The interface receives frames for all addresses as long as `packet` lives.
pub(crate) fn attach_program(
    interface: &str,
    packet: &PacketSocket,
    program: &OwnedFd,
) -> Result<(OwnedFd, bool), DataplaneError> {
    let step = |step, next| port_error(interface, step, next);
    packet.promiscuous().map_err(step("promiscuous reception", "is the interface up?"))?;
    let attach = |how| bpf::attach(program, packet.interface(), how);
    match attach(Attach::Native) {
        Ok(link) => Ok((link, true)),
        Err(error) if is_taken(&error) => Err(taken(interface, error)),
        Err(_) => {
            let generic = attach(Attach::Generic);
            let next = "`ip -d link show` tells what stands on the interface";
            Ok((generic.map_err(step("attaching an XDP program, native and generic,", next))?, false))
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(interface: &str, error: io::Error) -> DataplaneError {
    let next = "another program has the interface: end its owner, or `ip link set INTERFACE xdp off`";
    port_error(interface, "attaching an XDP program", next)(error)
}

fn make_rings(socket: &XskSocket, rx_slots: usize, tx_slots: usize) -> io::Result<()> {
    // Every memory has both of these.
    let or_unused = |slots| if slots == 0 { UNUSED_SLOTS } else { slots };
    socket.make_ring(libc::XDP_UMEM_FILL_RING, or_unused(rx_slots))?;
    socket.make_ring(libc::XDP_UMEM_COMPLETION_RING, or_unused(tx_slots))?;
    if rx_slots > 0 {
        socket.make_ring(libc::XDP_RX_RING, rx_slots)?;
    }
    if tx_slots > 0 {
        socket.make_ring(libc::XDP_TX_RING, tx_slots)?;
    }
    Ok(())
}

fn bind(socket: &XskSocket, interface: u32) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match socket.bind(interface, 0) {
            Err(error) if is_taken(&error) && begun.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(5));
            }
            bound => return bound,
        }
    }
}

impl RxPort for XdpRx {
    fn slots(&self) -> usize {
        self.ring.slots()
    }

    #[inline]
    fn packet(&self, position: u64) -> Option<Received<'_>> {
        self.ring.packet(position)
    }

    #[inline]
    fn release(&mut self, position: u64) {
        self.ring.release(position);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.ring.socket()
    }

    fn dropped(&mut self) -> io::Result<u64> {
        self.ring.dropped()
    }
}

impl TxPort for XdpTx {
    /// Of frames that the driver drops it is known how many, not which. Frames that an interface refuses
    /// because it is down count as not taken, and leave all the same when it is up again.
    #[inline]
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        debug_assert!(frames.len() <= BATCH_MAX);
        self.ring.reclaim();
        let staged = self.stage(frames);
        self.ring.publish();
        let mut dropped = 0;
        let mut since = None;
        loop {
            match self.ring.kick().map_err(|error| error.raw_os_error()) {
                // It wants to be asked again: after 32 frames, or for lack of memory.
                Ok(()) | Err(Some(libc::EAGAIN | libc::ENOBUFS)) => {}
                // The driver has dropped one.
                Err(Some(libc::EBUSY)) => {
                    dropped += 1;
                    self.last_error = Some(libc::EBUSY);
                }
                Err(error) => {
                    self.last_error = error;
                    return 0;
                }
            }
            // If the kernel is too slow they stay in the ring, and leave with the next ones.
            if self.ring.all_taken() || is_long_ago(&mut since) {
                return staged.saturating_sub(dropped);
            }
        }
    }

    fn last_error(&self) -> Option<i32> {
        self.last_error
    }
}

impl XdpTx {
    /// Copies frames into chunks, and returns how many: up to the first that is too long or has to wait
    /// for longer than a port may.
    #[inline]
    fn stage(&mut self, frames: &[&[u8]]) -> usize {
        let mut full_since = None;
        for (at, frame) in frames.iter().enumerate() {
            if frame.len() > CHUNK_LEN {
                self.last_error = Some(libc::EMSGSIZE);
                return at;
            }
            while !self.ring.stage(frame) {
                self.ring.publish();
                let _ = self.ring.kick();
                if is_long_ago(&mut full_since) {
                    self.last_error = Some(libc::ENOBUFS);
                    return at;
                }
            }
        }
        frames.len()
    }
}

// Slots are a power of two of at least 64, so that both parts of the memory are whole pages.
const _: () = assert!(UNUSED_SLOTS * CHUNK_LEN >= PAGE_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named() {
        let port = PortSpec { netns: None, interface: "nosuch0" };
        let error = XdpTx::open(&port).unwrap_err().to_string();
        assert!(error.contains("nosuch0: no such interface") && error.contains("ip link"), "{error}");
    }

    #[test]
    fn modes_are_told_in_words() {
        let mode = |native, zero_copy| XdpMode { native, zero_copy }.to_string();
        assert_eq!(mode(Some(true), false), "native XDP, copy");
        assert_eq!(mode(Some(false), true), "generic XDP, zero copy");
        assert_eq!(mode(None, false), "copy");
    }
}
