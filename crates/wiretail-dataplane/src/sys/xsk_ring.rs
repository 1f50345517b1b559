//! An AF_XDP ring: two free-running counters and a power of two of entries. One side writes, the other side
//! reads (Documentation/networking/af_xdp.rst).

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::mapping::Mapping;

/// Length of a descriptor (struct xdp_desc) in bytes.
pub(super) const DESCRIPTOR_LEN: usize = 16;

/// Length of an address in bytes.
pub(super) const ADDRESS_LEN: usize = 8;

/// A ring of one of the four kinds. The owner decides which side writes which counter and entry.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Mapping,
    producer_at: usize,
    consumer_at: usize,
    flags_at: usize,
    entries_at: usize,
    mask: usize,
}

impl Ring {
    /// Maps a ring of `entries` entries, a power of two, at this offset of the socket.
    pub(super) fn map(
        socket: impl AsFd,
        page_offset: u64,
        offsets: &libc::xdp_ring_offset,
        entries: usize,
        entry_len: usize,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + entries * entry_len;
        Ok(Self {
            memory: Mapping::of_socket_at(socket, len, page_offset)?,
            producer_at: offsets.producer as usize,
            consumer_at: offsets.consumer as usize,
            flags_at: offsets.flags as usize,
            entries_at: offsets.desc as usize,
            mask: entries - 1,
        })
    }

    /// Number of entries written. Their contents are visible.
    #[inline]
    pub(super) fn producer(&self) -> u32 {
        self.memory.word(self.producer_at).load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_producer(&self, count: u32) {
        self.memory.word(self.producer_at).store(count, Ordering::Release);
    }

    /// Number of entries read. They may be overwritten.
    #[inline]
    pub(super) fn consumer(&self) -> u32 {
        self.memory.word(self.consumer_at).load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_consumer(&self, count: u32) {
        self.memory.word(self.consumer_at).store(count, Ordering::Release);
    }

    /// Whether the kernel needs a system call to continue with this ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.memory.word(self.flags_at).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, count: u32, entry_len: usize) -> usize {
        self.entries_at + (count as usize & self.mask) * entry_len
    }

    /// Entry of a ring of addresses (fill, completion).
    #[inline]
    pub(super) fn address(&self, count: u32) -> u64 {
        self.memory.long(self.entry(count, ADDRESS_LEN)).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_address(&self, count: u32, address: u64) {
        self.memory.long(self.entry(count, ADDRESS_LEN)).store(address, Ordering::Relaxed);
    }

    /// Entry of a ring of descriptors (received, to send): address and length in bytes.
    #[inline]
    pub(super) fn descriptor(&self, count: u32) -> (u64, u32) {
        let at = self.entry(count, DESCRIPTOR_LEN);
        let address = self.memory.long(at).load(Ordering::Relaxed);
        (address, self.memory.word(at + 8).load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set_descriptor(&self, count: u32, address: u64, len: u32) {
        let at = self.entry(count, DESCRIPTOR_LEN);
        self.memory.long(at).store(address, Ordering::Relaxed);
        self.memory.word(at + 8).store(len, Ordering::Relaxed);
        self.memory.word(at + 12).store(0, Ordering::Relaxed);
    }
}
