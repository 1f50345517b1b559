//! Valid trials of a search, grouped by rate.

use std::collections::BTreeMap;

use wiretail_schema::search::{Effort, Method, SearchTrial};

use super::classify::{Question, Rating};

/// Trials, grouped by their rate. Rates without a valid trial are included.
#[derive(Debug)]
pub(super) struct History<'a> {
    rates: BTreeMap<u64, Vec<&'a SearchTrial>>,
}

/// Bounds of a goal, as defined by RFC 9971, section "Result Terms".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Highest rate below `upper` that meets the goal: the relevant lower bound.
    pub(super) lower: Option<u64>,
    /// Lowest rate that misses the goal: the relevant upper bound.
    pub(super) upper: Option<u64>,
}

impl<'a> History<'a> {
    /// Groups the trials with rates within the range of the search.
    pub(super) fn new(effort: &Effort, trials: &'a [SearchTrial]) -> Self {
        let (lowest, highest) = span(effort);
        let mut rates: BTreeMap<u64, Vec<&SearchTrial>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| (lowest..=highest).contains(&trial.load)) {
            rates.entry(trial.load).or_default().push(trial);
        }
        Self { rates }
    }

    /// Valid trials at a rate, in order of execution.
    pub(super) fn at(&self, load: u64) -> impl Iterator<Item = &'a SearchTrial> + Clone {
        self.rates.get(&load).into_iter().flatten().copied().filter(|trial| trial.invalid.is_empty())
    }

    /// Invalid trials at a rate.
    pub(super) fn invalid_at(&self, load: u64) -> impl Iterator<Item = &'a SearchTrial> {
        self.rates.get(&load).into_iter().flatten().copied().filter(|trial| !trial.invalid.is_empty())
    }

    /// Rates with trials, in ascending order.
    pub(super) fn rates(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.rates.keys().copied()
    }

    pub(super) fn rating(&self, question: &Question, load: u64) -> Rating {
        question.rating(self.at(load))
    }

    pub(super) fn bounds(&self, question: &Question) -> Bounds {
        let upper = self.rates().find(|rate| self.rating(question, *rate) == Rating::Misses);
        let lower = self
            .rates()
            .rev()
            .filter(|rate| upper.is_none_or(|upper| *rate < upper))
            .find(|rate| self.rating(question, *rate) == Rating::Meets);
        Bounds { lower, upper }
    }

    /// Whether a rate is still undecided and has reached the limit of invalid trials of this length.
    pub(super) fn unusable(&self, question: &Question, load: u64, duration_ns: u64) -> bool {
        let invalid = self.invalid_at(load).filter(|trial| alike(trial.duration_ns, duration_ns)).count();
        invalid >= super::INVALID_MAX && self.rating(question, load) == Rating::Undecided
    }

    /// Lowest and highest unusable rate strictly between two rates.
    fn unusable_between(
        &self,
        question: &Question,
        duration_ns: u64,
        above: Option<u64>,
        below: Option<u64>,
    ) -> Option<(u64, u64)> {
        let mut found = self.rates().filter(|rate| {
            above.is_none_or(|above| *rate > above)
                && below.is_none_or(|below| *rate < below)
                && self.unusable(question, *rate, duration_ns)
        });
        let first = found.next()?;
        Some((first, found.next_back().unwrap_or(first)))
    }

    /// Next gap to search between the bounds. Unusable rates divide the interval: the part below the lowest
    /// of them is searched first, then the part above the highest.
    pub(super) fn gap(&self, effort: &Effort, question: &Question, duration_ns: u64, width: f64) -> Gap {
        let Bounds { lower, upper } = self.bounds(question);
        let (lowest, highest) = span(effort);
        if lower.is_none() && upper == Some(lowest) || upper.is_none() && lower == Some(highest) {
            return Gap::None;
        }
        let unusable = self.unusable_between(question, duration_ns, lower, upper);
        let ceiling = unusable.map(|(first, _)| first).or(upper);
        match (lower, ceiling) {
            (_, None) => return Gap::Above(lower),
            (Some(lower), Some(ceiling)) if !close(width, lower, ceiling) => {
                return Gap::Between(lower, ceiling);
            }
            (None, Some(ceiling)) if ceiling > lowest => return Gap::Below(ceiling),
            _ => {}
        }
        match (unusable, upper) {
            (Some((_, last)), Some(upper)) if !close(width, last, upper) => Gap::Between(last, upper),
            _ => Gap::None,
        }
    }
}

/// Where to search next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nowhere: the bounds are close enough, or no better bounds can be found.
    None,
    /// Between two rates, exclusive.
    Between(u64, u64),
    /// Below this rate, because no rate has met the goal.
    Below(u64),
    /// Above this rate, which met the goal, because no rate is known to miss it. `None` if no rate is known
    /// to meet the goal either: the search may continue anywhere.
    Above(Option<u64>),
}

/// Lowest and highest rate of a search.
pub(super) fn span(effort: &Effort) -> (u64, u64) {
    let highest = effort.highest.max(1);
    (effort.lowest.clamp(1, highest), highest)
}

/// Whether the distance between two rates is at most `width`, relative to the upper one. Adjacent rates are
/// always close.
pub(super) fn close(width: f64, lower: u64, upper: u64) -> bool {
    let apart = upper.saturating_sub(lower);
    apart <= 1 || apart as f64 <= width * upper as f64
}

/// Whether bounds are close enough for the method; the linear search has a constant step.
pub(super) fn close_enough(effort: &Effort, lower: u64, upper: u64) -> bool {
    match effort.method {
        Method::Linear => upper.saturating_sub(lower) <= step(effort),
        Method::Binary | Method::Mlrsearch => close(effort.width, lower, upper),
    }
}

/// Step of the linear search: the relative width, applied to the highest rate.
pub(super) fn step(effort: &Effort) -> u64 {
    ((effort.width * span(effort).1 as f64) as u64).max(1)
}

/// Whether two durations are equal within 1 %. They may differ slightly, because a trial sends whole packets.
pub(super) fn alike(duration_ns: u64, asked_ns: u64) -> bool {
    duration_ns.abs_diff(asked_ns) <= asked_ns / 100
}
