//! Every rate from the lowest on, in steps of the width of the highest one: the yardstick.
//!
//! Full trials only, each goal until it is missed for the first time. What a rate says is decided as in MLRsearch, by
//! `trials` and `exceed`. A rate whose trials are invalid is passed over.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::{Question, Rating};
use super::history::{History, span, step};

/// The next step; None where every goal was missed, or at the highest rate.
pub(super) fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    let history = History::new(effort, trials);
    let (lowest, highest) = span(effort);
    let mut open: Vec<Question> = (0..goals.len()).map(|goal| Question::last(effort, goal)).collect();
    let mut load = lowest;
    while !open.is_empty() {
        for question in &open {
            if history.rating(question, load) == Rating::Undecided
                && !history.unusable(question, load, effort.full_ns)
            {
                return Some(Ask { load, duration_ns: effort.full_ns });
            }
        }
        open.retain(|question| history.rating(question, load) != Rating::Misses);
        if load == highest {
            break;
        }
        load = load.saturating_add(step(effort)).min(highest);
    }
    None
}
