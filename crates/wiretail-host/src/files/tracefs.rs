//! The kernel's tracing file system. Uses an existing mount, or creates one that only this process can see.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::HostError;

/// The usual mount points.
const USUAL: &[&str] = &["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Maximum time to wait until the last reader of an instance has closed it.
const PATIENCE: Duration = Duration::from_secs(2);

/// An open tracefs. All mounts of it show the same content.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    /// A detached mount that disappears when this descriptor is closed.
    _mount: Option<OwnedFd>,
}

/// Layout of a ring buffer page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Content of `events/header_page`.
    pub text: String,
    /// Size in bytes, including the page header.
    pub bytes: usize,
}

impl Tracefs {
    /// Finds or mounts tracefs.
    ///
    /// # Errors
    /// Returns [`HostError::System`] without root privileges, or if the kernel has no tracing.
    pub fn open() -> Result<Self, HostError> {
        for root in USUAL.iter().map(Path::new) {
            // Without permission to enter the folder, the file looks missing. The mount below then reports
            // the error.
            if root.join("trace_clock").exists() {
                return Ok(Self { root: root.to_owned(), _mount: None });
            }
        }
        let mount = mount().map_err(|errno| {
            let source = io::Error::from(errno);
            let next = match errno {
                Errno::NODEV => "this kernel was built without CONFIG_TRACING: boot a distribution kernel",
                Errno::NOSYS => {
                    "this kernel lacks fsopen (Linux 5.2): run `mount -t tracefs tracefs /sys/kernel/tracing`"
                }
                _ => "kernel tracing needs root on the host, outside containers: run with sudo",
            };
            HostError::System { object: "tracefs".into(), doing: "mount it for this process", next, source }
        })?;
        Ok(Self { root: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), _mount: Some(mount) })
    }

    pub fn instance(&self, name: &str) -> PathBuf {
        self.root.join("instances").join(name)
    }

    /// Whether a function or latency tracer is active.
    pub fn is_traced(&self) -> Result<bool, HostError> {
        let path = self.root.join("current_tracer");
        let text = fs::read_to_string(&path).map_err(HostError::file("read", &path))?;
        Ok(text.trim() != "nop")
    }

    /// Reads the page layout.
    pub fn page(&self) -> Result<Page, HostError> {
        let path = self.root.join("events/header_page");
        let error = || HostError::file("read", &path);
        let text = read_at_once(&path).map_err(error())?;
        let bytes = page_bytes(&text).ok_or_else(|| error()(io::ErrorKind::InvalidData.into()))?;
        Ok(Page { text, bytes })
    }

    /// The kernel's cache of task names.
    pub fn saved_names(&self) -> SavedNames {
        SavedNames(self.root.join("saved_cmdlines"))
    }
}

fn mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Reads a file with a single `read`: some files return data only on the first call, or new data on each
/// call.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 16];
    let len = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

/// Size of a page, from `field: char data; offset:16; size:4080; signed:0;`. The data field ends where the
/// page ends.
fn page_bytes(header_page: &str) -> Option<usize> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| -> Option<usize> {
        line.split(';').find_map(|part| part.trim().strip_prefix(key))?.parse().ok()
    };
    Some(number("offset:")? + number("size:")?).filter(|bytes| (512..=1 << 20).contains(bytes))
}

/// CPU numbers for which an instance has buffers.
pub(crate) fn processors(instance: &Path) -> Result<Vec<u32>, HostError> {
    let folder = instance.join("per_cpu");
    let entries = fs::read_dir(&folder).map_err(HostError::file("list", &folder))?;
    let mut cores: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
        .collect();
    cores.sort_unstable();
    Ok(cores)
}

/// Returns two numbers for a CPU: events that were overwritten, and events that could not be written.
pub(crate) fn stats(instance: &Path, cpu: u32) -> Result<(u64, u64), HostError> {
    let path = instance.join(format!("per_cpu/cpu{cpu}/stats"));
    let text = read_at_once(&path).map_err(HostError::file("read", &path))?;
    Ok(parse_stats(&text))
}

fn parse_stats(text: &str) -> (u64, u64) {
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or_default()
    };
    (number("overrun"), number("commit overrun") + number("dropped events"))
}

/// The kernel's cache of task names. It holds only the most recent tasks.
#[derive(Debug)]
pub(crate) struct SavedNames(PathBuf);

impl SavedNames {
    /// Adds the names in the cache to `tasks`. Adds none if the cache cannot be read.
    pub fn read(&self, tasks: &mut BTreeMap<i32, String>) {
        for line in fs::read_to_string(&self.0).unwrap_or_default().lines() {
            if let Some((pid, name)) = line.split_once(' ')
                && let Ok(pid) = pid.parse()
            {
                tasks.insert(pid, name.to_owned());
            }
        }
    }
}

/// Adds the names of all current threads in `root`'s /proc to `tasks`.
pub(crate) fn tasks_of_proc(root: &Path, tasks: &mut BTreeMap<i32, String>) {
    let numbers = |folder: &Path| -> Vec<i32> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    };
    let proc = root.join("proc");
    for process in numbers(&proc) {
        let folder = proc.join(format!("{process}/task"));
        for thread in numbers(&folder) {
            if let Ok(name) = fs::read_to_string(folder.join(format!("{thread}/comm"))) {
                tasks.insert(thread, name.trim_end_matches('\n').to_owned());
            }
        }
    }
}

pub(crate) fn exists(name: &str) -> Result<bool, HostError> {
    Ok(Tracefs::open()?.instance(name).exists())
}

pub(crate) fn add(name: &str) -> Result<(), HostError> {
    // Must stay alive, because its detached mount provides the path.
    let tracefs = Tracefs::open()?;
    let path = tracefs.instance(name);
    fs::create_dir(&path).map_err(HostError::system("make the trace instance", name))
}

/// Removes an instance with its buffers. Succeeds if the instance does not exist. Waits briefly until its
/// readers have closed it.
pub(crate) fn remove(name: &str) -> Result<(), HostError> {
    // Must stay alive, because its detached mount provides the path.
    let tracefs = Tracefs::open()?;
    let path = tracefs.instance(name);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(&path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(HostError::system("remove the trace instance", name)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_page_size_and_stats() {
        let page = "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_bytes(page), Some(4096));
        assert_eq!(page_bytes(&page.replace("4080", "1")), None);
        assert_eq!(page_bytes(""), None);
        let stats =
            "entries: 7\noverrun: 3\ncommit overrun: 1\nbytes: 80\ndropped events: 2\nread events: 9\n";
        assert_eq!(parse_stats(stats), (3, 3));
    }

    #[test]
    fn collects_thread_names() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("proc/7/task/9");
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("comm"), "a worker\n").expect("written");
        fs::write(root.path().join("saved"), "12 kworker/0:1\nx\n").expect("written");
        let mut tasks = BTreeMap::new();
        tasks_of_proc(root.path(), &mut tasks);
        SavedNames(root.path().join("saved")).read(&mut tasks);
        let expected = BTreeMap::from([(9, "a worker".to_owned()), (12, "kworker/0:1".to_owned())]);
        assert_eq!(tasks, expected);
    }
}
