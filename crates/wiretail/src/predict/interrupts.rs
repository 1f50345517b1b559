//! `wiretail predict interrupts`: predicts which packets have to wait for interrupts. Prints a table or JSON,
//! draws a figure, and adds a comparison if there is a measurement.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_analysis::prediction::sampling::{Recurring, against, outcome, phase_ps, waits, worst};
use wiretail_capture::OpenOptions;
use wiretail_report::format::{count, duration, rate, ratio};
use wiretail_schema::prediction::interrupt::InterruptSpec;
use wiretail_schema::prediction::sampling::{
    InterruptSampling, LatePacket, MeasuredLate, SAMPLING_SCHEMA, SampledInterrupt, SamplingOutcome,
};

use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::outputs;
use crate::analyze::pipeline::Settings;
use crate::analyze::recognise::key_choice;
use crate::analyze::source::Source;
use crate::cli::predict::InterruptsArgs;

/// Largest number of late packets that are listed and drawn.
const WORST: usize = 5_000;
/// Largest number of simulated packets; each takes 8 bytes.
const PACKETS_MAX: u64 = 10_000_000;
/// Largest number of simulated interrupts.
const INTERRUPTS_MAX: f64 = 1e9;
/// Picoseconds in a nanosecond.
const PS: u64 = 1_000;
/// Longest duration in the arguments, in ns: one hour.
const LENGTH_NS_MAX: i64 = 3_600_000_000_000;
/// Rates of the sensitivity table, in percent of the requested rate.
const SENSITIVITY: [u64; 6] = [90, 95, 99, 101, 105, 110];

/// Runs `wiretail predict interrupts`.
///
/// # Errors
/// Returns an error if the interrupts leave no time for packets, if the simulation would take too long, or if
/// a capture can't be read.
pub fn run(arguments: &InterruptsArgs) -> Result<ExitCode> {
    let sampling = simulate(arguments)?;
    if let Some(path) = &arguments.figure {
        outputs::write_file(path, wiretail_report::svg(&wiretail_report::waits(&sampling)).as_bytes())?;
    }
    if let Some(path) = &arguments.report {
        outputs::write_file(path, wiretail_report::interrupts(&sampling).as_bytes())?;
    }
    outputs::print(&sampling, arguments.json, |out| write(out, &sampling))?;
    Ok(ExitCode::SUCCESS)
}

fn simulate(arguments: &InterruptsArgs) -> Result<InterruptSampling> {
    let (packets, pps) = (arguments.packets.get(), arguments.rate.get());
    let lengths = arguments.interrupts.iter().map(|spec| spec.length.ns);
    if packets > PACKETS_MAX {
        bail!("--packets {packets}: expected at most {PACKETS_MAX}");
    }
    if lengths.chain([arguments.service.ns]).any(|ns| !(0..=LENGTH_NS_MAX).contains(&ns)) {
        bail!("--service and interrupt lengths must be between 0s and 1h");
    }
    let seconds = packets as f64 / pps as f64;
    let interrupts = arguments.interrupts.iter().map(|spec| spec.rate.hz()).sum::<f64>() * seconds;
    if interrupts > INTERRUPTS_MAX {
        bail!(
            "{interrupts:.0} interrupts in the {seconds:.0} s of {packets} packets; expected at most \
             {INTERRUPTS_MAX:.0}: reduce --packets or increase --rate"
        );
    }
    let kinds: Vec<Recurring> = (0..)
        .zip(&arguments.interrupts)
        .map(|(place, spec)| recurring(arguments.seed, place, spec))
        .collect();
    let service_ps = arguments.service.ns.unsigned_abs() * PS;
    let interrupts_ns =
        arguments.interrupts.iter().map(|spec| spec.rate.hz() * spec.length.ns as f64).sum::<f64>();
    let at = |percent: u64| {
        let packet_uhz = pps.saturating_mul(percent * 10_000);
        let found = waits(packets, packet_uhz, service_ps, &kinds);
        found.map(|waits| (outcome(&waits, packet_uhz, service_ps, &kinds), waits))
    };
    let (nominal, waits) = at(100)?;
    let sampled = |(kind, spec): (&Recurring, &InterruptSpec)| SampledInterrupt {
        name: spec.name.clone(),
        rate_hz: spec.rate.hz(),
        length_ns: spec.length.ns,
        phase_ns: kind.phase_ps as f64 / PS as f64,
    };
    let worst = worst(&waits, pps.saturating_mul(1_000_000), WORST);
    let mut measured = match (&arguments.pre, &arguments.post) {
        (Some(pre), Some(post)) => Some(measured(arguments, pre, post)?),
        _ => None,
    };
    if let Some(measured) = &mut measured {
        measured.against = against((&worst, packets), (&measured.worst, measured.packets), WORST);
    }
    Ok(InterruptSampling {
        schema: SAMPLING_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: arguments.seed,
        packets,
        service_ns: arguments.service.ns,
        interrupts: kinds.iter().zip(&arguments.interrupts).map(sampled).collect(),
        interrupts_ns,
        max_pps: (service_ps > 0).then(|| (1e9 - interrupts_ns) / arguments.service.ns as f64),
        outcome: nominal,
        sensitivity: SENSITIVITY.iter().map(|percent| Ok(at(*percent)?.0)).collect::<Result<_>>()?,
        worst,
        measured,
    })
}

