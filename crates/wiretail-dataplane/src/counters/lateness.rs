//! A histogram of durations for packet loops: fixed size, no allocation, one increment per value.

use wiretail_schema::units::Share;

/// Base-2 logarithm of the number of buckets per octave: values are accurate to 1/64.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of durations in ns: exact below 64 ns, otherwise accurate to 1.6 %. Minimum and maximum are exact.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    ns_max: u64,
    ns_min: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, ns_max: 0, ns_min: u64::MAX }
    }
}

impl Histogram {
    /// Counts a duration.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.ns_max = self.ns_max.max(ns);
        self.ns_min = self.ns_min.min(ns);
    }

    /// Number of durations counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest duration in ns; `None` if the histogram is empty.
    pub fn ns_max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.ns_max)
    }

    /// The shortest duration in ns; `None` if the histogram is empty.
    pub fn ns_min(&self) -> Option<u64> {
        (self.total > 0).then_some(self.ns_min)
    }

    /// Nearest-rank percentile (rank ⌈p·n⌉) in ns, with p in billionths: 990,000,000 is the 99th percentile.
    /// Returns the upper edge of the bucket, limited to the longest duration. `None` if the histogram is
    /// empty.
    pub fn percentile_ns(&self, billionths: u64) -> Option<u64> {
        let bucket =
            Share::from_billionths(billionths)?.of_counted(self.counts.iter().copied().enumerate())?;
        Some(upper_edge(bucket).min(self.ns_max))
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (shift as usize) * SUB + (ns >> shift) as usize
}

/// The largest value of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let mantissa = (bucket - shift * SUB) as u128;
    (((mantissa + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_within_one_64th() {
        let mut last = 0;
        for exponent in 0..64 {
            for offset in [0, 1, 2] {
                let ns = (1_u64 << exponent).saturating_add(offset * ((1 << exponent) / 3));
                let edge = upper_edge(bucket(ns));
                assert!(edge >= ns && edge - ns <= ns / 64, "{ns}: {edge}");
                assert!(bucket(ns) >= last);
                last = bucket(ns);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS).all(|at| bucket(upper_edge(at)) == at));
    }

    #[test]
    fn percentiles_use_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_ns(500_000_000), None);
        (1..=50).for_each(|ns| histogram.add(ns));
        assert_eq!(histogram.percentile_ns(500_000_000), Some(25));
        assert_eq!(histogram.percentile_ns(990_000_000), Some(50));
        assert_eq!(histogram.percentile_ns(1), Some(1));
        histogram.add(1_000_003);
        assert_eq!(histogram.percentile_ns(1_000_000_000), Some(1_000_003));
        assert_eq!(
            (histogram.ns_min(), histogram.ns_max(), histogram.total()),
            (Some(1), Some(1_000_003), 51)
        );
    }
}
