//! Explains the late packets of two captures as far as this is possible without a trace.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_analysis::causes::interrupts;
use wiretail_analysis::causes::periodicity::{self, KnownClock, Numbers, POSITION, Series, kernel_ticks};
use wiretail_analysis::matching::Outcome;
use wiretail_capture::interrupts::parse_irq_csv;
use wiretail_capture::{OpenOptions, fields};
use wiretail_schema::causes::capture::{CAPTURE_EXPLANATION_SCHEMA, CaptureExplanation, InterruptTable};
use wiretail_schema::summary::Summary;

use super::text;
use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::outputs;
use crate::analyze::pipeline::Settings;
use crate::analyze::recognise::key_choice;
use crate::analyze::source::Source;
use crate::cli::explain::ExplainArgs;

/// Largest number of analyzed packets. Each packet takes 24 bytes, another 32 bytes in the spectrum, and 8
/// bytes for each of its counters.
const PACKETS_MAX: usize = 1 << 21;
/// Largest number of listed stalls.
const STALLS_MAX: usize = 100;
/// A delay is a stall if it exceeds the median by this multiple of the distance from the median to the 99.9th
/// percentile.
const STANDS_OUT: i64 = 20;
/// Seed of the permutations, fixed so that the same captures give the same probabilities.
const SEED: u64 = 1;

/// Explains a pair of captures.
///
/// # Errors
/// Returns an error if a file can't be read, or if no packet matches. The message names the file and the next
/// step.
pub fn explain(arguments: &ExplainArgs, post: &Path) -> Result<ExitCode> {
    if arguments.above.is_some_and(|above| above.ns <= 0) {
        bail!("--above must be longer than 0s");
    }
    let table = arguments.irq.as_deref().map(read_counters).transpose()?;
    let (job, again) = open(arguments, post)?;
    let (summary, series, whole) = read(job, again)?;
    let median_ns = percentile_ns(&summary, 50.0);
    let stands_out = STANDS_OUT * (percentile_ns(&summary, 99.9) - median_ns).max(1);
    let stall_above_ns = arguments.above.map_or(median_ns.saturating_add(stands_out), |above| above.ns);
    let packets = series.times_ns.iter().copied().zip(series.delays_ns.iter().copied());
    let stalls = interrupts::stalls(packets, stall_above_ns, STALLS_MAX);
    let span_ns = series.times_ns.last().copied().unwrap_or(0);
    let mut clocks = kernel_ticks();
    let interrupts = table.as_ref().zip(arguments.irq.as_deref()).map(|(table, path)| {
        let path = path.display().to_string();
        clocks.extend(reading_clock(table));
        interrupts::compare(&path, table, &stalls, span_ns, arguments.cpu, SEED)
    });
    if let (Some(cpu), Some(interrupts)) = (arguments.cpu, &interrupts)
        && interrupts.cpus.is_empty()
    {
        bail!("{}: has no counter of CPU {cpu}; leave out --cpu to see which CPUs it has", interrupts.path);
    }
    let explanation = CaptureExplanation {
        schema: CAPTURE_EXPLANATION_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        pre: arguments.pre.display().to_string(),
        post: post.display().to_string(),
        packets: whole,
        span_ns,
        median_ns,
        stall_above_ns,
        stalls,
        interrupts,
        periodicity: periodicity::find(&series, &clocks),
    };
    outputs::print(&explanation, arguments.json, |out| text::write(out, &explanation))?;
    Ok(ExitCode::SUCCESS)
}

fn read_counters(path: &Path) -> Result<InterruptTable> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("{shown}: cannot be read"))?;
    let text = std::str::from_utf8(&bytes)
        .with_context(|| format!("{shown}: not text; expected interrupt counters as in irq.csv"))?;
    parse_irq_csv(text).with_context(|| format!("{shown}: not interrupt counters as in irq.csv"))
}

/// Returns the period of the counter readings. It is needed because reading the counters itself interrupts
/// cores.
fn reading_clock(table: &InterruptTable) -> Option<KnownClock> {
    let (first, last) = (table.rows.first()?, table.rows.last()?);
    let periods = table.rows.len() - 1;
    let frequency_hz = periods as f64 * 1e6 / (last.at_us - first.at_us) as f64;
    let name = "the reading of the interrupt counters".to_owned();
    Some(KnownClock { name, frequency_hz, error_hz: frequency_hz * 1e-3 })
}

