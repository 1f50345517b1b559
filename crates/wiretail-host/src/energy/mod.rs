//! Energy consumption of the host. [`Meter`] reads one of two sources:
//!
//! | source | reading | time of the readings |
//! |---|---|---|
//! | `rapl` | joules of each domain since the start of the meter | at the start and end of a state, and every 10 s |
//! | `command` | watts | whenever the command prints a line |
//!
//! This module collects readings but does not evaluate them. If a source fails, the measurement continues.
//! The time and cause of the failure are recorded, and the readings taken before the failure are kept.

mod command;
mod rapl;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use wiretail_schema::run::energy::{EnergySource, Reading, Readings};

use crate::trace::now_ns;
use command::Watched;
pub use rapl::Rapl;

/// Update interval of the processor's counters (Intel SDM, volume 3, "RAPL Interfaces").
const RAPL_UPDATE: Duration = Duration::from_millis(1);
/// Reading interval. It is short enough to detect every wraparound: at 1 kW, a counter with the shortest
/// known range (65 kJ) wraps after 65 s.
const RAPL_EVERY: Duration = Duration::from_secs(10);
/// Time limit for the next reading of a command, unless [`PATIENCE_INTERVALS`] intervals take longer: then
/// these intervals are the limit.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for the next reading, in intervals.
const PATIENCE_INTERVALS: u32 = 3;
/// Domain name of the readings of a command.
const METERED: &str = "metered";

/// Reason why there are no readings, or why they ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnergyError {
    /// The kernel provides no energy counters.
    #[error(
        "no powercap zones in {}: most virtual machines have none, and the kernel needs the module intel_rapl_msr; \
         measure on physical hardware, or use a power meter with energy.source = \"command\"",
        folder.display()
    )]
    NoZones {
        /// The folder that should contain the zones.
        folder: PathBuf,
    },
    /// A counter that cannot be read.
    #[error("{}: cannot be read: {source}; {}", path.display(), next(source))]
    Unread {
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A counter file that does not contain a number.
    #[error("{}: {:?} is not a number of microjoules; expected a powercap zone", path.display(), text.trim())]
    NoNumber {
        path: PathBuf,
        /// Content of the file.
        text: String,
    },
    /// A counter decreased, and a wraparound within its range does not explain this.
    #[error("{}: decreased from {from} to {to} µJ; max_energy_range_uj does not explain this", path.display())]
    Backwards {
        path: PathBuf,
        /// Previous reading, in µJ.
        from: u64,
        /// Current reading, in µJ.
        to: u64,
    },
    /// A command that cannot be started.
    #[error("energy.command cannot be started: {0}")]
    NotStarted(String),
    /// A command that failed.
    #[error("energy.command failed ({status}){words}; expected one number in watts per line")]
    Failed {
        /// Exit status.
        status: String,
        /// End of the command's standard error.
        words: String,
    },
    /// A command whose output is not a number.
    #[error("energy.command printed {line:?}; expected one number in watts per line")]
    NoWatts {
        /// The printed line.
        line: String,
    },
    /// A command that prints nothing.
    #[error("energy.command printed nothing for {} s{words}; expected one number in watts per line", waited.as_secs())]
    Silent {
        waited: Duration,
        /// End of the command's standard error.
        words: String,
    },
    /// A command that prints without pauses.
    #[error(
        "energy.command printed more than {0} lines per second; expected a pause between lines, such as `sleep 0.1`"
    )]
    TooMany(u32),
}

fn next(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "since Linux 5.10 only root can read it: run with sudo",
        _ => "check that the zone counts energy",
    }
}

/// An energy source that is read in a separate thread until this value is finished or dropped.
#[derive(Debug)]
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    source: EnergySource,
    domains: Vec<(String, bool)>,
    resolution: Duration,
    /// Dropping this wakes a thread that waits for the next line of a command.
    wake: Option<io::PipeWriter>,
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Log {
    rapl: Option<Rapl>,
    readings: Vec<Reading>,
    ended: Option<(u64, String)>,
    stop: bool,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at_ns: u64, values: Vec<f64>) {
        self.log().readings.push(Reading { at_ns, values });
        self.changed.notify_all();
    }

    fn give_up(&self, error: &EnergyError) {
        self.log().give_up(error);
        self.changed.notify_all();
    }
}

impl Log {
    fn give_up(&mut self, error: &EnergyError) {
        self.ended.get_or_insert_with(|| (now_ns(), error.to_string()));
    }

