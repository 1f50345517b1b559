//! Ports on AF_XDP sockets: an XDP program passes every received packet to the socket before the network
//! stack sees it, and sent frames go directly to the driver.
//!
//! Placement of taps: if an AF_XDP port receives packets on an interface, taps on that interface do not see
//! these packets, because the XDP program runs first. The ingress tap must be on the sender's end of the wire
//! ([`Direction::Out`](crate::timestamper::Direction::Out)), and the load generator must send through the
//! queueing discipline ([`TxPlan::qdisc_bypass`](crate::port::af_packet::TxPlan) false). Otherwise, the tap
//! misses the frames of the generator. Packets sent by an AF_XDP port bypass the queueing discipline, so taps
//! on the sending interface do not see them; a tap on the other end of the wire works as usual.
//!
//! Only one queue is supported. An interface with several receive queues distributes packets to all of them.
//! A port on one queue would miss the packets of the other queues, which enter the network stack. Such
//! interfaces are rejected; `ethtool -L` sets the number of queues.

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

/// Maximum number of frames in flight. It is larger than a batch, because on veth a frame is complete only
/// when the other end has accepted it.
const TX_SLOTS: usize = 2048;

/// Number of entries of a ring that the kernel requires but that is not used.
const UNUSED_SLOTS: usize = 64;

/// Time limit for binding to a busy queue. The kernel releases a queue only some time after its last socket
/// is closed.
const BUSY: Duration = Duration::from_millis(500);

/// Advice if a program cannot be loaded into the kernel.
pub(crate) const NEEDS_BPF: &str =
    "needs root, or CAP_BPF and CAP_NET_ADMIN, and a kernel with CONFIG_BPF_SYSCALL";

/// The XDP mode of an interface. Unsupported modes fall back to supported ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpMode {
    /// Whether the program runs in the driver. If false, it runs in the network stack, on a socket buffer
    /// (generic XDP). `None` if the port only sends and has no program.
    pub native: Option<bool>,
    /// Whether the NIC accesses the socket's memory directly. If false, the kernel copies packets.
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

/// An AF_XDP port for receiving.
#[derive(Debug)]
pub(crate) struct XdpRx {
    // Must be dropped first. Detaching the program before the socket is closed lets packets pass to the
    // network stack.
    _link: OwnedFd,
    ring: XskRx,
    mode: XdpMode,
    /// Makes the NIC receive frames for other addresses.
    _promiscuous: PacketSocket,
}

/// An AF_XDP port for sending.
#[derive(Debug)]
pub struct XdpTx {
    ring: XskTx,
    mode: XdpMode,
    last_error: Option<i32>,
}

/// The halves to open on an interface. A queue has a single socket, so both halves must be requested
/// together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Halves {
    /// Number of chunks for reception, a power of two; `None` disables reception.
    pub(crate) rx_slots: Option<usize>,
    pub(crate) tx: bool,
}

impl XdpRx {
    /// The XDP mode of this interface.
    pub(crate) fn mode(&self) -> XdpMode {
        self.mode
    }
}

impl XdpTx {
    /// Opens a port that only sends. No other AF_XDP socket can use this interface at the same time.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist, CAP_NET_RAW is missing, another AF_XDP socket uses
    /// the interface, or memory is insufficient (without CAP_IPC_LOCK, RLIMIT_MEMLOCK limits the memory).
    pub fn open(port: &PortSpec<'_>) -> Result<Self, DataplaneError> {
        let (_, tx) = open(port, Halves { rx_slots: None, tx: true })?;
        Ok(tx.expect("it was asked for"))
    }

