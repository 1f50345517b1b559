//! Multiple loss ratio search, RFC 9971: several goals at once, short trials first.
//!
//! The RFC defines the classification of a rate by its trials ("load classification") and the result. It does
//! not define how the next trial is chosen. This implementation chooses it as follows:
//!
//! - *Phases.* The first phase uses short trials, the last one full trials. Each phase is a separate search,
//!   which also considers shorter trials as far as the RFC allows. A phase starts where the previous one
//!   ended, with a longer trial at the rate that met the goal, so short trials cover most of the search. All
//!   phases have the same width, because a larger width in the first phases increased the number of full
//!   trials and the total time.
//! - *Start.* The search starts at the highest rate. If that is too high, it continues at the rate that the
//!   device forwarded (RFC 2285: the forwarding rate at maximum offered load), and then one step above that
//!   rate.
//! - *Refuted bounds.* If a longer trial contradicts a bound, the interval is widened on that side in steps
//!   that double. The longer trial length is used, because shorter trials have already been considered.
//! - *Several goals.* Each goal that is not finished in the phase requests the rates at which a trial would
//!   bring it closer to a result. The rate that serves most goals is tried; in a tie, the lowest one.
//!
//! A decided rate is never tried again, and no phase starts twice, so a search always ends.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::{By, Question, Rating, forwarded_share};
use super::history::{Gap, History, alike, close, span};

/// Steps are smaller than the width by this factor, because rates are whole numbers and two half steps must not
/// exceed one step.
const STEP: f64 = 0.98;
/// Maximum number of doublings of a step; a rate further away was not reached by steps.
const STEPS: u32 = 5;
/// Phase of the search, for all goals.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Phase {
    duration_ns: u64,
    /// Goal duration sum.
    sum_ns: f64,
}

/// A rate at which a trial would bring a goal closer to a result, and the range of rates that would serve
/// equally well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    load: u64,
    from_pps: u64,
    to_pps: u64,
}

/// State of a goal, from which its next rate is derived.
struct Place<'a> {
    effort: &'a Effort,
    history: &'a History<'a>,
    goal: &'a Goal,
    phase: Phase,
    question: Question,
    /// Question of the previous phase.
    before: Option<Question>,
}

