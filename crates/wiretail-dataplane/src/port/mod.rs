//! Ports: where frames leave and enter. One file a kind of port; what they share with the kernel is in `sys`.

pub mod af_packet;
#[allow(unsafe_code)]
pub(crate) mod sys;

use std::os::fd::BorrowedFd;

/// Most frames that a port takes at once.
pub const BATCH_MAX: usize = sys::socket::BATCH_MAX;

/// An interface and the network namespace that it is in.
#[derive(Debug, Clone, Copy)]
pub struct PortSpec<'a> {
    /// The namespace (an open /run/netns/NAME, say); None is that of the calling thread.
    pub netns: Option<BorrowedFd<'a>>,
    /// The interface's name in there.
    pub interface: &'a str,
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
