//! The delays of a simulation as numbers: the same exact counts as measured delays have, and how exact their mean is.

use wiretail_schema::prediction::queueing::{QueueingDelay, QueueingPercentile};

use crate::stats::counts::Counts;
use crate::stats::quantile::distribution;

/// Batches of consecutive delays whose means are taken for independent: as many at least, and fewer than twice as many.
pub const BATCHES: usize = 32;
/// Delays in a batch at least; with fewer, neighbours tell too much of each other.
const BATCH_LEN_MIN: u64 = 100;
/// Student's t for two-sided 99 % with `BATCHES` - 1 degrees of freedom; more batches have a smaller one.
const T99: f64 = 2.744_041_919;

/// A mean and the half width of its 99 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half of the interval's width.
    pub half: f64,
}

impl Interval {
    /// Whether a value lies in the interval.
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half
    }
}

/// The mean of a sequence whose neighbours depend on each other, by batch means (Law and Kelton: Simulation Modeling and
/// Analysis, chapter 9): far longer batches than the dependence reaches have means that are nearly independent.
#[derive(Debug, Clone)]
pub struct BatchMeans {
    sums: [f64; 2 * BATCHES],
    /// Values in a batch: doubles whenever all batches are full.
    len: u64,
    /// Batches that are full.
    full: usize,
    /// Values in the batch that is not.
    within: u64,
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self { sums: [0.0; 2 * BATCHES], len: 1, full: 0, within: 0 }
    }
}

impl BatchMeans {
    /// Adds the next value.
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

    /// The mean of all full batches, and how exact it is; None of fewer than some 3,200 to 6,400 values. What the last batch
    /// has is left out while it is not full.
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

/// Delays that are kept before they are counted: each is a miss of the cache, and a processor waits for several at once.
const BLOCK: usize = 256;

/// Delays one by one, as counts and as batch means.
pub(super) struct Tally {
    counts: Counts,
    means: BatchMeans,
    block: [f64; BLOCK],
    filled: usize,
}

impl Tally {
    /// No delay yet; the counts take memory for so many pages at most.
    pub(super) fn new(pages_max: usize) -> Self {
        let (counts, means) = (Counts::new(pages_max), BatchMeans::default());
        Self { counts, means, block: [0.0; BLOCK], filled: 0 }
    }

    /// Adds the next delay, in ns.
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

    /// The delays, rounded to ns, as counts, and their mean.
    pub(super) fn finish(mut self) -> (Counts, Option<Interval>) {
        self.flush();
        (self.counts, self.means.interval())
    }
}

/// A delay as counts have it, to the nearest ns.
#[inline]
pub(super) fn rounded(delay_ns: f64) -> i64 {
    (delay_ns + 0.5) as i64
}

/// Summed up as in the document; None without any delay. `error_ns` is the half width of the mean's interval.
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
