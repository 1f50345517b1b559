//! A model calibrated from runs or captures, or read from a file.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use wiretail_analysis::prediction::queueing::calibrate::{Known, Observation, by_baseline, calibrate};
use wiretail_analysis::prediction::queueing::capacity;
use wiretail_analysis::stats::list::{median, percentile};
use wiretail_capture::OpenOptions;
use wiretail_schema::causes::{EXPLANATION_FILE, TrialExplanation};
use wiretail_schema::prediction::queueing::calibration::{
    QUEUEING_MODEL_SCHEMA, QueueingCalibration, SavedQueueingModel,
};
use wiretail_schema::prediction::queueing::{QueueingModel, Release};
use wiretail_schema::units::Share;

use super::trials::{Chosen, RING_DEFAULT, choose};
use crate::analyze::evaluate::Job;
use crate::analyze::outputs;
use crate::analyze::source::Source;
use crate::cli::predict::queueing::QueueingArgs;
use crate::predict::capacity::traced;
use crate::run::output::packets::{Crossed, of_job, of_trial};

/// Packets in the form that the calibration expects.
pub struct Taken {
    packets: Vec<(f64, f64)>,
    lost: u64,
    burst: u64,
}

impl Taken {
    fn of_trial(trial: &Chosen) -> Result<Self> {
        let crossed = of_trial(&trial.run, &trial.trial, &trial.record)?;
        Ok(Self::of(&crossed, trial.warm_up_ns(), trial.burst()))
    }

    /// Converts the packets after the warm-up, with times relative to the first packet.
    pub fn of(crossed: &[Crossed], warm_up_ns: i64, burst: u64) -> Self {
        let first_ns = crossed.first().map_or(0, |packet| packet.at_ns);
        let counted = crossed.iter().filter(|packet| packet.at_ns - first_ns >= warm_up_ns);
        let packets = counted
            .clone()
            .filter_map(|packet| Some(((packet.at_ns - first_ns) as f64, packet.delay_ns? as f64)));
        let lost = counted.clone().filter(|packet| packet.delay_ns.is_none()).count() as u64;
        Self { packets: packets.collect(), lost, burst }
    }

    /// Returns the packets as input for the calibration.
    pub fn seen(&self) -> Observation<'_> {
        Observation { packets: &self.packets, lost: self.lost, burst: self.burst }
    }
}

/// Returns the model of `--calibrate`, `--calibrate-captures` or `--model`; `None` without any of them.
///
/// # Errors
/// Returns an error if an input can't be read or is insufficient for a calibration.
pub fn model(arguments: &QueueingArgs) -> Result<Option<(QueueingModel, Option<QueueingCalibration>)>> {
    let (model, calibration) = if let Some(path) = &arguments.model {
        let saved = read(path)?;
        (saved.model, saved.calibration)
    } else if !arguments.calibrate.is_empty() {
        let (model, calibration) = from_runs(arguments)?;
        (model, Some(calibration))
    } else if let [pre, post] = arguments.calibrate_captures.as_slice() {
        let (model, calibration) = from_captures(arguments, pre, post)?;
        (model, Some(calibration))
    } else {
        return Ok(None);
    };
    let model = QueueingModel {
        ring: arguments.ring.unwrap_or(model.ring),
        batch: arguments.batch.unwrap_or(model.batch),
        release: arguments.release.map_or(model.release, Into::into),
        ..model
    };
    Ok(Some((model, calibration)))
}

fn from_runs(arguments: &QueueingArgs) -> Result<(QueueingModel, QueueingCalibration)> {
    let (mut trials, mut skipped) = (Vec::new(), Vec::new());
    for text in &arguments.calibrate {
        let (found, others) = choose(text)?;
        trials.extend(found);
        skipped.extend(others);
    }
    let Some(first) = trials.first() else { bail!("--calibrate: expected a run") };
    for other in &trials[1..] {
        if other.device() != first.device()
            || other.batch() != first.batch()
            || other.release() != first.release()
        {
            bail!(
                "{} and {} are trials of different devices, batches or releases; select with --calibrate RUN:TRIAL",
                first.name(),
                other.name()
            );
        }
    }
    let mut taken = Vec::new();
    for trial in &trials {
        taken.push(Taken::of_trial(trial)?);
    }
    let all = trials.len();
    let usual = usual(&trials, &taken);
    let measured = trials.into_iter().zip(taken).zip(usual).filter(|(_, usual)| *usual);
    let (trials, taken): (Vec<Chosen>, Vec<Taken>) = measured.map(|(measured, _)| measured).unzip();
    let left_out = all - trials.len();
    let Some(first) = trials.first() else { bail!("--calibrate: expected a run") };
    let observations: Vec<Observation<'_>> = taken.iter().map(Taken::seen).collect();
    let known = Known {
        ring: arguments.ring.or(first.ring()).unwrap_or(RING_DEFAULT),
        batch: first.batch(),
        release: first.release(),
    };
    let (model, mut calibration) = match &arguments.baseline {
        Some(text) => by_baseline(&observations, baseline(text)?, &known),
        None => calibrate(&observations, &known),
    }
    .with_context(|| format!("{}: calibration failed", arguments.calibrate.join(", ")))?;
    calibration.trials = trials.iter().map(Chosen::name).collect();
    calibration.device = first.device();
    calibration.release = Some(first.release());
    if arguments.ring.is_none() && first.ring().is_none() {
        calibration.remarks.push(format!(
            "the device's ring size is unknown; assuming {RING_DEFAULT} packets (--ring), which affects only \
             loss"
        ));
    }
    for trial in &trials {
        calibration.remarks.extend(seen_by_trace(trial)?);
    }
    if left_out > 0 {
        calibration.remarks.push(format!(
            "left out the quarter of the repeats with the lowest p99 and the quarter with the highest: {left_out}"
        ));
    }
    let others = skipped.len().saturating_sub(1);
    if let Some(reason) = skipped.into_iter().next() {
        let more = if others > 0 { format!("; and {others} others") } else { String::new() };
        calibration.remarks.push(format!("not used: {reason}{more}"));
    }
    Ok((model, calibration))
}

