//! Documents that commands print, and the files that `--out DIR` writes.
//!
//! | file | what |
//! |---|---|
//! | `report.html` | one page with every number and plot, works offline |
//! | `summary.json` | the numbers, as `--json` prints them |
//! | `samples.parquet` | one row per packet |
//! | `percentiles.hgrm` | the percentile distribution in µs, for HdrHistogram's plotter |
//! | `figures/ID.csv` | the data of each plot |

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use wiretail_analysis::matching::{Observer, Outcome, Sent};
use wiretail_analysis::stats::counts::Counts;
use wiretail_capture::write::{Sample, SampleKind, SamplesWriter, percentile_distribution, write_atomically};
use wiretail_schema::summary::Analysis;

/// Prints a document on standard output: as one line of JSON, or in the human-readable form of `text`.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn print(
    document: &impl Serialize,
    json: bool,
    text: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if json {
        serde_json::to_writer(&mut out, document)?;
        writeln!(out)?;
    } else {
        text(&mut out)?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a file atomically: completely or not at all.
///
/// # Errors
/// Returns an error with the path and the system's reason if the file can't be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(write_atomically(path, bytes)?)
}

/// Writes all files except the samples; returns the path of the report.
///
/// # Errors
/// Returns an error if a file can't be written.
pub fn write_all(directory: &Path, analysis: &Analysis, delays: &Counts) -> Result<PathBuf> {
    let figures = directory.join("figures");
    make_directory(&figures)?;
    for figure in &analysis.figures {
        write_file(&figures.join(format!("{}.csv", figure.id)), wiretail_report::csv(figure).as_bytes())?;
    }
    let mut distinct = Vec::new();
    delays.for_each(|value, count| distinct.push((value, count)));
    let distribution = percentile_distribution(distinct.into_iter(), 1000.0);
    write_file(&directory.join("percentiles.hgrm"), distribution.as_bytes())?;
    let mut summary = serde_json::to_vec_pretty(&analysis.summary)?;
    summary.push(b'\n');
    write_file(&directory.join("summary.json"), &summary)?;
    let report = directory.join("report.html");
    write_file(&report, wiretail_report::report(analysis).as_bytes())?;
    Ok(report)
}

fn make_directory(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("{}: cannot be created", directory.display()))
}

/// Writer of `samples.parquet`, which is written while the packets are matched.
pub struct Samples {
    writer: SamplesWriter,
    /// The first error, such as a full disk. Nothing is written after it.
    failure: Result<()>,
}

impl Samples {
    /// Creates the file in `directory`, which is created if missing.
    ///
    /// # Errors
    /// Returns an error if the directory or the file can't be written.
    pub fn create(directory: &Path, title: &str) -> Result<Self> {
        make_directory(directory)?;
        let metadata = [("wiretail.version", env!("CARGO_PKG_VERSION")), ("wiretail.title", title)];
        let writer = SamplesWriter::create(&directory.join("samples.parquet"), metadata)?;
        Ok(Self { writer, failure: Ok(()) })
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Returns the first write error, such as a full disk. It may be the error of an earlier call.
    pub fn finish(self) -> Result<()> {
        self.failure?;
        Ok(self.writer.finish()?)
    }
}

impl Observer for Samples {
    #[inline(never)]
    fn outcome(&mut self, outcome: &Outcome) {
        if self.failure.is_ok() {
            self.failure = self.writer.push(&sample(outcome)).map_err(Into::into);
        }
    }
}

fn sample(outcome: &Outcome) -> Sample {
    let of_sent = |sent: &Sent, delay_ns: Option<i64>, kind| Sample {
        pre_index: Some(sent.index()),
        pre_ns: Some(sent.ts_ns),
        post_ns: delay_ns.map(|delay| sent.ts_ns.saturating_add(delay)),
        delay_ns,
        key: sent.key,
        flow: Some(sent.flow),
        kind,
    };
    let alone = |key, pre: Option<(u64, i64)>, post_ns, flow, kind| Sample {
        pre_index: pre.map(|(index, _)| index),
        pre_ns: pre.map(|(_, ts)| ts),
        post_ns,
        delay_ns: None,
        key,
        flow,
        kind,
    };
    match outcome {
        Outcome::Matched { sent, delay_ns: 0 } => of_sent(sent, Some(0), SampleKind::Zero),
        Outcome::Matched { sent, delay_ns } => of_sent(sent, Some(*delay_ns), SampleKind::Matched),
        Outcome::OutOfWindow { sent, delay_ns } => of_sent(sent, Some(*delay_ns), SampleKind::OutOfWindow),
        Outcome::Negative { sent, delay_ns } => of_sent(sent, Some(*delay_ns), SampleKind::Negative),
        Outcome::Lost { sent, .. } => of_sent(sent, None, SampleKind::Lost),
        Outcome::DuplicatePre { index, record } => {
            alone(record.key, Some((*index, record.ts_ns)), None, Some(record.flow), SampleKind::DuplicatePre)
        }
        // Flows are numbered at the ingress tap; a packet seen only at egress has no flow number.
        Outcome::DuplicatePost { record } => {
            alone(record.key, None, Some(record.ts_ns), None, SampleKind::DuplicatePost)
        }
        Outcome::Extra { record, .. } => alone(record.key, None, Some(record.ts_ns), None, SampleKind::Extra),
    }
}
