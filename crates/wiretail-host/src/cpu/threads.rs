//! Threads of other programs: finding them by name, and setting their core and priority.

use std::fs;
use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::HostError;
use crate::sys;

/// The threads whose names start with one of `names`, in a process and its descendants, sorted by thread ID.
/// Reads `/proc` below `root`.
pub fn threads_named(root: &Path, pid: i32, names: &[&str]) -> Vec<i32> {
    let mut found = Vec::new();
    for process in family(root, pid) {
        let Ok(tasks) = fs::read_dir(root.join(format!("proc/{process}/task"))) else { continue };
        for task in tasks.flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let number = task.file_name().to_str().and_then(|number| number.parse::<i32>().ok());
            if names.iter().any(|start| name.starts_with(start)) {
                found.extend(number);
            }
        }
    }
    found.sort_unstable();
    found
}

/// A process and its descendants.
fn family(root: &Path, pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return vec![pid] };
    let parent = |process: i32| -> Option<i32> {
        let stat = fs::read_to_string(root.join(format!("proc/{process}/stat"))).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(i32, i32)> = numbers.filter_map(|process| Some((process, parent(process)?))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while next < family.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == family[next]);
        let children: Vec<i32> = children.map(|(process, _)| *process).collect();
        family.extend(children);
        next += 1;
    }
    family
}

/// Pins a thread to one core (`None` keeps its affinity) and sets real-time priority SCHED_FIFO (`None` sets
/// the normal policy).
///
/// # Errors
/// Returns [`HostError::System`] if the thread has ended, the core is not usable, or the priority is not
/// permitted.
pub fn place_thread(thread: i32, core: Option<u32>, fifo: Option<u8>) -> Result<(), HostError> {
    let error = |what| HostError::system(what, format!("thread {thread}"));
    if let Some(core) = core {
        let mut cores = CpuSet::new();
        cores.set(core as usize);
        let pid = Pid::from_raw(thread);
        sched_setaffinity(pid, &cores).map_err(|errno| error("pin")(errno.into()))?;
    }
    sys::set_scheduler(thread, fifo).map_err(error("change the priority of"))
}

/// Whether a thread has real-time priority (SCHED_FIFO or SCHED_RR), from field 41 of its `stat` below
/// `root`'s `/proc` (proc_pid_stat(5)). False if it has ended.
pub fn is_realtime(root: &Path, thread: i32) -> bool {
    let stat = fs::read_to_string(root.join(format!("proc/{thread}/stat"))).unwrap_or_default();
    // The command name in field 2 can contain blanks and parentheses.
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(38));
    matches!(policy, Some("1" | "2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_places_threads_by_name() {
        let root = Path::new("/");
        let own = std::process::id() as i32;
        let (ready, wait) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let build = std::thread::Builder::new().name("wt-mover-7".into());
        let thread = build.spawn(move || {
            let _ = ready.send(());
            let _ = ended.recv();
        });
        let thread = thread.expect("a thread");
        wait.recv().expect("started");
        let found = threads_named(root, own, &["wt-mover"]);
        assert_eq!(found.len(), 1);
        assert!(threads_named(root, own, &["no-such"]).is_empty());
        assert!(!is_realtime(root, found[0]));
        if place_thread(found[0], None, Some(1)).is_ok() {
            assert!(is_realtime(root, found[0]));
        }
        place_thread(found[0], None, None).expect("nothing is changed");
        drop(end);
        thread.join().expect("ended");
        assert!(place_thread(i32::MAX, None, None).unwrap_err().to_string().contains("thread 2147483647"));
    }

    #[test]
    fn family_includes_children() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().expect("sleep");
        let family = family(Path::new("/"), std::process::id() as i32);
        assert!(family.contains(&(child.id() as i32)));
        child.kill().and_then(|()| child.wait()).expect("ended");
    }
}
