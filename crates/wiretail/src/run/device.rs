//! The device under test of a trial: started, awaited, stopped, and asked what it did.
//!
//! A wire and a bridge are parts of the testbed. A skeleton is a thread of this process. A command is a
//! program in the device's namespace; it is told by its environment what to forward between.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::faults::{FaultPlan, FaultSchedule};
use wiretail_dataplane::port::PortKind;
use wiretail_dataplane::skeleton::{Delay, Release, Skeleton, SkeletonPlan, SkeletonReport};
use wiretail_dataplane::stalls::StallLog;
use wiretail_host::run_in;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::DutRecord;

use super::places::Places;
use super::testbed::Testbed;
use super::topology::Middle;
use super::traffic;

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// Lines of a program's output that an error shows.
const LAST_LINES: usize = 5;
/// How much of the end of its output is looked through for them, in bytes.
const LAST_BYTES: u64 = 4096;

/// A device that runs.
pub enum Device<'scope> {
    /// Part of the testbed.
    InKernel,
    /// A thread that forwards until it is told to stop.
    Skeleton {
        /// Ends with what it did.
        thread: ScopedJoinHandle<'scope, Result<SkeletonReport>>,
        /// Tells it to stop.
        stop: &'scope AtomicBool,
    },
    /// A program.
    Program(Program),
}

/// A program that runs in the device's namespace.
pub struct Program {
    pid: i32,
    ended: Receiver<std::io::Result<ExitStatus>>,
    /// How it ended, once that was seen: it is told more than once.
    status: OnceCell<String>,
    log: PathBuf,
    ready: String,
    patience: Duration,
}

/// What a device says of itself.
#[derive(Default)]
pub struct DeviceReport {
    /// Its counters; None where it has none.
    pub record: Option<DutRecord>,
    /// When its core was taken from it; None where it does not poll.
    pub stalls: Option<StallLog>,
}

/// What a device needs while it runs; outlives its thread.
#[derive(Default)]
pub struct Shared {
    /// Its live counters.
    pub counters: SharedCounters,
    stop: AtomicBool,
}

/// Starts the device of a trial; a program's output goes into `directory`.
///
/// # Errors
/// Ports that can't be opened, a program that can't be started.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    trial: &Trial,
    seed: u64,
    testbed: &Testbed,
    places: Option<&Places>,
    directory: &Path,
    shared: &'env Shared,
) -> Result<Device<'scope>> {
    if testbed.topology().middle != Middle::Ports {
        return Ok(Device::InKernel);
    }
    let place = places.map(Places::for_device).unwrap_or_default();
    if trial.get("dut", "kind").text == "command" {
        let namespace = testbed.device()?;
        let log = directory.join("dut.log");
        let command = command(trial, places, &log)?;
        let (tell, ended) = channel();
        let (tell_pid, pid) = channel();
        // The kernel kills the program when the thread that started it ends: this one waits for it.
        scope.spawn(move || {
            let started = place.apply().map_err(anyhow::Error::from);
            let started = started.and_then(|_| Ok(run_in(Some(&namespace), command)?));
            match started {
                Ok(mut child) => {
                    let _ = tell_pid.send(Ok(child.id() as i32));
                    let _ = tell.send(child.wait());
                }
                Err(error) => drop(tell_pid.send(Err(error))),
            }
        });
        let pid = pid.recv().context("the program's thread ended")??;
        let patience = Duration::from_nanos(trial.get("dut", "ready-timeout").number);
        let ready = trial.get("dut", "ready").text.clone();
        return Ok(Device::Program(Program { pid, ended, status: OnceCell::new(), log, ready, patience }));
    }
    let skeleton = Skeleton::open(&testbed.ways(), skeleton_plan(trial, seed))?;
    let thread = scope.spawn(move || {
        place.apply()?;
        Ok(skeleton.run(&shared.stop, &shared.counters))
    });
    Ok(Device::Skeleton { thread, stop: &shared.stop })
}

