//! Validates a model with measured trials: predicts the same loads and compares.

use std::path::Path;

use anyhow::{Context, Result};
use wiretail_analysis::prediction::capacity::place;
use wiretail_analysis::prediction::queueing::calibrate::{Observation, burst_offsets, spacing};
use wiretail_analysis::prediction::queueing::comparison::{CAPACITY_LIMIT, Predicted, compare, judged};
use wiretail_analysis::prediction::queueing::{Rounds, capacity, predict_rounds};
use wiretail_analysis::stats::counts::Counts;
use wiretail_report::format::{duration, short};
use wiretail_schema::prediction::queueing::calibration::{
    ComparedPercentile, QueueingCalibration, QueueingSearchValidation, QueueingValidation,
};
use wiretail_schema::prediction::queueing::{QueueingLoad, QueueingModel, Release};
use wiretail_schema::run::SettingRecord;

use super::calibrated::Taken;
use super::replay::Replay;
use super::trials::{Chosen, choose};
use crate::cli::predict::queueing::QueueingArgs;
use crate::run::output::directory::{self, SEARCH_FILE};
use crate::run::output::packets::of_trial;

/// Number of pages for measured delays. It equals the number for simulated delays.
const PAGES: usize = 4096;
/// Largest number of simulations per trial.
const ROUNDS_MAX: u64 = 1000;

/// Validates the model with all selected trials; also returns the trials that were skipped, with reasons.
///
/// # Errors
/// Returns an error if a run can't be read, or a load can't be simulated.
pub fn all(
    arguments: &QueueingArgs,
    model: &QueueingModel,
    calibration: Option<&QueueingCalibration>,
) -> Result<(Vec<QueueingValidation>, Vec<String>)> {
    let mut skipped = Vec::new();
    let mut groups: Vec<Vec<Chosen>> = Vec::new();
    let mut known = Vec::new();
    for text in &arguments.calibrate {
        known.extend(choose(text)?.0);
    }
    let mut by_these = 0;
    for text in arguments.validate.iter().filter(|text| !is_search(text)) {
        let (trials, others) = choose(text)?;
        skipped.extend(others);
        for trial in trials {
            if let Some(reason) =
                calibration.and_then(|calibration| differs(&calibration.device, &trial.device()))
            {
                skipped.push(format!("{}: {reason}", trial.name()));
                continue;
            }
            if known.iter().any(|one| one.repeats(&trial)) {
                by_these += 1;
                continue;
            }
            match groups.iter_mut().find(|group| group[0].repeats(&trial)) {
                Some(group) => group.push(trial),
                None => groups.push(vec![trial]),
            }
        }
    }
    if by_these > 0 {
        skipped.insert(0, format!("{by_these} trials of the loads used for calibration"));
    }
    let validations = groups.iter().map(|repeats| one(arguments, model, calibration, repeats));
    Ok((validations.collect::<Result<_>>()?, skipped))
}

/// Validates the capacity with the rates that the searches in the runs found for loss goals. Also returns the
/// searches that were skipped, with reasons.
///
/// # Errors
/// Returns an error if a search can't be read.
pub fn searches(
    arguments: &QueueingArgs,
    model: &QueueingModel,
    calibration: Option<&QueueingCalibration>,
) -> Result<(Vec<QueueingSearchValidation>, Vec<String>)> {
    let (mut validations, mut skipped) = (Vec::new(), Vec::new());
    for text in arguments.validate.iter().filter(|text| is_search(text)) {
        for search in directory::searches(Path::new(text))?.map_or_else(Vec::new, |found| found.searches) {
            let name = format!("{text}:{}", search.number);
            if let Some(reason) =
                calibration.and_then(|calibration| differs(&calibration.device, &search.settings))
            {
                skipped.push(format!("{name} ({}): {reason}", search.name));
                continue;
            }
            let batch = search.settings.iter().find(|setting| setting.key == "dut.batch");
            let model = QueueingModel {
                batch: batch.map_or(model.batch, |batch| batch.number.max(1)),
                ..model.clone()
            };
            let Some(predicted_pps) = capacity(&model)?.pps else { continue };
            for result in search.rates_of_loss() {
                let Some(lower_pps) = result.lower else { continue };
                // If a search did not find one of the bounds, use the other one.
                let error = place(predicted_pps, [Some(lower_pps), result.upper])
                    .map_or(predicted_pps / lower_pps as f64 - 1.0, |(_, error)| error);
                validations.push(QueueingSearchValidation {
                    search: name.clone(),
                    name: search.name.clone(),
                    goal: result.goal.to_string(),
                    predicted_pps,
                    lower_pps,
                    upper_pps: result.upper,
                    error,
                    limit: CAPACITY_LIMIT,
                    within: error.abs() <= CAPACITY_LIMIT,
                });
            }
        }
    }
    Ok((validations, skipped))
}

