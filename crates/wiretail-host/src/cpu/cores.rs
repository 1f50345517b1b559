//! CPU cores: which cores exist, which role runs on which core, and the steps that move other work off a
//! core.
//!
//! A busy-polling device under test must not share its core: other work on the core causes the device's worst
//! latencies. Three kinds of work can be moved without a reboot: tasks (with a cpuset of cgroup v1), unbound
//! kernel workers (with the workqueue mask) and interrupts (with their affinity). Per-core kernel threads
//! cannot be moved.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use wiretail_schema::units::cores::CoreSet;

use crate::error::HostError;
use crate::facts::state::{below, interrupt_files};
use crate::step::Step;

const CPUSET: &str = "/sys/fs/cgroup/cpuset";
const WORKQUEUE_MASK: &str = "/sys/devices/virtual/workqueue/cpumask";
const DEFAULT_AFFINITY: &str = "/proc/irq/default_smp_affinity";

/// The cores of a machine that this process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Online cores on which this process may run.
    pub usable: CoreSet,
    /// The usable cores that the kernel command line isolates.
    pub isolated: CoreSet,
    /// Groups of usable cores that are hardware threads of one physical core.
    pub siblings: Vec<CoreSet>,
}

/// The core of each role. On a machine with few cores, several roles share a core. The device under test
/// shares its core only if there is no second core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// Everything else: progress output, writing files, the system.
    pub housekeeping: u32,
    pub generator: u32,
    pub dut: u32,
    /// The core that reads the packets captured during a run.
    pub timestamper: u32,
}

impl Roles {
    /// Whether no other role runs on the core of the device under test.
    pub fn is_dut_alone(&self) -> bool {
        ![self.housekeeping, self.generator, self.timestamper].contains(&self.dut)
    }
}

impl Cores {
    /// Reads the cores under `root` (`/`, or a recorded tree).
    ///
    /// # Errors
    /// Returns [`HostError::System`] if the list of online cores cannot be read.
    pub fn read(root: &Path) -> Result<Self, HostError> {
        let folder = root.join("sys/devices/system/cpu");
        let path = folder.join("online");
        let invalid = |fault: String| std::io::Error::new(std::io::ErrorKind::InvalidData, fault);
        let online = fs::read_to_string(&path)
            .and_then(|text| CoreSet::parse(&text).map_err(invalid))
            .map_err(HostError::file("read the cores that are online", &path))?;
        let list = |path: PathBuf| CoreSet::parse(&fs::read_to_string(path).ok()?).ok();
        let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = allowed.and_then(|text| CoreSet::parse(text).ok());
        let isolated = list(folder.join("isolated")).unwrap_or_default();
        // Isolated cores are outside the default affinity, but a thread can still be pinned to them.
        let usable = match allowed {
            Some(allowed) => online.and(&allowed.or(&isolated)),
            None => online,
        };
        let topology = |core: &u32| list(folder.join(format!("cpu{core}/topology/thread_siblings_list")));
        let mut siblings: Vec<CoreSet> =
            usable.cores().iter().filter_map(topology).map(|set| set.and(&usable)).collect();
        siblings.sort();
        siblings.dedup();
        siblings.retain(|set| set.cores().len() > 1);
        let isolated = isolated.and(&usable);
        Ok(Cores { usable, isolated, siblings })
    }

    /// Assigns a core to each role. Housekeeping gets the first core that is not isolated. The other roles
    /// prefer isolated cores, then cores that do not share a physical core with the device under test, then
    /// the highest number. Returns `None` only if no core is usable.
    pub fn assign(&self) -> Option<Roles> {
        let shared = self.usable.without(&self.isolated);
        let housekeeping = *shared.cores().first().or(self.usable.cores().first())?;
        let mut free = self.usable.without(&CoreSet::new([housekeeping])).cores().to_vec();
        let dut = self.take(&mut free, housekeeping).unwrap_or(housekeeping);
        let generator = self.take(&mut free, dut).unwrap_or(housekeeping);
        let timestamper = self.take(&mut free, dut).unwrap_or(housekeeping);
        Some(Roles { housekeeping, generator, dut, timestamper })
    }

    /// Takes the best free core. Isolated cores come first, then cores that do not share a physical core with
    /// `neighbour`, then the highest number.
    fn take(&self, free: &mut Vec<u32>, neighbour: u32) -> Option<u32> {
        let is_sibling = |core| self.siblings.iter().any(|set| set.contains(core) && set.contains(neighbour));
        let best = free
            .iter()
            .copied()
            .max_by_key(|core| (self.isolated.contains(*core), !is_sibling(*core), *core))?;
        free.retain(|core| *core != best);
        Some(best)
    }
}

/// Returns the steps that move tasks, unbound kernel workers and interrupts off the cores `quiet`. The
/// current settings are read from the tree under `root`; `run` names the new cpuset. Processes in `keep` are
/// not moved. Settings that do not exist on the machine are skipped.
///
/// # Errors
/// Returns [`HostError::System`] if the list of online cores cannot be read, or if no usable core is left
/// outside `quiet`.
pub fn quieten(root: &Path, run: &str, quiet: &CoreSet, keep: &[i32]) -> Result<Vec<Step>, HostError> {
    let rest = rest(root, quiet)?;
    let mut steps = Vec::new();
    let masks = [WORKQUEUE_MASK, DEFAULT_AFFINITY].map(PathBuf::from);
    for path in masks.into_iter().chain(interrupt_files(root)) {
        let Ok(text) = fs::read_to_string(below(root, &path)) else { continue };
        let Ok(present) = CoreSet::parse_mask(&text) else { continue };
        let wanted = present.without(quiet);
        if wanted == present {
            continue;
        }
        let wanted = if wanted.is_empty() { &rest } else { &wanted };
        steps.push(Step::WriteFile { path, value: wanted.mask(), may_refuse: true });
    }
    steps.extend(move_tasks(root, run, quiet, keep)?);
    Ok(steps)
}

