//! The human-readable model, its calibration, predictions and validation.

use std::io::{self, Write};

use wiretail_report::format::{count, digits, duration, first_of, rate, ratio, short};
use wiretail_schema::prediction::queueing::calibration::{
    ComparedPercentile, QueueingCalibration, QueueingSearchValidation, QueueingValidation,
};
use wiretail_schema::prediction::queueing::{
    Interrupts, Length, QueueingLoad, QueueingModel, QueueingPrediction,
};
use wiretail_schema::units::Duration;

/// Largest number of reasons for skipped validations that are printed.
const SKIPPED: usize = 4;
/// Percentiles in the table; JSON has more.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Writes everything; `skipped` lists the reasons why trials were not validated.
///
/// # Errors
/// Returns an error if `out` can't be written, for example because a pipe was closed.
pub fn write(out: &mut impl Write, prediction: &QueueingPrediction, skipped: &[String]) -> io::Result<()> {
    model(out, prediction)?;
    if let Some(calibration) = &prediction.calibration {
        evidence(out, &prediction.model, calibration)?;
    }
    if !prediction.loads.is_empty() {
        loads(out, prediction)?;
    }
    if !prediction.validations.is_empty() {
        validations(out, &prediction.validations)?;
    }
    if !prediction.searches.is_empty() {
        searches(out, &prediction.searches)?;
    }
    skipped.iter().take(SKIPPED).try_for_each(|reason| writeln!(out, "  not validated: {reason}"))?;
    match skipped.len().saturating_sub(SKIPPED) {
        0 => Ok(()),
        others => writeln!(out, "  not validated: {others} others"),
    }
}

/// Writes the model in one line.
fn model(out: &mut impl Write, prediction: &QueueingPrediction) -> io::Result<()> {
    let model = &prediction.model;
    write!(out, "  ring {}, batch {}, service {}", count(model.ring), model.batch, length(&model.service))?;
    for source in &model.interrupts {
        write!(out, ", interrupts {}", interrupts(source))?;
    }
    let capacity = wiretail_analysis::prediction::queueing::capacity(model).ok().and_then(|found| found.pps);
    writeln!(out, ": capacity {}", capacity.map_or_else(|| "unlimited".to_owned(), rate))
}

/// Writes the basis of a calibrated model.
fn evidence(out: &mut impl Write, model: &QueueingModel, found: &QueueingCalibration) -> io::Result<()> {
    writeln!(out, "\n  CALIBRATED with {}", first_of(&found.trials))?;
    let high = found.service_ns.high.map_or("open".to_owned(), duration);
    writeln!(
        out,
        "    service     median {} [{} ... {high}]: {} gaps, {} of them while the device was busy",
        duration(found.service_ns.value),
        duration(found.service_ns.low),
        count(found.gaps),
        duration(found.busy_ns)
    )?;
    let seen = &found.interrupts;
    let high = seen.per_second.high.map_or("open".to_owned(), |high| digits(high, 3));
    writeln!(
        out,
        "    interrupts  {}: {} per second [{} ... {high}], {} of the time, at most {}{}",
        count(seen.count),
        digits(seen.per_second.value, 3),
        digits(seen.per_second.low, 3),
        ratio(seen.share),
        duration(seen.longest_ns),
        seen.above_ns
            .map_or(String::new(), |above| format!("; packets that took longer than {}", duration(above)))
    )?;
    writeln!(
        out,
        "    transfer    {}: {} packets found it idle",
        duration(model.transfer_ns),
        count(found.isolated)
    )?;
    for wake in &found.wakes {
        writeln!(
            out,
            "    wake        {} after {} idle: {} packets",
            duration(wake.mean_ns),
            duration(wake.after_idle_ns),
            count(wake.packets)
        )?;
    }
    if let Some(spacing_ns) = found.spacing_ns {
        writeln!(out, "    sender      packets of a burst are {} apart", duration(spacing_ns))?;
    }
    found.remarks.iter().try_for_each(|remark| writeln!(out, "    note: {remark}"))
}

