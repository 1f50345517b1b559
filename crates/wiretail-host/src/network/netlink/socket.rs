//! A netlink socket that sends a request and waits for the complete reply.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::message::{Answer, Message, answers};

/// Maximum size of a datagram in a list.
const DATAGRAM_LEN: usize = 32 * 1024;

/// A socket of one netlink protocol.
#[derive(Debug)]
pub(super) struct Socket {
    socket: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub(super) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let (family, kind, flags) = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, kind, flags, protocol)?;
        // The kernel normally replies before `send` returns. The timeout is a safeguard in case it does not.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(5)))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request, which must ask for an acknowledgement or a list. Calls `each` with every object of
    /// the reply and its type, up to the end of the reply.
    pub(super) fn exchange(&mut self, request: Message, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence += 1;
        rustix::net::send(self.socket.as_fd(), &request.finish(self.sequence), SendFlags::empty())?;
        let mut datagram = vec![0; DATAGRAM_LEN];
        loop {
            let (len, _) =
                rustix::net::recv(self.socket.as_fd(), datagram.as_mut_slice(), RecvFlags::empty())?;
            for answer in answers(&datagram[..len], self.sequence) {
                match answer {
                    Answer::Finished => return Ok(()),
                    Answer::Failed(error) => return Err(error),
                    Answer::Object(kind, body) => each(kind, body),
                }
            }
        }
    }
}
