//! Named network namespaces, compatible with iproute2. Each name is a file under `/run/netns` on which the
//! namespace is mounted, so `ip netns exec NAME …` works on an active testbed.
//!
//! Namespaces are entered per thread, never by the whole process: [`Namespace::inside`] runs a closure in a
//! separate thread, and a socket that it opens stays in the namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::thread::LinkNameSpaceType;

use crate::error::HostError;
use crate::network::netlink::{Link, Netlink};
use crate::processes;
use crate::sys;

/// Folder of the namespace names.
pub const NAMESPACE_FOLDER: &str = "/run/netns";
/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A named network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace of this name, which need not exist yet.
    ///
    /// # Errors
    /// Returns [`HostError::Name`] if the name is not valid as a file name.
    pub fn new(name: &str) -> Result<Self, HostError> {
        if name.is_empty() || name.len() > 255 || name.starts_with('.') || name.contains(['/', '\0']) {
            let expected = "expected 1 to 255 bytes without `/`, not starting with `.`";
            return Err(HostError::Name { name: name.into(), expected });
        }
        Ok(Namespace { name: name.into() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the namespace's file, which need not exist.
    pub fn path(&self) -> PathBuf {
        Path::new(NAMESPACE_FOLDER).join(&self.name)
    }

    /// Opens a descriptor, which keeps the namespace alive.
    ///
    /// # Errors
    /// Returns a `NotFound` error if the namespace does not exist.
    pub fn open(&self) -> Result<OwnedFd, HostError> {
        let error = HostError::system("open the network namespace", &self.name);
        File::open(self.path()).map(OwnedFd::from).map_err(error)
    }

    /// Runs `work` in a thread inside the namespace and waits for it. Sockets opened by `work` stay in the
    /// namespace. Child processes also start inside the namespace, but programs should be started with
    /// [`run_in`].
    ///
    /// # Errors
    /// Returns [`HostError::System`] if the namespace does not exist, or without CAP_SYS_ADMIN.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        let namespace = self.open()?;
        on_a_thread(|| {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| {
                    HostError::system("enter the network namespace", &self.name)(errno.into())
                })?;
            Ok(work())
        })
    }
}

impl Namespace {
    /// Lists the links of the namespace with their traffic counters.
    ///
    /// # Errors
    /// Returns [`HostError::System`] if the namespace does not exist.
    pub fn links(&self) -> Result<Vec<Link>, HostError> {
        let listed = self.inside(|| Netlink::open().and_then(|mut netlink| netlink.links()))?;
        listed.map_err(HostError::system("list the links of", &self.name))
    }

