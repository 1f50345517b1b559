//! Reads the packets of a trial again from its captures.

use std::path::Path;

use anyhow::Result;
use wiretail_analysis::matching::Outcome;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::{SegmentRecord, TrialRecord};

use crate::analyze::evaluate::{Job, evaluate};
use crate::run::output::job::job;
use crate::run::trial::store::is_soak;

/// A packet at the ingress tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossed {
    /// Ingress timestamp, in ns since 1970.
    pub at_ns: i64,
    /// Delay in ns; `None` if the packet was lost.
    pub delay_ns: Option<i64>,
}

/// Returns why a trial's packets are not available; `None` if they are available.
pub fn missing(trial: &Trial, record: &TrialRecord) -> Option<&'static str> {
    match record.segments.first() {
        _ if is_soak(trial) => Some("the trial kept no packets (trial.capture)"),
        Some(segment) if segment.analysed => None,
        _ => Some("the trial was not analyzed"),
    }
}

/// Returns all packets of a trial's whole device in order of arrival, including the warm-up. `run` is the
/// run's directory.
///
/// # Errors
/// Returns an error if a capture cannot be read.
pub fn of_trial(run: &Path, trial: &Trial, record: &TrialRecord) -> Result<Vec<Crossed>> {
    let none = Vec::new();
    let segments: &[SegmentRecord] = &record.segments;
    let Some(segment) = segments.first() else { return Ok(none) };
    let mut job = job(&run.join(&record.directory), trial, segment)?;
    job.settings.trim_ns = 0;
    of_job(job)
}

/// Returns all packets of two captures in order of arrival.
///
/// # Errors
/// Returns an error if a capture cannot be read.
pub fn of_job(job: Job<'_>) -> Result<Vec<Crossed>> {
    let mut packets = Vec::new();
    let mut each = |outcome: &Outcome| {
        let (sent, delay_ns) = match outcome {
            Outcome::Matched { sent, delay_ns } | Outcome::OutOfWindow { sent, delay_ns } => {
                (sent, Some(*delay_ns))
            }
            Outcome::Lost { sent, .. } => (sent, None),
            _ => return,
        };
        packets.push((sent.index(), Crossed { at_ns: sent.ts_ns, delay_ns }));
    };
    evaluate(job, Some(&mut each))?;
    packets.sort_unstable_by_key(|(index, packet)| (packet.at_ns, *index));
    Ok(packets.into_iter().map(|(_, packet)| packet).collect())
}
