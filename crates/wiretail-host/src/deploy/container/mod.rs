//! Containers: a program runs in the network namespace of its node and sees the host's system folders,
//! mounted read-only. No image is needed, and the program inside the container is the same binary as outside.
//!
//! The program does not run as process 1, because the kernel discards signals that process 1 does not handle.
//! Process 1 is a short shell script that forwards signals and exits with the program's status.

mod cgroups;
pub(super) mod lxc;
pub(super) mod oci;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, Workload, need};
use crate::error::HostError;
use crate::network::namespace::Namespace;
pub use crate::step::{ContainerSpec, Runtime};
use crate::step::{Plan, Step};

/// Name of the process that runs [`INIT`], used to identify it.
const INIT_NAME: &str = "wiretail-init";

/// Starts the program and forwards signals. A signal interrupts `wait`, so the script waits in a loop, which
/// ends only when the program no longer exists. A shell makes background jobs ignore INT and QUIT and
/// redirects their standard input; the script undoes both.
const INIT: &str = r#"exec 3<&0
env -i --default-signal=INT,QUIT "$@" <&3 3<&- &
program=$!
exec 3<&- </dev/null
for signal in TERM INT HUP USR1 USR2; do trap "kill -s $signal $program" $signal; done
while :; do
  wait $program
  status=$?
  kill -0 $program 2>/dev/null || exit $status
done"#;

/// System folders of the host that are mounted at the same path in the container.
const SYSTEM: [&str; 10] =
    ["/usr", "/etc", "/opt", "/var/lib", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Folders in memory that are empty when the container starts.
const EMPTY: [&str; 5] = ["/tmp", "/run", "/var/log", "/var/tmp", "/dev/shm"];
/// Devices that forwarders use: tap devices, user-space drivers, power management.
const DEVICES: [&str; 4] = ["/dev/net/tun", "/dev/vfio", "/dev/cpu_dma_latency", "/dev/vhost-net"];
const HUGE_PAGES: &str = "/dev/hugepages";

/// A container that is started by a [`Launch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    name: String,
}

impl Container {
    /// The container of this name.
    ///
    /// # Errors
    /// Same as [`Namespace::new`].
    pub fn new(name: &str) -> Result<Self, HostError> {
        Namespace::new(name)?;
        Ok(Container { name: name.into() })
    }

    /// PID of the program in the host's PID namespace. `None` before the program has started and after it has
    /// ended. Signals for the program must be sent to this PID and not to the runtime, because `lxc-execute`
    /// forwards only some signals (`runc` forwards all).
    pub fn program_pid(&self) -> Option<i32> {
        let everybody = cgroups::processes(&self.name);
        let init = everybody.iter().find(|pid| is_init(**pid))?;
        let is_program = |pid: &&i32| parent(**pid) == Some(*init) && !is_init(**pid);
        everybody.iter().find(is_program).copied()
    }

    /// Permits real-time priority inside the container, without a separate runtime limit. Processes started
    /// inside afterwards inherit the permission from their parent.
    ///
    /// # Errors
    /// Returns [`HostError::System`] if the kernel rejects the move to the root cgroup.
    pub fn allow_realtime(&self) -> Result<(), HostError> {
        cgroups::leave_cpu_group(&self.name)
    }
}

/// Whether the process is the shell that runs [`INIT`]. Its child looks the same until it calls `exec`.
fn is_init(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(3) == Some(INIT_NAME.as_bytes())
}

fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// A mount in the container besides `/proc` and `/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mount {
    /// A bind mount of the same path on the host.
    Host { path: PathBuf, writable: bool, is_folder: bool },
    /// An empty folder in memory.
    Empty(PathBuf),
}

/// The mounts, in mount order.
pub(super) fn mounts(workload: &Workload) -> Vec<Mount> {
    let host = |path: &Path, writable: bool| {
        let metadata = fs::metadata(path).ok()?;
        Some(Mount::Host { path: path.into(), writable, is_folder: metadata.is_dir() })
    };
    let is_link = |path: &str| Path::new(path).is_symlink();
    let mut mounts: Vec<Mount> =
        SYSTEM.iter().filter(|path| !is_link(path)).filter_map(|path| host(Path::new(path), false)).collect();
    mounts.extend(EMPTY.iter().map(|path| Mount::Empty(path.into())));
    mounts.extend(DEVICES.iter().filter_map(|path| host(Path::new(path), true)));
    if workload.hugepages {
        mounts.extend(host(Path::new(HUGE_PAGES), true));
    }
    let is_system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
    let mut reads: Vec<PathBuf> = workload.read_paths();
    reads.retain(|path| !is_system(path) && !path.starts_with(&workload.directory));
    // A folder must be mounted before its subfolders, or it would hide them. The working folder comes last.
    reads.sort();
    reads.dedup();
    mounts.extend(reads.iter().filter_map(|path| host(path, false)));
    mounts.extend(host(&workload.directory, true));
    mounts
}

