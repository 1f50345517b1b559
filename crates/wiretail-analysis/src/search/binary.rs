//! Binary search with loss verification, ETSI GS NFV-TST 009, clauses 12.3.2 and 12.3.3.
//!
//! The search starts at the highest rate. It halves the interval between the highest rate that met the goal
//! and the lowest rate that missed it, until the interval is no wider than requested. A trial that missed the
//! goal is repeated at the same rate, up to `verify` times. If one of these trials meets the goal, the rate
//! meets it: the good result is attributed to the device, and the poor results are attributed to
//! interference. The standard calls the number of repeats r. It also defines a threshold z, a loss above
//! which no trial is repeated. This threshold is not implemented (z is infinite).
//!
//! Goals are searched one after the other. All trials have the same length, so the next goal is judged by the
//! earlier trials as well, and its search starts with the interval that these trials leave.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::Question;
use super::history::{Gap, History, close, span};

/// Next trial, or `None` if every goal has its bounds.
pub(super) fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    let history = History::new(effort, trials);
    let (lowest, highest) = span(effort);
    (0..goals.len()).find_map(|goal| {
        let question = Question::last(effort, goal);
        let load = match history.gap(effort, &question, effort.full_ns, effort.width) {
            Gap::None => return None,
            Gap::Above(_) => highest,
            Gap::Between(lower, upper) => middle(lower, upper),
            Gap::Below(upper) if close(effort.width, lowest, upper) => lowest,
            Gap::Below(upper) => middle(lowest, upper),
        };
        Some(Ask { load, duration_ns: effort.full_ns })
    })
}

/// Middle of two rates that are not adjacent.
pub(super) fn middle(lower: u64, upper: u64) -> u64 {
    lower + (upper - lower) / 2
}
