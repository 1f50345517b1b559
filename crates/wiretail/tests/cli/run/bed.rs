//! Starts `wiretail run` on an experiment and reads its results.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use wiretail_host::CoreClaim;

use super::host;
use crate::support::{WIRETAIL, folder, wiretail};

/// Time limit of a run, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Whether namespaces can be created here; prints a message if not.
pub fn can_run() -> bool {
    let probe = "ip netns add wt-probe-$$ && ip netns del wt-probe-$$";
    let works = Command::new("bash").args(["-c", probe]).stderr(Stdio::null()).status();
    if works.is_ok_and(|status| status.success()) {
        return true;
    }
    println!("SKIPPED: no root, or no network namespaces here");
    false
}

/// Permission to run. It holds a lock among the threads of this program, and a lock among test programs.
pub type Turn = (MutexGuard<'static, ()>, File);

/// Allows one live run at a time if this machine supports live runs. Waits while a test of another program
/// moves all tasks off a core.
pub fn live() -> Option<Turn> {
    turn(File::lock_shared)
}

fn turn(lock: fn(&File) -> std::io::Result<()>) -> Option<Turn> {
    static ALONE: Mutex<()> = Mutex::new(());
    if !can_run() {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = File::open(std::env::temp_dir()).expect("a folder");
    lock(&folder).expect("locked");
    Some((alone, folder))
}

/// Like [`live`], for runs that isolate cores: waits until no other test has a live run, and requires that no
/// other program has claimed the cores.
pub fn live_on_own_cores() -> Option<Turn> {
    let turn = turn(File::lock)?;
    if !Path::new("/sys/devices/system/cpu/cpu1").exists() {
        println!("SKIPPED: only one core: none can be isolated");
        return None;
    }
    // All cores that a run may reserve. A run never reserves the first core.
    let claims: Result<Vec<_>, _> = (1..64).map(CoreClaim::take).collect();
    match claims {
        Ok(_) => Some(turn),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

/// An experiment with these lines in its tables. It isolates no cores, and interference from other programs
/// does not make a trial invalid.
pub fn experiment(dut: &str, traffic: &str, trial: &str) -> String {
    format!(
        "title = \"A test\"\nseed = 7\n[dut]\n{dut}\n[traffic]\n{traffic}\n\
         [trial]\nlate-share = \"100 %\"\nstall-share = \"100 %\"\nretries = 0\nwarm-up = \"0 s\"\n{trial}\n\
         [host]\nisolate = false\nfifo = false\n"
    )
}

/// The same experiment with isolated cores and real-time priority.
pub fn on_own_cores(experiment: &str) -> String {
    experiment.replace("isolate = false", "isolate = true").replace("fifo = false", "fifo = true")
}

/// `wiretail forward` as a device under test that is an ordinary program.
pub fn forwarder(more: &str) -> String {
    format!("{WIRETAIL} forward in out {more}")
}

/// A directory with an experiment file and a run directory.
pub struct Bed {
    folder: TempDir,
}

impl Bed {
    pub fn new(experiment: &str) -> Self {
        let folder = folder();
        fs::write(folder.path().join("test.toml"), experiment).expect("the experiment");
        Self { folder }
    }

    /// Path of a file next to the experiment.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Path of the run directory.
    pub fn out(&self) -> PathBuf {
        self.path("run")
    }

    /// Creates the command `wiretail run` with its arguments, but does not start it. The output is redirected
    /// to files.
    pub fn command(&self) -> Command {
        self.command_of("run")
    }

    /// Like [`Bed::command`], for another command that takes an experiment.
    pub fn command_of(&self, verb: &str) -> Command {
        self.command_of_words(&[verb])
    }

    /// Like [`Bed::command`], for a command of several words.
    pub fn command_of_words(&self, verb: &[&str]) -> Command {
        let (file, out) = (self.path("test.toml"), self.out());
        self.prepare(&[verb, &[file.to_str().unwrap(), "--out", out.to_str().unwrap()]].concat())
    }

    fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(WIRETAIL);
        command.args(arguments).arg("--allow-system-changes").current_dir("/");
        self.redirect(&mut command);
        command
    }

    /// Redirects a command's output to files that [`Running::end`] reads.
    pub fn redirect(&self, command: &mut Command) {
        let file = |name| File::create(self.path(name)).expect("a file");
        command.stdin(Stdio::null()).stdout(file("stdout.txt")).stderr(file("stderr.txt"));
    }

    pub fn start(&self) -> Running<'_> {
        Running::start(self, self.command())
    }

    /// Runs the experiment to its end, and checks that nothing is left on the machine.
    pub fn run(&self) -> Finished {
        self.start().end()
    }

    /// Resumes an interrupted run, and waits for its end.
    pub fn resume(&self) -> Finished {
        self.resume_of("run")
    }

    /// Like [`Bed::resume`], for another command.
    pub fn resume_of(&self, verb: &str) -> Finished {
        self.resume_of_words(&[verb])
    }

    /// Like [`Bed::resume`], for a command of several words.
    pub fn resume_of_words(&self, verb: &[&str]) -> Finished {
        let out = self.out();
        let arguments = [verb, &["--resume", out.to_str().unwrap()]].concat();
        Running::start(self, self.prepare(&arguments)).end()
    }

    pub fn manifest(&self) -> Value {
        json(&self.out().join("manifest.json"))
    }

    /// Returns the completed trials.
    pub fn trials(&self) -> Vec<Value> {
        self.manifest()["trials"].as_array().expect("trials").clone()
    }

    /// Returns the summary of a trial's segment.
    pub fn summary(&self, trial: &Value, segment: usize) -> Value {
        let directory = trial["segments"][segment]["directory"].as_str().expect("a segment");
        json(&self.out().join(directory).join("summary.json"))
    }
}

pub fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// A started run. Killed and cleaned up if the test fails before its end.
pub struct Running<'bed> {
    bed: &'bed Bed,
    child: Option<Child>,
    pub pid: u32,
}

/// A run that has ended.
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl<'bed> Running<'bed> {
    pub fn start(bed: &'bed Bed, mut command: Command) -> Self {
        let child = command.spawn().expect("wiretail starts");
        Self { bed, pid: child.id(), child: Some(child) }
    }

    /// Waits until a condition holds.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Bed) -> bool) {
        let begun = Instant::now();
        while !is_so(self.bed) {
            let ended = self.child.as_mut().expect("running").try_wait().expect("a look");
            assert!(ended.is_none(), "the run ended before {what}: {}", self.read("stderr.txt"));
            assert!(begun.elapsed() < PATIENCE, "never {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until `count` trials are completed.
    pub fn until_trials(&mut self, count: usize) {
        let done = |bed: &Bed| {
            let manifest = fs::read(bed.out().join("manifest.json")).unwrap_or_default();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
            manifest["trials"].as_array().is_some_and(|trials| trials.len() >= count)
        };
        self.until("its trials were done", done);
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.pid.to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Kills the run, waits for its end, and cleans up. Checks that the run leaves nothing behind.
    pub fn kill(mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let output = wiretail(["clean"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        host::assert_nothing_of(self.pid);
    }

    /// Waits for the end of the run. Checks that the run leaves nothing behind.
    pub fn end(mut self) -> Finished {
        let status = self.wait();
        host::assert_nothing_of(self.pid);
        let (stdout, stderr) = (self.read("stdout.txt"), self.read("stderr.txt"));
        Finished { code: status.code(), stdout, stderr }
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            let child = self.child.as_mut().expect("running");
            if let Some(status) = child.try_wait().expect("a look") {
                self.child = None;
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.read("stderr.txt"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.bed.path(name)).unwrap_or_default()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
            wiretail(["clean"]);
        }
    }
}

impl Finished {
    /// Checks the exit code.
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stderr, self.stdout);
        self
    }
}
