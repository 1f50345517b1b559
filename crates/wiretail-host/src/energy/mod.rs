//! What the host takes of energy, by one of two sources behind one seam, [`Meter`]:
//!
//! | source | reading | when |
//! |---|---|---|
//! | `rapl` | joules since the meter began, of each domain | at a state's begin and end, and every ten seconds, so that no counter begins anew twice unseen |
//! | `command` | watts | whenever the command prints a line |
//!
//! Readings are taken and kept, nothing is computed of them here. A source that fails is not the end of a measurement: it
//! says why and when, and what it had said stands.

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

/// The processor writes its counters anew about once a millisecond (Intel SDM, volume 3, "RAPL Interfaces").
const RAPL_UPDATE: Duration = Duration::from_millis(1);
/// Of a socket that takes 1 kW, a counter with the shortest known range (65 kJ) begins anew after 65 s.
const RAPL_EVERY: Duration = Duration::from_secs(10);
/// Within this time a command prints its next reading, or some intervals long if those are longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same in intervals.
const PATIENCE_INTERVALS: u32 = 3;
/// What a command's readings are called.
const METERED: &str = "metered";

/// Why there are no readings, or no further ones.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnergyError {
    /// The kernel tells of no counters.
    #[error(
        "no powercap zones in {}: most virtual machines have none, and a kernel needs the module intel_rapl_msr; \
         measure on the hardware itself, or by a meter with energy.source = \"command\"",
        folder.display()
    )]
    NoZones {
        /// Where they would be.
        folder: PathBuf,
    },
    /// A counter that may not be read.
    #[error("{}: cannot be read: {source}; {}", path.display(), next(source))]
    Unread {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A counter that holds something else.
    #[error("{}: {:?} is no number of microjoules; expected a powercap zone", path.display(), text.trim())]
    NoNumber {
        /// Its file.
        path: PathBuf,
        /// What it holds.
        text: String,
    },
    /// A counter that fell, and tells no range at whose end it would begin anew.
    #[error("{}: went from {from} back to {to} µJ, and max_energy_range_uj does not explain it", path.display())]
    Backwards {
        /// Its file.
        path: PathBuf,
        /// The reading before, in µJ.
        from: u64,
        /// The reading, in µJ.
        to: u64,
    },
    /// A command that can't be started.
    #[error("energy.command can't be started: {0}")]
    NotStarted(String),
    /// A command that failed.
    #[error("energy.command failed ({status}){words}; expected a number, the watts, on each line")]
    Failed {
        /// How it ended.
        status: String,
        /// What it said.
        words: String,
    },
    /// A command that prints something else.
    #[error("energy.command printed {line:?}; expected a number, the watts, on each line")]
    NoWatts {
        /// What it printed.
        line: String,
    },
    /// A command that prints nothing.
    #[error("energy.command printed nothing for {} s{words}; expected a number, the watts, on each line", waited.as_secs())]
    Silent {
        /// For how long.
        waited: Duration,
        /// What it said on standard error.
        words: String,
    },
    /// A command that does not pause.
    #[error(
        "energy.command printed more than {0} lines in a second; expected a pause between them, such as `sleep 0.1`"
    )]
    TooMany(u32),
}

fn next(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "since Linux 5.10 only root may: run with sudo",
        _ => "check that the zone counts energy",
    }
}

/// A source that is read on a thread of its own until this is dropped or finished.
#[derive(Debug)]
pub struct Meter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    source: EnergySource,
    domains: Vec<(String, bool)>,
    resolution: Duration,
    /// A command that waits for its next line is woken by this.
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
    /// The processor's counters below `root`. `place` is called on the meter's thread before anything else, to put it on
    /// its core.
    ///
    /// # Errors
    /// There are none, or they may not be read.
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

    /// A command line that prints watts, a number a line; one that ends is started again every `interval`. `place` as
    /// above: the command runs there, too.
    ///
    /// # Errors
    /// No thread can be had. What the command itself does is told by [`Meter::await_first`] and [`Meter::finish`].
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

    /// Waits until there is a reading, or none will come, or `enough` says so.
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

    /// Reads counters now, for the border of a state; a command tells when it does. The time is that of the border, in ns of
    /// the monotonic clock: before the reading where a state begins.
    pub fn begin(&self) -> u64 {
        let now = now_ns();
        self.shared.log().read_counters();
        now
    }

    /// The same where a state ends: behind the reading.
    pub fn end(&self) -> u64 {
        self.shared.log().read_counters();
        now_ns()
    }

    /// Ends it; what it said.
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
        // The end of its pipe is what wakes who waits for a command.
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
