//! Real-time priority of the calling thread.

use std::io;

/// Puts the calling thread under SCHED_FIFO.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the pointer is to a live, initialised structure that the call only reads; pid 0 is the caller.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How often the scheduler took the processor from the calling thread against its will; None where the
/// kernel does not say.
pub(crate) fn preemptions() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live structure of the kind that the call writes.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeroes is a valid rusage, and the call has written it whole where it succeeded.
    (result == 0).then(|| unsafe { usage.assume_init() }.ru_nivcsw as u64)
}
