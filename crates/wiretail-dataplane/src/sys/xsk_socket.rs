//! AF_XDP sockets and their options (Documentation/networking/af_xdp.rst, linux/if_xdp.h).

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::SOL_XDP;

use super::mapping::Mapping;
use super::socket::check;

/// Length of a chunk in bytes, which holds one packet. The kernel reserves the first 256 bytes of a received
/// packet's chunk.
pub(crate) const CHUNK_LEN: usize = 2048;

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct XskSocket {
    fd: OwnedFd,
}

impl XskSocket {
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor was just opened and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value: *const c_void = (&raw const *value).cast();
        // SAFETY: `value` points to `len` live bytes, which the kernel copies.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value, len) })?;
        Ok(())
    }

    /// Reads an option whose value is a plain structure of integers.
    fn get<T: Copy>(&self, option: c_int) -> io::Result<T> {
        // SAFETY: only called for structures whose fields are integers, so all zeros is a valid value.
        let mut value: T = unsafe { std::mem::zeroed() };
        let mut len = size_of::<T>() as libc::socklen_t;
        let (fd, out) = (self.fd.as_raw_fd(), (&raw mut value).cast());
        // SAFETY: there is room for `len` bytes, and the kernel writes at most that many.
        check(unsafe { libc::getsockopt(fd, SOL_XDP, option, out, &raw mut len) })?;
        Ok(value)
    }

    /// Registers this memory with the socket, in chunks of [`CHUNK_LEN`]. The kernel keeps the pages until
    /// the socket is closed, even if they are unmapped earlier.
    pub(crate) fn register(&self, memory: &Mapping) -> io::Result<()> {
        let (addr, len) = memory.extent();
        // SAFETY: all fields are integers, so all zeros is a valid value.
        let mut region: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (region.addr, region.len, region.chunk_size) = (addr, len, CHUNK_LEN as u32);
        self.set(SOL_XDP, libc::XDP_UMEM_REG, &region)
    }

    /// Creates a ring (XDP_RX_RING and so on) of `entries` entries, a power of two.
    pub(crate) fn make_ring(&self, ring: c_int, entries: usize) -> io::Result<()> {
        self.set(SOL_XDP, ring, &(entries as u32))
    }

    /// Offsets of the parts of each ring's mapping.
    pub(crate) fn offsets(&self) -> io::Result<libc::xdp_mmap_offsets> {
        self.get(libc::XDP_MMAP_OFFSETS)
    }

    /// Binds to a queue of an interface. Uses zero copy if the driver and the kernel support it, which
    /// [`XskSocket::is_zero_copy`] reports.
    pub(crate) fn bind(&self, interface: u32, queue: u32) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the address is a live sockaddr_xdp of the given length.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(())
    }

    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: libc::xdp_options = self.get(libc::XDP_OPTIONS)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Sets the send buffer size in bytes. Exceeding the system limit requires privileges.
    pub(crate) fn send_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// Total number of packets dropped for lack of a chunk or of room in the ring, or because they were
    /// longer than a chunk.
    pub(crate) fn dropped(&self) -> io::Result<u64> {
        let counts: libc::xdp_statistics = self.get(libc::XDP_STATISTICS)?;
        Ok(counts.rx_dropped + counts.rx_ring_full)
    }

    /// Makes the kernel send the frames in the send ring, without waiting.
    #[inline]
    pub(crate) fn kick(&self) -> io::Result<()> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is passed.
        let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Notifies a driver that is waiting for chunks.
    #[cold]
    pub(crate) fn wake_rx(&self) {
        let (fd, flags, none) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: no memory is passed.
        unsafe { libc::recvfrom(fd, std::ptr::null_mut(), 0, flags, none, std::ptr::null_mut()) };
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