/// Writes one row per load, and notes below the table.
fn loads(out: &mut impl Write, prediction: &QueueingPrediction) -> io::Result<()> {
    write!(out, "\n  {:>12} {:>8}", "rate", "load")?;
    for percentile in SHOWN {
        write!(out, " {:>11}", format!("p{percentile}"))?;
    }
    writeln!(out, " {:>11} {:>9}", "max", "loss")?;
    let mut unsupported = false;
    for load in &prediction.loads {
        unsupported |= row(out, load)?;
    }
    if unsupported {
        writeln!(
            out,
            "\n  ? too few packets: fewer than ten are beyond this percentile; increase --packets"
        )?;
    }
    if prediction.loads.iter().any(|load| load.overloaded) {
        writeln!(
            out,
            "\n  overloaded: the queue grows until the ring is full; delays and loss depend on how long the load lasts\n  (here: --packets)"
        )?;
    }
    Ok(())
}

/// Writes the predicted capacity and the rates that searches found, one row per goal.
fn searches(out: &mut impl Write, validations: &[QueueingSearchValidation]) -> io::Result<()> {
    let width =
        validations.iter().map(|validation| validation.name.chars().count()).max().unwrap_or(0).max(6);
    writeln!(out, "\n  CAPACITY predicted and found by search")?;
    writeln!(
        out,
        "  {:<width$}  {:<12} {:>12} {:>12} {:>12}  {:>8}",
        "search", "goal", "predicted", "met at", "missed at", "error"
    )?;
    for validation in validations {
        let upper = validation.upper_pps.map_or("?".to_owned(), |pps| rate(pps as f64));
        writeln!(
            out,
            "  {:<width$}  {:<12} {:>12} {:>12} {upper:>12}  {:>+6.1} %  {}",
            validation.name,
            validation.goal,
            rate(validation.predicted_pps),
            rate(validation.lower_pps as f64),
            validation.error * 100.0,
            if validation.within { "ok" } else { "BEYOND" }
        )?;
    }
    let within = validations.iter().filter(|validation| validation.within).count();
    writeln!(out, "\n  {within} of {} rates are within 10 %", validations.len())
}

/// Writes predicted and measured values, one row per load.
fn validations(out: &mut impl Write, validations: &[QueueingValidation]) -> io::Result<()> {
    let width =
        validations.iter().map(|validation| validation.name.chars().count()).max().unwrap_or(0).max(5);
    writeln!(out, "\n  PREDICTED and measured")?;
    write!(out, "  {:<width$} {:>7}", "load", "of all")?;
    for one in &validations[0].percentiles {
        write!(out, "  {:>30}", format!("p{}", short(one.percentile)))?;
    }
    writeln!(out, "  {:>19}", "loss")?;
    for validation in validations {
        let load = validation.predicted.load.map_or_else(|| "?".to_owned(), ratio);
        write!(out, "  {:<width$} {load:>7}", validation.name)?;
        for one in &validation.percentiles {
            write!(out, "  {:>30}", compared(one))?;
        }
        let loss =
            format!("{} / {}", ratio(validation.predicted.loss_ratio), ratio(validation.measured_loss_ratio));
        let overloaded = if validation.predicted.overloaded { "  overloaded" } else { "" };
        writeln!(out, "  {loss:>19}  {}{overloaded}", verdict(validation))?;
    }
    let failed: Vec<&QueueingValidation> =
        validations.iter().filter(|validation| !validation.within).collect();
    writeln!(
        out,
        "\n  {} of {} loads are within 10 % at p50 and 20 % at p99",
        validations.len() - failed.len(),
        validations.len()
    )?;
    let inside = failed.iter().filter(|validation| validation.within_repeats).count();
    if inside > 0 {
        writeln!(
            out,
            "  {inside} of the others lie within the spread of the measured repeats, which is larger"
        )?;
    }
    for validation in failed {
        writeln!(
            out,
            "    {} ({}): {}",
            validation.name,
            first_of(&validation.trials),
            validation.failures.join("; ")
        )?;
    }
    replays(out, validations, width)?;
    if validations.iter().flat_map(|validation| &validation.percentiles).any(|one| !one.supported) {
        writeln!(out, "  ? fewer than ten measured packets are beyond this percentile: not judged")?;
    }
    Ok(())
}