fn recurring(seed: u64, place: u64, spec: &InterruptSpec) -> Recurring {
    let uhz = spec.rate.uhz();
    let given = spec.phase.map(|phase| phase.ns.unsigned_abs().saturating_mul(PS));
    Recurring {
        uhz,
        length_ps: spec.length.ns.unsigned_abs() * PS,
        phase_ps: given.unwrap_or_else(|| phase_ps(seed, place, uhz)),
    }
}

/// Returns the worst packets of a pair of captures, with the delay above the median as an estimate of their
/// wait.
fn measured(arguments: &InterruptsArgs, pre: &Path, post: &Path) -> Result<MeasuredLate> {
    let options = OpenOptions::default();
    let job = Job {
        key: key_choice(&arguments.key, false)?,
        settings: Settings { trim_ns: arguments.trim.ns, worst: WORST, ..Settings::default() },
        ..Job::of(Source::open(pre, options.clone(), true)?, Source::open(post, options, false)?)
    };
    let (summary, _) = evaluate(job, None)?;
    let median = summary.delay.percentile(50.0);
    let median_ns = median.map_or(0, |percentile| percentile.value_ns);
    let first_ns = summary.pre.first_ns;
    let late = |packet: &wiretail_schema::summary::Worst| LatePacket {
        at_ns: (packet.pre_ns - first_ns) as f64,
        wait_ns: (packet.delay_ns - median_ns) as f64,
    };
    let mut worst: Vec<LatePacket> = summary.worst.iter().map(late).collect();
    worst.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
    let (clock, granularity_ns) = super::clock(&summary);
    Ok(MeasuredLate {
        pre: pre.display().to_string(),
        post: post.display().to_string(),
        packets: summary.delay.count,
        clock,
        granularity_ns,
        rate_pps: summary.pre.mean_rate_pps,
        median_ns,
        worst,
        against: None,
    })
}

