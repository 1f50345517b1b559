//! Seeded random numbers. Each stream of a simulation has its own generator. Two simulations with the same
//! seed therefore differ only if their models differ.

use crate::stats::random::exponential;
use wiretail_schema::prediction::queueing::{Length, Wake};
use wiretail_schema::random::Random;

/// Generator of one stream.
pub(super) fn generator(seed: u64, stream: u64) -> Random {
    Random::new(seed ^ Random::new(stream).bits())
}

/// Sequence of random lengths.
#[derive(Debug)]
pub(super) struct Draw<'a> {
    length: &'a Length,
    random: Random,
}

impl<'a> Draw<'a> {
    pub(super) fn new(length: &'a Length, random: Random) -> Self {
        Self { length, random }
    }

    /// Returns the next length, in ns.
    #[inline]
    pub(super) fn next(&mut self) -> f64 {
        match self.length {
            Length::Constant(ns) => *ns,
            Length::Exponential(mean_ns) => exponential(&mut self.random) * mean_ns,
            Length::Samples(samples) => {
                // Rounding may make the product equal to the number of samples; without samples, the length
                // is 0.
                let index = (self.random.uniform() * samples.len() as f64) as usize;
                samples.get(index).or(samples.last()).copied().unwrap_or(0.0)
            }
        }
    }
}

/// Wakeup times, by the length of the idle period.
#[derive(Debug)]
pub(super) struct Wakes<'a> {
    /// Minimum idle time of each step, ascending.
    steps: Vec<(f64, Draw<'a>)>,
}

impl<'a> Wakes<'a> {
    /// Uses the last streams, so that wakeups do not change the other streams.
    pub(super) fn new(wakes: &'a [Wake], seed: u64) -> Self {
        let step = |(wake, stream): (&'a Wake, u64)| {
            (wake.after_idle_ns, Draw::new(&wake.length, generator(seed, u64::MAX - stream)))
        };
        Self { steps: wakes.iter().zip(0..).map(step).collect() }
    }

    /// Wakeup time after an idle period, in ns. `None` if the server starts immediately, or was not idle.
    #[inline]
    pub(super) fn next(&mut self, idle_ns: f64) -> Option<f64> {
        // Check for an empty list of wakeups first. Whether the server was idle is random, and a mispredicted
        // branch costs more than the rest of the function.
        if self.steps.is_empty() || idle_ns <= 0.0 {
            return None;
        }
        let step = self.steps.iter_mut().rev().find(|step| step.0 <= idle_ns)?;
        Some(step.1.next())
    }
}
