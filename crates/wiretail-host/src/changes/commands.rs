//! Runs commands of the user, and ends the processes that they leave behind.
//!
//! A command may start programs that outlive it, change their session or become daemons. Their UTS namespace
//! (host name) identifies them: every process inherits it from its parent, and only root can leave it. The
//! namespace starts with the names of the host, so programs see no difference. It is mounted on a file, the
//! *group*, like a network namespace on its name: the kernel then cannot reuse its number, and `wiretail
//! clean` finds its processes after the run was killed. A cgroup would serve as well, but its version and its
//! controllers differ between machines, and it changes the share of CPU time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::CpuSet;

use crate::error::HostError;
use crate::network::namespace::{on_a_thread, run_in};
use crate::processes::{self, NamespaceKind};
use crate::step::CommandSpec;
use crate::sys;

/// Time limit of a command.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Time that a process gets to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Interval between checks of a command.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Number of lines of a command's output that an error shows.
const LAST_LINES: usize = 5;
/// Number of bytes at the end of the output that are searched for these lines.
const LAST_BYTES: u64 = 1 << 14;
/// The UTS namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/uts";

/// Creates a group without processes.
pub(crate) fn add_group(path: &Path) -> Result<(), HostError> {
    let error = |doing| HostError::file(doing, path);
    OpenOptions::new().write(true).create_new(true).open(path).map_err(error("make the file"))?;
    // The new namespace belongs to the thread; the mount keeps it alive when the thread ends.
    on_a_thread(|| {
        sys::unshare_uts().map_err(error("add the command group"))?;
        rustix::mount::mount_bind(OWN, path).map_err(|errno| error("mount the command group")(errno.into()))
    })
}

/// Ends all processes of a group and removes it. Returns the PIDs of these processes. Succeeds if the group
/// does not exist.
pub(crate) fn remove_group(path: &Path) -> Result<Vec<i32>, HostError> {
    let error = |doing| HostError::file(doing, path);
    let Some(inode) = inode(path)? else { return Ok(Vec::new()) };
    let mut ended = Vec::new();
    if let Some(inode) = inode {
        ended = processes::end_inside(NamespaceKind::Uts, inode, GRACE);
    }
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(errno) => return Err(error("unmount the command group")(errno.into())),
    }
    match fs::remove_file(path) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(error("remove the file")(fault)),
        _ => Ok(ended),
    }
}

/// The number of a group's namespace: `None` if the file does not exist, `Some(None)` if nothing is mounted
/// on it, because the run was killed between the two.
#[expect(clippy::option_option, reason = "the two cases have different consequences")]
fn inode(path: &Path) -> Result<Option<Option<u64>>, HostError> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let own = fs::metadata(OWN)
        .map_err(HostError::file("read the metadata of the UTS namespace", Path::new(OWN)))?;
    let is_mounted = metadata.dev() == own.dev() && metadata.ino() != own.ino();
    Ok(Some(is_mounted.then_some(metadata.ino())))
}

/// Runs a command and waits until it has ended. Its background processes stay in the group. Stops waiting,
/// and ends the command, if `stop` is set.
///
/// # Errors
/// Returns [`HostError::Command`] if the command cannot be started, fails, is stopped, or exceeds
/// [`COMMAND_LIMIT`].
pub(crate) fn run(command: &CommandSpec, stop: &AtomicBool) -> Result<(), HostError> {
    let fault = |fault: String, said: String| HostError::Command {
        key: command.key.clone(),
        line: command.line.clone(),
        fault,
        said,
    };
    if !command.directory.is_dir() {
        let missing = format!("cannot be started: {} is not a directory", command.directory.display());
        return Err(fault(missing, String::new()));
    }
    let mut child =
        start(command).map_err(|error| fault(format!("cannot be started: {error}"), String::new()))?;
    match wait(&mut child, stop) {
        Ok(Ended::Itself(status)) if status.success() => Ok(()),
        Ok(Ended::Itself(status)) => Err(fault(format!("failed ({status})"), last_lines(&command.log))),
        Ok(Ended::Stopped) => Err(fault("was interrupted".to_owned(), String::new())),
        Ok(Ended::Late) => {
            let limit = COMMAND_LIMIT.as_secs();
            let late = format!(
                "did not end within {limit} s; end the command with `&` if it should run during the trial"
            );
            Err(fault(late, last_lines(&command.log)))
        }
        Err(error) => Err(fault(format!("cannot be waited for: {error}"), String::new())),
    }
}

