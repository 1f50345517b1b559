//! Delays above a threshold as events: those of one stall are one, with the highest delay (the runs method,
//! Coles 2001, 5.3.2).

use crate::stats::random::{Random, open_uniform};

/// Fewer events than these are no tail, and no component of one.
pub const EVENTS_MIN: usize = 30;

/// Delays as numbers without ties, and where the grid lies that they were measured on.
#[derive(Debug, Clone)]
pub struct Delays {
    /// In the order in which the packets were sent, in ns.
    pub spread: Vec<f64>,
    granularity_ns: f64,
}

/// Exceedances that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Which packet was the first of them.
    pub position: usize,
    /// Their highest delay, in ns.
    pub highest_ns: f64,
}

impl Delays {
    /// Spreads each delay evenly over the step of the grid that it was rounded to: equal delays are equal for want of
    /// resolution only, and a continuous distribution knows no ties.
    pub fn new(delays_ns: &[i64], granularity_ns: f64, random: &mut Random) -> Self {
        let step = |&delay: &i64| (delay as f64 / granularity_ns).round();
        let spread = delays_ns
            .iter()
            .map(|delay| (step(delay) + open_uniform(random) - 0.5) * granularity_ns)
            .collect();
        Self { spread, granularity_ns }
    }

    /// The first `count` of them.
    pub fn first(&self, count: usize) -> Self {
        Self { spread: self.spread[..count].to_vec(), granularity_ns: self.granularity_ns }
    }

    /// The step of the grid, in ns.
    pub fn granularity_ns(&self) -> f64 {
        self.granularity_ns
    }

    /// The lower edge of the step that `delay` lies in: what is above does not depend on the spreading.
    pub fn edge_ns(&self, delay: f64) -> f64 {
        ((delay / self.granularity_ns).round() - 0.5) * self.granularity_ns
    }

    /// Packets above a level.
    pub fn above(&self, level_ns: f64) -> usize {
        self.spread.iter().filter(|delay| **delay > level_ns).count()
    }

    /// Events above a level, among the packets from `from` on: fewer than `run` packets at or below it between two
    /// exceedances make them one.
    pub fn events(&self, level_ns: f64, run: u64, from: usize) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let mut last = None;
        for (position, &delay) in self.spread.iter().enumerate().skip(from) {
            if delay <= level_ns {
                continue;
            }
            let goes_on = last.is_some_and(|last| ((position - last) as u64) <= run);
            match events.last_mut() {
                Some(event) if goes_on => event.highest_ns = event.highest_ns.max(delay),
                _ => events.push(Event { position, highest_ns: delay }),
            }
            last = Some(position);
        }
        events
    }
}
