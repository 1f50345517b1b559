//! Memory without allocated pages: the first access to each page causes a page fault.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

/// Unpopulated memory of this process. Dropping it unmaps the pages. If any page was touched, unmapping
/// interrupts every core that runs the process (TLB shootdown).
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that created it, and no other code has its
// address.
unsafe impl Send for Pages {}

impl Pages {
    /// Maps this many pages of the base page size, at least one, without allocating them.
    pub(crate) fn fresh(count: usize) -> io::Result<Self> {
        let len = count.max(1).checked_mul(page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is requested, so no memory of this process is replaced; the result is checked.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("mmap returned the null address"))?;
        let pages = Self { start, len };
        // SAFETY: this is the mapping made above; using huge pages or not does not affect its contents. A
        // kernel without huge pages rejects the call, which is harmless.
        let _ = unsafe { madvise(pages.start.as_ptr().cast(), len, Advice::LinuxNoHugepage) };
        Ok(pages)
    }

    /// Number of pages.
    pub(crate) fn count(&self) -> usize {
        self.len / page_size()
    }

    /// Writes to a page. Does nothing if the index is out of range.
    #[inline]
    pub(crate) fn touch(&mut self, page: usize) {
        if page < self.count() {
            // SAFETY: the address is within the mapping, which is writable and owned by `self`; no reference
            // into it exists.
            unsafe { self.start.as_ptr().add(page * page_size()).write_volatile(1) };
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and nothing refers to it any longer.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> i64 {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer refers to a live structure of the type that the call writes; all zeros is a
        // valid value.
        unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init().ru_minflt
        }
    }

    #[test]
    fn each_page_faults_once() {
        let mut pages = Pages::fresh(40).expect("memory");
        assert_eq!(pages.count(), 40);
        let before = faults();
        (0..40).for_each(|page| pages.touch(page));
        let between = faults();
        assert!(between - before >= 40, "{} faults", between - before);
        (0..41).for_each(|page| pages.touch(page));
        assert_eq!(faults(), between);
    }
}
