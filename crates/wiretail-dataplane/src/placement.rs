//! Placement of a loop's thread: core, priority, memory locking, network namespace.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use crate::error::{DataplaneError, plan};
use crate::sys;

/// Settings that a thread requests before it enters its loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placement {
    /// The core to pin the thread to; `None` leaves its affinity unchanged.
    pub cpu: Option<usize>,
    /// SCHED_FIFO with this priority, 1 to 99. `None` keeps the normal scheduling policy. A spinning
    /// SCHED_FIFO thread starves all other threads on its core, so the kernel's fair server preempts it for
    /// about 50 ms per second.
    pub fifo: Option<u8>,
    /// Lock the current and future memory of the process, so that no page faults occur in the loop.
    pub lock_memory: bool,
}

/// Result of applying a [`Placement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Reason why the memory could not be locked, if locking was requested. This is not an error, because a
    /// resource limit must not prevent a trial.
    pub memory_not_locked: Option<String>,
}

impl Placement {
    /// Applies the settings to the calling thread.
    ///
    /// # Errors
    /// Returns an error if the core does not exist or is not allowed, or if the priority is out of range or
    /// not permitted.
    pub fn apply(&self) -> Result<Placed, DataplaneError> {
        let memory_not_locked = self.lock_memory.then(lock_memory).flatten();
        if let Some(cpu) = self.cpu {
            if cpu >= CpuSet::MAX_CPU {
                return Err(plan("core", cpu, "a core below 1024"));
            }
            let mut cores = CpuSet::new();
            cores.set(cpu);
            sched_setaffinity(None, &cores).map_err(|errno| DataplaneError::Thread {
                step: format!("pinning the thread to core {cpu}"),
                source: errno.into(),
                next: "choose a core that is online and in this process's cpuset (`nproc`, `taskset -p $$`)",
            })?;
        }
        if let Some(priority) = self.fifo {
            if !(1..=99).contains(&priority) {
                return Err(plan("real-time priority", priority, "1 to 99"));
            }
            sys::thread::set_fifo(priority).map_err(|source| DataplaneError::Thread {
                step: format!("SCHED_FIFO with priority {priority}"),
                source,
                next: "run as root, grant CAP_SYS_NICE, or set no real-time priority",
            })?;
        }
        Ok(Placed { memory_not_locked })
    }
}

fn lock_memory() -> Option<String> {
    let error = io::Error::from(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).err()?);
    Some(format!("mlockall: {error}; raise the limit on locked memory (`ulimit -l`) or grant CAP_IPC_LOCK"))
}

/// Runs `f` in a separate thread inside a network namespace (`None` means the current one, without a new
/// thread) and returns its result. Sockets opened inside belong to that namespace permanently. The calling
/// thread does not change its namespace.
///
/// # Errors
/// Returns an error if the descriptor is not a network namespace, or without CAP_SYS_ADMIN.
pub fn in_namespace<T: Send>(
    netns: Option<BorrowedFd<'_>>,
    f: impl FnOnce() -> T + Send,
) -> Result<T, DataplaneError> {
    let Some(netns) = netns else { return Ok(f()) };
    let inside = move || {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network)).map_err(|errno| {
            DataplaneError::Thread {
                step: "entering the network namespace".to_owned(),
                source: errno.into(),
                next: "the descriptor must refer to a network namespace (/run/netns/NAME, \
                       /proc/PID/ns/net); entering one needs root or CAP_SYS_ADMIN",
            }
        })?;
        Ok(f())
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn rejects_values_out_of_range() {
        let far = Placement { cpu: Some(5000), ..Placement::default() }.apply().unwrap_err();
        assert!(far.to_string().contains("core is 5000"), "{far}");
        let high = Placement { fifo: Some(100), ..Placement::default() }.apply().unwrap_err();
        assert!(high.to_string().contains("1 to 99"), "{high}");
    }

    #[test]
    fn default_placement_changes_nothing() {
        assert_eq!(Placement::default().apply().unwrap(), Placed { memory_not_locked: None });
        assert_eq!(in_namespace(None, || 7).unwrap(), 7);
    }

    #[test]
    fn rejects_descriptor_of_other_file() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = in_namespace(Some(file.as_fd()), || ()).unwrap_err();
        assert!(error.to_string().contains("network namespace"), "{error}");
    }
}