fn start(spec: &CommandSpec) -> Result<Child, HostError> {
    // The folder of the log may be gone if `wiretail clean` runs the command later.
    let output = File::create(&spec.log).or_else(|_| OpenOptions::new().write(true).open("/dev/null"));
    let output = output.map_err(HostError::file("write", &spec.log))?;
    let errors = output.try_clone().map_err(HostError::file("write", &spec.log))?;
    let group = match inode(&spec.group)? {
        Some(Some(_)) => {
            let open = HostError::file("open the command group", &spec.group);
            Some(File::open(&spec.group).map(OwnedFd::from).map_err(open)?)
        }
        _ => None,
    };
    let mut cores = CpuSet::new();
    let known = spec.cores.cores().iter().map(|core| *core as usize).filter(|core| *core < CpuSet::MAX_CPU);
    known.for_each(|core| cores.set(core));
    let mut command = Command::new("sh");
    command.args(["-c", &spec.line]).envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&spec.directory);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    sys::detach(&mut command, group, Some(cores).filter(|_| !spec.cores.is_empty()));
    run_in(None, command)
}

/// How a command ended.
enum Ended {
    Itself(ExitStatus),
    Stopped,
    Late,
}

fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<Ended> {
    let begun = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Itself(status));
        }
        if stop.load(Ordering::Relaxed) {
            break Ended::Stopped;
        }
        if begun.elapsed() > COMMAND_LIMIT {
            break Ended::Late;
        }
        thread::sleep(LOOK_EVERY);
    };
    // The command leads its process group. The PID cannot be reused before the command has been reaped.
    let group = Pid::from_raw(child.id() as i32);
    let send = |signal| group.map(|group| kill_process_group(group, signal));
    let _ = send(Signal::TERM);
    let asked = Instant::now();
    while child.try_wait()?.is_none() {
        if asked.elapsed() > GRACE {
            let _ = send(Signal::KILL);
            child.wait()?;
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(ended)
}

/// Formats the last lines of a log for an error.
fn last_lines(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LAST_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() {
        return format!("; it printed nothing ({})", log.display());
    }
    format!("; its last lines ({}):\n    {}", log.display(), last.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::units::cores::CoreSet;

    fn spec(folder: &Path, line: &str) -> CommandSpec {
        CommandSpec {
            key: "host.before".into(),
            line: line.into(),
            directory: folder.into(),
            log: folder.join("before.log"),
            env: vec![("WHAT".into(), "a b".into())],
            cores: CoreSet::default(),
            group: folder.join("group"),
        }
    }

    fn run_line(folder: &Path, line: &str) -> Result<String, String> {
        let spec = spec(folder, line);
        run(&spec, &AtomicBool::new(false)).map_err(|error| error.to_string())?;
        Ok(fs::read_to_string(&spec.log).expect("a log"))
    }

    #[test]
    fn runs_the_shell_in_the_directory_with_the_environment() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = run_line(folder.path(), "pwd; echo \"$WHAT\"; (exit 3) || echo 'it; failed' >&2");
        let expected = format!("{}\na b\nit; failed\n", folder.path().display());
        assert_eq!(said, Ok(expected));
    }

    #[test]
    fn errors_name_the_command_its_status_and_its_last_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = run_line(folder.path(), "seq 1 9; exit 3").expect_err("it fails");
        let log = folder.path().join("before.log");
        let expected = format!(
            "host.before: `seq 1 9; exit 3` failed (exit status: 3); its last lines ({}):\n    5\n    6\n    \
             7\n    8\n    9",
            log.display()
        );
        assert_eq!(error, expected);
        let error = run_line(folder.path(), "kill -9 $$").expect_err("it is killed");
        assert!(error.contains("failed (signal: 9 (SIGKILL)); it printed nothing"), "{error}");
        let error = run_line(folder.path(), "/no/such/program").expect_err("not found");
        assert!(
            error.contains("exit status: 127") && error.contains("/no/such/program: not found"),
            "{error}"
        );
        let error = run_line(&folder.path().join("none"), "true").expect_err("no folder");
        assert!(error.starts_with("host.before: `true` cannot be started: "), "{error}");
        assert!(error.ends_with("none is not a directory"), "{error}");
    }

    #[test]
    fn stops_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = run(&spec(folder.path(), "sleep 50"), &AtomicBool::new(true)).expect_err("stopped");
        assert_eq!(error.to_string(), "host.before: `sleep 50` was interrupted");
    }

    #[test]
    fn does_not_wait_for_background_processes() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = run_line(folder.path(), "sleep 50 & echo $!").expect("ends at once");
        let pid = said.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
    }

    #[test]
    fn removing_missing_group_succeeds() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(remove_group(&folder.path().join("none")).expect("nothing to do"), Vec::<i32>::new());
        // A run that was killed between creating the file and mounting leaves a file without a mount.
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        assert_eq!(remove_group(&file).expect("removed"), Vec::<i32>::new());
        assert!(!file.exists());
    }
}
