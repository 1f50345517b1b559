//! How much load a device takes: which rate to try next, and what all trials together say.
//!
//! A search is a pure function of the trials so far: [`next`] says what to measure, [`mod@conclude`] what was found. So a
//! search that was interrupted goes on from its trials, and is tested on devices whose capacity is known ([`simulated`]).
//!
//! - `classify`: what the trials at one rate say about a goal;
//! - `history`: the bounds that follow from it, and where between them is still to be looked;
//! - `linear`, `binary`, `mlrsearch`: the methods: which rate next, and for how long;
//! - `conclude`: the result and what it rests on, in a sentence.
//!
//! A trial is not judged here: whether it missed a goal ([`SearchTrial::poor`]) is part of its record. So a goal may be a loss
//! ratio, a delay, or what else can be missed. All trials are taken into account, also those of another method.

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

/// A trial to be done. Its record is to have this rate, and this duration within 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Offered load, in packets a second.
    pub load: u64,
    /// How long to send, in ns.
    pub duration_ns: u64,
}

/// What to measure next; None where the search is at its end. Invalid trials have no say: what was asked for is asked
/// for again, at most [`INVALID_MAX`] times.
pub fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    match effort.method {
        Method::Linear => linear::next(effort, goals, trials),
        Method::Binary => binary::next(effort, goals, trials),
        Method::Mlrsearch => mlrsearch::next(effort, goals, trials),
    }
}

/// What the trials say about each goal, also midway.
pub fn conclude(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Vec<GoalResult> {
    conclude::conclude(effort, goals, trials)
}

/// A rate at which so many trials were invalid is not asked for again.
pub const INVALID_MAX: usize = 3;
