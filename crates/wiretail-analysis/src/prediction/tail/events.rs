//! Events, formed from delays above a threshold. The exceedances of one stall form one event, whose delay is
//! the highest of them (runs method, Coles 2001, 5.3.2).

use crate::stats::random::{Random, open_uniform};

/// Minimum number of events for a tail, or for a component of one.
pub const EVENTS_MIN: usize = 30;

/// Delays without ties, and the timestamp granularity of the measurement.
#[derive(Debug, Clone)]
pub struct Delays {
    /// Delays in ns, in the order in which the packets were sent.
    pub spread: Vec<f64>,
    granularity_ns: f64,
}

/// Exceedances that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Index of the first packet.
    pub position: usize,
    /// Highest delay, in ns.
    pub highest_ns: f64,
}

impl Delays {
    /// Spreads each delay evenly over the timestamp step to which it was rounded. This removes ties: they
    /// result only from the limited resolution, and a continuous distribution has none.
    pub fn new(delays_ns: &[i64], granularity_ns: f64, random: &mut Random) -> Self {
        let step = |&delay: &i64| (delay as f64 / granularity_ns).round();
        let spread = delays_ns
            .iter()
            .map(|delay| (step(delay) + open_uniform(random) - 0.5) * granularity_ns)
            .collect();
        Self { spread, granularity_ns }
    }

    /// The first `count` delays.
    pub fn first(&self, count: usize) -> Self {
        Self { spread: self.spread[..count].to_vec(), granularity_ns: self.granularity_ns }
    }

    /// Timestamp granularity, in ns.
    pub fn granularity_ns(&self) -> f64 {
        self.granularity_ns
    }

    /// Lower edge of the timestamp step that contains `delay`. The number of delays above this edge does not
    /// depend on how delays are spread over the step.
    pub fn edge_ns(&self, delay: f64) -> f64 {
        ((delay / self.granularity_ns).round() - 0.5) * self.granularity_ns
    }

    pub fn above(&self, level_ns: f64) -> usize {
        self.spread.iter().filter(|delay| **delay > level_ns).count()
    }

    /// Events above a level, among the packets from index `from` on. Two exceedances belong to the same event
    /// if fewer than `run` packets at or below the level are between them.
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
