//! Replays trials: simulates the calibrated device with the arrivals at its ingress tap and its recorded
//! stalls. This separates errors of the device model from those of the load generator and the machine.

use anyhow::{Context, Result};
use wiretail_analysis::prediction::queueing::comparison::compare_each;
use wiretail_analysis::prediction::queueing::{Rounds, predict_rounds};
use wiretail_analysis::stats::counts::Counts;
use wiretail_schema::prediction::queueing::calibration::{QueueingCalibration, QueueingReplay};
use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Length, QueueingModel};
use wiretail_schema::run::stalls::StalledRole;

use super::trials::Chosen;
use crate::cli::predict::queueing::QueueingArgs;
use crate::run::output::packets::Crossed;

/// Replay of the repeats of one load.
pub struct Replay<'a> {
    arguments: &'a QueueingArgs,
    model: &'a QueueingModel,
    /// Shortest stall in ns; shorter ones are indistinguishable from the loop's own work.
    threshold_ns: f64,
    /// Number of repeats, which share the simulated packets.
    repeats: usize,
    stalls: bool,
    simulated: Vec<Counts>,
}

impl<'a> Replay<'a> {
    /// Creates a replay for the repeats of a trial. The device has the load's batch size and release.
    pub fn new(
        arguments: &'a QueueingArgs,
        model: &'a QueueingModel,
        calibration: Option<&QueueingCalibration>,
        repeats: &[Chosen],
    ) -> Self {
        Self {
            arguments,
            model,
            threshold_ns: threshold_ns(calibration, repeats),
            repeats: repeats.len(),
            stalls: true,
            simulated: Vec::new(),
        }
    }

    /// Replays a repeat with its packets.
    ///
    /// # Errors
    /// Returns an error if the list of stalls can't be read, or the arrivals can't be simulated.
    pub fn simulate(&mut self, trial: &Chosen, crossed: &[Crossed]) -> Result<()> {
        let first_ns = crossed.first().map_or(0, |packet| packet.at_ns);
        let times_ns: Vec<f64> = crossed.iter().map(|packet| (packet.at_ns - first_ns) as f64).collect();
        let (packets, warm_up_ns) = (times_ns.len() as u64, trial.warm_up_ns() as f64);
        let rounds = self.arguments.packets.get() / packets.max(1) / self.repeats as u64;
        let rounds = Rounds { rounds: rounds.max(1), warm_up_ns };
        let stalls = trial.stalls(StalledRole::Device, first_ns)?;
        // A device that is another program has no list of stalls, but may still have stalled. Stalls of the
        // sender need not be replayed, because the recorded arrivals already reflect them.
        self.stalls &= !stalls.is_empty();
        let model = match stalls.is_empty() {
            true => self.model.clone(),
            false => with_stalls(self.model, stalls, self.threshold_ns),
        };
        let arrivals = Arrivals::Recorded { times_ns };
        let (_, counts) = predict_rounds(&model, &arrivals, packets, self.arguments.seed, rounds, |_| ())
            .with_context(|| format!("{}: its recorded arrivals can't be simulated", trial.name()))?;
        self.simulated.push(counts);
        Ok(())
    }

    /// Compares the replays with the measured repeats, in the same order.
    pub fn finish(self, measured: Vec<Counts>) -> QueueingReplay {
        let pairs: Vec<(Counts, Counts)> = self.simulated.into_iter().zip(measured).collect();
        let percentiles = compare_each(&pairs);
        let within = percentiles.iter().all(|one| one.limit.is_none_or(|limit| one.error.abs() <= limit));
        QueueingReplay { stalls: self.stalls, percentiles, within }
    }
}

/// Returns the minimum length, in ns, at which an interval in these trials is considered a stall. The time
/// between two clock readings of a loop includes receiving and sending. An interval is therefore not a stall
/// if it is shorter than the time for a packet without interrupts in the calibration.
fn threshold_ns(calibration: Option<&QueueingCalibration>, trials: &[Chosen]) -> f64 {
    let listed_ns = trials.iter().map(|trial| trial.record.stalls.threshold_ns).max().unwrap_or(0) as f64;
    calibration.and_then(|found| found.interrupts.above_ns).unwrap_or(0.0).max(listed_ns)
}

/// Returns the model with these stalls instead of its own interrupts. Interrupts that are too short to be a
/// stall are kept.
fn with_stalls(model: &QueueingModel, mut spans: Vec<(f64, f64)>, threshold_ns: f64) -> QueueingModel {
    spans.retain(|span| span.1 >= threshold_ns);
    let mut interrupts: Vec<Interrupts> =
        model.interrupts.iter().filter_map(|source| below(source, threshold_ns)).collect();
    if !spans.is_empty() {
        interrupts.push(Interrupts::Recorded { spans });
    }
    QueueingModel { interrupts, ..model.clone() }
}

/// Returns the part of a source that is shorter than a stall; `None` if there is none.
fn below(source: &Interrupts, threshold_ns: f64) -> Option<Interrupts> {
    match source {
        Interrupts::Poisson { per_second, length: Length::Samples(samples) } => {
            let short: Vec<f64> = samples.iter().copied().filter(|ns| *ns < threshold_ns).collect();
            let share = short.len() as f64 / samples.len() as f64;
            (!short.is_empty()).then(|| Interrupts::Poisson {
                per_second: per_second * share,
                length: Length::Samples(short),
            })
        }
        Interrupts::Poisson { length, .. } | Interrupts::Periodic { length, .. } => {
            let short = match length {
                Length::Constant(ns) | Length::Exponential(ns) => *ns < threshold_ns,
                Length::Samples(samples) => samples.iter().all(|ns| *ns < threshold_ns),
            };
            short.then(|| source.clone())
        }
        Interrupts::Recorded { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_stalls_replace_long_interrupts() {
        let mixed =
            Interrupts::Poisson { per_second: 100.0, length: Length::Samples(vec![1e3, 2e3, 3e3, 9e3]) };
        let short = Interrupts::Poisson { per_second: 75.0, length: Length::Samples(vec![1e3, 2e3, 3e3]) };
        assert_eq!(below(&mixed, 5e3), Some(short));
        assert_eq!(below(&mixed, 1e3), None);
        let beat = |ns| Interrupts::Periodic { period_ns: 1e6, phase_ns: None, length: Length::Constant(ns) };
        assert_eq!((below(&beat(4e3), 5e3), below(&beat(6e3), 5e3)), (Some(beat(4e3)), None));
    }
}
