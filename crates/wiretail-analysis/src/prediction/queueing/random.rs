//! Seeded randomness. Every stream of a simulation has a generator of its own, so that two simulations of the same seed
//! differ by what is different in their models only.

use crate::stats::random::exponential;
use wiretail_schema::prediction::queueing::{Length, Wake};
use wiretail_schema::random::Random;

/// The generator of one stream.
pub(super) fn generator(seed: u64, stream: u64) -> Random {
    Random::new(seed ^ Random::new(stream).bits())
}

/// Lengths, one after the other.
#[derive(Debug)]
pub(super) struct Draw<'a> {
    length: &'a Length,
    random: Random,
}

impl<'a> Draw<'a> {
    pub(super) fn new(length: &'a Length, random: Random) -> Self {
        Self { length, random }
    }

    /// The next one, in ns.
    #[inline]
    pub(super) fn next(&mut self) -> f64 {
        match self.length {
            Length::Constant(ns) => *ns,
            Length::Exponential(mean_ns) => exponential(&mut self.random) * mean_ns,
            Length::Samples(samples) => {
                // Rounding may make the product as large as the length; nothing is drawn of no samples.
                let index = (self.random.uniform() * samples.len() as f64) as usize;
                samples.get(index).or(samples.last()).copied().unwrap_or(0.0)
            }
        }
    }
}

/// Times to wake up, by how long the server was idle.
#[derive(Debug)]
pub(super) struct Wakes<'a> {
    /// From which idle time on; in order.
    steps: Vec<(f64, Draw<'a>)>,
}

impl<'a> Wakes<'a> {
    /// Their streams are the last ones, so that those of the others stay what they are.
    pub(super) fn new(wakes: &'a [Wake], seed: u64) -> Self {
        let step = |(wake, stream): (&'a Wake, u64)| {
            (wake.after_idle_ns, Draw::new(&wake.length, generator(seed, u64::MAX - stream)))
        };
        Self { steps: wakes.iter().zip(0..).map(step).collect() }
    }

    /// What it takes after so much idle time, in ns; None where it starts at once, or was not idle.
    #[inline]
    pub(super) fn next(&mut self, idle_ns: f64) -> Option<f64> {
        // In this order: whether it was idle is chance, and often costs more than all else here.
        if self.steps.is_empty() || idle_ns <= 0.0 {
            return None;
        }
        let step = self.steps.iter_mut().rev().find(|step| step.0 <= idle_ns)?;
        Some(step.1.next())
    }
}
