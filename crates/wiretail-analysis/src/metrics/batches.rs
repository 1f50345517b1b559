//! The delays of consecutive batches of packets, in coarse histograms. From them, the dependence of packets and
//! the steadiness of a measurement are estimated without storing each delay in its order.
//!
//! All batches have the same number of packets. When [`BATCHES_MAX`] batches are full, neighboring batches merge
//! and the size doubles, so the memory is bounded and a measurement of any length has between half as many and
//! that many batches. Delays are counted in buckets that are 1.6 % wide, which is exact enough to count the
//! packets beyond a threshold; percentiles are computed from [`crate::stats::counts`].

use crate::stats::dispersion::{Batch, dispersion};

/// Maximum number of batches.
pub const BATCHES_MAX: usize = 1024;
/// Each power of two is divided into this many buckets, as a power of two.
const DIVISION_BITS: u32 = 6;
/// Delays of 2^40 ns (18 minutes) or more share the last bucket of delays.
const VALUE_BITS: u32 = 40;
/// Number of the last bucket of delays.
const LAST: u16 = (((VALUE_BITS - DIVISION_BITS) << DIVISION_BITS) + (1 << DIVISION_BITS)) as u16;
/// Bucket of packets that never arrived in time.
const FAILED: u16 = LAST + 1;
const BUCKETS: usize = FAILED as usize + 1;
/// Minimum number of packets beyond a percentile to estimate its dispersion from these packets alone.
const ENOUGH: f64 = 30.0;

/// Number of the bucket of a delay. Below 64 ns, each ns has its own bucket.
#[inline]
fn bucket(delay_ns: i64) -> u16 {
    let value = delay_ns.max(0) as u64;
    if value >> VALUE_BITS != 0 {
        return LAST;
    }
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(DIVISION_BITS);
    ((u64::from(shift) << DIVISION_BITS) + (value >> shift)) as u16
}

/// Counts per bucket of one batch, in ascending order of buckets.
type Histogram = Vec<(u16, u32)>;

/// Tally of batches. Feed it the packets in the order of their arrival.
#[derive(Debug, Clone)]
pub struct BatchTally {
    /// Packets per batch.
    size: u32,
    full: Vec<Cell>,
    /// Counts of the current batch per bucket. Allocated with the first packet.
    counts: Vec<u32>,
    /// Buckets of the current batch that are not empty.
    touched: Vec<u16>,
    packets: u32,
    start_ns: i64,
}

#[derive(Debug, Clone)]
struct Cell {
    packets: u32,
    /// Arrival of the first packet of the batch.
    start_ns: i64,
    histogram: Histogram,
}

impl Default for BatchTally {
    fn default() -> Self {
        Self { size: 1, full: Vec::new(), counts: Vec::new(), touched: Vec::new(), packets: 0, start_ns: 0 }
    }
}

impl BatchTally {
    /// Adds a packet that arrived at `post_ns`.
    #[inline]
    pub fn arrive(&mut self, post_ns: i64, delay_ns: i64) {
        self.add(post_ns, bucket(delay_ns));
    }

    /// Adds a packet that was lost or arrived too late to be matched, noticed at `now_ns`.
    pub fn fail(&mut self, now_ns: i64) {
        self.add(now_ns, FAILED);
    }

    #[inline]
    fn add(&mut self, at_ns: i64, bucket: u16) {
        if self.packets == 0 {
            self.begin(at_ns);
        }
        let count = &mut self.counts[usize::from(bucket)];
        if *count == 0 {
            self.touched.push(bucket);
        }
        *count += 1;
        self.packets += 1;
        if self.packets == self.size {
            self.finish();
        }
    }

    #[inline(never)]
    fn begin(&mut self, at_ns: i64) {
        self.start_ns = at_ns;
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
    }

    #[inline(never)]
    fn finish(&mut self) {
        let cell = self.cell();
        self.full.push(cell);
        self.touched.iter().for_each(|bucket| self.counts[usize::from(*bucket)] = 0);
        self.touched.clear();
        self.packets = 0;
        // A batch holds at most 2^31 packets, so its counts cannot overflow.
        if self.full.len() == BATCHES_MAX && self.size < 1 << 31 {
            self.size *= 2;
            self.full = std::mem::take(&mut self.full).chunks(2).map(merge).collect();
        }
    }

    /// The current batch.
    fn cell(&self) -> Cell {
        let mut touched = self.touched.clone();
        touched.sort_unstable();
        let histogram =
            touched.into_iter().map(|bucket| (bucket, self.counts[usize::from(bucket)])).collect();
        Cell { packets: self.packets, start_ns: self.start_ns, histogram }
    }

    /// The batches, including the last one, which may have fewer packets.
    pub fn finished(mut self) -> Batches {
        if self.packets > 0 {
            let cell = self.cell();
            self.full.push(cell);
        }
        Batches { cells: self.full }
    }
}

