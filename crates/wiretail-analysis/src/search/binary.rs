//! Binary search with loss verification, ETSI GS NFV-TST 009, clauses 12.3.2 and 12.3.3.
//!
//! It begins at the highest rate and halves the interval between the highest rate that met the goal and the lowest that
//! missed it, until that is no wider than asked for. A trial that missed the goal is repeated at the same rate, `verify` times
//! at most; one good one of them counts, as what it saw is taken for the device and the others for a disturbance. The
//! standard calls the number of repeats r; its threshold z, a loss beyond which nothing is repeated, is not
//! there (z is infinite).
//!
//! One goal after the other. All trials have the same length, so those of the goals before answer the same question for
//! the next one and are not done again: it begins with the interval that they leave.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::Question;
use super::history::{Gap, History, close, span};

/// The next step; None where every goal has its bounds.
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

/// Between two rates that are not neighbours.
pub(super) fn middle(lower: u64, upper: u64) -> u64 {
    lower + (upper - lower) / 2
}
