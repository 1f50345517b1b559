//! Processes: the owner of a journal, and the processes inside a namespace that is being removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// Upper bound on the time that killed processes take to exit.
const PATIENCE: Duration = Duration::from_secs(3);

/// Identity of a process. It differs from the identity of any later process with the same PID, and of any
/// process from before a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: i32,
    /// Start time, in clock ticks since boot.
    pub start_time: u64,
    /// The kernel's boot ID.
    pub boot: String,
}

impl Owner {
    /// This process.
    pub fn current() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Owner {
            pid,
            start_time: start_time(Path::new("/"), pid).unwrap_or_default(),
            boot: boot(Path::new("/")),
        }
    }

    /// Whether the process exists under `root`'s `/proc` in the current boot. Zombies count as dead.
    pub fn is_alive(&self, root: &Path) -> bool {
        self.is_of_this_boot(root) && start_time(root, self.pid) == Some(self.start_time)
    }

    /// Whether the machine has not rebooted since the process was recorded.
    pub fn is_of_this_boot(&self, root: &Path) -> bool {
        self.boot == boot(root)
    }
}

fn boot(root: &Path) -> String {
    let text = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default();
    text.trim().to_owned()
}

/// Field 22 of `/proc/PID/stat`, if the process exists and is not a zombie. The command name in field 2 can
/// contain blanks and parentheses.
fn start_time(root: &Path, pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(root.join(format!("proc/{pid}/stat"))).ok()?;
    let mut after_name = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = after_name.next()?;
    if matches!(state, "Z" | "X") { None } else { after_name.nth(18)?.parse().ok() }
}

/// Returns all other processes whose network namespace has this inode.
fn inside(inode: u64) -> Vec<Pid> {
    let own = rustix::process::getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| *pid != own && network_namespace(*pid) == Some(inode))
        .collect()
}

fn network_namespace(pid: Pid) -> Option<u64> {
    let path = format!("/proc/{}/ns/net", pid.as_raw_nonzero());
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}

/// Kills all processes in the network namespace with this inode and waits until they have exited. Must only
/// be used for namespaces of a run: every process there was started by the run or entered the namespace
/// deliberately.
pub(crate) fn kill_inside(inode: u64) -> Vec<i32> {
    let mut killed = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = inside(inode);
        if left.is_empty() || Instant::now() > deadline {
            return killed;
        }
        for pid in left {
            // The descriptor refers to the process and not to its PID. Because of the second check, a process
            // that reuses the PID is not killed.
            let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if network_namespace(pid) != Some(inode) {
                continue;
            }
            let number = pid.as_raw_nonzero().get();
            if rustix::process::pidfd_send_signal(&process, Signal::KILL).is_ok() && !killed.contains(&number)
            {
                killed.push(number);
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_process_from_later_one_with_same_pid() {
        let root = Path::new("/");
        let owner = Owner::current();
        assert!(owner.start_time > 0);
        assert!(owner.is_alive(root));
        assert!(!Owner { start_time: owner.start_time + 1, ..owner.clone() }.is_alive(root));
        assert!(!Owner { boot: "before".into(), ..owner }.is_alive(root));
    }

    #[test]
    fn start_time_handles_parentheses_and_zombies() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |state: &str| {
            let folder = root.path().join("proc/7");
            fs::create_dir_all(&folder).expect("a folder");
            let stat = format!("7 (a) b (c)) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n");
            fs::write(folder.join("stat"), stat).expect("written");
        };
        write("S");
        assert_eq!(start_time(root.path(), 7), Some(4711));
        write("Z");
        assert_eq!(start_time(root.path(), 7), None);
        assert_eq!(start_time(root.path(), 8), None);
    }
}
