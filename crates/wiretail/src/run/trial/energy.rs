//! Energy consumption of a trial (`[energy]`). A meter runs during the trial, and marks record when each
//! state begins and ends.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wiretail_analysis::metrics::energy::energy;
use wiretail_dataplane::clock::clock_offset;
use wiretail_host::energy::{EnergyError, Meter};
use wiretail_schema::experiment::{EnergyChoice, Trial};
use wiretail_schema::run::TrialRecord;
use wiretail_schema::run::energy::{ENERGY_FILE, Energy, EnergySource, EnergyState, Readings, StateSpan};

use crate::analyze::outputs;
use crate::run::testbed::cpus::CpuAssignment;

/// Shortest interval between two readings of a command, in ns.
const INTERVAL_NS_MIN: u64 = 10_000_000;
/// Interval between checks for the end of the run during a wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Refuses a trial whose energy cannot be measured as requested.
///
/// # Errors
/// Returns an error if the trial is refused; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    let interval = trial.energy.interval;
    if trial.energy.source == EnergyChoice::Command && interval.ns_unsigned() < INTERVAL_NS_MIN {
        bail!("energy.interval = \"{interval}\" is too short for a command; expected \"10 ms\" or more");
    }
    Ok(())
}

/// Returns whether a trial requests a specific source, rather than any available one.
pub fn is_asked(trial: &Trial) -> bool {
    match trial.energy.source {
        EnergyChoice::Rapl | EnergyChoice::Command => true,
        EnergyChoice::Auto | EnergyChoice::None => false,
    }
}

#[derive(Default)]
pub struct Metering {
    /// `None` if there is no source of energy readings.
    meter: Option<Meter>,
    /// Why there is no source.
    absent: Option<String>,
    /// Whether the source was requested explicitly, so that its absence is noted.
    asked: bool,
    /// How long the idle host is measured.
    idle: Duration,
    available: Duration,
    /// The current state, and when it began.
    begun: Option<(EnergyState, u64)>,
    spans: Vec<StateSpan>,
}

impl Metering {
    /// Starts the requested meter on the control core. If the meter fails to start, the trial continues,
    /// because its delays are valid without energy readings.
    pub fn start(trial: &Trial, assignment: Option<&CpuAssignment>, stop: &AtomicBool) -> Self {
        let beside = assignment.map(CpuAssignment::for_control).unwrap_or_default();
        // If the placement fails, the meter stays on this thread's core, which is also the control core.
        let place = move || drop(beside.apply());
        let keys = &trial.energy;
        let meter = match keys.source {
            EnergyChoice::None => None,
            EnergyChoice::Command => Some(Meter::command(&keys.command, keys.interval.into(), place)),
            EnergyChoice::Auto | EnergyChoice::Rapl => Some(Meter::rapl(Path::new("/"), place)),
        };
        let (meter, absent) = match meter.transpose() {
            Ok(meter) => (meter, None),
            Err(error) => (None, Some(EnergyError::to_string(&error))),
        };
        if let Some(meter) = &meter {
            meter.await_first(|| stop.load(Ordering::Relaxed));
        }
        let asked = keys.source != EnergyChoice::Auto;
        let (idle, available) = (keys.idle.into(), keys.available.into());
        Self { meter, absent, asked, idle, available, begun: None, spans: Vec::new() }
    }

    /// Remains in a state for the configured time. Returns at once if there is no meter.
    pub fn hold(&mut self, state: EnergyState, stop: &AtomicBool) {
        let time = if state == EnergyState::Idle { self.idle } else { self.available };
        if time.is_zero() || self.meter.is_none() {
            return;
        }
        self.begin(state);
        let begun = Instant::now();
        while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY.min(time.saturating_sub(begun.elapsed())));
        }
        self.end();
    }

    /// Marks the beginning of a state.
    pub fn begin(&mut self, state: EnergyState) {
        self.begun = self.meter.as_ref().map(|meter| (state, meter.begin()));
    }

    /// Marks the end of the current state.
    pub fn end(&mut self) {
        if let (Some(meter), Some((state, from_ns))) = (&self.meter, self.begun.take()) {
            self.spans.push(StateSpan { state, from_ns, to_ns: meter.end() });
        }
    }

    /// Stops the meter, writes its readings, and adds the resulting energy to the trial's record.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(self, directory: &Path, record: &mut TrialRecord) -> Result<()> {
        let packets = record.generator.as_ref().map_or(0, |generator| generator.sent);
        record.energy = match (self.meter, self.absent) {
            (Some(meter), _) => {
                let readings = meter.finish();
                let offset_ns = clock_offset().realtime_minus_monotonic_ns;
                let text = table(&readings, &self.spans, offset_ns);
                outputs::write_file(&directory.join(ENERGY_FILE), text.as_bytes())?;
                Some(energy(&readings, &self.spans, packets))
            }
            (None, absent) => absent.map(Energy::none),
        };
        record.notes.extend(record.energy.as_ref().and_then(|energy| note(energy, self.asked)));
        let is_measured = record.energy.as_ref().is_some_and(|energy| !energy.states.is_empty());
        if is_measured && !record.pauses.is_empty() {
            record.notes.push("energy: the processing state includes the pauses".to_owned());
        }
        Ok(())
    }
}

/// Returns a note if a state has no result, or if the requested source is not available.
fn note(energy: &Energy, asked: bool) -> Option<String> {
    let reason = energy.reason.as_ref()?;
    match energy.source {
        EnergySource::None => asked.then(|| format!("energy: not measured: {reason}")),
        _ => Some(format!("energy: {reason}")),
    }
}

