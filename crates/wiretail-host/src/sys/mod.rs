//! The calls that need `unsafe`, alone with their reasons.
#![allow(unsafe_code)]

pub(crate) mod driver;
pub mod tun;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Moves the calling thread into a network namespace of its own, new and empty.
///
/// # Errors
/// What the system says; `PermissionDenied` without CAP_SYS_ADMIN.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: `unshare_unsafe` is unsafe because of CLONE_FILES, after which descriptors of one
    // thread mean nothing in another; a network namespace leaves the descriptors alone.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Gives a thread a real-time priority (SCHED_FIFO), or the usual scheduler.
///
/// # Errors
/// What the system says; `PermissionDenied` without CAP_SYS_NICE.
pub fn set_scheduler(thread: i32, fifo: Option<u8>) -> io::Result<()> {
    let policy = if fifo.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    let parameters = libc::sched_param { sched_priority: fifo.unwrap_or(0).into() };
    // SAFETY: the call only reads `parameters`, which lives until it returns; a number that is no thread is an
    // error.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `command` start its program inside `namespace` (if any), and makes the kernel kill it when
/// the thread that starts it ends.
pub fn confine(command: &mut Command, namespace: Option<OwnedFd>) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above: then nobody would send that signal.
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
    // SAFETY: between fork and exec only what is async-signal-safe may be called. The closure makes
    // three system calls and compares two numbers; it allocates nothing (an `ErrorKind` and an errno
    // make an `io::Error` without an allocation) and takes no lock. What it owns is dropped by exec.
    unsafe { command.pre_exec(before_exec) };
}

/// Hands descriptors to the program that `command` starts, under the numbers that they have here. In this
/// process they stay closed to every other program.
pub fn hand_over(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let before_exec = move || {
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only what is async-signal-safe may be called. The closure makes a system
    // call for each descriptor, which it keeps open as long as the command lives; it allocates nothing.
    unsafe { command.pre_exec(before_exec) };
}
