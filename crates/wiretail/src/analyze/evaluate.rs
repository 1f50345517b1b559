//! Evaluates two captures: recognizes and matches their packets, tallies the outcomes, and writes the output.
//! `analyze` uses this module, and `run` uses it for each trial.

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

/// Input and options of an evaluation.
pub struct Job<'a> {
    /// Title of the result.
    pub title: String,
    pub pre: Source,
    pub post: Source,
    pub key: KeyChoice,
    pub settings: Settings,
    pub budgets: Vec<Budget>,
    /// Directory for report, summary, samples and figures; `None` writes nothing.
    pub out: Option<&'a Path>,
    /// Whether to show progress if standard error is a terminal.
    pub progress: bool,
}

impl Job<'_> {
    /// A job with the defaults of `analyze` that writes no files.
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

/// Evaluates two captures. If given, `observer` receives the outcome of every packet, in order. Returns the
/// result, and the path of its report if one was written.
///
/// # Errors
/// Returns an error if a capture can't be read or matched, or a file can't be written. The message names the
/// file and the next step.
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

/// Explains why no delay can be reported.
fn nothing_matched(context: &summary::Context, matching: &Matching) -> String {
    let (pre, post) = (&context.pre.path, &context.post.path);
    if matching.trim_ns > 0 && matching.lost + matching.extra + matching.negative == 0 {
        return format!(
            "{pre} and {post}: --trim {} leaves no packets; the captures are shorter",
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