/// Selects the repeats near the median. If there are three or more repeats, the quarter with the lowest p99
/// and the quarter with the highest p99 are left out. Otherwise, a disturbance of the machine in one of these
/// repeats would affect every prediction.
fn usual(trials: &[Chosen], taken: &[Taken]) -> Vec<bool> {
    let p99_ns = |taken: &Taken| {
        let mut delays: Vec<f64> = taken.packets.iter().map(|packet| packet.1).collect();
        percentile(&mut delays, Share::P99).unwrap_or(0.0)
    };
    let p99_ns: Vec<f64> = taken.iter().map(p99_ns).collect();
    let mut usual = vec![true; trials.len()];
    for (place, trial) in trials.iter().enumerate() {
        let alike = |other: &usize| trials[*other].repeats(trial);
        let mut repeats: Vec<usize> = (0..trials.len()).filter(alike).collect();
        if repeats.len() >= 3 {
            repeats.sort_by(|a, b| p99_ns[*a].total_cmp(&p99_ns[*b]));
            let ends = (repeats.len() + 1) / 4;
            usual[place] = repeats[ends..repeats.len() - ends].contains(&place);
        }
    }
    usual
}

/// Returns the median delay of a forwarder that does no work, in ns.
fn baseline(text: &str) -> Result<f64> {
    let (trials, _) = choose(text)?;
    let mut delays = Vec::new();
    for trial in &trials {
        let crossed = of_trial(&trial.run, &trial.trial, &trial.record)?;
        let taken = Taken::of(&crossed, trial.warm_up_ns(), 1);
        delays.extend(taken.packets.into_iter().map(|packet| packet.1));
    }
    median(delays).with_context(|| format!("--baseline {text}: no packet was matched"))
}

/// Describes the interrupts in a trial's trace, for comparison with the gaps; `None` if it was not traced.
fn seen_by_trace(trial: &Chosen) -> Result<Option<String>> {
    let file = trial.run.join(&trial.record.directory).join(EXPLANATION_FILE);
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{}: cannot be read", file.display())),
    };
    let explanation: TrialExplanation = serde_json::from_slice(&text)
        .with_context(|| format!("{}: is not an explanation", file.display()))?;
    let Some(loads) = traced(&explanation) else { return Ok(None) };
    let often: f64 = loads.iter().map(|load| load.rate_hz.map_or(0.0, |rate| rate.value)).sum();
    let time_ns: f64 = loads.iter().map(|load| load.time_ns.value).sum();
    Ok(Some(format!(
        "the trace of {} has {often:.0} interrupts per second, which take {:.2} % of the core",
        trial.name(),
        time_ns / 1e7
    )))
}

fn from_captures(
    arguments: &QueueingArgs,
    pre: &Path,
    post: &Path,
) -> Result<(QueueingModel, QueueingCalibration)> {
    let options = OpenOptions::default();
    let job = Job::of(Source::open(pre, options.clone(), true)?, Source::open(post, options, false)?);
    let crossed = of_job(job)?;
    let taken = Taken::of(&crossed, 0, arguments.burst.get());
    let release = arguments.release.map_or(Release::Immediate, Into::into);
    let known =
        Known { ring: arguments.ring.unwrap_or(RING_DEFAULT), batch: arguments.batch.unwrap_or(32), release };
    let (pre, post) = (pre.display(), post.display());
    let (model, mut calibration) = calibrate(&[taken.seen()], &known)
        .with_context(|| format!("{pre} and {post}: calibration failed"))?;
    calibration.trials = vec![format!("{pre} and {post}")];
    calibration.release = Some(release);
    Ok((model, calibration))
}

fn read(path: &Path) -> Result<SavedQueueingModel> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| {
        format!("{shown}: cannot be read; expected a file of `wiretail predict queueing --save`")
    })?;
    let saved: SavedQueueingModel = serde_json::from_slice(&text).with_context(|| {
        format!("{shown}: is not a model; expected a file of `wiretail predict queueing --save`")
    })?;
    if saved.schema != QUEUEING_MODEL_SCHEMA {
        bail!("{shown}: written as '{}'; expected {QUEUEING_MODEL_SCHEMA}: calibrate again", saved.schema);
    }
    capacity(&saved.model).map_err(|error| anyhow!("{shown}: {error}"))?;
    Ok(saved)
}

/// Writes a model to a file.
///
/// # Errors
/// Returns an error if the file can't be written.
pub fn save(path: &Path, model: &QueueingModel, calibration: Option<&QueueingCalibration>) -> Result<()> {
    let saved = SavedQueueingModel {
        schema: QUEUEING_MODEL_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model.clone(),
        calibration: calibration.cloned(),
    };
    let mut text = serde_json::to_vec(&saved)?;
    text.push(b'\n');
    outputs::write_file(path, &text)
}
