//! Whether the delay of a measurement is steady, and how much of its beginning to leave out.

use wiretail_schema::summary::SteadyState;

use crate::metrics::batches::{Batches, Level};
use crate::stats::dispersion::Batch;
use crate::stats::steadiness::{Change, change};

/// A change is reported below this probability of the same evidence in a steady measurement. Two tests are
/// made, each with half of it.
const ERROR: f64 = 0.01;
/// Minimum change of the mean rank that matters: a packet after the change is slower than one before it with
/// a probability of at least 52 %, or of at most 48 %.
const RANK_CHANGE_MIN: f64 = 0.02;
/// Minimum factor by which the number of packets above the 99th percentile changes.
const TAIL_FACTOR_MIN: f64 = 1.5;
/// The percentile whose exceedances are tested, in billionths.
const TAIL: u64 = 990_000_000;
/// Maximum number of changes that a proposed trim leaves out.
const TRIMS_MAX: usize = 3;

/// Tests the level of the delay and the number of packets in its tail. `None` with too few packets.
pub fn steady_state(batches: &Batches) -> Option<SteadyState> {
    let levels = batches.levels();
    let tail = batches.above(&[TAIL]).pop().unwrap_or_default();
    let series = Series { levels: &levels, tail: &tail };
    let (found, is_tail) = series.evident_change(0)?;
    let steady = !series.matters(&found, is_tail);
    let since_start =
        |index: usize| levels[index.min(levels.len() - 1)].start_ns.saturating_sub(levels[0].start_ns);
    let trim = if steady { None } else { series.trim(found.index) };
    Some(SteadyState {
        steady,
        p_value: found.p_value,
        change_ns: since_start(found.index),
        slower_after: 0.5 + if is_tail { 0.0 } else { found.means.1 - found.means.0 },
        tail_before: is_tail.then_some(found.means.0),
        tail_after: is_tail.then_some(found.means.1),
        proposed_trim_ns: trim.map(since_start),
    })
}

/// Two series over the same batches.
struct Series<'a> {
    levels: &'a [Level],
    tail: &'a [Batch],
}

impl Series<'_> {
    /// The most evident change from batch `first` on, and whether it is one of the tail instead of the level.
    fn evident_change(&self, first: usize) -> Option<(Change, bool)> {
        // The last batch may have fewer packets.
        let last = self.levels.len().min(self.tail.len()).saturating_sub(1);
        let levels: Vec<f64> = self.levels.get(first..last)?.iter().map(|level| level.mean_rank).collect();
        let tail: Vec<f64> =
            self.tail.get(first..last)?.iter().map(|batch| batch.counted / batch.packets.max(1.0)).collect();
        let level = change(&levels)?;
        let at = |change: Change| Change { index: change.index + first, ..change };
        match change(&tail) {
            Some(tail) if tail.p_value < level.p_value && !self.matters(&level, false) => {
                Some((at(tail), true))
            }
            _ => Some((at(level), false)),
        }
    }

    fn matters(&self, change: &Change, is_tail: bool) -> bool {
        let (before, after) = change.means;
        let large = if is_tail {
            before.max(after) > TAIL_FACTOR_MIN * before.min(after)
        } else {
            (after - before).abs() >= RANK_CHANGE_MIN
        };
        large && change.p_value < ERROR / 2.0
    }

    /// The first batch of the part that is steady, if it begins within the first half.
    fn trim(&self, first: usize) -> Option<usize> {
        let mut first = first;
        for _ in 0..TRIMS_MAX {
            if 2 * first > self.levels.len() {
                return None;
            }
            let (next, is_tail) = self.evident_change(first)?;
            if !self.matters(&next, is_tail) {
                return Some(first);
            }
            first = next.index;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::batches::BatchTally;
    use crate::stats::random::{Random, exponential};

    const GAP_NS: i64 = 20_000;

    /// A packet every 20 us. `level` is the mean of its exponential delay at a time in ns.
    fn measurement(seed: u64, packets: i64, level: impl Fn(i64) -> f64) -> Option<SteadyState> {
        let mut random = Random::new(seed);
        let mut tally = BatchTally::default();
        for packet in 0..packets {
            let at = packet * GAP_NS;
            tally.arrive(at, (2000.0 + exponential(&mut random) * level(at)) as i64);
        }
        steady_state(&tally.finished())
    }

    #[test]
    fn steady_measurements_are_rarely_reported() {
        let reported =
            (0..200).filter(|seed| !measurement(*seed, 30_000, |_| 5000.0).unwrap().steady).count();
        assert!(reported <= 10, "{reported} of 200");
    }

    #[test]
    fn locates_injected_cold_phase() {
        for seed in 0..20 {
            let cold = |at: i64| if at < 700_000_000 { 8000.0 } else { 5000.0 };
            let found = measurement(seed, 125_000, cold).unwrap();
            assert!(!found.steady && found.slower_after < 0.45, "{found:?}");
            let trim = found.proposed_trim_ns.unwrap();
            assert!((trim - 700_000_000).abs() < 50_000_000, "{seed}: {found:?}");
        }
    }

    #[test]
    fn drift_has_no_trim() {
        for seed in 0..20 {
            let found = measurement(seed, 100_000, |at| 5000.0 * (1.0 + at as f64 / 2e9)).unwrap();
            assert!(!found.steady && found.slower_after > 0.55, "{found:?}");
            assert_eq!(found.proposed_trim_ns, None, "{seed}");
        }
        assert_eq!(measurement(1, 100, |_| 5000.0), None);
    }
}
