//! Distributions of excesses, as needed for tests and forecasts.

use super::gpd::{self, Gpd};
use crate::stats::random::{Random, open_uniform};

/// A distribution of excesses over a threshold.
pub trait Distribution: Sized {
    /// Probability of an excess above `excess`, in ns.
    fn survival(&self, excess: f64) -> f64;

    /// Draws a random excess above 0, in ns.
    fn draw(&self, random: &mut Random) -> f64;

    /// Fits a distribution of the same kind to excesses in ascending order. `None` if there is no fit.
    fn fit_again(&self, ascending: &[f64]) -> Option<Self>;

    /// Draws `count` random excesses.
    fn simulate(&self, count: usize, random: &mut Random) -> Vec<f64> {
        (0..count).map(|_| self.draw(random)).collect()
    }
}

impl Distribution for Gpd {
    fn survival(&self, excess: f64) -> f64 {
        Gpd::survival(*self, excess)
    }

    fn draw(&self, random: &mut Random) -> f64 {
        self.exceeded_with(open_uniform(random)).max(f64::MIN_POSITIVE)
    }

    fn fit_again(&self, ascending: &[f64]) -> Option<Self> {
        gpd::fit(ascending)
    }
}
