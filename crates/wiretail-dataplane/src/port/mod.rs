//! Ports send and receive frames. There is one file per kind of port; code shared with the kernel is in
//! `sys`.

pub mod af_packet;
pub mod af_xdp;
pub mod dpdk;

use std::io;
use std::os::fd::BorrowedFd;

use self::af_packet::{PacketTx, TxPlan};
use self::af_xdp::XdpTx;
use crate::error::DataplaneError;

pub(crate) use crate::sys::rx_ring::Received;

/// Maximum number of frames that a port accepts at once.
pub const BATCH_MAX: usize = crate::sys::socket::BATCH_MAX;
const _: () = assert!(BATCH_MAX == wiretail_dpdk_sys::BATCH_MAX, "all ports have the same limit");

/// An interface and its network namespace.
#[derive(Debug, Clone, Copy)]
pub struct PortSpec<'a> {
    /// The namespace, such as an open /run/netns/NAME; `None` means the namespace of the calling thread.
    pub netns: Option<BorrowedFd<'a>>,
    /// Name of the interface in that namespace.
    pub interface: &'a str,
}

/// The mechanism by which a port moves packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Packet sockets ([`af_packet`]) with the given plan for sending. Supports all kinds of interfaces.
    Packet(TxPlan),
    /// AF_XDP sockets ([`af_xdp`]): packets do not enter the network stack. Taps on the receiving interface
    /// do not see arriving packets; [`af_xdp`] describes where to place taps.
    Xdp,
}

impl Default for PortKind {
    fn default() -> Self {
        Self::Packet(TxPlan::default())
    }
}

/// Opens a port for sending only.
///
/// # Errors
/// Same as [`PacketTx::open`] and [`XdpTx::open`].
pub fn open_tx(port: &PortSpec<'_>, kind: PortKind) -> Result<Box<dyn TxPort + Send>, DataplaneError> {
    Ok(match kind {
        PortKind::Packet(plan) => Box::new(PacketTx::open(port, plan)?),
        PortKind::Xdp => Box::new(XdpTx::open(port)?),
    })
}

/// A port for receiving. Packets have positions that start at 0 and never repeat. A packet stays in place
/// until it is released; packets can be released in any order. A port holds up to `slots` packets.
pub(crate) trait RxPort {
    /// Capacity in packets, counted from the oldest packet that has not been released.
    fn slots(&self) -> usize;

    /// The packet at this position; `None` if it has not arrived. The position must be less than `slots`
    /// ahead of the oldest position that has not been released.
    fn packet(&self, position: u64) -> Option<Received<'_>>;

    /// Releases the packet at this position. Each position must be released once.
    fn release(&mut self, position: u64);

    /// A descriptor that poll(2) reports as readable when a packet has arrived.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Number of packets dropped for lack of room since the last call.
    fn dropped(&mut self) -> io::Result<u64>;
}

/// A port for sending.
pub trait TxPort {
    /// Sends up to [`BATCH_MAX`] frames in order, with the shortest gaps that the port can achieve. Returns
    /// the number of accepted frames; frames are accepted in order. Never waits longer than a millisecond.
    fn send(&mut self, frames: &[&[u8]]) -> usize;

    /// Error number (errno) of the last rejected frame.
    fn last_error(&self) -> Option<i32> {
        None
    }
}

impl<P: TxPort + ?Sized> TxPort for Box<P> {
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        (**self).send(frames)
    }

    fn last_error(&self) -> Option<i32> {
        (**self).last_error()
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::experiment::{KEYS, Kind};

    use super::*;

    #[test]
    fn batch_limit_matches_experiment_key() {
        let batch = KEYS.iter().find(|row| row.full_name() == "dut.batch").expect("a key");
        assert_eq!(batch.kind, Kind::Count(1, BATCH_MAX as u64));
    }
}
