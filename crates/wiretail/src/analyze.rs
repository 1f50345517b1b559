//! `wiretail analyze`: from two captures to a verdict.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_analysis::figures::figures;
use wiretail_analysis::published::{self, Key, Packet};
use wiretail_analysis::summarize::{self, summarize};
use wiretail_capture::read::{InterfaceChoice, OpenOptions, Timestamps};
use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{Analysis, Outcome, Summary};
use wiretail_schema::units::Duration;

use crate::cli::{AnalyzeArgs, TimestampPlace};
use crate::outputs::{self, Samples};
use crate::pipeline::{Each, Settings, TapInput, measure};
use crate::progress::Progress;
use crate::recognise::{key_choice, recognise};
use crate::source::Source;
use crate::terminal;

/// Runs the command.
///
/// # Errors
/// Whatever keeps it from a result; the message names the file and the next step.
pub fn run(arguments: &AnalyzeArgs) -> Result<ExitCode> {
    if arguments.window.ns <= 0 || arguments.trim.ns < 0 {
        bail!("--window must be longer than 0s and --trim not negative");
    }
    let choice = key_choice(&arguments.key, arguments.zero_checksums)?;
    let (pre, post) = sources(arguments)?;
    if let Some(prefix) = &arguments.csv_compat {
        write_published(&pre, &post, prefix, arguments)?;
    }
    let recognition = recognise(&pre, &post, &choice, arguments.post_offset.ns, arguments.window.ns)?;
    let settings = Settings {
        window_ns: arguments.window.ns,
        trim_ns: arguments.trim.ns,
        post_offset_ns: arguments.post_offset.ns,
        keyer: recognition.keyer,
        flows: FlowRule::from(arguments.flows),
        worst: arguments.worst,
    };
    let tap = |source: &Source, interface: &Option<InterfaceChoice>| match interface {
        Some(interface) => format!("{} ({interface})", source.name),
        None => source.name.clone(),
    };
    let title =
        format!("{} → {}", tap(&pre, &arguments.pre_interface), tap(&post, &arguments.post_interface));
    let input = |source: Source| -> Result<TapInput> {
        Ok(TapInput { name: source.name.clone(), reader: source.read()? })
    };
    let (pre, post) = (input(pre)?, input(post)?);
    let total = pre.reader.total_len().zip(post.reader.total_len()).map(|(pre, post)| pre + post);
    let progress = Progress::new(total, !arguments.quiet);
    let mut samples =
        arguments.out.as_deref().map(|directory| Samples::create(directory, &title)).transpose()?;
    let mut each = samples.as_mut().map(|samples| |outcome: &_| samples.push(outcome));
    let each = each.as_mut().map(|each| each as Each);
    let measured = measure(pre, post, &settings, &progress, each)?;
    if let Some(samples) = samples {
        samples.finish()?;
    }
    let context = summarize::Context {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        title,
        pre: measured.pre.facts,
        post: measured.post.facts,
        key: recognition.key,
        flow_rule: settings.flows,
        flow_names: measured.pre.flow_names,
        budgets: arguments.budgets.clone(),
    };
    let nothing = nothing_matched(&context, &measured.measurement.matching);
    let (pre, post) = (measured.pre.tally, measured.post.tally);
    let Some((summary, delays)) = summarize(context, measured.measurement, &pre, &post) else {
        bail!(nothing);
    };
    let written = match &arguments.out {
        Some(directory) => {
            let figures = figures(&summary, &delays, &pre, &post);
            let analysis = Analysis { summary: summary.clone(), figures };
            Some(outputs::write_all(directory, &analysis, &delays)?)
        }
        None => None,
    };
    print(&summary, arguments, written.as_deref())?;
    Ok(if arguments.check { exit_code(&summary) } else { ExitCode::SUCCESS })
}

fn print(summary: &Summary, arguments: &AnalyzeArgs, report: Option<&Path>) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    if arguments.json {
        serde_json::to_writer(&mut out, summary)?;
        writeln!(out)?;
    } else if !arguments.quiet {
        terminal::summary(&mut out, summary, report)?;
    }
    out.flush()?;
    Ok(())
}

