//! `wiretail predict tail`: predicts the highest future delays from two captures.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_analysis::matching::Outcome;
use wiretail_analysis::prediction::tail::{self, Packets, predict};
use wiretail_capture::OpenOptions;
use wiretail_report::format::{count, digits, duration, percentile};
use wiretail_schema::prediction::tail::{Basis, Component, Fit, Forecast, TAIL_SCHEMA, Tail, TailPrediction};

use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::outputs;
use crate::analyze::pipeline::Settings;
use crate::analyze::recognise::key_choice;
use crate::analyze::source::Source;
use crate::cli::tail::TailArgs;

/// Largest number of analyzed packets; each takes about 50 bytes.
const PACKETS_MAX: usize = 1 << 26;

/// Runs `wiretail predict tail`.
///
/// # Errors
/// Returns an error if a file can't be read, or if no packet of the captures matches. The message names the
/// file and the next step.
pub fn run(arguments: &TailArgs) -> Result<ExitCode> {
    if let Some(once_in) = arguments.once_in.iter().find(|once_in| once_in.ns <= 0) {
        bail!("--once-in {once_in}: expected more than 0s");
    }
    let Read { times_ns, delays_ns, granularity_ns, clock } = read(arguments)?;
    let settings = tail::Settings {
        granularity_ns,
        run_packets: arguments.run,
        calibrate: arguments.calibrate,
        ahead: arguments.ahead.map(Into::into),
        once_in_ns: arguments.once_in.iter().map(|once_in| once_in.ns).collect(),
        seed: arguments.seed,
    };
    let tail = predict(Packets { times_ns: &times_ns, delays_ns: &delays_ns }, &settings);
    let good = tail.refused.is_none() && tail.forecast.as_ref().is_none_or(|f| f.holds != Some(false));
    let prediction = TailPrediction {
        schema: TAIL_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        pre: arguments.pre.display().to_string(),
        post: arguments.post.display().to_string(),
        clock,
        trim_ns: arguments.trim.ns,
        calibrate: arguments.calibrate,
        tail,
    };
    if let Some(path) = &arguments.report {
        outputs::write_file(path, wiretail_report::tail(&prediction).as_bytes())?;
    }
    outputs::print(&prediction, arguments.json, |out| write(out, &prediction.tail, delays_ns.len() as u64))?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The matched packets in order of departure.
struct Read {
    times_ns: Vec<i64>,
    delays_ns: Vec<i64>,
    granularity_ns: f64,
    clock: String,
}

fn read(arguments: &TailArgs) -> Result<Read> {
    let options = OpenOptions::default();
    if arguments.pre.as_os_str() == "-" && arguments.post.as_os_str() == "-" {
        bail!("both captures are -: standard input is one capture; pass the other as a file");
    }
    let pre = Source::open(&arguments.pre, options.clone(), true)?;
    let post = Source::open(&arguments.post, options, false)?;
    let job = Job {
        key: key_choice(&arguments.key, false)?,
        settings: Settings {
            trim_ns: arguments.trim.ns,
            post_offset_ns: arguments.post_offset.ns,
            ..Settings::default()
        },
        progress: !arguments.quiet,
        ..Job::of(pre, post)
    };
    let mut matched: Vec<(u64, i64, i64)> = Vec::new();
    let (summary, _) = evaluate(
        job,
        Some(&mut |outcome: &Outcome| {
            if let Outcome::Matched { sent, delay_ns } = outcome
                && matched.len() <= PACKETS_MAX
            {
                matched.push((sent.index(), sent.ts_ns, *delay_ns));
            }
        }),
    )?;
    if matched.len() > PACKETS_MAX {
        bail!("more than {PACKETS_MAX} packets; split the captures; a part of them is enough");
    }
    matched.sort_unstable();
    let (clock, granularity_ns) = super::clock(&summary);
    Ok(Read {
        times_ns: matched.iter().map(|(_, at_ns, _)| *at_ns).collect(),
        delays_ns: matched.iter().map(|(_, _, delay_ns)| *delay_ns).collect(),
        granularity_ns,
        clock,
    })
}

fn write(out: &mut impl Write, tail: &Tail, packets: u64) -> io::Result<()> {
    writeln!(
        out,
        "  {} of {} packets in {:.3} s, {:.0} per second; delay granularity {} ns\n",
        count(tail.packets),
        count(packets),
        tail.span_ns as f64 * 1e-9,
        tail.rate_pps,
        tail.granularity_ns
    )?;
    if let Some(fit) = &tail.fit {
        write_fit(out, fit, tail)?;
    }
    if let Some(refused) = &tail.refused {
        writeln!(out, "  REFUSED: {}\n", refused.reason)?;
    }
    if !tail.return_levels.is_empty() {
        writeln!(out, "  RETURN PERIOD, on average, with 95 % confidence")?;
    }
    for level in &tail.return_levels {
        writeln!(
            out,
            "    {:>9}   {:>10}   {} to {}   one packet in {}",
            duration(level.once_in_ns as f64),
            duration(level.delay_ns.round()),
            duration(level.low_ns.round()),
            duration(level.high_ns.round()),
            count(level.once_in_packets as u64)
        )?;
    }
    if !tail.return_levels.is_empty() {
        writeln!(out)?;
    }
    if let Some(forecast) = &tail.forecast {
        write_forecast(out, forecast)?;
    }
    writeln!(out, "  MEASUREMENT TIME for ten packets above a percentile")?;
    for support in &tail.support {
        writeln!(
            out,
            "    {:>12}   {:>13} packets   {}{}",
            percentile(support.percentile),
            count(support.packets),
            support.seconds.map_or("at an unknown rate".to_owned(), span),
            if support.supported { "   enough were measured" } else { "" }
        )?;
    }
    Ok(())
}

/// Formats a time in s, in units up to days.
fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{} d", digits(s / 86_400.0, 3)),
        s if s >= 7200.0 => format!("{} h", digits(s / 3600.0, 3)),
        s if s >= 120.0 => format!("{} min", digits(s / 60.0, 3)),
        s => duration(s * 1e9),
    }
}

