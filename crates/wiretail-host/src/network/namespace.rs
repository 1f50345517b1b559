//! Network namespaces with a name, kept as iproute2 keeps them: a file under `/run/netns` on which
//! the namespace is mounted. So `ip netns exec NAME …` works on a testbed that is standing.
//!
//! A namespace is entered by a thread, never by the whole process: [`Namespace::inside`] runs a
//! closure on a thread of its own, and a socket that is opened there stays there for good.

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

/// Where the names of namespaces are.
pub const NAMESPACE_FOLDER: &str = "/run/netns";
/// What the calling thread sees as its own network namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace of that name, which need not be there yet.
    ///
    /// # Errors
    /// [`HostError::Name`] for what cannot be a file's name.
    pub fn new(name: &str) -> Result<Self, HostError> {
        if name.is_empty() || name.len() > 255 || name.starts_with('.') || name.contains(['/', '\0']) {
            let expected = "expected 1 to 255 bytes without `/`, not starting with `.`";
            return Err(HostError::Name { name: name.into(), expected });
        }
        Ok(Namespace { name: name.into() })
    }

    /// As given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that it is mounted on, whether it is there or not.
    pub fn path(&self) -> PathBuf {
        Path::new(NAMESPACE_FOLDER).join(&self.name)
    }

    /// A descriptor that keeps the namespace alive.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name.
    pub fn open(&self) -> Result<OwnedFd, HostError> {
        let error = HostError::system("open the network namespace", &self.name);
        File::open(self.path()).map(OwnedFd::from).map_err(error)
    }

    /// Runs `work` on a thread inside the namespace and waits for it. What `work` opens (sockets)
    /// stays inside; what it spawns is inside, too, but see [`run_in`] for that.
    ///
    /// # Errors
    /// [`HostError::System`] if there is none of that name, or without CAP_SYS_ADMIN.
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
    /// Its links, with what they have counted.
    ///
    /// # Errors
    /// [`HostError::System`] if there is none of that name.
    pub fn links(&self) -> Result<Vec<Link>, HostError> {
        let listed = self.inside(|| Netlink::open().and_then(|mut netlink| netlink.links()))?;
        listed.map_err(HostError::system("list the links of", &self.name))
    }

    /// Waits until every link that is set up passes packets. A veth has no carrier before both ends
    /// are up, and the kernel tells a bridge so up to a second later; what is sent before is lost.
    ///
    /// # Errors
    /// [`HostError::NotReady`] names the links that are not within `patience`.
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

/// Runs `work` in the namespace of that name, or right here if there is none given.
pub(crate) fn inside<T: Send>(name: Option<&str>, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
    match name {
        Some(name) => Namespace::new(name)?.inside(work),
        None => Ok(work()),
    }
}

/// Starts a program, inside `namespace` if one is given. The kernel kills it when the *thread* that
/// called this ends: call it from one that lives as long as the program shall.
///
/// # Errors
/// [`HostError::System`] that names the program, if it or the namespace is not there.
pub fn run_in(namespace: Option<&Namespace>, mut command: Command) -> Result<Child, HostError> {
    let descriptor = namespace.map(Namespace::open).transpose()?;
    sys::confine(&mut command, descriptor);
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(HostError::system("start the program", program))
}

/// A descriptor of the calling thread's network namespace.
pub(crate) fn own() -> Result<OwnedFd, HostError> {
    File::open(OWN).map(OwnedFd::from).map_err(HostError::file("open the network namespace", Path::new(OWN)))
}

/// What [`prepare_folder`] found, for [`restore_folder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FolderState {
    /// Whether `/run/netns` was there.
    pub existed: bool,
    /// Whether it was a mount point of its own.
    pub mounted: bool,
}

/// How the folder of names is now.
pub(crate) fn folder_state() -> FolderState {
    FolderState { existed: Path::new(NAMESPACE_FOLDER).is_dir(), mounted: is_mount_point(NAMESPACE_FOLDER) }
}