    fn read_counters(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let Some(rapl) = &mut self.rapl else { return };
        let before = now_ns();
        match rapl.read() {
            Ok(values) => {
                let at_ns = before + (now_ns() - before) / 2;
                self.readings.push(Reading { at_ns, values });
            }
            Err(error) => self.give_up(&error),
        }
    }
}

impl Meter {
    /// Reads the processor's counters below `root`. The meter's thread calls `place` first, which can pin it
    /// to a core.
    ///
    /// # Errors
    /// Returns an error if no counter exists or a counter cannot be read.
    pub fn rapl(root: &Path, place: impl FnOnce() + Send + 'static) -> Result<Self, EnergyError> {
        let rapl = Rapl::open(root)?;
        let domains = rapl.domains().to_vec();
        let shared = Arc::new(Shared::default());
        shared.log().rapl = Some(rapl);
        let own = Arc::clone(&shared);
        let thread = spawn(move || {
            place();
            let mut log = own.log();
            while !log.stop {
                log.read_counters();
                let waited = own.changed.wait_timeout(log, RAPL_EVERY);
                log = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        })?;
        let source = EnergySource::Rapl;
        Ok(Self { shared, thread: Some(thread), source, domains, resolution: RAPL_UPDATE, wake: None })
    }

    /// Runs a command line that prints one number in watts per line. A command that exits is started again
    /// every `interval`. `place` is called as in [`Meter::rapl`]; the command runs on the same core.
    ///
    /// # Errors
    /// Returns an error if no thread can be created. Failures of the command itself are reported by
    /// [`Meter::finish`] and end the wait of [`Meter::await_first`].
    pub fn command(
        line: &str,
        interval: Duration,
        place: impl FnOnce() + Send + 'static,
    ) -> Result<Self, EnergyError> {
        Self::patient_command(line, interval, PATIENCE.max(interval * PATIENCE_INTERVALS), place)
    }

    fn patient_command(
        line: &str,
        interval: Duration,
        patience: Duration,
        place: impl FnOnce() + Send + 'static,
    ) -> Result<Self, EnergyError> {
        let shared = Arc::new(Shared::default());
        let (asleep, wake) = io::pipe().map_err(|error| EnergyError::NotStarted(error.to_string()))?;
        let (own, line) = (Arc::clone(&shared), line.to_owned());
        let thread = spawn(move || {
            place();
            let watched = Watched { line, interval, patience, stop: asleep };
            if let Err(error) = watched.run(|at_ns, watts| own.add(at_ns, vec![watts])) {
                own.give_up(&error);
            }
        })?;
        let (source, domains) = (EnergySource::Command, vec![(METERED.to_owned(), true)]);
        Ok(Self { shared, thread: Some(thread), source, domains, resolution: interval, wake: Some(wake) })
    }

    /// Waits for the first reading. Returns early if the source fails or if `enough` returns true.
    pub fn await_first(&self, enough: impl Fn() -> bool) {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        let begun = Instant::now();
        let mut log = self.shared.log();
        while log.readings.is_empty()
            && log.ended.is_none()
            && !enough()
            && begun.elapsed() < PATIENCE.max(self.resolution * PATIENCE_INTERVALS)
        {
            let waited = self.shared.changed.wait_timeout(log, LOOK_EVERY);
            log = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads the counters at the start of a state. Has no effect on a command, which prints at times of its
    /// own choice. Returns the start time on the monotonic clock in ns, taken before the reading.
    pub fn begin(&self) -> u64 {
        let now = now_ns();
        self.shared.log().read_counters();
        now
    }

    /// Reads the counters at the end of a state. Returns the end time, taken after the reading.
    pub fn end(&self) -> u64 {
        self.shared.log().read_counters();
        now_ns()
    }

    /// Stops the meter and returns its readings.
    pub fn finish(mut self) -> Readings {
        self.stop();
        let mut log = self.shared.log();
        Readings {
            source: self.source,
            resolution_ns: self.resolution.as_nanos() as u64,
            domains: std::mem::take(&mut self.domains),
            readings: std::mem::take(&mut log.readings),
            ended: log.ended.take(),
        }
    }

    fn stop(&mut self) {
        self.shared.log().stop = true;
        self.shared.changed.notify_all();
        // Closing the pipe wakes a thread that waits for a command.
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, EnergyError> {
    let thread = Builder::new().name("wt-energy".to_owned()).spawn(run);
    thread.map_err(|error| EnergyError::NotStarted(error.to_string()))
}

#[cfg(test)]
mod tests;
