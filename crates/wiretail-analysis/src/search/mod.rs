//! How much load a device takes: which rate to try next, and what all trials together say.
//!
//! A search is a pure function of the trials so far: [`next`] says what to measure, [`conclude`] what was found. So a
//! search that was interrupted goes on from its trials, and is tested on devices whose capacity is known.
//!
//! - `linear`: every rate in turn, the yardstick.

mod linear;

use wiretail_schema::search::{Effort, Goal, GoalResult, Method, SearchTrial};

/// A trial to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Offered load, in packets a second.
    pub rate_pps: u64,
    /// How long to send, in ns.
    pub duration_ns: u64,
}

/// What to measure next; None where the search is at its end. Invalid trials have no say: what was asked for is asked
/// for again, at most [`INVALID_MAX`] times.
pub fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    match effort.method {
        Method::Linear | Method::Binary | Method::Mlrsearch => linear::next(effort, goals, trials),
    }
}

/// What the trials say about each goal.
pub fn conclude(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Vec<GoalResult> {
    let _ = (effort, goals, trials);
    Vec::new()
}

/// A rate at which so many trials were invalid is not asked for again.
pub const INVALID_MAX: usize = 3;
