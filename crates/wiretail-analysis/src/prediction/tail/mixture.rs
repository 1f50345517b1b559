//! Two-component mixture. The lower component contains delays just above the usual ones. The upper component
//! lies above a gap. It contains the delays from a rarer cause with its own length, such as a timer
//! interrupt. A generalized Pareto distribution has a single component. In the mixture, each component has
//! its own distribution.

use super::distribution::Distribution;
use super::events::EVENTS_MIN;
use super::gpd::{self, Gpd};
use crate::stats::random::{Random, open_uniform};

/// Mixture of two components, as excesses over the threshold of the lower one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixture {
    /// Probability of the lower component.
    pub lower_share: f64,
    /// Distribution of the lower component.
    pub lower: Gpd,
    /// Start of the upper component, relative to the lower one's threshold, in ns.
    pub edge: f64,
    /// Distribution of the upper component.
    pub upper: Gpd,
}

impl Mixture {
    /// Maximum likelihood estimate of each component, for excesses in ascending order. `None` if a component
    /// has fewer than [`EVENTS_MIN`] excesses, or no estimate.
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

/// Rank of the lowest delay of the upper component, if the delays have two components. This is the case if
/// the widest gap between two delays is larger than the range of the delays below it, and both sides have
/// enough delays.
pub fn gap(descending: &[f64]) -> Option<usize> {
    let lowest = *descending.last()?;
    let last = descending.len().checked_sub(EVENTS_MIN)?;
    let width = |rank: usize| descending[rank - 1] - descending[rank];
    let rank = (EVENTS_MIN..=last).max_by(|a, b| width(*a).total_cmp(&width(*b)))?;
    (width(rank) > descending[rank] - lowest).then_some(rank - 1)
}
