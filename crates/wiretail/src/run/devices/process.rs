//! Starts and stops a program, waits until it is ready, and sends requests to it.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use rustix::thread::sched_getaffinity;
use wiretail_dataplane::placement::Placement;
use wiretail_host::deploy::vm::Accel;
use wiretail_host::{Namespace, place_thread, run_in, threads_named};
use wiretail_schema::run::{GUEST_EMULATED, GUEST_ON_PROCESSOR};

use super::counts::Counts;
use super::deploy::{Deployed, IsolationBoundary};
use super::program::{Ask, Counting, Movers, Program};
use crate::setup::missing_program;

/// Maximum time for a program to end after it was asked to end.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum time for a program to report its counters.
const ANSWER: Duration = Duration::from_secs(5);
/// Number of lines of a program's output that an error shows.
const LAST_LINES: usize = 5;
/// Number of bytes at the end of a program's output that are searched for the lines of an error.
const LAST_BYTES: u64 = 1 << 16;
/// Interval between checks of a program.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Lines that enclose a guest's copy of /proc/interrupts.
const INTERRUPTS: &str = "wiretail-guest: interrupts";
const INTERRUPTS_END: &str = "wiretail-guest: end";

/// A program that runs in a node's namespace.
pub struct Process {
    program: Program,
    isolation_boundary: IsolationBoundary,
    namespace: Namespace,
    /// The started process: the program itself, or its container runtime or hypervisor.
    pid: i32,
    input: Mutex<Option<ChildStdin>>,
    ended: Receiver<std::io::Result<ExitStatus>>,
    /// How the process ended. It is kept because several errors report it.
    status: OnceCell<String>,
    log: PathBuf,
    patience: Duration,
    /// Where the packet threads run.
    place: Placement,
    /// The packet threads that were moved to this placement.
    placed: Vec<i32>,
    /// Note for the trial's record.
    note: Option<String>,
}

