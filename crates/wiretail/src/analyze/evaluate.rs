//! From two captures to a result: recognise the packets, match them, tally, write it all down. What
//! `analyze` does for the user, and `run` for each of its trials.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use wiretail_analysis::matching::Outcome;
use wiretail_analysis::summary::figures::figures;
use wiretail_analysis::summary::{self, summarize};
use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{Analysis, Matching, Summary};
use wiretail_schema::units::{Budget, Duration};

use crate::analyze::outputs::{self, Samples};
use crate::analyze::pipeline::{Each, Settings, TapInput, measure};
use crate::analyze::recognise::{KeyChoice, recognise};
use crate::analyze::source::Source;
use crate::progress::Progress;

/// Longest delay that counts as arrived unless told otherwise, in ns: as the option `--window` of `analyze` has it.
const WINDOW_NS: i64 = 5_000_000_000;

/// What is to be evaluated, and how.
pub struct Job<'a> {
    /// What stands at the top of the result.
    pub title: String,
    /// Capture of the ingress wire.
    pub pre: Source,
    /// Capture of the egress wire.
    pub post: Source,
    /// How packets are recognised.
    pub key: KeyChoice,
    /// Longest latency that counts as arrived, in ns.
    pub window_ns: i64,
    /// Packets sent in this first part are left out, in ns.
    pub trim_ns: i64,
    /// Added to every egress stamp, in ns.
    pub post_offset_ns: i64,
    /// What tells flows apart.
    pub flows: FlowRule,
    /// Latency budgets to judge.
    pub budgets: Vec<Budget>,
    /// How many of the worst packets to list.
    pub worst: usize,
    /// Where report, summary, samples and figures go; None writes nothing.
    pub out: Option<&'a Path>,
    /// Whether to show progress where standard error is a terminal.
    pub progress: bool,
}

impl Job<'_> {
    /// Two captures as they are, as `analyze` takes them unless told otherwise: the numbers alone, nothing is written.
    pub fn of(pre: Source, post: Source) -> Self {
        Self {
            title: String::new(),
            pre,
            post,
            key: KeyChoice::Auto,
            window_ns: WINDOW_NS,
            trim_ns: 0,
            post_offset_ns: 0,
            flows: FlowRule::None,
            budgets: Vec::new(),
            worst: 1,
            out: None,
            progress: false,
        }
    }
}

/// Evaluates; `each`, if given, is called with every packet's outcome, in order. Returns the result, and
/// the path of its report where it was written.
///
/// # Errors
/// Whatever keeps it from a result; the message names the file and the next step.
pub fn evaluate(mut job: Job<'_>, each: Option<Each<'_>>) -> Result<(Summary, Option<PathBuf>)> {
    let recognition = recognise(&job.pre, &job.post, &job.key, job.post_offset_ns, job.window_ns)?;
    let settings = Settings {
        window_ns: job.window_ns,
        trim_ns: job.trim_ns,
        post_offset_ns: job.post_offset_ns,
        keyer: recognition.keyer,
        flows: job.flows,
        worst: job.worst,
    };
    let input = |source: Source| -> Result<TapInput> {
        Ok(TapInput { name: source.name.clone(), reader: source.read()? })
    };
    let (pre, post) = (input(job.pre)?, input(job.post)?);
    let total = pre.reader.total_len().zip(post.reader.total_len()).map(|(pre, post)| pre + post);
    let progress = Progress::new(total, job.progress);
    let mut samples = job.out.map(|directory| Samples::create(directory, &job.title)).transpose()?;
    let measured = match (&mut samples, each) {
        (None, each) => measure(pre, post, &settings, &progress, each)?,
        (Some(samples), None) => {
            measure(pre, post, &settings, &progress, Some(&mut |outcome| samples.push(outcome)))?
        }
        (Some(samples), Some(each)) => {
            let mut both = |outcome: &Outcome| samples.push(outcome).and_then(|()| each(outcome));
            measure(pre, post, &settings, &progress, Some(&mut both))?
        }
    };
    samples.map(Samples::finish).transpose()?;
    let context = summary::Context {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        title: job.title,
        pre: measured.pre.facts,
        post: measured.post.facts,
        key: recognition.key,
        flow_rule: settings.flows,
        flow_names: measured.pre.flow_names,
        budgets: std::mem::take(&mut job.budgets),
    };
    let nothing = nothing_matched(&context, &measured.measurement.matching);
    let (pre, post) = (measured.pre.tally, measured.post.tally);
    let Some((summary, delays)) = summarize(context, measured.measurement, &pre, &post) else {
        bail!(nothing);
    };
    let Some(directory) = job.out else { return Ok((summary, None)) };
    let figures = figures(&summary, &delays, &pre, &post);
    let analysis = Analysis { summary, figures };
    let report = outputs::write_all(directory, &analysis, &delays)?;
    Ok((analysis.summary, Some(report)))
}

/// Why there is no delay to report.
fn nothing_matched(context: &summary::Context, matching: &Matching) -> String {
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