    /// The XDP mode of this interface.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

/// Opens one or both halves of a port.
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
    // Attach before binding: some drivers provide their queues only while a program is attached. The program
    // passes all packets while the map is empty.
    let program = match halves.rx_slots {
        Some(_) => Some(attach(interface, &packet)?),
        None => None,
    };
    let (rx_slots, tx_slots) = (halves.rx_slots.unwrap_or(0), if halves.tx { TX_SLOTS } else { 0 });
    let memory = Mapping::anonymous((rx_slots + tx_slots) * CHUNK_LEN);
    let memory = memory.map_err(step("allocating memory for packets", "request fewer slots"))?;
    let old = "check that the kernel has CONFIG_XDP_SOCKETS";
    let socket = XskSocket::open().map_err(step("opening an AF_XDP socket", old))?;
    let locked = "request fewer slots, raise the limit on locked memory (`ulimit -l`) or grant CAP_IPC_LOCK";
    socket.register(&memory).map_err(step("XDP_UMEM_REG", locked))?;
    make_rings(&socket, rx_slots, tx_slots)
        .map_err(step("creating the AF_XDP rings", "request fewer slots"))?;
    socket.send_buffer(SEND_BUFFER).map_err(step("SO_SNDBUF", old))?;
    bind(&socket, index).map_err(step(
        "binding an AF_XDP socket",
        "check that the interface is up and has no other AF_XDP socket (`ss --xdp`)",
    ))?;
    let zero_copy = socket.is_zero_copy().map_err(step("XDP_OPTIONS", old))?;
    let mapped = step("mapping the AF_XDP rings", "request fewer slots");
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

/// A program attached to an interface, not yet connected to a socket.
struct Program {
    map: SocketMap,
    link: OwnedFd,
    native: bool,
}

fn attach(interface: &str, packet: &PacketSocket) -> Result<Program, DataplaneError> {
    let queues = packet.rx_queues(interface);
    if queues > 1 {
        let expected = "1: set it with `ethtool -L INTERFACE combined 1` (or `rx 1`)";
        return Err(plan(format!("number of receive queues of {interface}"), queues, expected));
    }
    let step = |step, next| port_error(interface, step, next);
    let map = SocketMap::new(1).map_err(step("creating a BPF map", NEEDS_BPF))?;
    let program = bpf::load_xdp(&to_socket(&map), c"wiretail_to_xsk");
    let program = program.map_err(step("loading an XDP program", NEEDS_BPF))?;
    let (link, native) = attach_program(interface, packet, &program)?;
    Ok(Program { map, link, native })
}

/// Offset of rx_queue_index in struct xdp_md.
const QUEUE_AT: i16 = 16;

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: packets without a socket continue into the
/// network stack.
fn to_socket(map: &SocketMap) -> Code {
    let mut code = Code::default();
    code.load_word(2, 1, QUEUE_AT).map(1, map.fd()).set(3, XDP_PASS).call(FUNC_REDIRECT_MAP).exit();
    code
}

/// Attaches a loaded program to the interface of `packet`, natively if the driver supports it. Returns
/// whether the program is attached natively. The interface receives frames for all addresses while `packet`
/// is open.
pub(crate) fn attach_program(
    interface: &str,
    packet: &PacketSocket,
    program: &OwnedFd,
) -> Result<(OwnedFd, bool), DataplaneError> {
    let step = |step, next| port_error(interface, step, next);
    packet.promiscuous().map_err(step("promiscuous reception", "check that the interface is up"))?;
    let attach = |how| bpf::attach(program, packet.interface(), how);
    match attach(Attach::Native) {
        Ok(link) => Ok((link, true)),
        Err(error) if is_taken(&error) => Err(taken(interface, error)),
        Err(_) => {
            let generic = attach(Attach::Generic);
            let next = "`ip -d link show` lists the programs on the interface";
            Ok((generic.map_err(step("attaching an XDP program, native and generic,", next))?, false))
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn taken(interface: &str, error: io::Error) -> DataplaneError {
    let next = "another XDP program is attached: stop its owner, or `ip link set INTERFACE xdp off`";
    port_error(interface, "attaching an XDP program", next)(error)
}

fn make_rings(socket: &XskSocket, rx_slots: usize, tx_slots: usize) -> io::Result<()> {
    // Every UMEM needs a fill ring and a completion ring.
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
    /// Sends a batch. The number of frames that the driver drops is known, but not which ones. Frames
    /// rejected because the interface is down count as failed, but are still sent when it is up again.
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
                // The kernel requests another call because it has sent 32 frames or lacks memory.
                Ok(()) | Err(Some(libc::EAGAIN | libc::ENOBUFS)) => {}
                // The driver has dropped a frame.
                Err(Some(libc::EBUSY)) => {
                    dropped += 1;
                    self.last_error = Some(libc::EBUSY);
                }
                Err(error) => {
                    self.last_error = error;
                    return 0;
                }
            }
            // If the kernel is too slow, the frames stay in the ring and are sent with the next ones.
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
    /// Copies frames into chunks and returns their number. Stops at the first frame that is too long or for
    /// which no chunk becomes free in time.
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

// The number of slots is a power of two and at least 64, so that both parts of the memory consist of whole
// pages.
const _: () = assert!(UNUSED_SLOTS * CHUNK_LEN >= PAGE_LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_missing_interface() {
        let port = PortSpec { netns: None, interface: "nosuch0" };
        let error = XdpTx::open(&port).unwrap_err().to_string();
        assert!(error.contains("nosuch0: no such interface") && error.contains("ip link"), "{error}");
    }

    #[test]
    fn formats_xdp_modes() {
        let mode = |native, zero_copy| XdpMode { native, zero_copy }.to_string();
        assert_eq!(mode(Some(true), false), "native XDP, copy");
        assert_eq!(mode(Some(false), true), "generic XDP, zero copy");
        assert_eq!(mode(None, false), "copy");
    }
}
