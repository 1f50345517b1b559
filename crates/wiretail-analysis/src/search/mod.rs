//! Searches for the capacity of a device: the next rate to try, and the result of all trials.
//!
//! A search is a pure function of its trials: [`next`] returns the next trial, [`mod@conclude`] the result.
//! An interrupted search therefore continues from its trials, and tests can use devices with a known
//! capacity ([`simulated`]).
//!
//! - `classify`: rating of a rate for one goal, based on the trials at that rate;
//! - `history`: bounds from these ratings, and the gaps between them that remain;
//! - `linear`, `binary`, `mlrsearch`: methods, which choose the next rate and trial length;
//! - `conclude`: the result and its reason, as a sentence.
//!
//! This module does not judge trials: the record of a trial states whether the trial missed a goal
//! ([`SearchTrial::poor`]). A goal may therefore be a loss ratio, a delay, or any other limit. All trials are
//! considered, including those that another method requested.

mod binary;
mod classify;
mod conclude;
mod history;
mod linear;
mod mlrsearch;
pub mod simulated;
#[cfg(test)]
mod tests;

use wiretail_schema::search::{Effort, Goal, GoalResult, Method, SearchTrial};

/// Requested trial. Its record must have this rate, and this duration within 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Offered load, in packets per second.
    pub load: u64,
    /// Duration of sending, in ns.
    pub duration_ns: u64,
}

/// Next trial, or `None` at the end of the search. Invalid trials are ignored: the same trial is requested
/// again, up to [`INVALID_MAX`] times.
pub fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    match effort.method {
        Method::Linear => linear::next(effort, goals, trials),
        Method::Binary => binary::next(effort, goals, trials),
        Method::Mlrsearch => mlrsearch::next(effort, goals, trials),
    }
}

/// Result for each goal from the trials so far.
pub fn conclude(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Vec<GoalResult> {
    conclude::conclude(effort, goals, trials)
}

/// A rate with this number of invalid trials is not requested again.
pub const INVALID_MAX: usize = 3;
