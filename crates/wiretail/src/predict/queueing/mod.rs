//! `wiretail predict queueing`: takes a model from the command line, from measured packets ([`calibrated`])
//! or from a file, simulates it at each rate, and validates it with measured trials ([`validate`]).

mod calibrated;
mod replay;
mod table;
mod trials;
mod validate;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_analysis::prediction::queueing::{capacity, predict};
use wiretail_schema::prediction::queueing::calibration::QueueingCalibration;
use wiretail_schema::prediction::queueing::{
    Arrivals, Interrupts, Length, QUEUEING_SCHEMA, QueueingModel, QueueingPrediction, Release, Wake,
};

use self::trials::RING_DEFAULT;
use crate::analyze::outputs;
use crate::cli::predict::queueing::{ArrivalChoice, QueueingArgs, ServiceChoice};

/// Default batch size.
const BATCH_DEFAULT: u64 = 32;

/// Runs `wiretail predict queueing`.
///
/// # Errors
/// Returns an error if a model or a load can't be simulated (the message states the expected values), or if
/// runs and files can't be read or are insufficient for a calibration.
pub fn run(arguments: &QueueingArgs) -> Result<ExitCode> {
    let (model, calibration) = match calibrated::model(arguments)? {
        Some(found) => found,
        None => (by_hand(arguments)?, None),
    };
    // The model is checked first, so that its errors are not attributed to a rate.
    capacity(&model)?;
    if let Some(path) = &arguments.save {
        calibrated::save(path, &model, calibration.as_ref())?;
    }
    let mut loads = Vec::new();
    for arrivals in arrivals(arguments, calibration.as_ref())? {
        let (load, _) = predict(&model, &arrivals, arguments.packets.get(), arguments.seed)
            .with_context(|| format!("{} can't be simulated", named(&arrivals)))?;
        loads.push(load);
    }
    let (validations, mut skipped) = validate::all(arguments, &model, calibration.as_ref())?;
    let (searches, others) = validate::searches(arguments, &model, calibration.as_ref())?;
    skipped.extend(others);
    let prediction = QueueingPrediction {
        schema: QUEUEING_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: arguments.seed,
        model,
        calibration,
        loads,
        validations,
        searches,
    };
    if let Some(path) = &arguments.report {
        outputs::write_file(path, wiretail_report::queueing(&prediction).as_bytes())?;
    }
    outputs::print(&prediction, arguments.json, |out| table::write(out, &prediction, &skipped))?;
    if !arguments.validate.is_empty() && prediction.validations.is_empty() && prediction.searches.is_empty() {
        bail!("nothing could be validated: {}", skipped.join("; "));
    }
    let within = prediction.validations.iter().all(|one| one.within)
        && prediction.searches.iter().all(|one| one.within);
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn by_hand(arguments: &QueueingArgs) -> Result<QueueingModel> {
    if !(-1e5..=1e5).contains(&arguments.clock_offset) {
        bail!("--clock-offset {}: expected ppm between -100000 and 100000", arguments.clock_offset);
    }
    let mut interrupts = arguments.interrupts.clone();
    for source in &mut interrupts {
        if let Interrupts::Periodic { period_ns, .. } = source {
            *period_ns /= 1.0 + arguments.clock_offset * 1e-6;
        }
    }
    let length = |ns: i64, how| match how {
        ServiceChoice::Constant => Length::Constant(ns as f64),
        ServiceChoice::Exponential => Length::Exponential(ns as f64),
    };
    let service = match (&arguments.service_samples, arguments.service) {
        (Some(path), _) => Length::Samples(numbers(path)?),
        (None, Some(service)) => length(service.ns, arguments.service_dist),
        (None, None) => bail!("expected --service, --service-samples, --calibrate or --model"),
    };
    let wake = Wake { after_idle_ns: 0.0, length: length(arguments.wake.ns, arguments.wake_dist) };
    Ok(QueueingModel {
        ring: arguments.ring.unwrap_or(RING_DEFAULT),
        batch: arguments.batch.unwrap_or(BATCH_DEFAULT),
        release: arguments.release.map_or(Release::Immediate, Into::into),
        service,
        batch_overhead: Length::Constant(arguments.overhead.ns as f64),
        wake: if arguments.wake.ns == 0 { vec![] } else { vec![wake] },
        interrupts,
        transfer_ns: arguments.transfer.ns as f64,
    })
}

/// Reads one number per line of a file; skips empty lines and lines that start with #.
fn numbers(path: &Path) -> Result<Vec<f64>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{shown}: cannot be read; expected one time in ns per line"))?;
    let mut numbers = Vec::new();
    for (line, place) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = line.parse::<f64>().ok().filter(|number| number.is_finite());
        numbers.push(
            number.with_context(|| {
                format!("{shown}:{place}: '{line}' is not a time in ns; expected a number")
            })?,
        );
    }
    Ok(numbers)
}

/// Returns the arrivals of each requested load.
fn arrivals(arguments: &QueueingArgs, calibration: Option<&QueueingCalibration>) -> Result<Vec<Arrivals>> {
    if let Some(path) = &arguments.arrival_times {
        return Ok(vec![Arrivals::Recorded { times_ns: numbers(path)? }]);
    }
    let burst = arguments.burst.get();
    let given_ns = arguments.spacing.map(|spacing| spacing.ns as f64);
    let spacing_ns = given_ns.or(calibration.and_then(|found| found.spacing_ns)).unwrap_or(0.0);
    let one = |&rate_pps: &u64| {
        let rate_pps = rate_pps as f64;
        Ok(match arguments.arrivals {
            ArrivalChoice::Poisson if burst > 1 => {
                bail!(
                    "--burst {burst}: bursts are evenly spaced; expected --arrivals constant, or no --burst"
                )
            }
            ArrivalChoice::Poisson => Arrivals::Poisson { rate_pps },
            ArrivalChoice::Constant if burst == 1 => Arrivals::Constant { rate_pps },
            ArrivalChoice::Constant => Arrivals::Bursts { rate_pps, packets: burst, spacing_ns },
        })
    };
    arguments.rates.iter().map(one).collect()
}

fn named(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Constant { rate_pps }
        | Arrivals::Bursts { rate_pps, .. }
        | Arrivals::Poisson { rate_pps } => format!("{rate_pps} pps"),
        Arrivals::Recorded { times_ns } => format!("the {} recorded arrivals", times_ns.len()),
    }
}
