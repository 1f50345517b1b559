//! Packet sockets and their options (packet(7), Documentation/networking/packet_mmap.rst).

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{SOL_PACKET, SOL_SOCKET, sock_filter};

/// Most frames of one sending call.
pub(crate) const BATCH_MAX: usize = 64;

/// Asks for the number of queues (linux/ethtool.h).
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// All protocols, in the byte order of the network.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A raw packet socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    index: c_int,
}

/// What the kernel counted since the last question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// Packets that passed the filter, dropped ones included.
    pub(crate) packets: u64,
    /// Packets that found the ring full.
    pub(crate) drops: u64,
}

pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Has the kernel cut what is sent by this UDP socket into datagrams of so many bytes (UDP_SEGMENT, udp(7)).
pub(crate) fn segment_datagrams(socket: BorrowedFd<'_>, len: u16) -> io::Result<()> {
    let value = c_int::from(len);
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` is a live integer of the length given, which the kernel copies.
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

/// The interface's number in the calling thread's network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<c_int> {
    let name = CString::new(name)?;
    // SAFETY: a string that ends with a zero and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index as c_int),
    }
}

impl PacketSocket {
    /// A socket that receives nothing as long as it is not bound for reception.
    pub(crate) fn open(index: c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: a descriptor that was just opened and that nobody else knows.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, index })
    }

    /// Binds to the interface: to send only, or to receive all protocols as well.
    pub(crate) fn bind(&self, receive: bool) -> io::Result<()> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receive { ALL } else { 0 };
        address.sll_ifindex = self.index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a live sockaddr_ll of the length given.
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

    /// Sets an option of packet sockets whose value is an integer.
    pub(crate) fn set_packet(&self, option: c_int, value: c_int) -> io::Result<()> {
        self.set(SOL_PACKET, option, &value)
    }

    /// Asks for a ring of TPACKET_V2 (of either direction).
    pub(crate) fn set_ring(&self, option: c_int, ring: &libc::tpacket_req) -> io::Result<()> {
        self.set(SOL_PACKET, option, ring)
    }

    /// Asks for a receiving ring of TPACKET_V3.
    pub(crate) fn set_block_ring(&self, ring: &libc::tpacket_req3) -> io::Result<()> {
        self.set(SOL_PACKET, libc::PACKET_RX_RING, ring)
    }

    /// Has packets stamped in software where they enter the stack, rather than where they are copied.
    pub(crate) fn timestamp_in_software(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        self.set(SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
    }

    /// Asks for the network card's own stamps in the ring.
    pub(crate) fn timestamp_in_hardware(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        self.set(SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
        self.set_packet(libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int)
    }

    /// Has the network card stamp every received packet (SIOCSHWTSTAMP).
    pub(crate) fn enable_hardware_timestamps(&self, interface: &str) -> io::Result<()> {
        let mut config = libc::hwtstamp_config {
            flags: 0,
            tx_type: libc::HWTSTAMP_TX_OFF as c_int,
            rx_filter: libc::HWTSTAMP_FILTER_ALL as c_int,
        };
        // SAFETY: a structure of integers and pointers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut config).cast();
        // SAFETY: the request names an interface and points to a live hwtstamp_config, as this call wants.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCSHWTSTAMP as _, &raw mut request) })?;
        Ok(())
    }

    /// Lets only what this classic BPF program accepts into the socket, and no more of it than the
    /// program returns.
    pub(crate) fn attach_filter(&self, program: &mut [sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Receives frames for other addresses too, as long as the socket lives.
    pub(crate) fn promiscuous(&self) -> io::Result<()> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut membership: libc::packet_mreq = unsafe { std::mem::zeroed() };
        membership.mr_ifindex = self.index;
        membership.mr_type = libc::PACKET_MR_PROMISC as u16;
        self.set(SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Room for frames on their way out, in bytes. Beyond the system's limit only for the privileged.
    pub(crate) fn send_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.set(SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| self.set(SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// What the kernel counted since the last call.
    pub(crate) fn statistics(&self) -> io::Result<SocketCounts> {
        // As long as that of TPACKET_V3; V2 fills the first two words.
        let mut counts = [0_u32; 3];
        let mut len = size_of_val(&counts) as libc::socklen_t;
        let (fd, out) = (self.fd.as_raw_fd(), (&raw mut counts).cast());
        // SAFETY: room for `len` bytes of integers, which the kernel fills at most.
        check(unsafe { libc::getsockopt(fd, SOL_PACKET, libc::PACKET_STATISTICS, out, &raw mut len) })?;
        Ok(SocketCounts { packets: counts[0].into(), drops: counts[1].into() })
    }

    /// Hands one frame to the kernel, without waiting.
    #[inline]
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // A bare system call: the C library's is a cancellation point, which costs some 20 ns.
        rustix::net::send(&self.fd, frame, rustix::net::SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Hands up to [`BATCH_MAX`] frames to the kernel in one call, without waiting; returns how many it
    /// took.
    #[inline]
    pub(crate) fn send_many(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BATCH_MAX);
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MAX];
        // SAFETY: structures of integers and pointers, for which zeros are valid.
        let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { std::mem::zeroed() };
        for ((frame, part), message) in frames.iter().zip(&mut parts).zip(&mut messages) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: `count` messages, each of one part that points to a live frame; sending only reads them.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags as _) };
        Ok(check(sent)? as usize)
    }

    /// Has the kernel send what stands in the sending ring, without waiting.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is passed; without an address the frames go where the socket is bound to.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receiving queues of the interface (ETHTOOL_GCHANNELS); 1 where it can't tell.
    pub(crate) fn rx_queues(&self, interface: &str) -> u32 {
        // struct ethtool_channels: command, four maxima, then receiving, sending, other, combined.
        let mut channels = [0_u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        // SAFETY: a structure of integers and pointers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        // SAFETY: the request names an interface and points to live room for what this command returns.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if result < 0 { 1 } else { channels[5] + channels[8] }
    }

    /// Number of the interface in its namespace.
    pub(crate) fn interface(&self) -> u32 {
        self.index as u32
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
