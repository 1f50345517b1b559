//! Trials of a run for calibration and validation: their selection, loads, devices and packets.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use wiretail_dataplane::skeleton::RING_SLOTS;
use wiretail_schema::experiment::{Directions, DutKind, SkeletonRelease, SwitchKind, TrafficPattern, Trial};
use wiretail_schema::prediction::queueing::{Arrivals, Release};
use wiretail_schema::run::stalls::{STALLS_FILE, StallSpan, StalledRole};
use wiretail_schema::run::{Run, SettingRecord, TrialRecord, TrialState};

use crate::run::output::directory;
use crate::run::output::packets::missing;

/// Largest number of packets in a schedule that is generated packet by packet.
const SCHEDULE_MAX: u64 = 10_000_000;
/// Batch size of a device that has no such setting.
const BATCH_DEFAULT: u64 = 32;
/// Ring size of a device that has no such setting.
pub const RING_DEFAULT: u64 = 4096;

/// A selected trial of a run.
pub struct Chosen {
    pub run: PathBuf,
    /// The trial as planned.
    pub trial: Trial,
    /// Its record after execution.
    pub record: TrialRecord,
}

impl Chosen {
    /// Formats "RUN:NUMBER (NAME)".
    pub fn name(&self) -> String {
        format!("{}:{} ({})", self.run.display(), self.record.number, self.record.name)
    }

    /// Whether this trial repeats another trial of this or another run, that is, whether they differ only in
    /// the seed.
    pub fn repeats(&self, other: &Self) -> bool {
        let counts = |one: &SettingRecord| one.key != "seed";
        let [own, its] = [self, other].map(|trial| trial.record.settings.iter().filter(|one| counts(one)));
        own.eq(its)
    }

    /// Returns the batch size of the device, or the default if it has no such setting.
    pub fn batch(&self) -> u64 {
        match self.trial.dut.kind {
            DutKind::Skeleton | DutKind::DpdkL2fwd | DutKind::DpdkTestpmd => u64::from(self.trial.dut.batch),
            // Other devices have no such setting.
            _ => BATCH_DEFAULT,
        }
    }

    /// Returns the rule that determines when packets leave the device.
    pub fn release(&self) -> Release {
        match self.trial.dut.release {
            SkeletonRelease::Batch if self.trial.dut.kind == DutKind::Skeleton => Release::Batch,
            SkeletonRelease::Batch | SkeletonRelease::Immediate => Release::Immediate,
        }
    }

    /// Returns the size of the device's ring, if known.
    pub fn ring(&self) -> Option<u64> {
        (self.trial.dut.kind == DutKind::Skeleton).then_some(RING_SLOTS as u64)
    }

    /// Returns the number of packets sent together.
    pub fn burst(&self) -> u64 {
        match self.trial.traffic.pattern {
            TrafficPattern::Constant => u64::from(self.trial.traffic.burst),
            TrafficPattern::Poisson | TrafficPattern::OnOff | TrafficPattern::Replay => 1,
        }
    }

    /// Returns the packet rate in packets per second while sending.
    pub fn rate_pps(&self) -> f64 {
        self.trial.traffic.rate.pps as f64
    }

    /// Returns the length of the warm-up in ns.
    pub fn warm_up_ns(&self) -> i64 {
        self.trial.trial.warm_up.ns
    }

    /// Returns the settings of the device that do not depend on the load.
    pub fn device(&self) -> Vec<SettingRecord> {
        let varies = ["dut.batch", "dut.release"];
        let settings = self.record.settings.iter();
        settings
            .filter(|one| one.key.starts_with("dut.") && !varies.contains(&one.key.as_str()))
            .cloned()
            .collect()
    }