    /// Waits until all links that are administratively up can pass packets. A veth has no carrier until both
    /// ends are up, and it can take the kernel up to a second to notify a bridge of this. Packets sent before
    /// the links are ready are lost.
    ///
    /// # Errors
    /// Returns [`HostError::NotReady`] if some links are not ready after `patience`. The error names these
    /// links.
    pub fn wait_until_ready(&self, patience: Duration) -> Result<(), HostError> {
        let error = || HostError::system("list links", &self.name);
        let mut netlink = self.inside(Netlink::open)?.map_err(error())?;
        let started = Instant::now();
        loop {
            let links = netlink.links().map_err(error())?;
            let waiting = links.into_iter().filter(|link| link.up && !link.ready);
            let links: Vec<String> = waiting.map(|link| link.name).collect();
            if links.is_empty() {
                return Ok(());
            }
            if started.elapsed() >= patience {
                let waited_ms = started.elapsed().as_millis();
                return Err(HostError::NotReady { namespace: self.name.clone(), links, waited_ms });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs `work` in the namespace of this name, or in the current one for `None`.
pub(crate) fn inside<T: Send>(name: Option<&str>, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
    match name {
        Some(name) => Namespace::new(name)?.inside(work),
        None => Ok(work()),
    }
}

/// Starts a program in `namespace`, or in the current one for `None`. The kernel kills the program when the
/// calling *thread* ends, so the caller must be a thread that outlives the program.
///
/// # Errors
/// Returns [`HostError::System`] if the program or the namespace does not exist.
pub fn run_in(namespace: Option<&Namespace>, mut command: Command) -> Result<Child, HostError> {
    let descriptor = namespace.map(Namespace::open).transpose()?;
    sys::confine(&mut command, descriptor);
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(HostError::system("start the program", program))
}

/// Opens the calling thread's network namespace.
pub(crate) fn own() -> Result<OwnedFd, HostError> {
    File::open(OWN).map(OwnedFd::from).map_err(HostError::file("open the network namespace", Path::new(OWN)))
}

/// State of `/run/netns` before [`prepare_folder`], for [`restore_folder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FolderState {
    /// Whether `/run/netns` existed.
    pub existed: bool,
    /// Whether it was a mount point.
    pub mounted: bool,
}

/// Reads the current state of `/run/netns`.
pub(crate) fn folder_state() -> FolderState {
    FolderState { existed: Path::new(NAMESPACE_FOLDER).is_dir(), mounted: is_mount_point(NAMESPACE_FOLDER) }
}

fn is_mount_point(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

/// Makes `/run/netns` a mount point that propagates its mounts to other mount namespaces, as `ip netns add`
/// does. This must happen before the first namespace is mounted, because the new mount would hide earlier
/// ones.
pub(crate) fn prepare_folder() -> Result<(), HostError> {
    let _lock = lock_folder()?;
    prepare_locked_folder()
}

fn prepare_locked_folder() -> Result<(), HostError> {
    let folder = Path::new(NAMESPACE_FOLDER);
    fs::create_dir_all(folder).map_err(HostError::file("make the folder", folder))?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    if rustix::mount::mount_change(folder, shared).is_err() {
        // Not a mount point yet.
        rustix::mount::mount_bind_recursive(folder, folder)
            .and_then(|()| rustix::mount::mount_change(folder, shared))
            .map_err(|errno| HostError::file("mount", folder)(errno.into()))?;
    }
    Ok(())
}

/// Undoes [`prepare_folder`] unless other programs have namespaces in the folder. Returns a remark about
/// anything that was not undone, with the reason.
pub(crate) fn restore_folder(before: FolderState) -> Result<Option<String>, HostError> {
    let _lock = lock_folder()?;
    let folder = Path::new(NAMESPACE_FOLDER);
    if !before.mounted && is_mount_point(NAMESPACE_FOLDER) {
        match rustix::mount::unmount(folder, UnmountFlags::empty()) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(Errno::BUSY) => {
                return Ok(Some(format!(
                    "{NAMESPACE_FOLDER} stays mounted: it contains namespaces of other programs"
                )));
            }
            Err(errno) => return Err(HostError::file("unmount", folder)(errno.into())),
        }
    }
    if !before.existed {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Some(format!(
                    "{NAMESPACE_FOLDER} stays: it contains namespaces of other programs"
                )));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HostError::file("remove the folder", folder)(error));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Locks the folder of names against changes by other runs. The lock is on the parent of the folder, because
/// the parent is never unmounted or removed.
fn lock_folder() -> Result<File, HostError> {
    let parent = Path::new(NAMESPACE_FOLDER).parent().unwrap_or(Path::new("/"));
    let file = File::open(parent).map_err(HostError::file("open", parent))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|errno| HostError::file("lock", parent)(errno.into()))?;
    Ok(file)
}

/// Creates a namespace with a name.
pub(crate) fn add(name: &str) -> Result<(), HostError> {
    let namespace = Namespace::new(name)?;
    let path = namespace.path();
    let _lock = lock_folder()?;
    // Prepare the folder again: a run that ended in the meantime may have removed it.
    prepare_locked_folder()?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(&path)
        .map_err(HostError::system("add the network namespace", name))?;
    // The new namespace belongs to the thread; the mount keeps it alive when the thread ends. If this process
    // is killed in between, the kernel removes the namespace with the thread.
    on_a_thread(|| {
        sys::unshare_network().map_err(HostError::system("add the network namespace", name))?;
        rustix::mount::mount_bind(OWN, &path)
            .map_err(|errno| HostError::file("mount the network namespace", &path)(errno.into()))
    })
}

/// Removes a namespace and its name, and kills all processes inside. Returns the PIDs of the killed
/// processes. Succeeds if the namespace does not exist.
pub(crate) fn remove(name: &str) -> Result<Vec<i32>, HostError> {
    let namespace = Namespace::new(name)?;
    let path = namespace.path();
    let _lock = lock_folder()?;
    let Ok(metadata) = fs::metadata(&path) else { return Ok(Vec::new()) };
    let own = fs::metadata(OWN)
        .map_err(HostError::file("read the metadata of the network namespace", Path::new(OWN)))?;
    let mut killed = Vec::new();
    // A run that is killed between creating the file and mounting leaves a file without a mount.
    if metadata.dev() == own.dev() && metadata.ino() != own.ino() {
        killed = processes::kill_inside(metadata.ino());
    }
    // The namespace may be mounted more than once. Open descriptors in other processes do not prevent
    // unmounting (DETACH).
    for _ in 0..16 {
        match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => break,
            Err(errno) => return Err(HostError::file("unmount the network namespace", &path)(errno.into())),
        }
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HostError::file("remove the network namespace", &path)(error))
        }
        _ => Ok(killed),
    }
}

/// Runs `work` in a temporary thread, so that its changes of thread state end with the thread.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, HostError> + Send) -> Result<T, HostError> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("in-namespace".into())
            .spawn_scoped(scope, work)
            .map_err(HostError::system("start a thread", "in-namespace"))?
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_names() {
        for wrong in ["", ".", "..", "a/b", ".hidden", "a\0b"] {
            assert!(matches!(Namespace::new(wrong), Err(HostError::Name { .. })), "{wrong:?}");
        }
        let namespace = Namespace::new("wt-1-0-dut").expect("a name");
        assert_eq!(namespace.path(), Path::new("/run/netns/wt-1-0-dut"));
    }

    #[test]
    fn error_names_missing_namespace() {
        let error = Namespace::new("wt-none").and_then(|namespace| namespace.open()).expect_err("not there");
        assert!(error.to_string().starts_with("wt-none: cannot open the network namespace"), "{error}");
    }

    #[test]
    fn error_names_missing_program() {
        let error = run_in(None, Command::new("/no/such/program")).expect_err("not there");
        assert!(error.to_string().starts_with("/no/such/program: cannot start the program"), "{error}");
    }

    #[test]
    fn runs_program_in_current_namespace() {
        let mut child = run_in(None, Command::new("true")).expect("started");
        assert!(child.wait().expect("ended").success());
    }
}
