//! Devices with a known capacity, for tests of searches and for the benchmark against the reference
//! implementation of MLRsearch.
//!
//! They do not model real devices; that is the purpose of the [queueing
//! simulation](crate::prediction::queueing). The result of a trial is computed by the same formula as in
//! `benches/search_peer.py`.

use wiretail_schema::random::{Random, fraction};
use wiretail_schema::search::{Effort, Goal, SearchTrial};

use super::Ask;

/// Device with a fixed service rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Service rate, in packets per second.
    pub capacity_pps: f64,
    /// Share of the capacity that remains under overload, for example because interrupts also spend time on
    /// packets that are lost.
    pub overload: f64,
    /// Maximum number of waiting packets. Packets that wait at the end of a trial are served after it and
    /// stretch the trial.
    pub ring: u64,
    /// Rate of random interference, per second. A trial with one or more occurrences loses [`Device::burst`]
    /// packets.
    pub bursts_per_s: f64,
    /// Packets lost by interference.
    pub burst: u64,
    /// Seed of the interference.
    pub seed: u64,
}

impl Device {
    /// Creates a device without a ring and without interference.
    pub fn new(capacity_pps: f64) -> Self {
        Self { capacity_pps, overload: 1.0, ring: 0, bursts_per_s: 0.0, burst: 0, seed: 0 }
    }

    /// Record of a trial. `number` distinguishes trials at the same rate, each of which has its own random
    /// interference.
    ///
    /// Delays are those of M/M/1: with capacity c and rate r, the fraction exp(-(c - r) t) of the packets
    /// takes longer than t (Kleinrock, Queueing Systems I, 1975).
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

    /// Highest rate that meets the goal without interference, in an infinitely long trial.
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

/// Random number in [0, 1) from the three arguments, which are mixed one after the other.
fn uniform(seed: u64, load: u64, number: usize) -> f64 {
    let mix = |word: u64| Random::new(word).bits();
    fraction([load, number as u64].into_iter().fold(mix(seed), |state, word| mix(state ^ word)))
}
