//! A tail of two heaps: delays just above what is usual, and, behind a gap, those of a rarer cause with a length of its own (a
//! timer's interrupt). No generalised Pareto distribution has two heaps; each heap may have one.

use super::distribution::Distribution;
use super::events::EVENTS_MIN;
use super::gpd::{self, Gpd};
use crate::stats::random::{Random, open_uniform};

/// The excesses of two heaps over the lower one's threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixture {
    /// Probability of the lower heap.
    pub lower_share: f64,
    /// Its distribution.
    pub lower: Gpd,
    /// Where the upper heap begins, above the lower one's threshold, in ns.
    pub edge: f64,
    /// The distribution above that.
    pub upper: Gpd,
}

impl Mixture {
    /// Each heap's estimate by maximum likelihood, for excesses in ascending order. None where one of them has fewer than
    /// [`EVENTS_MIN`] or no estimate.
    pub fn fit(ascending: &[f64], edge: f64) -> Option<Self> {
        let (lower, upper) = ascending.split_at(ascending.partition_point(|excess| *excess <= edge));
        if lower.len().min(upper.len()) < EVENTS_MIN {
            return None;
        }
        let upper: Vec<f64> = upper.iter().map(|excess| excess - edge).collect();
        Some(Self {
            lower_share: lower.len() as f64 / ascending.len() as f64,
            lower: gpd::fit(lower)?,
            edge,
            upper: gpd::fit(&upper)?,
        })
    }
}

impl Distribution for Mixture {
    fn survival(&self, excess: f64) -> f64 {
        self.lower_share * self.lower.survival(excess)
            + (1.0 - self.lower_share) * self.upper.survival(excess - self.edge)
    }

    fn draw(&self, random: &mut Random) -> f64 {
        if open_uniform(random) < self.lower_share {
            self.lower.draw(random)
        } else {
            self.edge + self.upper.draw(random)
        }
    }

    fn fit_again(&self, ascending: &[f64]) -> Option<Self> {
        Self::fit(ascending, self.edge)
    }
}

/// The lower edge of the highest of two heaps, if delays are two: where the widest stretch without a delay is longer than all that
/// lies below it, down to the lowest of these, and either side has enough. As the rank of the lowest delay of the upper heap.
pub fn gap(descending: &[f64]) -> Option<usize> {
    let lowest = *descending.last()?;
    let last = descending.len().checked_sub(EVENTS_MIN)?;
    let width = |rank: usize| descending[rank - 1] - descending[rank];
    let rank = (EVENTS_MIN..=last).max_by(|a, b| width(*a).total_cmp(&width(*b)))?;
    (width(rank) > descending[rank] - lowest).then_some(rank - 1)
}