fn is_mount_point(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

/// Makes `/run/netns` a mount point that passes its mounts on to other mount namespaces, as
/// `ip netns add` does. If that happened later, the mounts made before would be hidden under it.
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

/// Takes back what [`prepare_folder`] did, unless others have namespaces there by now. Returns what
/// was left as it is, and why.
pub(crate) fn restore_folder(before: FolderState) -> Result<Option<String>, HostError> {
    let _lock = lock_folder()?;
    let folder = Path::new(NAMESPACE_FOLDER);
    if !before.mounted && is_mount_point(NAMESPACE_FOLDER) {
        match rustix::mount::unmount(folder, UnmountFlags::empty()) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(Errno::BUSY) => {
                return Ok(Some(format!("{NAMESPACE_FOLDER} stays mounted: others have namespaces there")));
            }
            Err(errno) => return Err(HostError::file("unmount", folder)(errno.into())),
        }
    }
    if !before.existed {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Some(format!("{NAMESPACE_FOLDER} stays: others have namespaces there")));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HostError::file("remove the folder", folder)(error));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Keeps other runs from changing the folder of names meanwhile. The lock is on its parent, which
/// nobody mounts over or removes.
fn lock_folder() -> Result<File, HostError> {
    let parent = Path::new(NAMESPACE_FOLDER).parent().unwrap_or(Path::new("/"));
    let file = File::open(parent).map_err(HostError::file("open", parent))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|errno| HostError::file("lock", parent)(errno.into()))?;
    Ok(file)
}

/// Makes a namespace and its name.
pub(crate) fn add(name: &str) -> Result<(), HostError> {
    let namespace = Namespace::new(name)?;
    let path = namespace.path();
    let _lock = lock_folder()?;
    // Again: a run that ended in the meantime may have taken the folder with it.
    prepare_locked_folder()?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(&path)
        .map_err(HostError::system("add the network namespace", name))?;
    // The new namespace is the thread's; the mount keeps it when the thread ends. If we are killed
    // in between, the kernel removes it with the thread.
    on_a_thread(|| {
        sys::unshare_network().map_err(HostError::system("add the network namespace", name))?;
        rustix::mount::mount_bind(OWN, &path)
            .map_err(|errno| HostError::file("mount the network namespace", &path)(errno.into()))
    })
}

/// Removes a namespace: kills what runs inside, takes its name. Nothing to do if it is not there.
/// Returns the processes that were killed.
pub(crate) fn remove(name: &str) -> Result<Vec<i32>, HostError> {
    let namespace = Namespace::new(name)?;
    let path = namespace.path();
    let _lock = lock_folder()?;
    let Ok(metadata) = fs::metadata(&path) else { return Ok(Vec::new()) };
    let own = fs::metadata(OWN).map_err(HostError::file("look at the network namespace", Path::new(OWN)))?;
    let mut killed = Vec::new();
    // A file without the mount is what a run leaves that is killed between the two.
    if metadata.dev() == own.dev() && metadata.ino() != own.ino() {
        killed = processes::kill_inside(metadata.ino());
    }
    // Somebody may have mounted it twice; the descriptors that others hold don't matter (DETACH).
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

/// Runs `work` on a thread that ends with it: what it changes about itself ends, too.
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
    fn names_are_checked() {
        for wrong in ["", ".", "..", "a/b", ".hidden", "a\0b"] {
            assert!(matches!(Namespace::new(wrong), Err(HostError::Name { .. })), "{wrong:?}");
        }
        let namespace = Namespace::new("wt-1-0-dut").expect("a name");
        assert_eq!(namespace.path(), Path::new("/run/netns/wt-1-0-dut"));
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let error = Namespace::new("wt-none").and_then(|namespace| namespace.open()).expect_err("not there");
        assert!(error.to_string().starts_with("wt-none: cannot open the network namespace"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run_in(None, Command::new("/no/such/program")).expect_err("not there");
        assert!(error.to_string().starts_with("/no/such/program: cannot start the program"), "{error}");
    }

    #[test]
    fn programs_run_outside_too() {
        let mut child = run_in(None, Command::new("true")).expect("started");
        assert!(child.wait().expect("ended").success());
    }
}