fn write(out: &mut impl Write, sampling: &InterruptSampling) -> io::Result<()> {
    let nominal = &sampling.outcome;
    writeln!(
        out,
        "\n  {} packets at {}, core time {} each; interrupts take {:.1} µs per second",
        count(sampling.packets),
        exactly(nominal.rate_pps),
        duration(sampling.service_ns as f64),
        sampling.interrupts_ns / 1e3
    )?;
    for (place, (kind, beat)) in sampling.interrupts.iter().zip(&nominal.beats).enumerate() {
        let name = if kind.name.is_empty() { format!("interrupt {}", place + 1) } else { kind.name.clone() };
        let pattern = if kind.rate_hz <= 0.0 {
            "never".to_owned()
        } else if beat.beat_hz == 0.0 {
            format!(
                "in step with the packets, {} apart: the same wait for each, or none, depending on the phase",
                wiretail_report::format::digits(beat.packets_apart, 4)
            )
        } else {
            format!(
                "its pattern of waits repeats every {} ({:.4} Hz)",
                duration(1e9 / beat.beat_hz),
                beat.beat_hz
            )
        };
        writeln!(
            out,
            "    {name}: {}/s of {}, first at {}; {pattern}",
            wiretail_report::format::digits(kind.rate_hz, 6),
            duration(kind.length_ns as f64),
            duration(kind.phase_ns)
        )?;
    }
    writeln!(
        out,
        "\n  {:>12}  {:>9}  {:>9}  {:>11}  {:>11}  {:>11}  beat",
        "RATE", "late", "of all", "expected", "worst wait", "mean wait"
    )?;
    let mut all: Vec<&SamplingOutcome> = sampling.sensitivity.iter().chain([nominal]).collect();
    all.sort_by(|a, b| a.rate_pps.total_cmp(&b.rate_pps));
    all.into_iter().try_for_each(|found| row(out, found))?;
    if nominal.overloaded {
        let max =
            sampling.max_pps.map_or_else(String::new, |max| format!(": it serves at most {}", rate(max)));
        writeln!(
            out,
            "\n  OVERLOADED: packets arrive faster than the core serves them{max}. The queue grows while \
             they arrive; the waits depend on how long they arrive"
        )?;
    } else if let Some(max) = sampling.max_pps {
        writeln!(out, "\n  the core serves at most {}", rate(max))?;
    }
    if let Some(measured) = &sampling.measured {
        self::measured_beside(out, sampling, measured)?;
    }
    writeln!(out)
}

fn row(out: &mut impl Write, found: &SamplingOutcome) -> io::Result<()> {
    let beats: Vec<String> = found.beats.iter().map(|beat| format!("{:.2} Hz", beat.beat_hz)).collect();
    writeln!(
        out,
        "  {:>12}  {:>9}  {:>9}  {:>11}  {:>11}  {:>11}  {}{}",
        exactly(found.rate_pps),
        count(found.late),
        ratio(found.late_ratio),
        found.late_ratio_expected.map_or_else(|| "-".to_owned(), ratio),
        duration(found.max_wait_ns),
        duration(found.mean_wait_ns),
        beats.join(", "),
        if found.overloaded { "; overloaded" } else { "" }
    )
}

/// Formats a rate with all its digits, because the pattern is sensitive to the last digit.
fn exactly(pps: f64) -> String {
    format!("{} pps", wiretail_report::format::short(pps))
}

/// Writes the comparison of the simulation with the measurement.
fn measured_beside(
    out: &mut impl Write,
    sampling: &InterruptSampling,
    measured: &MeasuredLate,
) -> io::Result<()> {
    write!(
        out,
        "\n  MEASURED: {} packets at {}, median {}",
        count(measured.packets),
        rate(measured.rate_pps),
        duration(measured.median_ns as f64)
    )?;
    let Some(validation) = &measured.against else {
        return writeln!(out, "; no comparison: no packet waited in the measurement or in the simulation");
    };
    let more = if validation.long_or_more { " or more" } else { "" };
    let percent = |error: f64| format!("{:+.1} %", error * 100.0);
    writeln!(
        out,
        "\n    longest wait {}, simulated {}: {}",
        duration(validation.max_wait_ns),
        duration(sampling.outcome.max_wait_ns),
        percent(validation.wait_error)
    )?;
    writeln!(
        out,
        "    {}{more} waited {} or longer, simulated {}{more}{}",
        ratio(validation.long_measured),
        duration(validation.long_ns),
        ratio(validation.long_simulated),
        validation.long_error.map_or_else(String::new, |error| format!(": {}", percent(error)))
    )
}
