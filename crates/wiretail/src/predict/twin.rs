//! `wiretail predict twin`: a model from the command line, simulated at each rate.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_analysis::twin::{capacity, predict};
use wiretail_report::format::{count, duration, rate, ratio};
use wiretail_schema::predict::twin::{
    Arrivals, Interrupts, Length, TWIN_SCHEMA, TwinLoad, TwinModel, TwinPrediction,
};
use wiretail_schema::units::Duration;

use crate::cli::predict::twin::{ArrivalChoice, ServiceChoice, TwinArgs};

/// Percentiles in the table; JSON has more.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Runs the command.
///
/// # Errors
/// A model or a load that can't be simulated: what it is, and what was expected.
pub fn run(arguments: &TwinArgs) -> Result<ExitCode> {
    let model = model(arguments)?;
    // What is wrong with the path is no fault of a rate's.
    capacity(&model)?;
    let mut loads = Vec::new();
    for &rate_pps in &arguments.rates {
        let arrivals = arrivals(arguments, rate_pps as f64)?;
        let (load, _) = predict(&model, &arrivals, arguments.packets.get(), arguments.seed)
            .with_context(|| format!("{rate_pps} pps can't be simulated"))?;
        loads.push(load);
    }
    let prediction = TwinPrediction {
        schema: TWIN_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: arguments.seed,
        model,
        loads,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if arguments.json {
        serde_json::to_writer(&mut out, &prediction)?;
        writeln!(out)?;
    } else {
        table(&mut out, &prediction)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn model(arguments: &TwinArgs) -> Result<TwinModel> {
    if !(-1e5..=1e5).contains(&arguments.clock_offset) {
        bail!("--clock-offset {}: expected millionths between -100000 and 100000", arguments.clock_offset);
    }
    let service_ns = arguments.service.ns as f64;
    let mut interrupts = arguments.interrupts.clone();
    for source in &mut interrupts {
        if let Interrupts::Periodic { period_ns, .. } = source {
            *period_ns /= 1.0 + arguments.clock_offset * 1e-6;
        }
    }
    Ok(TwinModel {
        ring: arguments.ring,
        batch: arguments.batch,
        release: arguments.release.into(),
        service: match arguments.service_dist {
            ServiceChoice::Constant => Length::Constant(service_ns),
            ServiceChoice::Exponential => Length::Exponential(service_ns),
        },
        batch_overhead: Length::Constant(arguments.overhead.ns as f64),
        interrupts,
        transfer_ns: arguments.transfer.ns as f64,
    })
}

fn arrivals(arguments: &TwinArgs, rate_pps: f64) -> Result<Arrivals> {
    let burst = arguments.burst.get();
    Ok(match arguments.arrivals {
        ArrivalChoice::Poisson if burst > 1 => {
            bail!("--burst {burst}: bursts are evenly spaced; expected --arrivals constant, or no --burst")
        }
        ArrivalChoice::Poisson => Arrivals::Poisson { rate_pps },
        ArrivalChoice::Constant if burst == 1 => Arrivals::Constant { rate_pps },
        ArrivalChoice::Constant => {
            Arrivals::Bursts { rate_pps, packets: burst, spacing_ns: arguments.spacing.ns as f64 }
        }
    })
}

/// The model in a line, a row a load, and what the reader must know.
fn table(out: &mut impl Write, prediction: &TwinPrediction) -> io::Result<()> {
    let model = &prediction.model;
    write!(out, "  ring {}, batch {}, service {}", count(model.ring), model.batch, length(&model.service))?;
    for source in &model.interrupts {
        write!(out, ", interrupts {}", interrupts(source))?;
    }
    let capacity = prediction.loads.iter().find_map(|load| load.capacity_pps);
    writeln!(out, ": capacity {}\n", capacity.map_or_else(|| "without limit".to_owned(), rate))?;
    write!(out, "  {:>12} {:>8}", "rate", "load")?;
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
            "\n  ? rests on too few packets: fewer than ten are beyond it; --packets simulates more"
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

/// One load; whether a percentile rests on too few packets.
fn row(out: &mut impl Write, load: &TwinLoad) -> io::Result<bool> {
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
            format!("{} Hz {}", wiretail_report::format::digits(1e9 / period_ns, 4), length(one))
        }
        Interrupts::Poisson { per_second, length: one } => {
            format!("{per_second} Hz (Poisson) {}", length(one))
        }
        Interrupts::Recorded { spans } => format!("{} recorded", spans.len()),
    }
}
