//! Devices whose capacity is known, to search it: for tests and for the benchmark against MLRsearch's own implementation.
//!
//! Not a model of anything real: [`twin`](crate::prediction::queueing) is that. A trial is a formula, the same in `benches/search_peer.py`.

use wiretail_schema::random::{Random, fraction};
use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;

/// A device that serves so many packets a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Packets a second that it serves.
    pub capacity_pps: f64,
    /// Share of the capacity that is left when more than it is offered, as where interrupts take the time of packets that are
    /// lost all the same.
    pub overload: f64,
    /// Packets that wait at most. What is there at the end of a trial is served behind it: it stretches the trial.
    pub ring: u64,
    /// Disturbances a second, by chance; a trial that meets one or more loses [`Device::burst`] packets.
    pub bursts_per_s: f64,
    /// Packets that a disturbance costs.
    pub burst: u64,
    /// Seed of the disturbances.
    pub seed: u64,
}

impl Device {
    /// One without a ring and without disturbances.
    pub fn new(capacity_pps: f64) -> Self {
        Self { capacity_pps, overload: 1.0, ring: 0, bursts_per_s: 0.0, burst: 0, seed: 0 }
    }

    /// The record of a trial. `number` tells trials of one rate apart, of which each has its own chance.
    ///
    /// Delays are those of M/M/1: with the capacity c and the rate r, the share exp(-(c - r) t) of the packets takes
    /// longer than t (Kleinrock, Queueing Systems I, 1975).
    pub fn trial(&self, effort: &Effort, goals: &[Goal], ask: Ask, number: usize) -> SearchTrial {
        let seconds = ask.duration_ns as f64 / 1e9;
        let sent = ((ask.load as f64 * seconds) as u64).max(1);
        let overloaded = sent as f64 > self.capacity_pps * seconds;
        let served = self.capacity_pps * seconds * if overloaded { self.overload } else { 1.0 };
        let backlog = f64::max(sent as f64 - served, 0.0);
        let waiting = f64::min(backlog, self.ring as f64);
        let overload = (backlog - waiting).ceil() as u64;
        let interfered = uniform(self.seed, ask.load, number) < 1.0 - (-self.bursts_per_s * seconds).exp();
        let lost = (overload + if interfered { self.burst } else { 0 }).min(sent);
        let stretch = waiting / served;
        let loss = lost as f64 / sent as f64;
        let missed: Vec<f64> = goals.iter().map(|goal| self.missed(goal, ask.load, loss)).collect();
        let poor = missed
            .iter()
            .zip(goals)
            .map(|(missed, goal)| stretch > effort.stretch || *missed > goal.allowed());
        SearchTrial {
            number,
            load: ask.load,
            duration_ns: ask.duration_ns,
            invalid: Vec::new(),
            sent,
            lost,
            stretch,
            poor: poor.collect(),
            missed,
        }
    }

    fn missed(&self, goal: &Goal, load: u64, loss: f64) -> f64 {
        match goal {
            Goal::Loss { .. } => loss,
            Goal::Delay { limit_ns, .. } => {
                let spare_pps = f64::max(self.capacity_pps - load as f64, 0.0);
                let late = (-spare_pps * *limit_ns as f64 / 1e9).exp();
                loss + (1.0 - loss) * late
            }
        }
    }

    /// The highest rate that meets the goal, without disturbances and in an endless trial.
    pub fn highest(&self, goal: &Goal) -> f64 {
        match goal {
            Goal::Loss { ratio } if 1.0 - ratio > self.overload => self.capacity_pps,
            Goal::Loss { ratio } => self.capacity_pps * self.overload / (1.0 - ratio),
            Goal::Delay { limit_ns, percentile, .. } => {
                self.capacity_pps + (1.0 - percentile / 100.0).ln() / (*limit_ns as f64 / 1e9)
            }
        }
    }
}

/// In [0, 1), of these three: a random number of each leads to that of the next.
fn uniform(seed: u64, load: u64, number: usize) -> f64 {
    let mix = |word: u64| Random::new(word).bits();
    fraction([load, number as u64].into_iter().fold(mix(seed), |state, word| mix(state ^ word)))
}