/// 1 where a budget is broken, 3 where one can't be decided.
fn exit_code(summary: &Summary) -> ExitCode {
    match summary.verdicts.iter().map(|verdict| verdict.outcome).max() {
        Some(Outcome::Fail) => ExitCode::from(1),
        Some(Outcome::Undecided) => ExitCode::from(3),
        Some(Outcome::Pass) | None => ExitCode::SUCCESS,
    }
}

fn sources(arguments: &AnalyzeArgs) -> Result<(Source, Source)> {
    let timestamps = match arguments.timestamps {
        TimestampPlace::Header => Timestamps::Header,
        TimestampPlace::Trailer => Timestamps::Trailer,
    };
    let options = |interface: &Option<_>| OpenOptions { timestamps, interface: interface.clone() };
    let again = arguments.csv_compat.is_some();
    match &arguments.post {
        Some(post) => {
            if arguments.pre.as_os_str() == "-" && post.as_os_str() == "-" {
                bail!(
                    "both captures are -: standard input holds one; give the other as a file or <(process substitution)"
                );
            }
            let pre = Source::open(&arguments.pre, options(&arguments.pre_interface), again)?;
            Ok((pre, Source::open(post, options(&arguments.post_interface), again)?))
        }
        None => {
            if arguments.pre_interface == arguments.post_interface {
                bail!("--pre-interface and --post-interface are the same: a delay needs two taps");
            }
            let pre = Source::open(&arguments.pre, options(&arguments.pre_interface), true)?;
            let post = pre.other_tap(options(&arguments.post_interface))?;
            Ok((pre, post))
        }
    }
}

/// Why there is no delay to report.
fn nothing_matched(context: &summarize::Context, matching: &wiretail_schema::summary::Matching) -> String {
    let (pre, post) = (&context.pre.path, &context.post.path);
    if matching.trim_ns > 0 && matching.lost + matching.extra + matching.negative == 0 {
        return format!(
            "{pre} and {post}: --trim {} leaves no packet; the captures are shorter than that",
            Duration::from_ns(matching.trim_ns)
        );
    }
    if matching.negative > 0 {
        return format!(
            "{pre} and {post}: every latency is negative ({} packets): are the files swapped? If not, the taps' clocks \
             disagree: shift the egress clock with --post-offset",
            matching.negative
        );
    }
    format!(
        "{pre} and {post}: no packet was seen at both taps under --key {} ({} at ingress only, {} at egress only, {} \
         later than the window). Are they captures of the same traffic, at the same time?",
        context.key.rule, matching.lost, matching.extra, matching.out_of_window
    )
}

/// The nine tables of the published pipeline: another evaluation, with rules of its own.
fn write_published(pre: &Source, post: &Source, prefix: &str, arguments: &AnalyzeArgs) -> Result<()> {
    let bucket = u64::try_from(arguments.bucket.ns).ok().and_then(std::num::NonZeroU64::new);
    let parameters = published::Parameters {
        trim_ns: arguments.trim.ns,
        bucket_ns: bucket.context("--bucket must be longer than 0ns")?,
        worst: arguments.worst,
    };
    let pre = published_packets(pre, 0)?;
    let post = published_packets(post, arguments.post_offset.ns)?;
    for (suffix, text) in published::tables(&pre, &post, &parameters) {
        outputs::write_file(Path::new(&format!("{prefix}{suffix}")), text.as_bytes())?;
    }
    Ok(())
}

fn published_packets(source: &Source, offset_ns: i64) -> Result<Vec<Packet>> {
    let mut reader = source.peek()?;
    let mut packets = Vec::new();
    while reader.read(&mut |frame| {
        packets
            .push(Packet { ts_ns: frame.ts_ns.saturating_add(offset_ns), key: Key::from_frame(frame.data) });
    })? {}
    Ok(packets)
}
