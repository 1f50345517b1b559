//! Ports: where frames leave and enter. One file a kind of port; what they share with the kernel is in `sys`.

pub mod af_packet;
pub mod af_xdp;
pub mod dpdk;

use std::io;
use std::os::fd::BorrowedFd;

use self::af_packet::{PacketTx, TxPlan};
use self::af_xdp::XdpTx;
use crate::error::DataplaneError;

pub(crate) use crate::sys::rx_ring::Received;

/// Most frames that a port takes at once.
pub const BATCH_MAX: usize = crate::sys::socket::BATCH_MAX;
const _: () = assert!(BATCH_MAX == wiretail_dpdk_sys::BATCH_MAX, "all ports take as many");

/// An interface and the network namespace that it is in.
#[derive(Debug, Clone, Copy)]
pub struct PortSpec<'a> {
    /// The namespace (an open /run/netns/NAME, say); None is that of the calling thread.
    pub netns: Option<BorrowedFd<'a>>,
    /// The interface's name in there.
    pub interface: &'a str,
}

/// By what means a port moves packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// Packet sockets ([`af_packet`]), and how they send: every kind of interface.
    Packet(TxPlan),
    /// AF_XDP sockets ([`af_xdp`]): packets don't enter the stack. Taps on an interface that receives so
    /// see nothing come in; see there where to tap.
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
/// As [`PacketTx::open`] or [`XdpTx::open`].
pub fn open_tx(port: &PortSpec<'_>, kind: PortKind) -> Result<Box<dyn TxPort + Send>, DataplaneError> {
    Ok(match kind {
        PortKind::Packet(plan) => Box::new(PacketTx::open(port, plan)?),
        PortKind::Xdp => Box::new(XdpTx::open(port)?),
    })
}

/// Where packets enter, with positions from 0 that never repeat. Packets stay where they are until they
/// are released, in whatever order; a port holds up to `slots` of them.
pub(crate) trait RxPort {
    /// Packets that fit, from the oldest one that is not released on.
    fn slots(&self) -> usize;

    /// The packet of this position; None before it has arrived. Never of a position that is `slots` or
    /// more ahead of one that is not released.
    fn packet(&self, position: u64) -> Option<Received<'_>>;

    /// Gives up the packet of this position; each position once.
    fn release(&mut self, position: u64);

    /// What poll(2) says of a packet that has arrived.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Packets that found no room since the last call.
    fn dropped(&mut self) -> io::Result<u64>;
}

/// Where frames leave.
pub trait TxPort {
    /// Hands up to [`BATCH_MAX`] frames to the wire in order, as closely behind one another as the port
    /// can, and returns how many it took: the first ones. Never waits for more than a millisecond.
    fn send(&mut self, frames: &[&[u8]]) -> usize;

    /// The error number (errno) of the last frame that was not taken.
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
    fn batch_limit_is_that_of_experiments() {
        let batch = KEYS.iter().find(|row| row.full_name() == "dut.batch").expect("a key");
        assert_eq!(batch.kind, Kind::Count(1, BATCH_MAX as u64));
    }
}
