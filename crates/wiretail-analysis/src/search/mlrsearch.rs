//! Multiple loss ratio search, RFC 9971: several goals at once, short trials first.
//!
//! The RFC defines what trials at a rate say (its "load classification") and what the result is, and leaves open which
//! trial comes next. Here:
//!
//! - *Phases.* The first one takes short trials, the last one full ones; each is a search of its own, in which shorter trials count as the RFC lets them. A phase begins where the one before
//!   ended, with a longer trial at the rate that met the goal; so most of the way is gone by short trials. All have the
//!   same width: with coarser ones at first, full trials had to settle what short ones had left, and took longer in all.
//! - *The begin.* The highest rate; where that is too much, what the device forwarded of it (RFC 2285: the forwarding rate
//!   at maximum offered load), and a step above.
//! - *Refuted.* Where a longer trial says otherwise, the interval is widened to that side by steps that double, with trials as
//!   long as that one: shorter ones had their say.
//! - *Several goals.* Every goal that is not at the end of the phase names the rates that would help it; the one that helps the
//!   most goals is tried, of equals the lowest.
//!
//! What is decided is never asked for again, and no phase begins twice. So a search ends.

use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;
use super::classify::{By, Question, Rating, forwarded_share};
use super::history::{Gap, History, alike, close, span};

/// Steps are by so much smaller than the width: rates are whole numbers, and two half steps may not be more than one.
const STEP: f64 = 0.98;
/// A step is doubled so often at most: what is further away was not come upon by steps.
const STEPS: u32 = 5;
/// A search of its own, for all goals.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Phase {
    duration_ns: u64,
    /// The goal duration sum.
    sum_ns: f64,
}

/// A rate that helps a goal, and those around that would help it as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wish {
    load: u64,
    from_pps: u64,
    to_pps: u64,
}

/// What is known when a goal is asked for its wish.
struct Place<'a> {
    effort: &'a Effort,
    history: &'a History<'a>,
    goal: &'a Goal,
    phase: Phase,
    question: Question,
    /// That of the phase before.
    before: Option<Question>,
}

/// The next step; None where every goal has its bounds.
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
    // No way back to a phase before: its shorter trials had their say.
    let longest_ns = trials.iter().map(|trial| trial.duration_ns).max().unwrap_or(0);
    let reached = phases
        .iter()
        .rposition(|phase| phase.duration_ns <= longest_ns || alike(longest_ns, phase.duration_ns));
    (reached.unwrap_or(0)..phases.len()).find_map(|at| {
        let wishes: Vec<Wish> = places(at).filter_map(|place| place.wish()).collect();
        Some(Ask { load: agreed(&wishes)?, duration_ns: phases[at].duration_ns })
    })
}

/// From short to full trials.
fn phases(effort: &Effort) -> Vec<Phase> {
    let (first, full) = (effort.first_ns.max(1) as f64, effort.full_ns as f64);
    let mut phases = Vec::new();
    if first * 1.5 < full {
        // The first one's length, then as much longer than it as shorter than the last one.
        let lengths = [first, (first * full).sqrt()];
        phases.extend(lengths.map(|length| Phase { duration_ns: length as u64, sum_ns: length }));
    }
    let sum_ns = effort.trials.max(1) as f64 * full;
    phases.push(Phase { duration_ns: effort.full_ns, sum_ns });
    phases
}

/// The rate that serves most goals, of equals the lowest.
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

/// A step down multiplies a rate by this, one up divides it.
fn factor(effort: &Effort) -> f64 {
    1.0 - STEP * effort.width
}

/// To the power of 2^doublings.
fn doubled(factor: f64, doublings: u32) -> f64 {
    (0..doublings).fold(factor, |factor, _| factor * factor)
}

/// As many widths from the one as from the other.
fn halfway(lower: u64, upper: u64) -> u64 {
    (lower as f64 * upper as f64).sqrt() as u64
}

impl Place<'_> {
    /// A full trial was done at this rate, and it takes more to decide. What is begun is done with first, unless a
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

    /// What would help the goal in this phase; None where it is at its end.
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

    /// Whether a rate bounds the gap only because it can't be tried: it says nothing about where the goal is met.
    fn unusable(&self, load: u64) -> bool {
        self.history.unusable(&self.question, load, self.phase.duration_ns)
    }

    /// What the phase before found, between these rates: first the one that met the goal.
    fn hint(&self, above: u64, below: u64) -> Option<u64> {
        let bounds = self.history.bounds(&self.before?);
        [bounds.lower, bounds.upper].into_iter().flatten().find(|rate| above < *rate && *rate < below)
    }

    /// The rate that the device would take, by what it forwarded of more.
    fn forwarding(&self, load: u64) -> Option<f64> {
        let trial = self.history.at(load).max_by_key(|trial| trial.duration_ns)?;
        let allowed = match self.goal {
            Goal::Loss { ratio } => *ratio,
            Goal::Delay { .. } => 0.0,
        };
        Some(load as f64 * forwarded_share(trial) / (1.0 - allowed))
    }

    /// Below a rate that is too much, where none is known to be little enough: by what was forwarded, at least a step.
    fn below(&self, upper: u64) -> u64 {
        let down = self.down(upper);
        let half = 1.0 - self.effort.width / 2.0;
        self.forwarding(upper).map_or(down, |rate| down.min((rate * half) as u64))
    }

    /// Half way, but not further than the steps from that side on which the device's capacity is more likely.
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

    /// Steps up from a rate that meets the goal, twice as large for each such rate close below.
    fn up(&self, lower: u64) -> u64 {
        let factor = factor(self.effort);
        let from = (lower as f64 * doubled(factor, STEPS)) as u64;
        let step = doubled(factor, self.steps(from, lower, Rating::Meets));
        ((lower as f64 / step) as u64).max(lower + 1)
    }

    /// Steps down from a rate that misses the goal, twice as large for each such rate close above.
    fn down(&self, upper: u64) -> u64 {
        let factor = factor(self.effort);
        let to = (upper as f64 / doubled(factor, STEPS)) as u64;
        let step = doubled(factor, self.steps(upper, to, Rating::Misses));
        // Rounded up: not further than the step.
        ((upper as f64 * step).ceil() as u64).min(upper - 1)
    }

    /// How many doublings: one less than rates of this rating from the one to the other.
    fn steps(&self, from: u64, to: u64, rating: Rating) -> u32 {
        let rates = self.history.rates().filter(|rate| (from..=to).contains(rate));
        let count = rates.filter(|rate| self.history.rating(&self.question, *rate) == rating).count();
        (count.saturating_sub(1) as u32).min(STEPS)
    }
}
