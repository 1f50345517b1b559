//! Mapped memory that is shared with the kernel, such as a ring.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Access rights of all mappings.
const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Largest common page size in bytes (arm64). A multiple of it is a multiple of all smaller page sizes.
pub(crate) const PAGE_LEN: usize = 64 * 1024;

/// A page-aligned mapping of `len` bytes. The owning ring decides which part may be accessed at which time.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that created it, and `Mapping` exposes its
// contents only through methods whose callers own the requested parts.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the rings of a packet socket and populates all pages.
    pub(crate) fn of_socket(socket: impl AsFd, len: usize) -> io::Result<Self> {
        Self::of_socket_at(socket, len, 0)
    }

    /// Maps a socket at this offset and populates all pages.
    pub(crate) fn of_socket_at(socket: impl AsFd, len: usize, offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is requested, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ACCESS, flags, socket, offset) }?;
        Self::new(start, len)
    }

    /// Maps anonymous memory to share with the kernel, and populates all pages.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: no address is requested, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ACCESS, flags) }?;
        Self::new(start, len)
    }

    /// Maps anonymous memory without populating it: each page is allocated on its first access.
    pub(crate) fn untouched(len: usize) -> io::Result<Self> {
        // SAFETY: no address is requested, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ACCESS, MapFlags::PRIVATE) }?;
        let mapping = Self::new(start, len)?;
        // A kernel without huge pages rejects this call, which is harmless.
        // SAFETY: the call refers to exactly the memory that was just mapped; the page size does not affect
        // its contents.
        let _ = unsafe { madvise(start, len, Advice::LinuxNoHugepage) };
        Ok(mapping)
    }

    fn new(start: *mut c_void, len: usize) -> io::Result<Self> {
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Self { start, len }),
            None => Err(io::Error::other("mmap returned the null address")),
        }
    }

    /// Splits a mapping into two with separate owners. `at` must be a whole number of pages, and both parts
    /// must not be empty.
    pub(crate) fn split(self, at: usize) -> (Self, Self) {
        assert!(at.is_multiple_of(PAGE_LEN) && at > 0 && at < self.len);
        let whole = std::mem::ManuallyDrop::new(self);
        // SAFETY: the assertion guarantees that the result is within the mapping.
        let behind = unsafe { whole.start.add(at) };
        (Self { start: whole.start, len: at }, Self { start: behind, len: whole.len - at })
    }

    /// Start address, for the kernel, and length in bytes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        (self.start.as_ptr() as u64, self.len as u64)
    }

    /// The 32-bit word at this offset, by which the kernel and this process transfer ownership.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len);
        // SAFETY: in bounds and aligned (the mapping starts at a page), mapped as long as `self` lives, and
        // only accessed as an atomic: status words are never part of a slice returned by `bytes`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The 64-bit word at this offset, an entry of a ring.
    #[inline]
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: as for `word`: in bounds and aligned, mapped as long as `self` lives, and entries of rings
        // are never part of a slice returned by `bytes`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Prefetches the cache line at this offset, on architectures that support it.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        let place = self.start.as_ptr().wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction is a hint. It changes nothing and does not fault for any address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast_const().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }

    /// Bytes that this process owns.
    ///
    /// # Safety
    /// While the slice exists, the kernel and this process must not write to these bytes.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: in bounds and mapped; the caller guarantees that there are no writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) }
    }

    /// Bytes that this process owns, for writing.
    ///
    /// # Safety
    /// While the slice exists, the kernel and other code of this process must not access these bytes.
    #[inline]
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: in bounds and mapped; the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped once, or is a part that `split` separated; no slice of it can outlive
        // `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}
