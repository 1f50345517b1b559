//! The memory of a ring, shared with the kernel.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// How all mappings are accessed.
const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Largest usual length of a page in bytes (arm64 has it): a multiple of it is one of every other.
pub(crate) const PAGE_LEN: usize = 64 * 1024;

/// A mapped ring: `len` bytes, page-aligned, until dropped. Who may touch which part of it when is up
/// to the ring that owns it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it, and `Mapping` hands out its
// contents only through methods whose callers own the parts they ask for.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the rings of a packet socket, all pages present.
    pub(crate) fn of_socket(socket: impl AsFd, len: usize) -> io::Result<Self> {
        Self::of_socket_at(socket, len, 0)
    }

    /// Maps what a socket offers at this offset, all pages present.
    pub(crate) fn of_socket_at(socket: impl AsFd, len: usize, offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is asked for, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ACCESS, flags, socket, offset) }?;
        Self::new(start, len)
    }

    /// Memory of this process, all pages present, to be shared with the kernel.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: no address is asked for, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ACCESS, flags) }?;
        Self::new(start, len)
    }

    /// Memory of this process of which no page is there before it is touched, each by itself.
    pub(crate) fn untouched(len: usize) -> io::Result<Self> {
        // SAFETY: no address is asked for, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ACCESS, MapFlags::PRIVATE) }?;
        let mapping = Self::new(start, len)?;
        // A kernel that has no huge pages does not know this, and needs not.
        // SAFETY: exactly the memory that was mapped just now; which pages it has does not change what is in it.
        let _ = unsafe { madvise(start, len, Advice::LinuxNoHugepage) };
        Ok(mapping)
    }

    fn new(start: *mut c_void, len: usize) -> io::Result<Self> {
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Self { start, len }),
            None => Err(io::Error::other("mmap returned the null address")),
        }
    }

    /// Two mappings out of one, each with an owner of its own. `at` is a whole number of pages, and
    /// neither part is empty.
    pub(crate) fn split(self, at: usize) -> (Self, Self) {
        assert!(at.is_multiple_of(PAGE_LEN) && at > 0 && at < self.len);
        let whole = std::mem::ManuallyDrop::new(self);
        // SAFETY: within the mapping, says the assertion.
        let behind = unsafe { whole.start.add(at) };
        (Self { start: whole.start, len: at }, Self { start: behind, len: whole.len - at })
    }

    /// Where it starts, for the kernel, and its length in bytes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        (self.start.as_ptr() as u64, self.len as u64)
    }

    /// The 32-bit word at this offset, through which the kernel and this process hand parts over.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len);
        // SAFETY: in bounds and aligned (the mapping starts at a page), mapped as long as `self` lives,
        // and only ever accessed as an atomic: status words are part of no slice that is handed out.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The 64-bit word at this offset, which is an entry of a ring.
    #[inline]
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len);
        // SAFETY: as for `word`: in bounds and aligned, mapped as long as `self` lives, and entries of
        // rings are part of no slice that is handed out.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Has the processor fetch the cache line of this offset, where it can be told to.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        let place = self.start.as_ptr().wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint; it changes nothing and does not fault, wherever it points.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast_const().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = place;
    }

    /// Bytes that this process owns.
    ///
    /// # Safety
    /// Until the slice is gone, neither the kernel nor anyone in this process may write to them.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: in bounds and mapped; nobody writes, says the caller.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) }
    }

    /// Bytes that this process owns, to write to.
    ///
    /// # Safety
    /// Until the slice is gone, neither the kernel nor anyone else in this process may touch them.
    #[inline]
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.len && len <= self.len - at);
        // SAFETY: in bounds and mapped; nobody else touches them, says the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what was mapped, once, or a part of it that `split` made its own; no slice of it can outlive `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}