    /// Returns the stalls of a role's core as (start, length) in ns since the first packet, in order; empty
    /// if the trial recorded none.
    ///
    /// # Errors
    /// Returns an error if the list can't be read.
    pub fn stalls(&self, role: StalledRole, first_ns: i64) -> Result<Vec<(f64, f64)>> {
        let path = self.run.join(&self.record.directory).join(STALLS_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let list = StallSpan::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let mut spans: Vec<(f64, f64)> = list
            .iter()
            .filter(|stall| stall.role == role)
            .map(|stall| ((stall.start_ns - first_ns) as f64, (stall.end_ns - stall.start_ns) as f64))
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(spans)
    }

    /// Returns the intended departure times, and their number. `spacing_ns` is the time that the sender needs
    /// from one packet to the next; `offsets_ns` are the departures in a burst relative to its first packet,
    /// if known.
    ///
    /// # Errors
    /// Returns an error if the schedule is known only from the recording.
    pub fn intended(&self, spacing_ns: f64, offsets_ns: &[f64]) -> Result<(Arrivals, u64)> {
        let duration_ns = self.trial.trial.duration.ns_unsigned();
        let rate_pps = self.rate_pps();
        let packets = (rate_pps * duration_ns as f64 / 1e9).ceil().max(1.0) as u64;
        let burst = self.burst();
        let arrivals = match self.trial.traffic.pattern {
            TrafficPattern::Constant if burst == 1 => Arrivals::Constant { rate_pps },
            TrafficPattern::Constant if offsets_ns.len() as u64 == burst && packets <= SCHEDULE_MAX => {
                let of_burst = |packet: u64| {
                    (packet / burst) as f64 * burst as f64 * 1e9 / rate_pps
                        + offsets_ns[(packet % burst) as usize]
                };
                Arrivals::Recorded { times_ns: (0..packets).map(of_burst).collect() }
            }
            TrafficPattern::Constant => {
                // A sender that can't keep up sends packets without gaps.
                let most_ns = 1e9 * burst as f64 / rate_pps / (burst - 1) as f64;
                Arrivals::Bursts { rate_pps, packets: burst, spacing_ns: spacing_ns.min(most_ns) }
            }
            TrafficPattern::Poisson => Arrivals::Poisson { rate_pps },
            TrafficPattern::OnOff => return self.on_off(rate_pps, duration_ns),
            TrafficPattern::Replay => bail!(
                "{}: traffic.pattern = \"replay\" does not define arrival times; expected --recorded-arrivals",
                self.name()
            ),
        };
        Ok((arrivals, packets))
    }

    fn on_off(&self, rate_pps: f64, duration_ns: u64) -> Result<(Arrivals, u64)> {
        let (on_ns, off_ns) = (self.trial.traffic.on.ns as f64, self.trial.traffic.off.ns as f64);
        let a_period = (on_ns * rate_pps / 1e9).ceil().max(1.0);
        let at = |packet: u64| {
            let (period, within) = ((packet as f64 / a_period).floor(), packet as f64 % a_period);
            period * (on_ns + off_ns) + within * 1e9 / rate_pps
        };
        let times_ns: Vec<f64> =
            (0..SCHEDULE_MAX).map(at).take_while(|at_ns| *at_ns < duration_ns as f64).collect();
        let packets = times_ns.len() as u64;
        Ok((Arrivals::Recorded { times_ns }, packets))
    }
}

/// Selects trials by RUN`[:TRIAL]`, where TRIAL is a number, a name, or a pattern of names with `*`. Returns
/// the usable trials, which are valid and cross one device in one direction, and the reasons why others were
/// skipped.
///
/// # Errors
/// Returns an error if the run or trial does not exist, or if a trial selected by name is not usable.
pub fn choose(text: &str) -> Result<(Vec<Chosen>, Vec<String>)> {
    let (path, wanted) = split(text);
    let (experiment, run) = directory::read(&path)?;
    if let Some(wanted) = wanted
        && !run.trials.iter().any(|record| is(record, wanted))
    {
        bail!("{}: has no trial '{wanted}'; it has {}", path.display(), trials(&run));
    }
    let planned = experiment.trials();
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for record in run.trials.iter().filter(|record| wanted.is_none_or(|wanted| is(record, wanted))) {
        let Some(trial) = planned.iter().find(|trial| trial.number == record.number) else { continue };
        let one = Chosen { run: path.clone(), trial: trial.clone(), record: record.clone() };
        match useless(&one) {
            Some(reason) => skipped.push(format!("{}: {reason}", one.name())),
            None => chosen.push(one),
        }
    }
    if chosen.is_empty() {
        let reasons = if skipped.is_empty() { "it has no trials".to_owned() } else { skipped.join("; ") };
        bail!("{}: no trial to calibrate or validate with: {reasons}", path.display());
    }
    Ok((chosen, skipped))
}

/// Splits off the trial. The whole text is first tried as a directory, because the name of a directory may
/// contain a colon.
fn split(text: &str) -> (PathBuf, Option<&str>) {
    match text.rsplit_once(':') {
        Some((path, trial)) if !Path::new(text).exists() && !trial.is_empty() => {
            (PathBuf::from(path), Some(trial))
        }
        _ => (PathBuf::from(text), None),
    }
}

fn is(record: &TrialRecord, wanted: &str) -> bool {
    matches(wanted, &record.name) || wanted.parse() == Ok(record.number)
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter_map(|at| name.get(at..)).any(|tail| matches(rest, tail))
}

fn trials(run: &Run) -> String {
    let names = run.trials.iter().map(|record| format!("{} ({})", record.number, record.name));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns why a trial is not usable for calibration or validation.
fn useless(one: &Chosen) -> Option<String> {
    let dut = &one.trial.dut;
    if one.record.state != TrialState::Valid {
        let state = format!("{:?}", one.record.state).to_lowercase();
        return Some(format!("is {state} ({})", one.record.reasons.join("; ")));
    }
    if let Some(reason) = missing(&one.trial, &one.record) {
        return Some(reason.to_owned());
    }
    if one.trial.traffic.directions == Directions::Both {
        return Some("packets were sent in both directions, but the model has only one".to_owned());
    }
    if dut.hops > 1 || dut.switch != SwitchKind::None {
        return Some("packets crossed several devices, but the model has only one".to_owned());
    }
    let faults = [dut.drop_every, dut.duplicate_every, dut.swap_every];
    if dut.delay.ns > 0 || faults.iter().any(|every| *every > 0) {
        return Some("its device delays or drops packets on purpose".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        for (pattern, name) in [
            ("*-15kpps-*", "skeleton-15kpps-burst4-repeat1"),
            ("a*", "a"),
            ("*", ""),
            ("*b*b", "abab"),
            ("µ*s", "µ5 µs"),
            ("a", "a"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*-5kpps-*", "skeleton-15kpps-burst4"), ("a*b", "ab1"), ("", "a"), ("a", "ab")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