/// Command line of process 1.
pub(super) fn init(workload: &Workload) -> Vec<String> {
    let shell = ["/bin/sh", "-c", INIT, INIT_NAME].map(str::to_owned);
    shell.into_iter().chain(workload.environment()).chain(workload.argv.iter().cloned()).collect()
}

/// Configures a container called `name` that runs the workload. The plan creates a folder of this name in
/// `folder` for the files of the runtime. The command exits with the program's exit status, or with 128 plus
/// the signal number if a signal killed the program.
///
/// # Errors
/// Returns [`HostError::NotInstalled`] if the runtime is missing, and [`HostError::Name`] for invalid names
/// and arguments.
pub fn container(
    runtime: Runtime,
    name: &str,
    workload: &Workload,
    folder: &Path,
) -> Result<Launch, HostError> {
    let program = need(program_of(runtime), "container")?;
    if !name.starts_with(char::is_alphanumeric)
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    {
        let expected = "expected a container name of letters, digits, `-` and `_`";
        return Err(HostError::Name { name: name.into(), expected });
    }
    workload.check()?;
    let folder = std::path::absolute(folder).map_err(HostError::file("find", folder))?.join(name);
    let mut command = Command::new(program);
    let config = match runtime {
        Runtime::Runc => {
            command.arg("--root").arg(folder.join("state")).arg("run");
            command.arg("--bundle").arg(&folder).arg(name);
            oci::config(name, workload, &mounts(workload))?
        }
        Runtime::Lxc => {
            command.arg("-P").arg(&folder).args(["-n", name, "-f"]).arg(folder.join("config")).arg("--");
            command.args(init(workload));
            lxc::config(name, workload, &mounts(workload), &folder.join("rootfs"))?
        }
    };
    let mut plan = Plan::new();
    plan.push(Step::AddContainer { container: ContainerSpec { name: name.into(), runtime, folder, config } });
    Ok(Launch { command, plan })
}

fn program_of(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Lxc => "lxc-execute",
        Runtime::Runc => "runc",
    }
}

impl ContainerSpec {
    /// Whether the name is unused.
    pub(crate) fn is_free(&self) -> bool {
        !self.folder.exists() && cgroups::folders(&self.name).is_empty()
    }

    fn monitor(&self) -> String {
        format!("{}-monitor", self.name)
    }
}

/// Creates the container's folder. The runtime creates the cgroups.
pub(crate) fn add(spec: &ContainerSpec) -> Result<(), HostError> {
    let root = spec.folder.join("rootfs");
    let make = |path: &Path| fs::create_dir(path).map_err(HostError::file("make the folder", path));
    make(&spec.folder)?;
    make(&root)?;
    for name in ["proc", "sys", "dev", "var", "root"] {
        make(&root.join(name))?;
    }
    // If /bin is a link to a folder of /usr on the host, it is also a link in the container.
    let links = SYSTEM.iter().map(|path| (path.trim_start_matches('/'), fs::read_link(path)));
    let links = links.filter_map(|(name, target)| Some((name.to_owned(), target.ok()?)));
    for (name, target) in links.chain([("var/run".into(), PathBuf::from("/run"))]) {
        let path = root.join(name);
        std::os::unix::fs::symlink(target, &path).map_err(HostError::file("make the link", &path))?;
    }
    let name = match spec.runtime {
        Runtime::Lxc => "config",
        Runtime::Runc => "config.json",
    };
    let path = spec.folder.join(name);
    fs::write(&path, &spec.config).map_err(HostError::file("write", &path))
}

/// Kills all processes in the container and removes everything that the runtime and [`add`] created. Returns
/// the PIDs of the killed processes. Succeeds if the container does not exist.
pub(crate) fn remove(spec: &ContainerSpec) -> Result<Vec<i32>, HostError> {
    let mut killed = cgroups::remove(&spec.name)?;
    killed.extend(cgroups::remove(&spec.monitor())?);
    // The mounts belong to the container's mount namespace and disappear with it. If one of them nevertheless
    // exists in the host's namespace, removing the folder would delete the mounted files.
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_inside =
        |line: &str| line.split(' ').nth(4).is_some_and(|path| Path::new(path).starts_with(&spec.folder));
    if mounted.lines().any(is_inside) {
        return Err(HostError::file("remove the folder", &spec.folder)(io::ErrorKind::ResourceBusy.into()));
    }
    gone(remove_empty(&spec.folder.join("rootfs")))
        .and_then(|()| gone(fs::remove_dir_all(&spec.folder)))
        .map_err(HostError::file("remove the folder", &spec.folder))?;
    if spec.runtime == Runtime::Lxc {
        lxc::remove_lock(&spec.name, &spec.folder);
        cgroups::remove_idle(lxc::PIVOT);
    }
    Ok(killed)
}

/// Removes a tree of folders, links and empty files. A container's folder contains nothing else once nothing
/// is mounted in it.
fn remove_empty(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            remove_empty(&entry?.path())?;
        }
        fs::remove_dir(path)
    } else if metadata.is_file() && metadata.len() > 0 {
        Err(io::ErrorKind::DirectoryNotEmpty.into())
    } else {
        fs::remove_file(path)
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