impl Device<'_> {
    /// Waits until a program says that it is ready.
    ///
    /// # Errors
    /// It ended, or did not say so in time; with its last words.
    pub fn await_ready(&self, stop: &AtomicBool) -> Result<()> {
        let Self::Program(program) = self else { return Ok(()) };
        let begun = Instant::now();
        while !program.ready.is_empty() {
            program.check()?;
            if std::fs::read(&program.log).is_ok_and(|log| contains(&log, program.ready.as_bytes())) {
                break;
            }
            if begun.elapsed() > program.patience {
                bail!(
                    "the program did not print {:?} within {:?}{}",
                    program.ready,
                    program.patience,
                    last_words(&program.log)
                );
            }
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted while the program started");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// A program that has ended; with its last words.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Program(program) => program.check(),
            Self::Skeleton { thread, .. } if thread.is_finished() => bail!("the skeleton has ended"),
            _ => Ok(()),
        }
    }

    /// Stops it, and returns what it did.
    ///
    /// # Errors
    /// It could not run, or ended before.
    pub fn stop(self) -> Result<DeviceReport> {
        match self {
            Self::InKernel => Ok(DeviceReport::default()),
            Self::Skeleton { thread, stop } => {
                stop.store(true, Ordering::Relaxed);
                let report = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                let record = Some(record(&report));
                Ok(DeviceReport { record, stalls: Some(report.stalls) })
            }
            Self::Program(program) => program.stop().map(|()| DeviceReport::default()),
        }
    }
}

impl Program {
    fn check(&self) -> Result<()> {
        if self.status.get().is_none() {
            let status = match self.ended.try_recv() {
                Err(TryRecvError::Empty) => return Ok(()),
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(TryRecvError::Disconnected) => "its status is not known".to_owned(),
            };
            let _ = self.status.set(status);
        }
        let status = self.status.get().map_or("", String::as_str);
        bail!("the program ended by itself ({status}){}", last_words(&self.log))
    }

    fn stop(self) -> Result<()> {
        self.check()?;
        let pid = Pid::from_raw(self.pid).context("no process number")?;
        // Nobody waits for it but the thread that tells when it has: until then the number is its own.
        for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GRACE)] {
            let _ = kill_process(pid, signal);
            if self.ended.recv_timeout(patience).is_ok() {
                return Ok(());
            }
        }
        bail!("the program (process {}) did not end", self.pid)
    }
}

/// The program of a trial, by the shell, so that arguments can be written as usual.
fn command(trial: &Trial, places: Option<&Places>, log: &Path) -> Result<Command> {
    let output = File::create(log).with_context(|| format!("{}: cannot be written", log.display()))?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {}", trial.get("dut", "command").text));
    command.env("WIRETAIL_IN", "in").env("WIRETAIL_OUT", "out");
    if let Some(places) = places {
        command.env("WIRETAIL_CORE", places.device.to_string());
    }
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Ok(command)
}

/// The last lines of a log, for an error.
fn last_words(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LAST_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() {
        return format!("; it printed nothing ({})", log.display());
    }
    format!("; its last lines ({}):\n    {}", log.display(), last.join("\n    "))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

fn record(report: &SkeletonReport) -> DutRecord {
    DutRecord {
        received: report.received,
        sent: report.sent,
        dropped: report.dropped,
        failed: report.failed + report.oversize,
        faults_dropped: report.faults_dropped,
        faults_duplicated: report.faults_duplicated,
        faults_swapped: report.faults_swapped,
    }
}

fn skeleton_plan(trial: &Trial, seed: u64) -> SkeletonPlan {
    let get = |name| trial.get("dut", name);
    let (ns, every) = (get("delay").number, get("delay-every").number);
    let faults = FaultPlan {
        packets: traffic::packets(trial),
        drop_every: get("drop-every").number,
        duplicate_every: get("duplicate-every").number,
        swap_every: get("swap-every").number,
        seed,
    };
    SkeletonPlan {
        batch: get("batch").number as usize,
        release: if get("release").text == "batch" { Release::Batch } else { Release::Immediate },
        delay: (ns > 0 && every > 0).then_some(Delay { ns, every }),
        faults: FaultSchedule::seeded(&faults),
        port: if get("socket").text == "xdp" { PortKind::Xdp } else { PortKind::default() },
        ..SkeletonPlan::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("dut.log");
        assert!(last_words(&log).contains("printed nothing"));
        std::fs::write(&log, "1\n2\n3\n\n4\n5\n6\n").unwrap();
        let words = last_words(&log);
        assert!(words.ends_with("2\n    3\n    4\n    5\n    6") && !words.contains("\n    1"), "{words}");
        assert!(contains(b"engine started", b"started") && !contains(b"eng", b"engine"));
    }
}
