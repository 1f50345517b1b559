//! `wiretail analyze`: compares two captures and reaches a verdict.

pub mod evaluate;
pub mod merge;
pub mod outputs;
pub mod pipeline;
pub mod recognise;
pub mod source;
pub mod terminal;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wiretail_analysis::published::{self, Key, Packet};
use wiretail_capture::read::{InterfaceChoice, OpenOptions, Timestamps};
use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{Outcome, Summary};

use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::pipeline::Settings;
use crate::analyze::recognise::key_choice;
use crate::analyze::source::Source;
use crate::cli::{AnalyzeArgs, TimestampPlace};

/// Runs `wiretail analyze`.
///
/// # Errors
/// Returns an error if a capture can't be read or matched, or a file can't be written. The message names the
/// file and the next step.
pub fn run(arguments: &AnalyzeArgs) -> Result<ExitCode> {
    if arguments.window.ns <= 0 || arguments.trim.ns < 0 {
        bail!("--window must be longer than 0s and --trim not negative");
    }
    let choice = key_choice(&arguments.key, arguments.zero_checksums)?;
    let (pre, post) = sources(arguments)?;
    if let Some(prefix) = &arguments.csv_compat {
        write_published(&pre, &post, prefix, arguments)?;
    }
    let tap = |source: &Source, interface: &Option<InterfaceChoice>| match interface {
        Some(interface) => format!("{} ({interface})", source.name),
        None => source.name.clone(),
    };
    let job = Job {
        title: format!("{} → {}", tap(&pre, &arguments.pre_interface), tap(&post, &arguments.post_interface)),
        pre,
        post,
        key: choice,
        settings: Settings {
            window_ns: arguments.window.ns,
            trim_ns: arguments.trim.ns,
            post_offset_ns: arguments.post_offset.ns,
            flows: FlowRule::from(arguments.flows),
            worst: arguments.worst,
        },
        budgets: arguments.budgets.clone(),
        out: arguments.out.as_deref(),
        progress: !arguments.quiet,
    };
    let (summary, written) = evaluate(job, None)?;
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

/// Returns 1 if a budget is missed, and 3 if there are too few packets to decide on a budget.
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
                    "both captures are -: standard input is one capture; pass a file or <(process substitution)"
                );
            }
            let pre = Source::open(&arguments.pre, options(&arguments.pre_interface), again)?;
            Ok((pre, Source::open(post, options(&arguments.post_interface), again)?))
        }
        None => {
            if arguments.pre_interface == arguments.post_interface {
                bail!(
                    "--pre-interface and --post-interface are the same: measuring a delay requires two taps"
                );
            }
            let pre = Source::open(&arguments.pre, options(&arguments.pre_interface), true)?;
            let post = pre.other_tap(options(&arguments.post_interface))?;
            Ok((pre, post))
        }
    }
}

/// Writes the nine tables of the published pipeline. They come from a separate evaluation with its own rules.
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
