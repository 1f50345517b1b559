//! Ports on packet sockets (AF_PACKET), for all kinds of interfaces.

use std::io;
use std::os::fd::BorrowedFd;

use super::{PortSpec, Received, RxPort, TxPort};
use crate::clock::monotonic_ns;
use crate::error::DataplaneError;
use crate::placement::in_namespace;
use crate::sys::rx_ring::RxRing;
use crate::sys::socket::{PacketSocket, interface_index};
use crate::sys::tx_ring::TxRing;

/// How long a send ring may stay full before frames count as failed, in ns.
const FULL_NS: u64 = 1_000_000;

/// Send buffer size in bytes. The system default holds only about 200 frames.
pub(super) const SEND_BUFFER: i32 = 8 << 20;

/// How frames are passed to the kernel.
///
/// On veth, system calls are faster and more precise than the ring (measured with 100-byte frames on one core
/// of a virtual machine, in alternating runs). On a wire without listeners, calls send 790 thousand packets
/// per second, and the ring sends 690 thousand. At 10 kpps, the gaps on the wire have a median deviation of
/// 11 ns with calls and of 30 ns with the ring. On a NIC, the ring may be better; `examples/veth_loop.rs`
/// supports both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxMode {
    /// One system call per frame, or one per burst (sendmmsg). The kernel copies each frame.
    Call,
    /// A ring of at least this many slots, and one system call for all frames in it.
    Ring(usize),
}

/// How a port sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxPlan {
    /// How frames are passed to the kernel.
    pub mode: TxMode,
    /// Bypass the queueing discipline and send directly to the driver. Taps on the sender's end of the wire
    /// ([`Direction::Out`](crate::timestamper::Direction::Out)) do not see such frames.
    pub qdisc_bypass: bool,
}

impl Default for TxPlan {
    fn default() -> Self {
        Self { mode: TxMode::Call, qdisc_bypass: true }
    }
}

/// A packet socket for sending.
#[derive(Debug)]
pub struct PacketTx {
    forwarding_path: ForwardingPath,
    last_error: Option<i32>,
}

#[derive(Debug)]
enum ForwardingPath {
    Call(PacketSocket),
    Ring(TxRing),
}

impl PacketTx {
    ///
    /// # Errors
    /// Returns an error if the interface does not exist, CAP_NET_RAW is missing, or there is no memory for
    /// the ring.
    pub fn open(port: &PortSpec<'_>, plan: TxPlan) -> Result<Self, DataplaneError> {
        let forwarding_path = in_namespace(port.netns, || {
            let socket = open_socket(port.interface)?;
            let next = "check that the interface is up and is an Ethernet interface";
            let step = |step| port_error(port.interface, step, next);
            socket.bind(false).map_err(step("binding a packet socket"))?;
            socket.send_buffer(SEND_BUFFER).map_err(step("SO_SNDBUF"))?;
            if plan.qdisc_bypass {
                socket.set_packet(libc::PACKET_QDISC_BYPASS, 1).map_err(step("PACKET_QDISC_BYPASS"))?;
            }
            match plan.mode {
                TxMode::Call => Ok(ForwardingPath::Call(socket)),
                TxMode::Ring(slots) => {
                    let no_ring = port_error(port.interface, "creating a send ring", "request fewer slots");
                    TxRing::new(socket, slots).map(ForwardingPath::Ring).map_err(no_ring)
                }
            }
        })??;
        Ok(Self { forwarding_path, last_error: None })
    }
}

impl TxPort for PacketTx {
    #[inline]
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        let (taken, error) = match &mut self.forwarding_path {
            ForwardingPath::Call(socket) => call(socket, frames),
            ForwardingPath::Ring(ring) => fill(ring, frames),
        };
        if let Some(error) = error {
            self.last_error = error.raw_os_error();
        }
        taken
    }

    fn last_error(&self) -> Option<i32> {
        self.last_error
    }
}

#[inline]
fn call(socket: &PacketSocket, frames: &[&[u8]]) -> (usize, Option<io::Error>) {
    if let [frame] = frames {
        return match socket.send(frame) {
            Ok(()) => (1, None),
            Err(error) => (0, Some(error)),
        };
    }
    let mut taken = 0;
    while taken < frames.len() {
        // After a partial send, the next call returns the error.
        match socket.send_many(&frames[taken..]) {
            Ok(more) => taken += more,
            Err(error) => return (taken, Some(error)),
        }
    }
    (taken, None)
}

#[inline]
fn fill(ring: &mut TxRing, frames: &[&[u8]]) -> (usize, Option<io::Error>) {
    let mut full_since = None;
    for (at, frame) in frames.iter().enumerate() {
        while !ring.stage(frame) {
            let _ = ring.kick();
            if is_long_ago(&mut full_since) {
                return (at, Some(io::Error::from_raw_os_error(libc::ENOBUFS)));
            }
        }
    }
    let mut waiting_since = None;
    loop {
        let kicked = ring.kick();
        if ring.all_taken() {
            return (frames.len(), None);
        }
        // The frames stay in the ring and are sent with the next ones.
        if is_long_ago(&mut waiting_since) {
            return (frames.len(), kicked.err());
        }
    }
}

pub(super) fn is_long_ago(since: &mut Option<u64>) -> bool {
    let now = monotonic_ns();
    now - *since.get_or_insert(now) > FULL_NS
}

/// Opens an unbound socket for this interface in the calling thread's namespace.
pub(crate) fn open_socket(interface: &str) -> Result<PacketSocket, DataplaneError> {
    let named = || interface.to_owned();
    let index = interface_index(interface)
        .map_err(|source| DataplaneError::NoInterface { interface: named(), source })?;
    PacketSocket::open(index).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => DataplaneError::NotPermitted { interface: named(), source },
        _ => port_error(interface, "opening a packet socket", "check that the kernel has CONFIG_PACKET")(
            source,
        ),
    })
}

/// Creates an error from the failure of a step.
pub(crate) fn port_error<'a>(
    interface: &'a str,
    step: &'static str,
    next: &'static str,
) -> impl Fn(io::Error) -> DataplaneError + 'a {
    move |source| DataplaneError::Port { interface: interface.to_owned(), step, source, next }
}

impl RxPort for RxRing {
    fn slots(&self) -> usize {
        RxRing::slots(self)
    }

    #[inline]
    fn packet(&self, position: u64) -> Option<Received<'_>> {
        RxRing::packet(self, position)
    }

    #[inline]
    fn release(&mut self, position: u64) {
        RxRing::release(self, position);
    }

    fn socket(&self) -> BorrowedFd<'_> {
        RxRing::socket(self)
    }

    fn dropped(&mut self) -> io::Result<u64> {
        Ok(self.statistics()?.drops)
    }
}

/// Opens a receive ring on this port. It receives all incoming packets, whatever their destination address,
/// but no outgoing packets.
pub(crate) fn open_rx(port: &PortSpec<'_>, slots: usize) -> Result<RxRing, DataplaneError> {
    in_namespace(port.netns, || {
        let socket = open_socket(port.interface)?;
        let step = |step, next| port_error(port.interface, step, next);
        let old = "needs Linux 4.20 or newer";
        socket.set_packet(libc::PACKET_IGNORE_OUTGOING, 1).map_err(step("PACKET_IGNORE_OUTGOING", old))?;
        socket.promiscuous().map_err(step("promiscuous reception", "check that the interface is up"))?;
        RxRing::new(socket, slots).map_err(step("creating a receive ring", "request fewer slots"))
    })?
}
