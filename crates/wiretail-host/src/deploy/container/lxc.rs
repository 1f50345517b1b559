//! Configuration of `lxc-execute`, lxc.container.conf(5), and cleaning up after LXC.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Workload, cgroups};
use crate::deploy::container::Mount;
use crate::error::HostError;
use crate::facts::privileges::privileges;

/// LXC keeps a lock file for each container below this folder. The path below it mirrors the path of the
/// container's folder.
const RUN_FOLDER: &str = "/run/lxc";

/// Cgroup that LXC uses temporarily during startup.
pub(super) const PIVOT: &str = "lxc.pivot";

/// Content of the configuration file.
pub(super) fn config(
    name: &str,
    workload: &Workload,
    mounts: &[Mount],
    rootfs: &Path,
) -> Result<String, HostError> {
    if rootfs.to_str().is_none_or(|path| path.contains(char::is_control)) {
        let expected = "expected a path in UTF-8 without control characters";
        return Err(HostError::Name { name: rootfs.to_string_lossy().into(), expected });
    }
    let may_raise = privileges(Path::new("/"))?.sys_resource;
    Ok(config_with(name, workload, mounts, rootfs, cgroups::has_cpuset_v1(), may_raise))
}

/// Builds the configuration for a cgroup version. `may_raise` states whether resource limits may be raised.
/// All capabilities are kept, because the configuration has no `lxc.cap.drop`.
pub(crate) fn config_with(
    name: &str,
    workload: &Workload,
    mounts: &[Mount],
    rootfs: &Path,
    version_1: bool,
    may_raise: bool,
) -> String {
    let mut text = String::new();
    let mut set = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    set("lxc.uts.name", name);
    set("lxc.rootfs.path", &format!("dir:{}", rootfs.display()));
    set("lxc.namespace.share.net", &workload.namespace.path().display().to_string());
    set("lxc.apparmor.profile", "unconfined");
    // Without a console, the program inherits the standard streams of lxc-execute.
    set("lxc.console.path", "none");
    set("lxc.tty.max", "0");
    set("lxc.autodev", "1");
    set("lxc.mount.auto", "proc:rw sys:rw");
    for mount in mounts {
        set("lxc.mount.entry", &entry(mount));
    }
    set("lxc.cgroup.dir.container", name);
    set("lxc.cgroup.dir.monitor", &format!("{name}-monitor"));
    if !workload.cores.is_empty() {
        let version = if version_1 { "cgroup" } else { "cgroup2" };
        set(&format!("lxc.{version}.cpuset.cpus"), &workload.cores.to_string());
    }
    if may_raise {
        set("lxc.prlimit.memlock", "unlimited");
    }
    set("lxc.init.cwd", &workload.directory.display().to_string());
    text
}

/// A line of fstab(5). Paths inside the container are relative.
fn entry(mount: &Mount) -> String {
    match mount {
        Mount::Host { path, writable, is_folder } => {
            let (bind, create) = if *is_folder { ("rbind", "dir") } else { ("bind", "file") };
            let access = if *writable { "rw" } else { "ro" };
            let path = escaped(path);
            format!("{path} {} none {bind},{access},create={create} 0 0", path.trim_start_matches('/'))
        }
        Mount::Empty(path) => {
            format!("tmpfs {} tmpfs rw,create=dir 0 0", escaped(path).trim_start_matches('/'))
        }
    }
}

fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040")
}

/// Removes the lock file and its empty parent folders. A leftover lock file is harmless.
pub(super) fn remove_lock(name: &str, folder: &Path) {
    let run = Path::new(RUN_FOLDER);
    let mut place: PathBuf = run.join("lock").join(folder.strip_prefix("/").unwrap_or(folder));
    let _ = fs::remove_file(place.join(format!(".{name}")));
    while place.starts_with(run) && fs::remove_dir(&place).is_ok() && place.pop() {}
}
