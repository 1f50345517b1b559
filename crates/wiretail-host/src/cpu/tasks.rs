//! Moving tasks between cpusets of cgroup v1: one write of one process number at a time.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::HostError;
use crate::files::write_value;

/// How long to go on: a task that forks while it is moved leaves a child behind, which may fork, too.
const PATIENCE: Duration = Duration::from_secs(3);

/// Moves the processes of cpuset `from` to `to`, except `keep`. What the kernel does not let go stays:
/// threads of its own that belong to a core.
pub(crate) fn move_all(from: &Path, to: &Path, keep: &[i32]) -> Result<(), HostError> {
    let source = from.join("cgroup.procs");
    let target = to.join("cgroup.procs");
    let mut stayed: Vec<i32> = keep.to_vec();
    let begun = Instant::now();
    loop {
        let list = fs::read_to_string(&source).map_err(HostError::file("list the tasks in", &source))?;
        let movable: Vec<i32> =
            list.lines().filter_map(|line| line.parse().ok()).filter(|pid| !stayed.contains(pid)).collect();
        // Who still forks faster than that stays; a folder that is to be removed then says so.
        if movable.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(());
        }
        for pid in movable {
            match write_value(&target, &pid.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(HostError::file("move a task to", &target)(error));
                }
                // A cpuset without cores or memory nodes takes nobody: that is a wrong plan.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    return Err(HostError::file("move a task to a cpuset without cores,", &target)(error));
                }
                Err(_) => stayed.push(pid),
                Ok(()) => {}
            }
        }
    }
}
