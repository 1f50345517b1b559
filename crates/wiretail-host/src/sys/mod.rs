//! All `unsafe` calls of this crate, each with its justification.
#![allow(unsafe_code)]

pub(crate) mod driver;
pub mod tun;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::process::Signal;
use rustix::thread::{CpuSet, LinkNameSpaceType, UnshareFlags};

/// Moves the calling thread into a new, empty network namespace.
///
/// # Errors
/// Returns `PermissionDenied` without CAP_SYS_ADMIN, or another error of the system call.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: `unshare_unsafe` is unsafe because of CLONE_FILES, after which the descriptors of one thread
    // are invalid in another. A new network namespace does not affect descriptors.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread into a new UTS namespace, which starts with the names of the present one.
///
/// # Errors
/// Returns `PermissionDenied` without CAP_SYS_ADMIN, or another error of the system call.
pub fn unshare_uts() -> io::Result<()> {
    // SAFETY: as in `unshare_network`: a new UTS namespace does not affect descriptors either.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUTS) }?)
}

/// Sets the real-time priority of a thread (SCHED_FIFO), or the normal scheduling policy.
///
/// # Errors
/// Returns `PermissionDenied` without CAP_SYS_NICE, or another error of the system call.
pub fn set_scheduler(thread: i32, fifo: Option<u8>) -> io::Result<()> {
    let policy = if fifo.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let parameters = libc::sched_param { sched_priority: fifo.unwrap_or(0).into() };
    // SAFETY: the call only reads `parameters`, which lives until it returns. An invalid thread ID is
    // reported as an error.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `command` start its program inside `namespace`, if given, and makes the kernel kill the program when
/// the starting thread ends.
pub fn confine(command: &mut Command, namespace: Option<OwnedFd>) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, the kernel never sends the signal.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match &namespace {
            Some(namespace) => Ok(rustix::thread::move_into_link_name_space(
                namespace.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?),
            None => Ok(()),
        }
    };
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. The closure makes three
    // system calls and compares two numbers. It allocates nothing (an `ErrorKind` and an errno convert to
    // `io::Error` without an allocation) and takes no lock. The values that it owns are dropped by exec.
    unsafe { command.pre_exec(before_exec) };
}

/// Makes `command` start its program as the leader of a new session, in the UTS namespace `group` if given,
/// and on `cores` if they exist.
pub fn detach(command: &mut Command, group: Option<OwnedFd>, cores: Option<CpuSet>) {
    let before_exec = move || {
        rustix::process::setsid()?;
        if let Some(group) = &group {
            let kind = Some(LinkNameSpaceType::HostNameAndNISDomainName);
            rustix::thread::move_into_link_name_space(group.as_fd(), kind)?;
        }
        if let Some(cores) = &cores {
            // Fails if all of them are offline by now: the command then runs where this process may run.
            let _ = rustix::thread::sched_setaffinity(None, cores);
        }
        Ok(())
    };
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. The closure makes three
    // system calls. It allocates nothing (an errno converts to `io::Error` without an allocation) and takes
    // no lock. The values that it owns are dropped by exec.
    unsafe { command.pre_exec(before_exec) };
}

/// Passes descriptors to the program that `command` starts, with unchanged numbers. Other child processes of
/// this process do not inherit them.
pub fn hand_over(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let before_exec = move || {
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. The closure makes one
    // system call per descriptor and allocates nothing. It owns the descriptors, so they stay open as long as
    // the command exists.
    unsafe { command.pre_exec(before_exec) };
}