/// Whether `text` names the directory of a search.
fn is_search(text: &str) -> bool {
    Path::new(text).join(SEARCH_FILE).exists()
}

/// Returns how a trial's device differs; `None` if the device is the same or unknown.
fn differs(calibrated: &[SettingRecord], other: &[SettingRecord]) -> Option<String> {
    let differing = calibrated.iter().find_map(|setting| {
        let same = other.iter().find(|one| one.key == setting.key)?;
        (same.text != setting.text).then_some((setting, same))
    });
    differing.map(|(setting, other)| {
        format!(
            "was recorded with another device: {} is {}, but was {} in the calibration",
            setting.key, other.text, setting.text
        )
    })
}

/// A load that was measured once or several times.
struct Measured {
    /// Delays of each repeat, without the warm-up.
    delays: Vec<Counts>,
    /// Arrivals of each repeat, from which spacing and offsets are estimated.
    taken: Vec<Taken>,
    sent: u64,
    lost: u64,
}

impl Measured {
    fn read(repeats: &[Chosen], replay: &mut Replay<'_>) -> Result<Self> {
        let mut all = Self { delays: Vec::new(), taken: Vec::new(), sent: 0, lost: 0 };
        for trial in repeats {
            let crossed = of_trial(&trial.run, &trial.trial, &trial.record)?;
            let first_ns = crossed.first().map_or(0, |packet| packet.at_ns);
            let mut delays = Counts::new(PAGES);
            for packet in crossed.iter().filter(|packet| packet.at_ns - first_ns >= trial.warm_up_ns()) {
                all.sent += 1;
                match packet.delay_ns {
                    Some(delay_ns) => delays.add(delay_ns),
                    None => all.lost += 1,
                }
            }
            replay.simulate(trial, &crossed)?;
            all.taken.push(Taken::of(&crossed, trial.warm_up_ns(), trial.burst()));
            all.delays.push(delays);
        }
        Ok(all)
    }

    fn loss_ratio(&self) -> f64 {
        if self.sent > 0 { self.lost as f64 / self.sent as f64 } else { 0.0 }
    }
}

/// Predicts the load of these repeats; returns the result of the simulation, and the delays of each round.
fn predict(
    arguments: &QueueingArgs,
    model: &QueueingModel,
    calibration: Option<&QueueingCalibration>,
    trial: &Chosen,
    taken: &[Taken],
) -> Result<(QueueingLoad, Predicted)> {
    // The spacing of a sender's packets is a property of the load, not of the device.
    let observations: Vec<Observation<'_>> = taken.iter().map(Taken::seen).collect();
    let given_ns = arguments.spacing.map(|spacing| spacing.ns as f64).or(spacing(&observations));
    let spacing_ns = given_ns.or(calibration.and_then(|found| found.spacing_ns)).unwrap_or(0.0);
    let offsets_ns = match arguments.spacing {
        Some(_) => Vec::new(),
        None => burst_offsets(&observations, trial.rate_pps()),
    };
    let (arrivals, packets) = trial.intended(spacing_ns, &offsets_ns)?;
    let rounds = arguments.packets.get().div_ceil(packets.max(1)).clamp(1, ROUNDS_MAX);
    let rounds = Rounds { rounds, warm_up_ns: trial.warm_up_ns() as f64 };
    let mut each_round = Vec::new();
    let (predicted, delays) = predict_rounds(model, &arrivals, packets, arguments.seed, rounds, |delays| {
        each_round.push(judged(delays));
    })
    .with_context(|| format!("{}: its load can't be simulated", trial.name()))?;
    Ok((predicted, Predicted::new(delays, each_round)))
}

