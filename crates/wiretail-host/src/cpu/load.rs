//! CPU load: how busy a core is and which programs run on it. If a device under test shares its core with a
//! program that cannot be moved, that program adds its worst-case delays to the device's latency.

use std::fs;
use std::path::Path;

/// Time accounting of a core since boot, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreTimes {
    /// Ticks other than idle and I/O wait.
    pub busy: u64,
    /// Sum of all ticks.
    pub total: u64,
}

impl CoreTimes {
    /// Reads a core's times from `proc/stat` under `root`. `None` if the core is not listed.
    pub fn read(root: &Path, core: u32) -> Option<Self> {
        let text = fs::read_to_string(root.join("proc/stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")))?;
        // user nice system idle iowait irq softirq steal; guest times are part of user (proc_stat(5)).
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).flat_map(str::parse).collect();
        let total = ticks.iter().sum();
        let waiting: u64 = ticks.iter().skip(3).take(2).sum();
        Some(Self { busy: total - waiting, total })
    }

    /// The fraction of the time since `before` in which the core was busy. `None` if no tick has passed.
    pub fn busy_share_since(&self, before: &Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|ticks| *ticks > 0)?;
        Some(self.busy.saturating_sub(before.busy) as f64 / total as f64)
    }
}

/// Time that the hypervisor has taken from a core since boot, in ns (proc_stat(5): steal). The resolution is
/// one clock tick. `None` if `proc/stat` under `root` does not list the core. A tick is 1/100 s on all
/// architectures that Linux runs on today (`USER_HZ`).
pub fn steal_ns(root: &Path, core: u32) -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let text = fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{core} ")))?;
    line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok()?.checked_mul(TICK_NS)
}

/// Programs running on a core at this moment, except process `own`, as "name (process 12)".
pub fn running_on(root: &Path, core: u32, own: u32) -> Vec<String> {
    let mut found = Vec::new();
    for process in fs::read_dir(root.join("proc")).into_iter().flatten().flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == own {
            continue;
        }
        let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        for task in tasks {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            if let Some(name) = runs_on(&stat, core) {
                found.push(format!("{name} (process {pid})"));
            }
        }
    }
    found.dedup();
    found
}

/// The task's name if it is running on this core: fields 2, 3 and 39 of proc_pid_stat(5).
fn runs_on(stat: &str, core: u32) -> Option<&str> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let running = fields.next()? == "R";
    let last_core: u32 = fields.nth(35)?.parse().ok()?;
    (running && last_core == core).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_excludes_idle_and_iowait() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |text: &str| {
            fs::create_dir_all(root.path().join("proc")).expect("a folder");
            fs::write(root.path().join("proc/stat"), text).expect("written");
        };
        write("cpu  1 1 1 1 1 1 1 1 0 0\ncpu1 10 0 5 100 20 1 2 2 9 9\ncpu10 0 0 0 1 0 0 0 0 0 0\n");
        let before = CoreTimes::read(root.path(), 1).expect("listed");
        assert_eq!(before, CoreTimes { busy: 20, total: 140 });
        assert_eq!(CoreTimes::read(root.path(), 2), None);
        assert_eq!((steal_ns(root.path(), 1), steal_ns(root.path(), 2)), (Some(20_000_000), None));
        write("cpu1 25 0 5 101 24 1 2 2 9 9\n");
        let after = CoreTimes::read(root.path(), 1).expect("listed");
        assert_eq!(after.busy_share_since(&before), Some(0.75));
        assert_eq!(after.busy_share_since(&after), None);
    }

    #[test]
    fn finds_running_task_of_core() {
        let fields = ["0"; 35].join(" ");
        let stat = |state: &str, core: &str| format!("7 (a (b) c) {state} {fields} {core} 0 0");
        assert_eq!(runs_on(&stat("R", "1"), 1), Some("a (b) c"));
        assert_eq!(runs_on(&stat("S", "1"), 1), None);
        assert_eq!(runs_on(&stat("R", "0"), 1), None);
        assert_eq!(runs_on("", 1), None);
    }
}