fn write_fit(out: &mut impl Write, fit: &Fit, tail: &Tail) -> io::Result<()> {
    if let Some(below) = &fit.below {
        write_heap(out, below, fit)?;
    }
    writeln!(
        out,
        "  {} above {}: {} packets in {} events (packets with fewer than {} others between them are one \
         event)",
        if fit.below.is_some() { "UPPER COMPONENT" } else { "TAIL" },
        duration(fit.threshold_ns),
        count(fit.exceedances),
        count(fit.events),
        tail.run_packets
    )?;
    writeln!(
        out,
        "    generalized Pareto: shape {:.3} ({:.3} to {:.3}), scale {}; {}",
        fit.shape,
        fit.shape_low,
        fit.shape_high,
        duration(fit.scale_ns.round()),
        fit.end_ns.map_or("no upper end".to_owned(), |end| format!("ends at {}", duration(end.round())))
    )?;
    if fit.thin && fit.below.is_none() {
        writeln!(
            out,
            "    no threshold with 100 or more events has a fitting distribution: this fit is based on fewer \
             events"
        )?;
    }
    let chosen = tail.candidates.iter().find(|candidate| candidate.threshold_ns == fit.threshold_ns);
    if let Some(chosen) = chosen {
        writeln!(
            out,
            "    p-values: goodness of fit {}, evenness of counts {:.3}, evenness of sizes {:.3}, maximum {:.3}",
            fit_chance(chosen.fit_chance),
            chosen.counts_chance,
            chosen.sizes_chance,
            fit.maximum_chance
        )?;
    }
    writeln!(out, "    the counts vary {:.1} times as much as those of a Poisson process\n", fit.dispersion)
}

/// Writes the tail of both components together, and the distribution of the lower component.
fn write_heap(out: &mut impl Write, below: &Component, fit: &Fit) -> io::Result<()> {
    writeln!(
        out,
        "  TAIL above {}: {} packets in {} events, in two components: {} of the events are below {}",
        duration(below.threshold_ns),
        count(below.exceedances),
        count(below.events),
        count((below.share * below.events as f64).round() as u64),
        duration(fit.threshold_ns)
    )?;
    writeln!(
        out,
        "    no single generalized Pareto distribution fits 100 or more events; one per component does: p-value {}",
        fit_chance(below.fit_chance)
    )?;
    let scale = duration(below.scale_ns.round());
    writeln!(out, "    lower component: shape {:.3}, scale {scale}\n", below.shape)
}

/// Formats the p-value of a fit. Values above 0.05 are not resolved any further.
fn fit_chance(chance: f64) -> String {
    if chance > 0.05 { "more than 0.05".to_owned() } else { format!("{chance:.3}") }
}

fn write_forecast(out: &mut impl Write, forecast: &Forecast) -> io::Result<()> {
    let percent = forecast.confidence * 100.0;
    writeln!(
        out,
        "  EVENTS IN THE NEXT {} PACKETS; all bands hold jointly with {percent:.0} % confidence",
        count(forecast.packets)
    )?;
    for level in &forecast.levels {
        let observed = level.observed.map_or(String::new(), |observed| {
            let inside = (level.low..=level.high).contains(&observed);
            format!("   observed {:>6}  {}", count(observed), if inside { "inside" } else { "OUTSIDE" })
        });
        writeln!(
            out,
            "    above {:>10}   {:>8} expected   {:>6} to {:<6} {}{observed}",
            duration(level.level_ns),
            digits(level.expected, 3),
            count(level.low),
            count(level.high),
            match level.basis {
                Basis::Counted => "counted",
                Basis::Fitted => "fitted ",
            }
        )?;
    }
    writeln!(out)
}