fn merge(pair: &[Cell]) -> Cell {
    let [first, second] = pair else { return pair[0].clone() };
    let mut histogram = Vec::with_capacity(first.histogram.len() + second.histogram.len());
    let (mut a, mut b) = (first.histogram.iter().peekable(), second.histogram.iter().peekable());
    while let (Some(&&(left, times)), Some(&&(right, more))) = (a.peek(), b.peek()) {
        let entry =
            (left.min(right), if left <= right { times } else { 0 } + if right <= left { more } else { 0 });
        if left <= right {
            a.next();
        }
        if right <= left {
            b.next();
        }
        histogram.push(entry);
    }
    histogram.extend(a.chain(b));
    histogram.shrink_to_fit();
    Cell { packets: first.packets + second.packets, start_ns: first.start_ns, histogram }
}

/// The batches of a measurement in the order of arrival.
#[derive(Debug, Clone)]
pub struct Batches {
    cells: Vec<Cell>,
}

/// Level of the delay in one batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Arrival of the first packet.
    pub start_ns: i64,
    /// Number of packets that arrived in time.
    pub packets: u64,
    /// Mean rank of their delays among all delays of the measurement, as a share between 0 and 1.
    pub mean_rank: f64,
}

impl Batches {
    /// For each of the ascending `shares` (in billionths), the number of packets per batch beyond the bucket
    /// boundary that comes closest to this percentile. Packets that failed are left out.
    pub fn above(&self, shares: &[u64]) -> Vec<Vec<Batch>> {
        let totals = self.totals();
        let arrived: u64 = totals.iter().sum();
        // Packets in the bucket and in all higher ones.
        let mut at_least = totals;
        for bucket in (0..at_least.len() - 1).rev() {
            at_least[bucket] += at_least[bucket + 1];
        }
        let closest = |share: &u64| {
            let wanted = arrived as f64 * (1.0 - *share as f64 / 1e9);
            let distance = |bucket: usize| match at_least[bucket] {
                count if count == 0 || count == arrived => f64::INFINITY,
                count => (count as f64 / wanted).ln().abs(),
            };
            let next = at_least.partition_point(|count| *count as f64 > wanted).min(usize::from(LAST));
            let before = next.saturating_sub(1);
            (if distance(before) <= distance(next) { before } else { next }) as u16
        };
        let thresholds: Vec<u16> = shares.iter().map(closest).collect();
        self.series(&thresholds, false)
    }

    /// The number of packets per batch that failed or took longer than `limit_ns`, rounded to a boundary of
    /// buckets.
    pub fn beyond(&self, limit_ns: i64) -> Vec<Batch> {
        self.series(&[(bucket(limit_ns) + 1).min(LAST)], true).pop().unwrap_or_default()
    }

    /// The number of packets per batch that failed.
    pub fn failed(&self) -> Vec<Batch> {
        let batch = |cell: &Cell| Batch { packets: f64::from(cell.packets), counted: cell.failed() };
        self.cells.iter().map(batch).collect()
    }

    /// The level of each batch in which a packet arrived in time.
    pub fn levels(&self) -> Vec<Level> {
        let totals = self.totals();
        let arrived: u64 = totals.iter().sum();
        let mut below = 0;
        let ranks: Vec<f64> = totals
            .iter()
            .map(|count| {
                let rank = below as f64 + *count as f64 / 2.0;
                below += count;
                rank / arrived as f64
            })
            .collect();
        let level = |cell: &Cell| {
            let (mut packets, mut sum) = (0, 0.0);
            for &(bucket, count) in cell.histogram.iter().filter(|(bucket, _)| *bucket != FAILED) {
                packets += u64::from(count);
                sum += f64::from(count) * ranks[usize::from(bucket)];
            }
            Level { start_ns: cell.start_ns, packets, mean_rank: sum / packets as f64 }
        };
        self.cells.iter().map(level).filter(|level| level.packets > 0).collect()
    }

    /// Number of packets per bucket, without those that failed.
    fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; BUCKETS];
        for (bucket, count) in self.cells.iter().flat_map(|cell| &cell.histogram) {
            totals[usize::from(*bucket)] += u64::from(*count);
        }
        totals.truncate(usize::from(FAILED));
        totals
    }

    /// For each of the ascending thresholds, the packets per batch in this bucket or a higher one.
    fn series(&self, thresholds: &[u16], with_failed: bool) -> Vec<Vec<Batch>> {
        let mut series = vec![Vec::with_capacity(self.cells.len()); thresholds.len()];
        for cell in &self.cells {
            let mut entries = cell.histogram.iter().rev().peekable();
            let mut counted = 0.0;
            if let Some((_, count)) = entries.next_if(|(bucket, _)| *bucket == FAILED)
                && with_failed
            {
                counted = f64::from(*count);
            }
            let packets = f64::from(cell.packets) - if with_failed { 0.0 } else { cell.failed() };
            for (threshold, series) in thresholds.iter().zip(&mut series).rev() {
                while let Some((_, count)) = entries.next_if(|(bucket, _)| bucket >= threshold) {
                    counted += f64::from(*count);
                }
                series.push(Batch { packets, counted });
            }
        }
        series
    }
}