/// Writes the program's input files, if the program is installed.
///
/// # Errors
/// Returns an error if the program is not installed (the message names the command that installs it) or a
/// file cannot be written.
pub fn write_files(program: &Program, directory: &Path) -> Result<()> {
    if let Some(reason) = missing_program(&program.argv) {
        bail!("{reason}");
    }
    for (name, text) in &program.files {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

/// Starts a program. Its packet threads get this placement once the program is ready. Its log is written into
/// `directory`.
///
/// # Errors
/// Returns an error if the program cannot be started or the log cannot be written.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    deployed: Deployed,
    place: Placement,
    directory: &Path,
    patience: Duration,
) -> Result<Process> {
    let Deployed { program, command, isolation_boundary, namespace } = deployed;
    let log = program.log(directory);
    let command = with_streams(command, &program, &log)?;
    let begin = if program.movers == Movers::Everything { place } else { Placement::default() };
    let (tell, ended) = channel();
    let (tell_started, started) = channel();
    let inside = namespace.clone();
    // The kernel kills the program when the thread that started it ends, so this thread waits for the
    // program.
    scope.spawn(move || {
        let child = begin.apply().map_err(anyhow::Error::from);
        let child = child.and_then(|_| Ok(run_in(Some(&inside), command)?));
        match child {
            Ok(mut child) => {
                let _ = tell_started.send(Ok((child.id() as i32, child.stdin.take())));
                let _ = tell.send(child.wait());
            }
            Err(error) => drop(tell_started.send(Err(error))),
        }
    });
    let (pid, input) = started.recv().context("the program's thread ended")??;
    Ok(Process {
        program,
        isolation_boundary,
        namespace,
        pid,
        input: Mutex::new(input),
        ended,
        status: OnceCell::new(),
        log,
        patience,
        place,
        placed: Vec::new(),
        note: None,
    })
}

/// Connects a command to its log, and to standard input if requests are sent as lines.
fn with_streams(mut command: Command, program: &Program, log: &Path) -> Result<Command> {
    let output = File::create(log).with_context(|| format!("{}: cannot be written", log.display()))?;
    let is_line = |ask: &Ask| matches!(ask, Ask::Line(_));
    let reads =
        is_line(&program.stop) || program.counting.as_ref().is_some_and(|counting| is_line(&counting.ask));
    command.stdin(if reads { Stdio::piped() } else { Stdio::null() });
    command.stdout(output.try_clone()?).stderr(output);
    Ok(command)
}

impl Process {
    /// Returns whether the program has printed that it is ready. `begun` is when the wait started.
    ///
    /// # Errors
    /// Returns an error if the program ended or was not ready in time; the message includes the last lines of
    /// its output.
    pub fn is_ready(&self, begun: Instant) -> Result<bool> {
        self.check()?;
        let ready = &self.program.ready;
        if ready.is_empty() || std::fs::read(&self.log).is_ok_and(|log| contains(&log, ready.as_bytes())) {
            return Ok(true);
        }
        if begun.elapsed() > self.patience {
            bail!("the program did not print {ready:?} within {:?}{}", self.patience, last_words(&self.log));
        }
        Ok(false)
    }

    /// Runs the remaining setup commands of a program that is ready, and places its packet threads.
    ///
    /// # Errors
    /// Returns an error if the program ended or a command failed.
    pub fn begin(&mut self) -> Result<()> {
        if let Some(remark) = &self.program.remark {
            let log = std::fs::read(&self.log).unwrap_or_default();
            self.note = Some(remark(&String::from_utf8_lossy(&log))?).filter(|note| !note.is_empty());
        }
        for command in &self.program.then {
            self.run(command)?;
        }
        std::thread::sleep(self.program.settle);
        self.check()?;
        if let Movers::Threads(names) = &self.program.movers {
            let threads = self.await_threads(names)?;
            if let IsolationBoundary::Container(container) = &self.isolation_boundary {
                container.allow_realtime()?;
            }
            for thread in &threads {
                place_thread(*thread, self.place.cpu.map(|core| core as u32), self.place.fifo)?;
            }
            self.placed = threads;
        }
        Ok(())
    }

    /// Returns the process of the program itself. If the program runs in a container, this waits until the
    /// runtime has started the program.
    fn inner_pid(&self) -> Result<i32> {
        let IsolationBoundary::Container(container) = &self.isolation_boundary else { return Ok(self.pid) };
        let begun = Instant::now();
        loop {
            if let Some(pid) = container.program_pid() {
                return Ok(pid);
            }
            self.check()?;
            if begun.elapsed() > self.patience {
                bail!("the program did not start in its container{}", last_words(&self.log));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for threads with these names, because some programs report that they are ready before their
    /// threads have names.
    fn await_threads(&self, names: &[String]) -> Result<Vec<i32>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let begun = Instant::now();
        loop {
            let threads = threads_named(Path::new("/"), self.inner_pid()?, &names);
            if !threads.is_empty() {
                return Ok(threads);
            }
            self.check()?;
            if begun.elapsed() > ANSWER {
                bail!(
                    "{}: expected a thread with a name that starts with {}…",
                    self.program.argv[0],
                    names.join("…, ")
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns the threads that forward packets. For a program that places its threads itself, these are the
    /// threads bound to the device's core, or all threads if no thread is bound to it.
    pub fn packet_threads(&self) -> Vec<i32> {
        if let Movers::Threads(_) = &self.program.movers {
            return self.placed.clone();
        }
        let Ok(pid) = self.inner_pid() else { return Vec::new() };
        let all = threads_named(Path::new("/"), pid, &[""]);
        let is_bound = |thread: &i32| {
            let cores = sched_getaffinity(Pid::from_raw(*thread));
            cores.is_ok_and(|cores| {
                cores.count() == 1 && self.place.cpu.is_some_and(|core| cores.is_set(core))
            })
        };
        let bound: Vec<i32> = all.iter().copied().filter(is_bound).collect();
        if bound.is_empty() { all } else { bound }
    }

    /// Checks that the program is still running.
    ///
    /// # Errors
    /// Returns an error if the program has ended; the message includes the last lines of its output.
    pub fn check(&self) -> Result<()> {
        if self.status.get().is_none() {
            let status = match self.ended.try_recv() {
                Err(TryRecvError::Empty) => return Ok(()),
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(TryRecvError::Disconnected) => "its exit status is unknown".to_owned(),
            };
            let _ = self.status.set(status);
        }
        let status = self.status.get().map_or("", String::as_str);
        bail!("the program ended unexpectedly ({status}){}", last_words(&self.log))
    }

    /// Reads the current counters; `None` if the program has none.
    ///
    /// # Errors
    /// Returns an error if the program does not report its counters in time.
    pub fn counts(&self) -> Result<Option<Counts>> {
        let Some(Counting { ask, parse, age }) = &self.program.counting else { return Ok(None) };
        if matches!(ask, Ask::End(_)) {
            return Ok(None);
        }
        std::thread::sleep(*age);
        let told = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        let begun = Instant::now();
        let mut answer = self.ask(ask)?;
        loop {
            let text = match &answer {
                Some(answer) => answer.clone(),
                None => read_from(&self.log, told).unwrap_or_default(),
            };
            if let Some(counts) = parse(&text) {
                return Ok(Some(counts));
            }
            self.check()?;
            if begun.elapsed() > ANSWER {
                bail!("the program did not report its counters{}", last_words(&self.log));
            }
            std::thread::sleep(LOOK_EVERY);
            if answer.is_some() {
                answer = self.ask(ask)?;
            }
        }
    }

    /// Returns how often the timer has interrupted the program's core in a virtual machine; `None` if the
    /// program does not run in a virtual machine.
    ///
    /// # Errors
    /// Returns an error if the guest does not report its interrupts.
    pub fn guest_timer(&self) -> Result<Option<u64>> {
        if !matches!(self.isolation_boundary, IsolationBoundary::Guest(_)) {
            return Ok(None);
        }
        let told = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        self.ask(&Ask::Line("interrupts".to_owned()))?;
        let begun = Instant::now();
        while begun.elapsed() < ANSWER {
            let text = read_from(&self.log, told).unwrap_or_default();
            if text.contains(INTERRUPTS_END) {
                return Ok(timer_interrupts(&text));
            }
            self.check()?;
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the virtual machine did not report its interrupts{}", last_words(&self.log));
    }

    /// Describes what executes the virtual machine's instructions; `None` if the program does not run in a
    /// virtual machine.
    pub fn guest_note(&self) -> Option<&'static str> {
        match self.isolation_boundary {
            IsolationBoundary::Guest(Accel::Kvm) => Some(GUEST_ON_PROCESSOR),
            IsolationBoundary::Guest(Accel::Tcg) => Some(GUEST_EMULATED),
            IsolationBoundary::Bare | IsolationBoundary::Container(_) => None,
        }
    }

    /// Returns the note for the trial's record, if any.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Stops the program. Returns the counters that it reports when it ends.
    ///
    /// # Errors
    /// Returns an error if the program ended earlier (the message includes the last lines of its output) or
    /// does not end.
    pub fn stop(self) -> Result<Option<Counts>> {
        self.check()?;
        for thread in &self.placed {
            // A real-time thread that never sleeps would keep other threads from ending the program.
            let _ = place_thread(*thread, None, None);
        }
        let pid = Pid::from_raw(self.pid).context("no process number")?;
        // The kernel cannot reuse the process number yet, because only the thread that reports the end waits
        // for the process.
        let _ = self.ask(&self.program.stop);
        for last in [false, true] {
            if let Ok(status) = self.ended.recv_timeout(GRACE) {
                let _ = self
                    .status
                    .set(status.map_or_else(|error| error.to_string(), |status| status.to_string()));
                self.await_children(pid);
                return self.last_counts();
            }
            if !last {
                let _ = self.signal(pid, Signal::KILL);
            }
        }
        bail!("the program (process {}) did not end", self.pid)
    }

    /// Reads the counters that the program wrote when it ended; `None` if the program reports its counters
    /// earlier or has no counters.
    fn last_counts(&self) -> Result<Option<Counts>> {
        let Some(Counting { ask: Ask::End(file), parse, .. }) = &self.program.counting else {
            return Ok(None);
        };
        let text = std::fs::read(file).unwrap_or_default();
        let counts = parse(&String::from_utf8_lossy(&text));
        let expected = || {
            format!("{}: the program wrote no counters to this file{}", file.display(), last_words(&self.log))
        };
        counts.with_context(expected).map(Some)
    }

    /// Sends a request to the program. Returns the output of the helper program, if the request runs one.
    fn ask(&self, ask: &Ask) -> Result<Option<String>> {
        match ask {
            Ask::Signal(signal) | Ask::SignalAll(signal) => {
                let pid = Pid::from_raw(self.inner_pid()?).context("no process number")?;
                self.signal(pid, *signal).context("cannot send a signal to the program")?;
                Ok(None)
            }
            Ask::Line(line) => {
                let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
                let input = input.as_mut().context("the program has no standard input")?;
                writeln!(input, "{line}")
                    .and_then(|()| input.flush())
                    .context("cannot write to the program's standard input")?;
                Ok(None)
            }
            Ask::Run(command) => self.run(command).map(Some),
            Ask::End(_) => Ok(None),
        }
    }

    /// Waits until the children of a shell that has ended have ended as well. Those that do not are killed with
    /// their namespace.
    fn await_children(&self, group: Pid) {
        let begun = Instant::now();
        let is_group = matches!(self.program.stop, Ask::SignalAll(_));
        // Signal 0 only asks whether the group has processes. While it has, its number is not reused.
        while is_group && test_kill_process_group(group).is_ok() && begun.elapsed() < GRACE {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sends a signal to a process of the program, or to its process group.
    fn signal(&self, pid: Pid, signal: Signal) -> rustix::io::Result<()> {
        let is_leader = self.isolation_boundary == IsolationBoundary::Bare;
        match self.program.stop {
            Ask::SignalAll(_) if is_leader => kill_process_group(pid, signal),
            _ => kill_process(pid, signal),
        }
    }

    /// Runs another program in the same namespace, and returns its output.
    fn run(&self, command: &[String]) -> Result<String> {
        let [program, arguments @ ..] = command else { bail!("no command was given") };
        let mut run = Command::new(program);
        run.args(arguments).envs(self.program.env.iter().map(|(name, value)| (name, value)));
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = run_in(Some(&self.namespace), run)?.wait_with_output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` failed ({}): {}", command.join(" "), output.status, error.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Process {
    /// Kills a program that was not stopped, so that it does not outlive its trial.
    fn drop(&mut self) {
        if self.status.get().is_none() && matches!(self.ended.try_recv(), Err(TryRecvError::Empty)) {
            let _ = Pid::from_raw(self.pid).map(|pid| self.signal(pid, Signal::KILL));
        }
    }
}

/// Returns the local timer interrupts of the last core (line LOC) from a copy of /proc/interrupts.
fn timer_interrupts(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("LOC:"))?;
    line.split_whitespace().map_while(|word| word.parse().ok()).last()
}

/// Reads a log, starting at an offset.
fn read_from(log: &Path, offset: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Formats the last lines of a log for an error.
pub fn last_words(log: &Path) -> String {
    let len = std::fs::metadata(log).map_or(0, |log| log.len());
    let text = read_from(log, len.saturating_sub(LAST_BYTES)).unwrap_or_default();
    // A program that rejects its arguments prints the reason first and its usage afterwards.
    let lines = text.lines().take_while(|line| !line.trim_start().to_ascii_lowercase().starts_with("usage:"));
    // A guest's answers to requests are not output of the program.
    let mut asked = false;
    let said = lines.filter(|line| {
        asked |= line.contains(INTERRUPTS);
        let said = !asked && !line.trim().is_empty();
        asked &= !line.contains(INTERRUPTS_END);
        said
    });
    let lines: Vec<&str> = said.collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() {
        return format!("; it printed nothing ({})", log.display());
    }
    format!("; its last lines ({}):\n    {}", log.display(), last.join("\n    "))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_last_lines_of_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("dut.log");
        assert!(last_words(&log).contains("printed nothing"));
        std::fs::write(&log, "1\n2\n3\n\n4\n5\n6\n").unwrap();
        let words = last_words(&log);
        assert!(words.ends_with("2\n    3\n    4\n    5\n    6") && !words.contains("\n    1"), "{words}");
        std::fs::write(&log, format!("said\n{INTERRUPTS}\r\nLOC: 1\n{INTERRUPTS_END}\nlast\n")).unwrap();
        assert!(last_words(&log).ends_with("said\n    last"), "{}", last_words(&log));
        assert_eq!(timer_interrupts("x\n LOC:  71  9   Local timer interrupts\r\n"), Some(9));
        assert!(contains(b"engine started", b"started") && !contains(b"eng", b"engine"));
    }
}
