//! One attempt at a trial: its inputs and its results.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use wiretail_analysis::summary::calibration::Span;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::TrialRecord;

use crate::run::trial::progress::Line;

/// Inputs of an attempt.
pub struct Attempt<'a> {
    pub trial: &'a Trial,
    pub seed: u64,
    /// Remaining time to send, in ns.
    pub duration_ns: u64,
    /// Directory of the captures.
    pub directory: &'a Path,
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
    /// Displays the progress.
    pub line: &'a Line,
}

/// Results of an attempt.
pub struct Recorded {
    /// Counters of the generator, devices and taps.
    pub record: TrialRecord,
    /// Intervals in which the load generator or the device lost its core: start and end, in ns since 1970.
    pub stalls: Vec<Span>,
}