fn percentile_ns(summary: &Summary, percent: f64) -> i64 {
    let found =
        summary.delay.percentiles.iter().find(|percentile| (percentile.percentile - percent).abs() < 1e-9);
    found.map_or(summary.delay.max_ns, |percentile| percentile.value_ns)
}

fn open(arguments: &ExplainArgs, post: &Path) -> Result<(Job<'static>, Source)> {
    let options = OpenOptions::default();
    if arguments.pre.as_os_str() == "-" && post.as_os_str() == "-" {
        bail!("both captures are -: standard input is one capture; pass the other as a file");
    }
    let pre = Source::open(&arguments.pre, options.clone(), true)?;
    let again = pre.other_tap(options.clone())?;
    let post = Source::open(post, options, false)?;
    let job = Job {
        key: key_choice(&arguments.key, false)?,
        settings: Settings { post_offset_ns: arguments.post_offset.ns, ..Settings::default() },
        progress: !arguments.quiet,
        ..Job::of(pre, post)
    };
    Ok((job, again))
}

/// Returns the summary, the matched packets in order of departure with the counters in them, and the total
/// number of packets. Reads the ingress capture a second time, from `again`, to get the counters.
///
/// # Errors
/// As for [`explain`].
pub fn read(job: Job<'_>, again: Source) -> Result<(Summary, Series, u64)> {
    let mut matched: Vec<(u64, i64, i64)> = Vec::new();
    let mut whole = 0;
    let (summary, _) = evaluate(
        job,
        Some(&mut |outcome: &Outcome| {
            if let Outcome::Matched { sent, delay_ns } = outcome {
                whole += 1;
                if matched.len() < PACKETS_MAX {
                    matched.push((sent.index(), sent.ts_ns, *delay_ns));
                }
            }
        }),
    )?;
    matched.sort_unstable();
    let first_ns = matched.first().map_or(0, |(_, at_ns, _)| *at_ns);
    let mut series = Series {
        times_ns: matched.iter().map(|(_, at_ns, _)| at_ns - first_ns).collect(),
        delays_ns: matched.iter().map(|(_, _, delay_ns)| *delay_ns).collect(),
        numbers: numbers(again, &matched)?,
    };
    let positions = matched.iter().map(|(index, _, _)| *index).collect();
    series.numbers.insert(0, Numbers { name: POSITION.to_owned(), values: positions });
    Ok((summary, series, whole))
}

/// Whether the values increase in small steps. Other values recur for reasons of their own, or never.
fn counts(values: &[u64]) -> bool {
    let steps = values.windows(2).filter(|pair| (1..1024).contains(&pair[1].wrapping_sub(pair[0]))).count();
    steps * 10 >= values.len() * 9
}

/// Reads the counters in each matched packet.
fn numbers(pre: Source, matched: &[(u64, i64, i64)]) -> Result<Vec<Numbers>> {
    let mut found: Vec<Option<Vec<u64>>> =
        vec![Some(Vec::with_capacity(matched.len())); fields::COUNTERS.len()];
    let mut reader = pre.read()?;
    let mut next = 0;
    loop {
        let more = reader.read(&mut |frame| {
            // Packets are identified by their times, because the capture also contains records without a key
            // or a match.
            if matched.get(next).is_some_and(|(_, at_ns, _)| *at_ns == frame.ts_ns) {
                next += 1;
                for (values, value) in found.iter_mut().zip(fields::counters(frame)) {
                    match (values.as_mut(), value) {
                        (Some(list), Some(value)) => list.push(value),
                        _ => *values = None,
                    }
                }
            }
        })?;
        if !more || next == matched.len() {
            break;
        }
    }
    let named = fields::COUNTERS.iter().zip(found);
    let complete = named.filter_map(|(name, values)| Some((name, values?)));
    Ok(complete
        .filter(|(_, values)| values.len() == matched.len() && counts(values))
        .map(|(name, values)| Numbers { name: (*name).to_owned(), values })
        .collect())
}
