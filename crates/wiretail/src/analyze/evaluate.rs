//! From two captures to a result: recognise the packets, match them, tally, write it all down. What
//! `analyze` does for the user, and `run` for each of its trials.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use wiretail_analysis::matching::Observer;
use wiretail_analysis::summary::figures::figures;
use wiretail_analysis::summary::{self, summarize};
use wiretail_schema::summary::{Analysis, Matching, Summary};
use wiretail_schema::units::{Budget, Duration};

use crate::analyze::outputs::{self, Samples};
use crate::analyze::pipeline::{Settings, TapInput, measure};
use crate::analyze::recognise::{KeyChoice, recognise};
use crate::analyze::source::Source;
use crate::cli::progress::Progress;

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
    /// How to measure.
    pub settings: Settings,
    /// Latency budgets to judge.
    pub budgets: Vec<Budget>,
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
            settings: Settings::default(),
            budgets: Vec::new(),
            out: None,
            progress: false,
        }
    }
}

/// Evaluates; `observer`, if given, takes every packet's outcome, in order. Returns the result, and
/// the path of its report where it was written.
///
/// # Errors
/// Whatever keeps it from a result; the message names the file and the next step.
pub fn evaluate(
    mut job: Job<'_>,
    observer: Option<&mut (dyn Observer + Send)>,
) -> Result<(Summary, Option<PathBuf>)> {
    let settings = job.settings;
    let recognition = recognise(&job.pre, &job.post, &job.key, settings.post_offset_ns, settings.window_ns)?;
    let input = |source: Source| -> Result<TapInput> {
        Ok(TapInput { name: source.name.clone(), reader: source.read()?, keyer: recognition.keyer.clone() })
    };
    let (pre, post) = (input(job.pre)?, input(job.post)?);
    let total = pre.reader.total_len().zip(post.reader.total_len()).map(|(pre, post)| pre + post);
    let progress = Progress::new(total, job.progress);
    let mut samples = job.out.map(|directory| Samples::create(directory, &job.title)).transpose()?;
    let measured = measure(pre, post, &settings, &progress, &mut (samples.as_mut(), observer))?;
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