/// Writes the replays of the same loads with the recorded arrivals and stalls, one row each.
fn replays(out: &mut impl Write, validations: &[QueueingValidation], width: usize) -> io::Result<()> {
    let stalls = if validations.iter().all(|validation| validation.replay.stalls) {
        " and the stalls of the device"
    } else {
        ""
    };
    writeln!(
        out,
        "\n  REPLAYED with the recorded arrivals{stalls} of each trial; for repeats, the one with the median error"
    )?;
    for validation in validations {
        write!(out, "  {:<width$}", validation.name)?;
        for one in &validation.replay.percentiles {
            let one = ComparedPercentile {
                measured_low_ns: one.measured_ns,
                measured_high_ns: one.measured_ns,
                ..*one
            };
            write!(out, "  {:>30}", compared(&one))?;
        }
        writeln!(out, "  {}", if validation.replay.within { "ok" } else { "BEYOND" })?;
    }
    let within = validations.iter().filter(|validation| validation.replay.within).count();
    writeln!(out, "\n  {within} of {} replays are within 10 % at p50 and 20 % at p99", validations.len())?;
    let others =
        validations.iter().filter(|validation| validation.replay.within && !validation.within).count();
    if others > 0 {
        writeln!(
            out,
            "  {others} predictions fail but their replays do not: not the device, but the load generator\n  \
             or the machine behaved differently than in the calibration"
        )?;
    }
    Ok(())
}

fn verdict(validation: &QueueingValidation) -> &'static str {
    match (validation.within, validation.within_repeats) {
        (true, _) => "ok",
        (false, true) => "BETWEEN REPEATS",
        (false, false) => "BEYOND",
    }
}

fn compared(one: &ComparedPercentile) -> String {
    let spread = match one.measured_low_ns == one.measured_high_ns {
        true => String::new(),
        false => format!(
            " [{} ... {}]",
            duration(one.measured_low_ns as f64),
            duration(one.measured_high_ns as f64)
        ),
    };
    format!(
        "{} / {}{spread} {:+.1} %{}",
        duration(one.predicted_ns as f64),
        duration(one.measured_ns as f64),
        one.error * 100.0,
        if one.supported { "" } else { "?" }
    )
}

/// Writes one load; returns whether a percentile has too few packets.
fn row(out: &mut impl Write, load: &QueueingLoad) -> io::Result<bool> {
    let mut unsupported = false;
    write!(
        out,
        "  {:>12} {:>8}",
        load.rate_pps.map_or_else(|| "?".to_owned(), rate),
        load.load.map_or_else(|| "?".to_owned(), ratio)
    )?;
    for wanted in SHOWN {
        let found = load.delay.iter().flat_map(|delay| &delay.percentiles).find(|at| at.percentile == wanted);
        let text = found.map_or_else(String::new, |at| {
            unsupported |= !at.supported;
            format!("{}{}", duration(at.value_ns as f64), if at.supported { "" } else { "?" })
        });
        write!(out, " {text:>11}")?;
    }
    let max = load.delay.as_ref().map_or_else(String::new, |delay| duration(delay.max_ns as f64));
    let note = if load.overloaded { "  overloaded" } else { "" };
    writeln!(out, " {max:>11} {:>9}{note}", ratio(load.loss_ratio))?;
    Ok(unsupported)
}

fn length(length: &Length) -> String {
    let text = |ns: f64| Duration::from_ns(ns as i64).to_string();
    match length {
        Length::Constant(ns) => text(*ns),
        Length::Exponential(ns) => format!("{} (exponential)", text(*ns)),
        Length::Samples(samples) => format!("of {} samples", samples.len()),
    }
}

fn interrupts(source: &Interrupts) -> String {
    match source {
        Interrupts::Periodic { period_ns, length: one, .. } => {
            format!("{} Hz {}", digits(1e9 / period_ns, 4), length(one))
        }
        Interrupts::Poisson { per_second, length: one } => {
            format!("{} Hz (Poisson) {}", digits(*per_second, 4), length(one))
        }
        Interrupts::Recorded { spans } => format!("{} recorded", spans.len()),
    }
}
