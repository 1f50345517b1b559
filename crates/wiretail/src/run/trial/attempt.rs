//! One attempt at a trial: what it needs, and what it leaves.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use wiretail_analysis::summary::calibration::Span;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::TrialRecord;

use crate::run::trial::progress::Line;

/// What an attempt needs.
pub struct Attempt<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// Seed of this trial.
    pub seed: u64,
    /// How long to send, in ns: what is left of the trial's duration.
    pub duration_ns: u64,
    /// Where its captures go.
    pub directory: &'a Path,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Shows how far it is.
    pub line: &'a Line,
}

/// What an attempt left.
pub struct Recorded {
    /// Counters of everybody.
    pub record: TrialRecord,
    /// When cores were taken from their roles, whole: from, to, in ns since 1970.
    pub stalls: Vec<Span>,
}
