//! A model against measured trials: the same load, simulated, beside what was measured.

use anyhow::{Context, Result};
use wiretail_analysis::counts::Counts;
use wiretail_analysis::twin::comparison::compare;
use wiretail_analysis::twin::{Rounds, predict_rounds};
use wiretail_report::format::{duration, short};
use wiretail_schema::predict::calibration::{ComparedPercentile, TwinCalibration, TwinCheck};
use wiretail_schema::predict::twin::{Arrivals, Release, TwinModel};
use wiretail_schema::run::SettingRecord;

use super::trials::{Chosen, choose};
use crate::cli::predict::twin::TwinArgs;
use crate::run::packets::{Crossed, of_trial};

/// Pages for measured delays, as for simulated ones.
const PAGES: usize = 4096;
/// Simulations of a trial, at most.
const ROUNDS_MAX: u64 = 1000;

/// All trials that were asked for, and those that could not be held against it, with reasons.
///
/// # Errors
/// Runs that can't be read, loads that can't be simulated.
pub fn all(
    arguments: &TwinArgs,
    model: &TwinModel,
    calibration: Option<&TwinCalibration>,
) -> Result<(Vec<TwinCheck>, Vec<String>)> {
    let (mut checks, mut skipped) = (Vec::new(), Vec::new());
    for text in &arguments.check {
        let (trials, others) = choose(text)?;
        skipped.extend(others);
        for trial in trials {
            match calibration.and_then(|calibration| differs(&calibration.device, &trial.device())) {
                Some(reason) => skipped.push(format!("{}: {reason}", trial.name())),
                None => checks.push(one(arguments, model, calibration, &trial)?),
            }
        }
    }
    Ok((checks, skipped))
}

/// Why a trial is of another device; None where it is not, or nothing is known.
fn differs(calibrated: &[SettingRecord], other: &[SettingRecord]) -> Option<String> {
    let differing = calibrated.iter().find_map(|setting| {
        let same = other.iter().find(|one| one.key == setting.key)?;
        (same.text != setting.text).then_some((setting, same))
    });
    differing.map(|(setting, other)| {
        format!(
            "is of another device: {} is {}, and was {} for the calibration",
            setting.key, other.text, setting.text
        )
    })
}

fn one(
    arguments: &TwinArgs,
    model: &TwinModel,
    calibration: Option<&TwinCalibration>,
    trial: &Chosen,
) -> Result<TwinCheck> {
    let crossed = of_trial(&trial.run, &trial.trial, &trial.record)?;
    let first_ns = crossed.first().map_or(0, |packet| packet.at_ns);
    let behind = |packet: &&Crossed| packet.at_ns - first_ns >= trial.warm_up_ns();
    let mut measured = Counts::new(PAGES);
    let (mut sent, mut lost) = (0u64, 0u64);
    for packet in crossed.iter().filter(behind) {
        sent += 1;
        match packet.delay_ns {
            Some(delay_ns) => measured.add(delay_ns),
            None => lost += 1,
        }
    }
    let spacing_ns = arguments.spacing.map(|spacing| spacing.ns as f64);
    let spacing_ns = spacing_ns.or(calibration.and_then(|found| found.spacing_ns)).unwrap_or(0.0);
    let (arrivals, packets) = if arguments.recorded_arrivals {
        let times_ns: Vec<f64> = crossed.iter().map(|packet| (packet.at_ns - first_ns) as f64).collect();
        let packets = times_ns.len() as u64;
        (Arrivals::Recorded { times_ns }, packets)
    } else {
        trial.intended(spacing_ns)?
    };
    let rounds = Rounds {
        rounds: arguments.packets.get().div_ceil(packets.max(1)).clamp(1, ROUNDS_MAX),
        warm_up_ns: trial.warm_up_ns() as f64,
    };
    let model = of_trial_settings(model, calibration, trial);
    let (predicted, counts) = predict_rounds(&model, &arrivals, packets, arguments.seed, rounds)
        .with_context(|| format!("{}: its load can't be simulated", trial.name()))?;
    let (percentiles, curve) = compare(&counts, &measured);
    let mut failures: Vec<String> = percentiles.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        failures.extend(calibration.and_then(|calibration| stalled(calibration, trial)));
    }
    Ok(TwinCheck {
        run: trial.run.display().to_string(),
        trial: trial.record.number,
        name: trial.record.name.clone(),
        recorded_arrivals: arguments.recorded_arrivals,
        predicted,
        measured_packets: measured.count(),
        measured_loss_ratio: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
        within: failures.is_empty(),
        percentiles,
        failures,
        curve,
    })
}

/// The device with the trial's batch and release; one whose packets left one by one though they were to leave together goes on so.
fn of_trial_settings(model: &TwinModel, calibration: Option<&TwinCalibration>, trial: &Chosen) -> TwinModel {
    let one_by_one = calibration.is_some_and(|calibration| {
        calibration.release == Some(Release::Batch) && model.release == Release::Immediate
    });
    let release = if one_by_one { Release::Immediate } else { trial.release() };
    TwinModel { batch: trial.batch(), release, ..model.clone() }
}

/// A longer stall in the trial than the calibration has seen: what the model can't know.
fn stalled(calibration: &TwinCalibration, trial: &Chosen) -> Option<String> {
    let longest = trial.record.stalls.longest.first()?;
    let known_ns = calibration.interrupts.longest_ns;
    (longest.duration_ns as f64 > 2.0 * known_ns).then(|| {
        format!(
            "the trial has a stall of {} ({}), and the calibration none above {}",
            duration(longest.duration_ns as f64),
            longest.role,
            duration(known_ns)
        )
    })
}

fn failure(one: &ComparedPercentile) -> Option<String> {
    let limit = one.limit.filter(|limit| one.error.abs() > *limit)?;
    Some(format!(
        "p{} is predicted as {} and measured as {}: {:+.1} %, where {:.0} % are allowed",
        short(one.percentile),
        duration(one.predicted_ns as f64),
        duration(one.measured_ns as f64),
        one.error * 100.0,
        limit * 100.0
    ))
}