/// Formats the readings as `energy.csv`, with one line per domain and reading.
fn table(readings: &Readings, spans: &[StateSpan], realtime_minus_monotonic_ns: i64) -> String {
    let unit = if readings.source == EnergySource::Rapl { "joules" } else { "watts" };
    let mut text = format!("at_ns,state,domain,{unit}\n");
    for reading in &readings.readings {
        let state = spans.iter().find(|span| (span.from_ns..=span.to_ns).contains(&reading.at_ns));
        let state = state.map(|span| span.state.to_string()).unwrap_or_default();
        let at_ns = (reading.at_ns as i64).saturating_add(realtime_minus_monotonic_ns);
        for ((domain, _), value) in readings.domains.iter().zip(&reading.values) {
            // The name comes from the kernel and must fit into one CSV field.
            let domain = domain.replace([',', '"', '\n'], "_");
            let _ = writeln!(text, "{at_ns},{state},{domain},{value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use wiretail_schema::experiment::Experiment;
    use wiretail_schema::run::TrialState;
    use wiretail_schema::run::energy::Reading;

    use super::*;
    use crate::run::trial::validity;

    fn trial(energy: &str) -> Trial {
        let text = format!(
            "title = \"a\"\nseed = 1\n[dut]\nkind = \"wire\"\n[traffic]\nrate = \"1 kpps\"\n[energy]\n{energy}"
        );
        Experiment::parse(&text).unwrap().trials().remove(0)
    }

    #[test]
    fn measures_states_with_a_constant_command() {
        let trial = trial(
            "source = \"command\"\ncommand = \"while true; do echo 50; sleep 0.01; done\"\ninterval = \"10 ms\"\n\
             idle = \"100 ms\"\n",
        );
        let stop = AtomicBool::new(false);
        let mut metering = Metering::start(&trial, None, &stop);
        metering.hold(EnergyState::Idle, &stop);
        metering.hold(EnergyState::Available, &stop);
        let mut record = validity::blank(&trial, TrialState::Valid, Vec::new());
        let folder = tempfile::tempdir().unwrap();
        metering.finish(folder.path(), &mut record).unwrap();
        let energy = record.energy.unwrap();
        // No time was configured for the available state.
        let [idle] = &energy.states[..] else { panic!("{energy:?}") };
        assert!((idle.watts - 50.0).abs() < 1e-9 && idle.seconds >= 0.1, "{idle:?}");
        assert!((idle.total.joules - 50.0 * idle.seconds).abs() < 1e-9);
        assert_eq!((energy.per_million_packets, energy.reason, record.notes.len()), (None, None, 0));
        let table = std::fs::read_to_string(folder.path().join(ENERGY_FILE)).unwrap();
        assert!(table.starts_with("at_ns,state,domain,watts\n"));
        let idle_lines = table.lines().filter(|line| line.ends_with(",idle,metered,50")).count() as u64;
        assert_eq!(idle_lines, idle.readings);
    }

    #[test]
    fn notes_missing_source_only_if_requested() {
        let told = |text: &str| {
            let (trial, stop) = (trial(text), AtomicBool::new(false));
            let mut record = validity::blank(&trial, TrialState::Valid, Vec::new());
            let metering = Metering::start(&trial, None, &stop);
            metering.finish(tempfile::tempdir().unwrap().path(), &mut record).unwrap();
            (record.energy, record.notes)
        };
        assert_eq!(told("source = \"none\""), (None, Vec::new()));
        let (energy, notes) = told("source = \"command\"\ncommand = \"echo no meter here >&2; false\"");
        assert!(
            energy.is_some_and(|energy| energy.source == EnergySource::Command && energy.states.is_empty())
        );
        assert!(
            notes[0].starts_with("energy: energy.command failed (exit status: 1): no meter here"),
            "{notes:?}"
        );
        if Path::new("/sys/class/powercap/intel-rapl:0").exists() {
            println!("SKIPPED: this machine has powercap zones");
            return;
        }
        let (energy, notes) = told("source = \"rapl\"");
        let reason = energy.unwrap().reason.unwrap();
        assert!(reason.starts_with("no powercap zones in /sys/class/powercap"), "{reason}");
        assert_eq!(notes, [format!("energy: not measured: {reason}")]);
        let (energy, notes) = told("source = \"auto\"");
        assert_eq!((energy, notes.len()), (Some(Energy::none(reason)), 0));
    }

    #[test]
    fn rejects_intervals_below_minimum() {
        let command = "source = \"command\"\ncommand = \"echo 1\"\n";
        assert!(refuse(&trial(&format!("{command}interval = \"10 ms\""))).is_ok());
        let error = refuse(&trial(&format!("{command}interval = \"9 ms\""))).unwrap_err().to_string();
        assert!(error.contains("expected \"10 ms\" or more"), "{error}");
    }

    #[test]
    fn table_lists_joules_with_their_state() {
        let readings = Readings {
            source: EnergySource::Rapl,
            resolution_ns: 1,
            domains: vec![("package".to_owned(), true), ("a,b".to_owned(), false)],
            readings: vec![
                Reading { at_ns: 5, values: vec![1.5, 0.0] },
                Reading { at_ns: 9, values: vec![2.0, 1.0] },
            ],
            ended: None,
        };
        let spans = [StateSpan { state: EnergyState::Processing, from_ns: 6, to_ns: 9 }];
        let expected = "at_ns,state,domain,joules\n105,,package,1.5\n105,,a_b,0\n\
                        109,processing,package,2\n109,processing,a_b,1\n";
        assert_eq!(table(&readings, &spans, 100), expected);
    }
}
