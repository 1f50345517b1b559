//! Statistics of simulated delays: exact counts, as for measured delays, and the accuracy of their mean.

use wiretail_schema::prediction::queueing::{QueueingDelay, QueueingPercentile};

use crate::stats::counts::Counts;
use crate::stats::quantile::distribution;

/// Minimum number of batches of consecutive delays; their means are treated as independent. The maximum is
/// less than twice that.
pub const BATCHES: usize = 32;
/// Minimum number of delays per batch; shorter batches are correlated.
const BATCH_LEN_MIN: u64 = 100;
/// Student's t for two-sided 99 % with `BATCHES` - 1 degrees of freedom; it is smaller for more batches.
const T99: f64 = 2.744_041_919;

/// A mean and the half width of its 99 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub mean: f64,
    /// Half of the interval's width.
    pub half: f64,
}

impl Interval {
    /// Whether the interval contains a value.
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half
    }
}

/// Mean of a sequence of correlated values, by batch means (Law and Kelton: Simulation Modeling and Analysis,
/// chapter 9). Means of batches that are far longer than the correlation are nearly independent.
#[derive(Debug, Clone)]
pub struct BatchMeans {
    sums: [f64; 2 * BATCHES],
    /// Number of values per batch, doubled whenever all batches are full.
    len: u64,
    /// Number of full batches.
    full: usize,
    /// Number of values in the batch that is not full.
    within: u64,
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self { sums: [0.0; 2 * BATCHES], len: 1, full: 0, within: 0 }
    }
}

impl BatchMeans {
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.sums[self.full] += value;
        self.within += 1;
        if self.within == self.len {
            (self.full, self.within) = (self.full + 1, 0);
            if self.full == self.sums.len() {
                self.join();
            }
        }
    }

    #[cold]
    fn join(&mut self) {
        for index in 0..BATCHES {
            self.sums[index] = self.sums[2 * index] + self.sums[2 * index + 1];
        }
        self.sums[BATCHES..].fill(0.0);
        (self.full, self.len) = (BATCHES, 2 * self.len);
    }

    /// Mean of all full batches, and its accuracy. `None` if there are too few values: fewer than about 3,200
    /// to 6,400. Values in an incomplete last batch are left out.
    pub fn interval(&self) -> Option<Interval> {
        if self.full < BATCHES || self.len < BATCH_LEN_MIN {
            return None;
        }
        let n = self.full as f64;
        let means = || self.sums[..self.full].iter().map(|sum| sum / self.len as f64);
        let mean = means().sum::<f64>() / n;
        let variance = means().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Interval { mean, half: T99 * (variance / n).sqrt() })
    }
}

/// Delays are buffered before they are counted: each count is a cache miss, and a processor handles several
/// misses in parallel.
const BLOCK: usize = 256;

/// Accumulates delays as counts and as batch means.
pub(super) struct Tally {
    counts: Counts,
    means: BatchMeans,
    block: [f64; BLOCK],
    filled: usize,
}

impl Tally {
    /// Creates an empty tally. Its counts use at most `pages_max` pages of memory.
    pub(super) fn new(pages_max: usize) -> Self {
        let (counts, means) = (Counts::new(pages_max), BatchMeans::default());
        Self { counts, means, block: [0.0; BLOCK], filled: 0 }
    }

    /// Adds a delay, in ns.
    #[inline]
    pub(super) fn add(&mut self, delay_ns: f64) {
        self.block[self.filled] = delay_ns;
        self.filled += 1;
        if self.filled == BLOCK {
            self.flush();
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        for &delay_ns in &self.block[..self.filled] {
            self.means.add(delay_ns);
            self.counts.add(rounded(delay_ns));
        }
        self.filled = 0;
    }

    /// Returns the delays, rounded to ns, as counts, and their mean.
    pub(super) fn finish(mut self) -> (Counts, Option<Interval>) {
        self.flush();
        (self.counts, self.means.interval())
    }
}

/// Rounds a delay to the nearest ns, as in the counts.
#[inline]
pub(super) fn rounded(delay_ns: f64) -> i64 {
    (delay_ns + 0.5) as i64
}

/// Summary of the delays. `None` without delays. `error_ns` is the half width of the mean's confidence
/// interval.
pub(super) fn delay(counts: &Counts, error_ns: Option<f64>) -> Option<QueueingDelay> {
    let found = distribution(counts);
    (found.count > 0).then(|| QueueingDelay {
        min_ns: found.min_ns,
        mean_ns: found.mean_ns,
        mean_error_ns: error_ns,
        max_ns: found.max_ns,
        percentiles: found
            .percentiles
            .iter()
            .map(|at| QueueingPercentile {
                percentile: at.percentile,
                value_ns: at.value_ns,
                supported: at.supported,
            })
            .collect(),
    })
}
