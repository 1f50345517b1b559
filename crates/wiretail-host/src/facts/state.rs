//! Host state that a run may change, captured before and after the run for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::HostError;
use crate::network::namespace::NAMESPACE_FOLDER;
use crate::network::netlink::Netlink;

/// All values that a run may change, each with the name of its object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostState {
    values: BTreeMap<(Kind, String), String>,
}

/// Kind of object that a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A name in `/run/netns`.
    Namespace,
    /// A mount in `/run/netns`, or the folder itself.
    Mount,
    /// A link in the network namespace of the run.
    Link,
    /// A cpuset of cgroup v1.
    Cpuset,
    /// A file of /proc or /sys: interrupt affinities, masks, sysctls.
    Setting,
}

/// An object that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub kind: Kind,
    /// Name or path of the object.
    pub object: String,
    /// Previous value; `None` if the object did not exist.
    pub before: Option<String>,
    /// Current value; `None` if the object does not exist.
    pub after: Option<String>,
}

impl Difference {
    /// Whether the object's name contains the name of a run. False for settings and for `/run/netns`.
    pub fn is_named(&self) -> bool {
        self.kind != Kind::Setting && self.object != NAMESPACE_FOLDER
    }
}

impl HostState {
    /// Captures the state of the host under `root`, including the files `touched` (absolute paths). If `root`
    /// is not `/`, as for a recorded tree, links are skipped.
    ///
    /// # Errors
    /// Returns [`HostError::System`] if the links cannot be listed. A missing file is not an error.
    pub fn capture(root: &Path, touched: &[&Path]) -> Result<Self, HostError> {
        let mut state = HostState::default();
        state.namespaces(root);
        if root == Path::new("/") {
            state.links()?;
        }
        state.cpusets(&root.join("sys/fs/cgroup/cpuset"), root);
        for path in interrupt_files(root) {
            state.setting(root, &path);
        }
        for path in ["/sys/devices/virtual/workqueue/cpumask", "/proc/irq/default_smp_affinity"] {
            state.setting(root, Path::new(path));
        }
        for path in touched {
            state.setting(root, path);
        }
        Ok(state)
    }

    /// Objects that differ between this state and `after`.
    pub fn differences(&self, after: &HostState) -> Vec<Difference> {
        let mut keys: Vec<_> = self.values.keys().chain(after.values.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|key| self.values.get(key) != after.values.get(key))
            .map(|key| Difference {
                kind: key.0,
                object: key.1.clone(),
                before: self.values.get(key).cloned(),
                after: after.values.get(key).cloned(),
            })
            .collect()
    }

    fn insert(&mut self, kind: Kind, object: impl Into<String>, value: impl Into<String>) {
        self.values.insert((kind, object.into()), value.into());
    }

    fn namespaces(&mut self, root: &Path) {
        for name in entries(&below(root, Path::new(NAMESPACE_FOLDER))) {
            self.insert(Kind::Namespace, name, "");
        }
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        for mount in mounts.lines().filter_map(|line| line.split(' ').nth(4)) {
            if mount.starts_with(NAMESPACE_FOLDER) {
                self.insert(Kind::Mount, mount, "");
            }
        }
    }

    fn links(&mut self) -> Result<(), HostError> {
        let links = Netlink::open().and_then(|mut netlink| netlink.links());
        for link in links.map_err(HostError::system("list the links", "host"))? {
            let value = format!("{} up={} mtu={} master={:?}", link.kind, link.up, link.mtu, link.master);
            self.insert(Kind::Link, link.name, value);
        }
        Ok(())
    }

    fn cpusets(&mut self, folder: &Path, root: &Path) {
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let value = format!("cpus={} mems={}", read("cpuset.cpus").trim(), read("cpuset.mems").trim());
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        if !folder.is_dir() {
            return;
        }
        self.insert(Kind::Cpuset, format!("/{name}"), value);
        for entry in entries(folder) {
            if folder.join(&entry).is_dir() {
                self.cpusets(&folder.join(entry), root);
            }
        }
    }

    fn setting(&mut self, root: &Path, path: &Path) {
        if let Ok(value) = fs::read_to_string(below(root, path)) {
            self.insert(Kind::Setting, path.display().to_string(), value.trim_end());
        }
    }
}

/// The affinity files of all interrupts, as absolute paths.
pub(crate) fn interrupt_files(root: &Path) -> Vec<PathBuf> {
    let numbers = entries(&root.join("proc/irq")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| PathBuf::from(format!("/proc/irq/{number}/smp_affinity"))).collect()
}

/// Maps an absolute path into the tree under `root`.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_changed_objects_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, value: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, value).expect("written");
        };
        write("proc/irq/7/smp_affinity", "3\n");
        write("proc/sys/net/core/busy_poll", "0\n");
        write("sys/fs/cgroup/cpuset/cpuset.cpus", "0-1\n");
        let touched = [Path::new("/proc/sys/net/core/busy_poll")];
        let capture = || HostState::capture(folder.path(), &touched).expect("captured");
        let before = capture();
        assert!(before.differences(&capture()).is_empty());
        write("proc/irq/7/smp_affinity", "1\n");
        write("proc/sys/net/core/busy_poll", "50\n");
        write("run/netns/wt-1-0-dut", "");
        write("sys/fs/cgroup/cpuset/wt-1-0/cpuset.cpus", "0\n");
        let found = before.differences(&capture());
        let objects: Vec<(&str, bool)> =
            found.iter().map(|difference| (difference.object.as_str(), difference.is_named())).collect();
        let expected = [
            ("wt-1-0-dut", true),
            ("/sys/fs/cgroup/cpuset/wt-1-0", true),
            ("/proc/irq/7/smp_affinity", false),
            ("/proc/sys/net/core/busy_poll", false),
        ];
        assert_eq!(objects, expected);
        assert_eq!((found[2].before.as_deref(), found[2].after.as_deref()), (Some("3"), Some("1")));
    }
}