impl Cell {
    fn failed(&self) -> f64 {
        self.histogram
            .last()
            .filter(|(bucket, _)| *bucket == FAILED)
            .map_or(0.0, |(_, count)| f64::from(*count))
    }
}

/// Index of dispersion for each of the ascending `shares` (in billionths): see [`dispersion`]. A percentile
/// with too few packets beyond it takes the largest index of the lower ones that have enough. 1 if no percentile has.
pub fn dispersions(batches: &Batches, shares: &[u64]) -> Vec<f64> {
    let mut largest = 1.0_f64;
    let mut found = Vec::with_capacity(shares.len());
    for series in batches.above(shares) {
        let counted: f64 = series.iter().map(|batch| batch.counted).sum();
        let own = dispersion(&series);
        if let Some(own) = own.filter(|_| counted >= ENOUGH) {
            largest = own;
        }
        found.push(own.map_or(largest, |own| if counted >= ENOUGH { own } else { own.max(largest) }));
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::random::Random;

    /// Outcomes of packets in order: a delay, or `None` for a failure.
    fn tally(outcomes: &[Option<i64>]) -> Batches {
        let mut tally = BatchTally::default();
        for (at, outcome) in (0..).zip(outcomes) {
            match outcome {
                Some(delay) => tally.arrive(at, *delay),
                None => tally.fail(at),
            }
        }
        tally.finished()
    }

    #[test]
    fn buckets_are_contiguous_and_at_most_a_64th_wide() {
        let mut last = 0;
        for value in 0..100_000 {
            let found = bucket(value);
            assert!(found == last || found == last + 1, "{value}");
            last = found;
        }
        for bits in 6..VALUE_BITS {
            let (low, width) = (1_i64 << bits, 1_i64 << (bits - 6));
            assert_eq!(bucket(low), bucket(low + width - 1));
            assert_eq!(bucket(low) + 1, bucket(low + width));
        }
        assert_eq!(
            (bucket(-5), bucket((1 << 40) - 1), bucket(1 << 40), bucket(i64::MAX)),
            (0, LAST - 1, LAST, LAST)
        );
    }

    proptest! {
        #[test]
        fn batches_count_every_packet_once(
            outcomes in prop::collection::vec(prop::option::weighted(0.9, 0..200_000_i64), 1..6000),
            limit in 0..200_000_i64,
        ) {
            let batches = tally(&outcomes);
            let size = (outcomes.len() / BATCHES_MAX + 1).next_power_of_two();
            prop_assert!(batches.cells.len() <= BATCHES_MAX);
            let beyond = batches.beyond(limit);
            for (place, part) in outcomes.chunks(size).enumerate() {
                let late = |outcome: &&Option<i64>| outcome.is_none_or(|delay| bucket(delay) > bucket(limit));
                prop_assert_eq!(beyond[place].packets, part.len() as f64);
                prop_assert_eq!(beyond[place].counted, part.iter().filter(late).count() as f64);
                prop_assert_eq!(batches.cells[place].start_ns, (place * size) as i64);
            }
            let levels = batches.levels();
            let arrived = outcomes.iter().flatten().count() as f64;
            prop_assert_eq!(levels.iter().map(|level| level.packets).sum::<u64>(), arrived as u64);
            let mean: f64 = levels.iter().map(|level| level.mean_rank * level.packets as f64).sum();
            prop_assert!(arrived == 0.0 || (mean / arrived - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn percentiles_count_packets_beyond_them() {
        let mut random = Random::new(3);
        let outcomes: Vec<_> = (0..50_000).map(|_| Some(random.below(100_000) as i64)).collect();
        let shares = [500_000_000, 990_000_000, 999_000_000];
        for (series, share) in tally(&outcomes).above(&shares).iter().zip(shares) {
            let wanted = 50_000.0 * (1.0 - share as f64 / 1e9);
            let counted: f64 = series.iter().map(|batch| batch.counted).sum();
            // One bucket at this level holds up to 1.6 % of the packets.
            assert!((counted - wanted).abs() < 0.016 * 50_000.0, "{share}: {counted}");
        }
        let one = tally(&vec![Some(7); 3000]);
        assert_eq!(dispersions(&one, &shares), [1.0; 3]);
        assert!(tally(&[]).levels().is_empty() && dispersions(&tally(&[]), &shares) == [1.0; 3]);
    }

    #[test]
    fn late_bursts_disperse_the_tail_only() {
        let mut random = Random::new(1);
        let mut outcomes: Vec<_> = (0..100_000).map(|_| Some(1000 + random.below(500) as i64)).collect();
        for _ in 0..100 {
            let start = random.below(99_980) as usize;
            outcomes[start..start + 20]
                .iter_mut()
                .for_each(|delay| *delay = Some(90_000 + random.below(9000) as i64));
        }
        let found = dispersions(&tally(&outcomes), &[500_000_000, 990_000_000, 999_900_000]);
        assert!(found[0] < 1.5, "{found:?}");
        // Half of the late packets are above the 99th percentile, at random: 1 + 19 / 2.
        assert!((9.0..12.5).contains(&found[1]), "{found:?}");
    }
}
