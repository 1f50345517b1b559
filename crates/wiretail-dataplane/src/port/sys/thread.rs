//! Real-time priority of the calling thread.

use std::io;

/// Puts the calling thread under SCHED_FIFO.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: the pointer is to a live, initialised structure that the call only reads; pid 0 is the caller.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
