//! Linear search: tries all rates from the lowest one upwards. The step is the relative width, applied to the
//! highest rate. This method is the reference for the others.
//!
//! It uses only full trials. The search for a goal ends at the first rate that misses it. Rates are
//! classified as in MLRsearch, by `trials` and `exceed`. Rates with only invalid trials are skipped.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::{Question, Rating};
use super::history::{History, span, step};

/// Next trial, or `None` if every goal was missed or the highest rate is reached.
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