/// Next trial, or `None` if every goal has its bounds.
pub(super) fn next(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Option<Ask> {
    let history = History::new(effort, trials);
    let phases = phases(effort);
    let places = |at: usize| {
        let (phase, history) = (phases[at], &history);
        let phases = &phases;
        goals.iter().enumerate().map(move |(number, goal)| Place {
            effort,
            history,
            goal,
            phase,
            question: phase.question(effort, number),
            before: at.checked_sub(1).map(|before| phases[before].question(effort, number)),
        })
    };
    let last = phases.len() - 1;
    if let Some(load) = places(last).find_map(|place| place.begun()) {
        return Some(Ask { load, duration_ns: phases[last].duration_ns });
    }
    // Do not return to a previous phase: its shorter trials have already been considered.
    let longest_ns = trials.iter().map(|trial| trial.duration_ns).max().unwrap_or(0);
    let reached = phases
        .iter()
        .rposition(|phase| phase.duration_ns <= longest_ns || alike(longest_ns, phase.duration_ns));
    (reached.unwrap_or(0)..phases.len()).find_map(|at| {
        let wishes: Vec<Wish> = places(at).filter_map(|place| place.wish()).collect();
        Some(Ask { load: agreed(&wishes)?, duration_ns: phases[at].duration_ns })
    })
}

/// Phases, from short to full trials.
fn phases(effort: &Effort) -> Vec<Phase> {
    let (first, full) = (effort.first_ns.max(1) as f64, effort.full_ns as f64);
    let mut phases = Vec::new();
    if first * 1.5 < full {
        // The length of the second phase is the geometric mean of the first and the last length.
        let lengths = [first, (first * full).sqrt()];
        phases.extend(lengths.map(|length| Phase { duration_ns: length as u64, sum_ns: length }));
    }
    let sum_ns = effort.trials.max(1) as f64 * full;
    phases.push(Phase { duration_ns: effort.full_ns, sum_ns });
    phases
}

/// Rate that serves most goals; in a tie, the lowest one.
fn agreed(wishes: &[Wish]) -> Option<u64> {
    let serves =
        |rate: u64| wishes.iter().filter(|wish| (wish.from_pps..=wish.to_pps).contains(&rate)).count();
    wishes.iter().map(|wish| wish.load).max_by_key(|rate| (serves(*rate), std::cmp::Reverse(*rate)))
}

impl Phase {
    fn question(&self, effort: &Effort, goal: usize) -> Question {
        let Question { by, .. } = Question::last(effort, goal);
        let by = match by {
            By::Sum { exceed, .. } => By::Sum { sum_ns: self.sum_ns, exceed },
            by => by,
        };
        Question { goal, full_ns: self.duration_ns, by }
    }
}

/// A step down multiplies a rate by this factor; a step up divides the rate by it.
fn factor(effort: &Effort) -> f64 {
    1.0 - STEP * effort.width
}

/// `factor` to the power of 2^doublings.
fn doubled(factor: f64, doublings: u32) -> f64 {
    (0..doublings).fold(factor, |factor, _| factor * factor)
}

/// Geometric mean: the same number of widths from both rates.
fn halfway(lower: u64, upper: u64) -> u64 {
    (lower as f64 * upper as f64).sqrt() as u64
}

impl Place<'_> {
    /// Undecided rate that has a full trial and needs more trials. Such rates are completed first, unless a
    /// higher rate looks good.
    fn begun(&self) -> Option<u64> {
        let bounds = self.history.bounds(&self.question);
        let above = self
            .history
            .rates()
            .rev()
            .filter(|rate| bounds.upper.is_none_or(|upper| *rate < upper))
            .take_while(|rate| bounds.lower.is_none_or(|lower| *rate > lower));
        for rate in above {
            if self.history.rating(&self.question, rate) == Rating::Undecided
                && self.history.at(rate).any(|trial| self.question.is_full(trial))
            {
                return (!self.unusable(rate)).then_some(rate);
            }
            if self.before.is_some_and(|before| self.history.rating(&before, rate) == Rating::Meets) {
                return None;
            }
        }
        None
    }

    /// Rate at which a trial would bring the goal closer to a result in this phase, or `None` if the goal is
    /// finished.
    fn wish(&self) -> Option<Wish> {
        let (_, highest) = span(self.effort);
        let width = self.effort.width;
        let gap = self.history.gap(self.effort, &self.question, self.phase.duration_ns, width);
        let (above, below) = match gap {
            Gap::None => return None,
            Gap::Above(lower) => (lower.unwrap_or(0), highest + 1),
            Gap::Below(upper) => (0, upper),
            Gap::Between(lower, upper) => (lower, upper),
        };
        if let Some(load) = self.hint(above, below) {
            return Some(Wish { load, from_pps: load, to_pps: load });
        }
        let load = match gap {
            Gap::None | Gap::Above(None) => highest,
            Gap::Above(Some(lower)) => self.up(lower),
            Gap::Below(upper) if self.unusable(upper) => halfway(span(self.effort).0, upper),
            Gap::Below(upper) => self.below(upper),
            Gap::Between(lower, upper) if self.unusable(lower) || self.unusable(upper) => {
                halfway(lower, upper)
            }
            Gap::Between(lower, upper) => self.between(lower, upper),
        };
        let load = load.clamp(span(self.effort).0.max(above + 1), highest.min(below - 1));
        let slack = (width / 4.0 * load as f64) as u64;
        Some(Wish {
            load,
            from_pps: load.saturating_sub(slack).max(above + 1),
            to_pps: (load + slack).min(below - 1),
        })
    }

    /// Whether a rate bounds the gap only because it is unusable, so that it does not show where the goal is
    /// met.
    fn unusable(&self, load: u64) -> bool {
        self.history.unusable(&self.question, load, self.phase.duration_ns)
    }

    /// Rate between these two at which the previous phase ended: the rate that met the goal, or else the rate
    /// that missed it.
    fn hint(&self, above: u64, below: u64) -> Option<u64> {
        let bounds = self.history.bounds(&self.before?);
        [bounds.lower, bounds.upper].into_iter().flatten().find(|rate| above < *rate && *rate < below)
    }

    /// Rate that the device would carry, estimated from the packets forwarded at a higher rate.
    fn forwarding(&self, load: u64) -> Option<f64> {
        let trial = self.history.at(load).max_by_key(|trial| trial.duration_ns)?;
        let allowed = match self.goal {
            Goal::Loss { ratio } => *ratio,
            Goal::Delay { .. } => 0.0,
        };
        Some(load as f64 * forwarded_share(trial) / (1.0 - allowed))
    }

    /// Next rate below a rate that is too high, if no rate has met the goal. It is estimated from the
    /// forwarded packets, and is at least one step lower.
    fn below(&self, upper: u64) -> u64 {
        let down = self.down(upper);
        let half = 1.0 - self.effort.width / 2.0;
        self.forwarding(upper).map_or(down, |rate| down.min((rate * half) as u64))
    }

    /// Middle of two rates, but not further than a step from the side on which the capacity is more likely.
    fn between(&self, lower: u64, upper: u64) -> u64 {
        let half = halfway(lower, upper).clamp(lower + 1, upper - 1);
        let near_lower =
            self.forwarding(upper).is_some_and(|rate| rate - (lower as f64) < upper as f64 - rate);
        if close(1.0 - doubled(1.0 - self.effort.width, 1), lower, upper) {
            half
        } else if near_lower {
            half.min(self.up(lower))
        } else {
            half.max(self.down(upper))
        }
    }

    /// A step up from a rate that meets the goal. The step doubles with each rate close below it that also
    /// meets the goal.
    fn up(&self, lower: u64) -> u64 {
        let factor = factor(self.effort);
        let from = (lower as f64 * doubled(factor, STEPS)) as u64;
        let step = doubled(factor, self.steps(from, lower, Rating::Meets));
        ((lower as f64 / step) as u64).max(lower + 1)
    }

    /// A step down from a rate that misses the goal. The step doubles with each rate close above it that also
    /// misses the goal.
    fn down(&self, upper: u64) -> u64 {
        let factor = factor(self.effort);
        let to = (upper as f64 / doubled(factor, STEPS)) as u64;
        let step = doubled(factor, self.steps(upper, to, Rating::Misses));
        // Rounded up, so that the step is not exceeded.
        ((upper as f64 * step).ceil() as u64).min(upper - 1)
    }

    /// Number of doublings: one less than the number of rates with this rating in the range.
    fn steps(&self, from: u64, to: u64, rating: Rating) -> u32 {
        let rates = self.history.rates().filter(|rate| (from..=to).contains(rate));
        let count = rates.filter(|rate| self.history.rating(&self.question, *rate) == rating).count();
        (count.saturating_sub(1) as u32).min(STEPS)
    }
}
