//! Packet sockets and their options (packet(7), Documentation/networking/packet_mmap.rst).

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{SOL_PACKET, SOL_SOCKET, sock_filter};

/// Maximum number of frames per send call.
pub(crate) const BATCH_MAX: usize = 64;

/// Queries the number of queues (linux/ethtool.h).
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// All protocols, in network byte order.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A raw packet socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    index: c_int,
}

/// Kernel counters since the last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// Packets accepted by the filter, including dropped ones.
    pub(crate) packets: u64,
    /// Packets dropped because the ring was full.
    pub(crate) drops: u64,
}

pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes the kernel split the data sent by this UDP socket into datagrams of `len` bytes (UDP_SEGMENT,
/// udp(7)).
pub(crate) fn segment_datagrams(socket: BorrowedFd<'_>, len: u16) -> io::Result<()> {
    let value = c_int::from(len);
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` is a live integer of the given length, which the kernel copies.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast::<c_void>(),
            size,
        )
    })?;
    Ok(())
}

/// Index of the interface in the calling thread's network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<c_int> {
    let name = CString::new(name)?;
    // SAFETY: the name is NUL-terminated and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index as c_int),
    }
}

impl PacketSocket {
    /// Opens a socket. It receives nothing until it is bound for reception.
    pub(crate) fn open(index: c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor was just opened and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, index })
    }

    /// Binds to the interface, either for sending only, or for sending and for receiving all protocols.
    pub(crate) fn bind(&self, receive: bool) -> io::Result<()> {
        // SAFETY: all fields are integers, so all zeros is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receive { ALL } else { 0 };
        address.sll_ifindex = self.index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a live sockaddr_ll of the given length.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(())
    }

    /// Sets an option whose value is a plain structure of integers.
    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value: *const c_void = (&raw const *value).cast();
        // SAFETY: `value` points to `len` live bytes, which the kernel copies.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value, len) })?;
        Ok(())
    }

    /// Sets an integer option of packet sockets.
    pub(crate) fn set_packet(&self, option: c_int, value: c_int) -> io::Result<()> {
        self.set(SOL_PACKET, option, &value)
    }

    /// Creates a TPACKET_V2 ring for either direction.
    pub(crate) fn set_ring(&self, option: c_int, ring: &libc::tpacket_req) -> io::Result<()> {
        self.set(SOL_PACKET, option, ring)
    }

    /// Creates a TPACKET_V3 receive ring.
    pub(crate) fn set_block_ring(&self, ring: &libc::tpacket_req3) -> io::Result<()> {
        self.set(SOL_PACKET, libc::PACKET_RX_RING, ring)
    }

    /// Requests software timestamps that are taken where packets enter the network stack, instead of where
    /// they are copied.
    pub(crate) fn timestamp_in_software(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        self.set(SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
    }

    /// Requests timestamps of the NIC in the ring.
    pub(crate) fn timestamp_in_hardware(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        self.set(SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
        self.set_packet(libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int)
    }

    /// Makes the NIC timestamp every received packet (SIOCSHWTSTAMP).
    pub(crate) fn enable_hardware_timestamps(&self, interface: &str) -> io::Result<()> {
        let mut config = libc::hwtstamp_config {
            flags: 0,
            tx_type: libc::HWTSTAMP_TX_OFF as c_int,
            rx_filter: libc::HWTSTAMP_FILTER_ALL as c_int,
        };
        // SAFETY: all fields are integers or pointers, so all zeros is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut config).cast();
        // SAFETY: the request names an interface and points to a live hwtstamp_config, as this call requires.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCSHWTSTAMP as _, &raw mut request) })?;
        Ok(())
    }

    /// Attaches a classic BPF program as a filter. Its return value is the number of bytes to accept.
    pub(crate) fn attach_filter(&self, program: &mut [sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Also receives frames for other addresses while the socket is open.
    pub(crate) fn promiscuous(&self) -> io::Result<()> {
        // SAFETY: all fields are integers, so all zeros is a valid value.
        let mut membership: libc::packet_mreq = unsafe { std::mem::zeroed() };
        membership.mr_ifindex = self.index;
        membership.mr_type = libc::PACKET_MR_PROMISC as u16;
        self.set(SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Sets the send buffer size in bytes. Exceeding the system limit requires privileges.
    pub(crate) fn send_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.set(SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| self.set(SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// Kernel counters since the last call.
    pub(crate) fn statistics(&self) -> io::Result<SocketCounts> {
        // Sized for TPACKET_V3; V2 fills the first two words.
        let mut counts = [0_u32; 3];
        let mut len = size_of_val(&counts) as libc::socklen_t;
        let (fd, out) = (self.fd.as_raw_fd(), (&raw mut counts).cast());
        // SAFETY: there is room for `len` bytes of integers, and the kernel writes at most that many.
        check(unsafe { libc::getsockopt(fd, SOL_PACKET, libc::PACKET_STATISTICS, out, &raw mut len) })?;
        Ok(SocketCounts { packets: counts[0].into(), drops: counts[1].into() })
    }

    /// Passes one frame to the kernel without waiting.
    #[inline]
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // A direct system call: the C library's function is a cancellation point, which costs about 20 ns.
        rustix::net::send(&self.fd, frame, rustix::net::SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Passes up to [`BATCH_MAX`] frames to the kernel in one call without waiting. Returns the number of
    /// accepted frames.
    #[inline]
    pub(crate) fn send_many(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BATCH_MAX);
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
        // SAFETY: all fields are integers or pointers, so all zeros is a valid value.
        let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { std::mem::zeroed() };
        for ((frame, part), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: `count` messages, each with one part that points to a live frame; sending only reads them.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags as _) };
        Ok(check(sent)? as usize)
    }

    /// Makes the kernel send the frames in the send ring, without waiting.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is passed; without an address, the frames go to the bound interface.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Number of receive queues of the interface (ETHTOOL_GCHANNELS); 1 if its driver does not report it.
    pub(crate) fn rx_queues(&self, interface: &str) -> u32 {
        // struct ethtool_channels: command, four maxima, then receive, send, other, combined.
        let mut channels = [0_u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        // SAFETY: all fields are integers or pointers, so all zeros is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // SAFETY: the request names an interface and points to a live buffer for the result of this command.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if result < 0 { 1 } else { channels[5] + channels[8] }
    }

    /// Index of the interface in its namespace.
    pub(crate) fn interface(&self) -> u32 {
        self.index as u32
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
