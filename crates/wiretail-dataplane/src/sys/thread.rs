//! Scheduling of the calling thread.

use std::io;

/// Switches the calling thread to SCHED_FIFO.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the pointer refers to a live, initialized structure that the call only reads; pid 0 is the
    // caller.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Number of involuntary context switches of the calling thread; `None` if the kernel does not report it.
pub(crate) fn preemptions() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer refers to a live structure of the type that the call writes.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeros is a valid rusage; if the call succeeded, it has written the whole structure.
    (result == 0).then(|| unsafe { usage.assume_init() }.ru_nivcsw as u64)
}
