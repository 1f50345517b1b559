//! State of the machine that a run may change, read independently of the program.

mod ablations;
mod changes;
mod paused;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use wiretail_host::name_prefix;

/// Objects and settings with their values.
pub type Host = BTreeMap<String, String>;

/// Reads everything that a run may change: names of namespaces, journals, links and cpusets, and settings.
pub fn look() -> Host {
    let mut host = Host::new();
    for folder in ["/run/netns", "/run/wiretail"] {
        for name in names(Path::new(folder)) {
            host.insert(format!("{folder}/{name}"), String::new());
        }
    }
    let links = Command::new("ip").args(["-oneline", "link", "show"]).output().expect("ip");
    for line in String::from_utf8_lossy(&links.stdout).lines() {
        let name = line.split(": ").nth(1).unwrap_or(line);
        host.insert(format!("link {name}"), String::new());
    }
    cpusets(Path::new("/sys/fs/cgroup/cpuset"), &mut host);
    let mut settings = vec![
        "/sys/devices/virtual/workqueue/cpumask".to_owned(),
        "/proc/sys/kernel/sched_rt_runtime_us".to_owned(),
        "/proc/irq/default_smp_affinity".to_owned(),
    ];
    settings.extend(names(Path::new("/proc/irq")).map(|number| format!("/proc/irq/{number}/smp_affinity")));
    for path in settings {
        if let Ok(value) = fs::read_to_string(&path) {
            host.insert(path, value.trim().to_owned());
        }
    }
    host
}

/// Describes the differences from `before`; ignores names of processes other than `own`.
pub fn differences(before: &Host, own: &[u32]) -> Vec<String> {
    let after = look();
    let prefixes: Vec<String> = own.iter().map(|pid| name_prefix(*pid)).collect();
    let is_others =
        |object: &str| object.contains("wt") && !prefixes.iter().any(|prefix| object.contains(prefix));
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    all.into_iter()
        .filter(|object| before.get(*object) != after.get(*object) && !is_others(object))
        .map(|object| format!("{object}: {:?} -> {:?}", before.get(object), after.get(object)))
        .collect()
}

/// Checks that no object has the name of this process's runs, and no process is in one of their cgroups.
pub fn assert_nothing_of(pid: u32) {
    let prefix = name_prefix(pid);
    let left: Vec<String> = look().into_keys().filter(|object| object.contains(&prefix)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let parent = |child: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let processes = names(Path::new("/proc")).filter_map(|name| name.parse().ok());
    processes.filter(|child| parent(*child) == Some(pid)).collect()
}

/// Returns all descendants of a process.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

fn cpusets(folder: &Path, host: &mut Host) {
    let Ok(cores) = fs::read_to_string(folder.join("cpuset.cpus")) else { return };
    host.insert(format!("cpuset {}", folder.display()), cores.trim().to_owned());
    for name in names(folder).filter(|name| folder.join(name).is_dir()) {
        cpusets(&folder.join(name), host);
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}