/// Validates the model with one load: predicts its repeats, replays them, and compares percentiles.
fn one(
    arguments: &QueueingArgs,
    model: &QueueingModel,
    calibration: Option<&QueueingCalibration>,
    repeats: &[Chosen],
) -> Result<QueueingValidation> {
    let trial = &repeats[0];
    let model = of_trial_settings(model, calibration, trial);
    let mut replay = Replay::new(arguments, &model, calibration, repeats);
    let measured = Measured::read(repeats, &mut replay)?;
    let (predicted, rounds) = predict(arguments, &model, calibration, trial, &measured.taken)?;
    let (percentiles, curve) = compare(&rounds, &measured.delays);
    let mut failures: Vec<String> = percentiles.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        failures.extend(repeats.iter().filter_map(|trial| stalled(calibration?, trial)).take(1));
    }
    Ok(QueueingValidation {
        trials: repeats
            .iter()
            .map(|trial| format!("{}:{}", trial.run.display(), trial.record.number))
            .collect(),
        name: unrepeated(&trial.record.name).to_owned(),
        predicted,
        measured_packets: measured.delays.iter().map(Counts::count).sum(),
        measured_loss_ratio: measured.loss_ratio(),
        within: failures.is_empty(),
        within_repeats: percentiles
            .iter()
            .filter(|one| failure(one).is_some())
            .all(|one| (one.measured_low_ns..=one.measured_high_ns).contains(&one.predicted_ns)),
        percentiles,
        failures,
        replay: replay.finish(measured.delays),
        curve,
    })
}

/// Returns the device with the trial's batch and release. A calibrated device that sends packets one by one
/// despite a batch release keeps doing so.
fn of_trial_settings(
    model: &QueueingModel,
    calibration: Option<&QueueingCalibration>,
    trial: &Chosen,
) -> QueueingModel {
    let one_by_one = calibration.is_some_and(|calibration| {
        calibration.release == Some(Release::Batch) && model.release == Release::Immediate
    });
    let release = if one_by_one { Release::Immediate } else { trial.release() };
    QueueingModel { batch: trial.batch(), release, ..model.clone() }
}

/// Describes a stall in the trial that is longer than all stalls in the calibration. The model can't predict
/// such a stall.
fn stalled(calibration: &QueueingCalibration, trial: &Chosen) -> Option<String> {
    let longest = trial.record.stalls.longest.first()?;
    let known_ns = calibration.interrupts.longest_ns;
    (longest.duration_ns as f64 > 2.0 * known_ns).then(|| {
        format!(
            "the trial has a stall of {} ({}), but the calibration has none above {}",
            duration(longest.duration_ns as f64),
            longest.role,
            duration(known_ns)
        )
    })
}

/// Returns a trial's name without the repeat.
fn unrepeated(name: &str) -> &str {
    match name.rsplit_once("-repeat") {
        Some((scenario, repeat)) if repeat.bytes().all(|byte| byte.is_ascii_digit()) => scenario,
        _ => name,
    }
}

fn failure(one: &ComparedPercentile) -> Option<String> {
    let limit = one.limit.filter(|limit| one.error.abs() > *limit)?;
    let repeats = one.measured_low_ns..=one.measured_high_ns;
    Some(format!(
        "p{} is predicted as {} and measured as {}: {:+.1} %, but {:.0} % are allowed{}",
        short(one.percentile),
        duration(one.predicted_ns as f64),
        duration(one.measured_ns as f64),
        one.error * 100.0,
        limit * 100.0,
        match repeats.contains(&one.predicted_ns) {
            true => "; the spread of the measured repeats is larger, and includes the prediction",
            false => "",
        }
    ))
}
