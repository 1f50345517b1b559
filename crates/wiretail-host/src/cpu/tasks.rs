//! Moving tasks between cpusets of cgroup v1, one process per write.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::HostError;
use crate::files::write_value;

/// Maximum total time. The time is limited because a task that forks while it is being moved leaves a child
/// in the old cpuset, and the child may fork as well.
const PATIENCE: Duration = Duration::from_secs(3);

/// Moves the processes of cpuset `from` to `to`, except `keep`. Processes that the kernel does not move, such
/// as per-core kernel threads, stay in `from`.
pub(crate) fn move_all(from: &Path, to: &Path, keep: &[i32]) -> Result<(), HostError> {
    let source = from.join("cgroup.procs");
    let target = to.join("cgroup.procs");
    let mut stayed: Vec<i32> = keep.to_vec();
    let begun = Instant::now();
    loop {
        let list = fs::read_to_string(&source).map_err(HostError::file("list the tasks in", &source))?;
        let movable: Vec<i32> =
            list.lines().filter_map(|line| line.parse().ok()).filter(|pid| !stayed.contains(pid)).collect();
        // A process that forks faster than this loop moves its children stays in the old cpuset. Removing
        // that cpuset's folder then fails with an error.
        if movable.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(());
        }
        for pid in movable {
            match write_value(&target, &pid.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(HostError::file("move a task to", &target)(error));
                }
                // A cpuset without cores or memory nodes accepts no task. This is a fault of the plan.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    return Err(HostError::file("move a task to a cpuset without cores,", &target)(error));
                }
                Err(_) => stayed.push(pid),
                Ok(()) => {}
            }
        }
    }
}