/// The usable cores except `quiet`.
fn rest(root: &Path, quiet: &CoreSet) -> Result<CoreSet, HostError> {
    let rest = Cores::read(root)?.usable.without(quiet);
    if rest.is_empty() {
        let fault = std::io::Error::new(std::io::ErrorKind::InvalidInput, "no other core is left");
        return Err(HostError::system("move other work off", format!("cores {quiet}"))(fault));
    }
    Ok(rest)
}

/// Returns only the steps of [`quieten`] that move tasks. Returns no steps if there are no cpusets of cgroup
/// v1.
///
/// # Errors
/// Same as [`quieten`].
pub fn move_tasks(root: &Path, run: &str, quiet: &CoreSet, keep: &[i32]) -> Result<Vec<Step>, HostError> {
    let rest = rest(root, quiet)?;
    let mut steps = Vec::new();
    let cpuset = Path::new(CPUSET);
    if let Ok(memory) = fs::read_to_string(below(root, &cpuset.join("cpuset.mems"))) {
        let own = cpuset.join(run);
        let write = |file: &str, value: &str| Step::WriteFile {
            path: own.join(file),
            value: value.into(),
            may_refuse: false,
        };
        steps.push(Step::AddDirectory { path: own.clone() });
        steps.push(write("cpuset.cpus", &rest.to_string()));
        steps.push(write("cpuset.mems", memory.trim()));
        steps.push(Step::MoveTasks { from: cpuset.into(), to: own.clone(), keep: keep.to_vec() });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CoreSet {
        CoreSet::parse(text).expect("a list")
    }

    fn cores(usable: &str, isolated: &str, siblings: &[&str]) -> Cores {
        let siblings = siblings.iter().map(|text| set(text)).collect();
        Cores { usable: set(usable), isolated: set(isolated), siblings }
    }

    fn roles(housekeeping: u32, generator: u32, dut: u32, timestamper: u32) -> Option<Roles> {
        Some(Roles { housekeeping, generator, dut, timestamper })
    }

    #[test]
    fn roles_share_cores_only_if_necessary() {
        assert_eq!(cores("", "", &[]).assign(), None);
        assert_eq!(cores("0", "", &[]).assign(), roles(0, 0, 0, 0));
        assert_eq!(cores("0-1", "", &[]).assign(), roles(0, 0, 1, 0));
        assert_eq!(cores("0-2", "", &[]).assign(), roles(0, 1, 2, 0));
        assert_eq!(cores("0-7", "", &[]).assign(), roles(0, 6, 7, 5));
        assert_eq!(cores("0-7", "2-3", &[]).assign(), roles(0, 2, 3, 7));
        assert_eq!(cores("0-1", "0", &[]).assign(), roles(1, 1, 0, 1));
        let threads = cores("0-7", "", &["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(threads.assign(), roles(0, 6, 7, 5));
        let neighbours = cores("0-3", "", &["0-1", "2-3"]);
        assert_eq!(neighbours.assign(), roles(0, 1, 3, 2));
        assert!(neighbours.assign().is_some_and(|roles| roles.is_dut_alone()));
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, value) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, value).expect("written");
        }
        root
    }

    #[test]
    fn reads_cores_from_recorded_tree() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/isolated", "3\n"),
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
            ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2\n"),
        ]);
        assert_eq!(Cores::read(root.path()).expect("read"), cores("0-3", "3", &["0,2"]));
        assert!(!Cores::read(Path::new("/")).expect("this machine").usable.is_empty());
        let error = Cores::read(Path::new("/no/tree")).expect_err("no tree").to_string();
        assert!(error.starts_with("/no/tree/sys/devices/system/cpu/online: cannot read"), "{error}");
    }

    #[test]
    fn moves_tasks_workers_and_interrupts_off_core() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/virtual/workqueue/cpumask", "3\n"),
            ("proc/irq/default_smp_affinity", "3\n"),
            ("proc/irq/24/smp_affinity", "1\n"),
            ("proc/irq/25/smp_affinity", "2\n"),
            ("sys/fs/cgroup/cpuset/cpuset.mems", "0\n"),
        ]);
        let steps = quieten(root.path(), "wt-1-0", &set("1"), &[42]).expect("steps");
        let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let expected = [
            "write \"1\" to /sys/devices/virtual/workqueue/cpumask, if allowed",
            "write \"1\" to /proc/irq/default_smp_affinity, if allowed",
            "write \"1\" to /proc/irq/25/smp_affinity, if allowed",
            "make folder /sys/fs/cgroup/cpuset/wt-1-0",
            "write \"0\" to /sys/fs/cgroup/cpuset/wt-1-0/cpuset.cpus",
            "write \"0\" to /sys/fs/cgroup/cpuset/wt-1-0/cpuset.mems",
            "move tasks from /sys/fs/cgroup/cpuset to /sys/fs/cgroup/cpuset/wt-1-0",
        ];
        assert_eq!(lines, expected);
        let error = quieten(root.path(), "wt-1-0", &set("0-1"), &[]).expect_err("none left").to_string();
        assert!(error.starts_with("cores 0-1: cannot move other work off: no other core is left"), "{error}");
    }
}
