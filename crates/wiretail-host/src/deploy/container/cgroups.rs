//! Finds the cgroups of a given name in all hierarchies. Each hierarchy of version 1 is a folder below
//! `/sys/fs/cgroup`. The hierarchy of version 2 is `/sys/fs/cgroup` itself or one of its subfolders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::HostError;

const FOLDER: &str = "/sys/fs/cgroup";
/// Upper bound on the time that killed processes take to exit.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether the cpuset controller belongs to a hierarchy of version 1.
pub(super) fn has_cpuset_v1() -> bool {
    Path::new(FOLDER).join("cpuset/cpuset.cpus").exists()
}

/// The folders of all cgroups called `name`.
pub(super) fn folders(name: &str) -> Vec<PathBuf> {
    let root = Path::new(FOLDER);
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let places = std::iter::once(root.to_path_buf()).chain(hierarchies.filter(|path| !path.is_symlink()));
    places.map(|place| place.join(name)).filter(|path| path.is_dir()).collect()
}

/// Removes all empty cgroups called `name`. Cgroups with processes are in use and stay.
pub(super) fn remove_idle(name: &str) {
    for folder in folders(name) {
        let _ = fs::remove_dir(folder);
    }
}

/// The processes in the cgroups called `name`, sorted by PID.
pub(super) fn processes(name: &str) -> Vec<i32> {
    let mut found: Vec<i32> = folders(name).iter().flat_map(|folder| listed(folder)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn listed(folder: &Path) -> Vec<i32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Moves all processes of the `cpu` cgroup called `name` back to the root cgroup. With CONFIG_RT_GROUP_SCHED,
/// a new cgroup gets no real-time runtime, and the runtimes of all cgroups together cannot exceed that of the
/// root. SCHED_FIFO is therefore rejected in the cgroup, or throttled even if throttling is turned off.
pub(super) fn leave_cpu_group(name: &str) -> Result<(), HostError> {
    let root = Path::new(FOLDER).join("cpu");
    if !root.join(name).join("cpu.rt_runtime_us").exists() {
        return Ok(());
    }
    let target = root.join("cgroup.procs");
    for pid in listed(&root.join(name)) {
        match fs::write(&target, pid.to_string()) {
            // The process has ended in the meantime.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            other => other.map_err(HostError::file("move a task to", &target))?,
        }
    }
    Ok(())
}

/// Kills all processes in the cgroups called `name` and removes these cgroups. Returns the PIDs of the killed
/// processes. Succeeds if there are no such cgroups.
pub(super) fn remove(name: &str) -> Result<Vec<i32>, HostError> {
    let mut killed = Vec::new();
    let begun = Instant::now();
    loop {
        let left = processes(name);
        for pid in left.iter().copied().filter_map(Pid::from_raw) {
            // The descriptor refers to the process and not to its PID. Because of the second check, a process
            // that reuses the PID is not killed.
            let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
            let number = pid.as_raw_nonzero().get();
            if processes(name).contains(&number)
                && rustix::process::pidfd_send_signal(&process, Signal::KILL).is_ok()
                && !killed.contains(&number)
            {
                killed.push(number);
            }
        }
        let refused = folders(name).into_iter().find_map(|folder| match fs::remove_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some((folder, error)),
            _ => None,
        });
        match refused {
            None => return Ok(killed),
            Some((folder, error)) if begun.elapsed() > PATIENCE => {
                return Err(HostError::file("remove the cgroup", &folder)(error));
            }
            Some(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
