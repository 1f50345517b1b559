//! Gaps in a core's time: histogram of their lengths, and the noise floor that no forwarder on the core can
//! beat. Formula and limits: `docs/noise.md`.

use wiretail_schema::host::noise::{FloorValue, GapBucket, Speed};

/// Percentiles of the floor. The second value is N: on average, one packet in N is beyond the percentile.
const PERCENTILES: [(f64, f64); 4] = [(99.0, 1e2), (99.9, 1e3), (99.99, 1e4), (99.999, 1e5)];
/// Minimum number of gaps beyond a value. With fewer gaps, the value is too uncertain
/// (docs/kpi/percentiles.md: n(1 - p) of at least ten).
const GAPS_MIN: u64 = 10;
/// Lower bounds of the classes within a decade.
const STEPS: [u64; 3] = [1, 2, 5];
/// A core repeats the same work to measure its speed. The speed is considered constant if the 90th percentile
/// of the durations is at most this multiple of the 10th percentile.
const SPEEDS: f64 = 1.2;

/// Histogram of gaps `(length in ns, count)`, which are in ascending order. Classes start at 1, 2 and 5 of
/// each decade; empty classes are omitted.
pub fn buckets(lengths: &[(u64, u64)]) -> Vec<GapBucket> {
    let mut found: Vec<GapBucket> = Vec::new();
    for (ns, gaps) in lengths {
        let total_ns = ns.saturating_mul(*gaps);
        match found.last_mut().filter(|last| *ns < last.to_ns) {
            Some(last) => {
                last.gaps += gaps;
                last.total_ns = last.total_ns.saturating_add(total_ns);
            }
            None => {
                let (from_ns, to_ns) = class(*ns);
                found.push(GapBucket { from_ns, to_ns, gaps: *gaps, total_ns });
            }
        }
    }
    found
}

/// Class of a length: its lower bound, and the lower bound of the next class.
fn class(ns: u64) -> (u64, u64) {
    let decade = 10_u64.pow(ns.max(1).ilog10());
    let step = STEPS.iter().rposition(|step| ns / decade >= *step).unwrap_or(0);
    let next = STEPS.get(step + 1).map_or(10, |next| *next);
    (STEPS[step] * decade, next.saturating_mul(decade))
}

/// Waiting time, at each percentile, of packets that arrive at random times within `watched_ns`. The core is
/// not available during the gaps `(length in ns, count)`, which are in ascending order. A packet that arrives
/// within a gap waits for the rest of it, so a gap of length L makes packets wait longer than t if they
/// arrive in its first max(0, L - t):
///
/// ```text
/// P(wait > t) = sum over the gaps of max(0, L - t) / T
/// ```
///
/// This is piecewise linear in t. Percentile p is the t at which it falls to 1 - p. The last value is the
/// maximum.
pub fn floor(lengths: &[(u64, u64)], watched_ns: u64) -> Vec<FloorValue> {
    let value = |(percentile, packets): (f64, f64)| {
        let (wait_ns, gaps_beyond) = wait(lengths, watched_ns as f64 / packets);
        FloorValue { percentile, wait_ns, gaps_beyond, supported: gaps_beyond >= GAPS_MIN }
    };
    let longest_ns = lengths.last().map_or(0, |(longest_ns, _)| *longest_ns);
    let longest = FloorValue { percentile: 100.0, wait_ns: longest_ns, gaps_beyond: 0, supported: true };
    PERCENTILES.map(value).into_iter().chain([longest]).collect()
}

/// Shortest wait t for which the arrival times that cause a wait longer than t add up to at most `beyond_ns`.
/// Also returns the number of gaps longer than t.
fn wait(lengths: &[(u64, u64)], beyond_ns: f64) -> (u64, u64) {
    let (mut gaps, mut sum_ns) = (0, 0.0);
    for (length_ns, count) in lengths.iter().rev() {
        // Total time that remains in the longer gaps after a wait of this length.
        if sum_ns - gaps as f64 * *length_ns as f64 > beyond_ns {
            break;
        }
        gaps += count;
        sum_ns += *length_ns as f64 * *count as f64;
    }
    let wait_ns = (sum_ns - beyond_ns).max(0.0) / gaps.max(1) as f64;
    ((wait_ns - 1e-9).ceil() as u64, gaps)
}

/// Speed of a core, computed from percentiles of the time, in ns, that the same work took.
pub fn speed(runs: u64, [p10_ns, p50_ns, p90_ns]: [u64; 3]) -> Speed {
    let varies = p90_ns as f64 > SPEEDS * p10_ns as f64;
    Speed { runs, p10_ns, p50_ns, p90_ns, varies }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Waits of packets that arrive at every ns of `watched_ns`, with consecutive gaps.
    fn waits(lengths: &[(u64, u64)], watched_ns: u64) -> Vec<u64> {
        let gaps = lengths.iter().flat_map(|(ns, count)| std::iter::repeat_n(*ns, *count as usize));
        let mut all: Vec<u64> = gaps.flat_map(|length| 1..=length).collect();
        all.resize(watched_ns as usize, 0);
        all.sort_unstable();
        all
    }

    #[test]
    fn floor_matches_closed_form() {
        // 1000 gaps of 10 us and one of 5 ms in one second: 1.5 % of the time is within a gap.
        let lengths = [(10_000, 1000), (5_000_000, 1)];
        let floor = floor(&lengths, 1_000_000_000);
        let found: Vec<(f64, u64, u64, bool)> =
            floor.iter().map(|f| (f.percentile, f.wait_ns, f.gaps_beyond, f.supported)).collect();
        assert_eq!(
            found,
            [
                // (15 ms - 10 ms) / 1001 gaps.
                (99.0, 4_996, 1001, true),
                // Packets that arrive in the first 1 ms of the long gap. The unsupported percentiles depend
                // on this gap alone.
                (99.9, 4_000_000, 1, false),
                (99.99, 4_900_000, 1, false),
                (99.999, 4_990_000, 1, false),
                (100.0, 5_000_000, 0, true),
            ]
        );
    }

    #[test]
    fn core_without_gaps_has_zero_floor() {
        assert!(floor(&[], 1_000_000).iter().all(|value| value.wait_ns == 0 && value.gaps_beyond == 0));
        assert!(!floor(&[], 1_000_000)[0].supported && floor(&[], 0)[4].supported);
        // Two gaps in a long time: no wait at 99 %.
        let rare = floor(&[(1000, 2)], 1_000_000_000);
        assert_eq!((rare[0].wait_ns, rare[4].wait_ns), (0, 1000));
    }

    #[test]
    fn classes_are_1_2_5() {
        let classes: Vec<(u64, u64)> = [1, 1999, 2000, 4_999, 5_000, 99_999].map(class).to_vec();
        assert_eq!(
            classes,
            [(1, 2), (1000, 2000), (2000, 5000), (2000, 5000), (5000, 10_000), (50_000, 100_000)]
        );
        let found = buckets(&[(1_100, 2), (1_900, 1), (7_000, 3)]);
        let bucket = |from_ns, to_ns, gaps, total_ns| GapBucket { from_ns, to_ns, gaps, total_ns };
        assert_eq!(found, [bucket(1000, 2000, 3, 4_100), bucket(5000, 10_000, 3, 21_000)]);
        assert_eq!(class(u64::MAX).0, 10_000_000_000_000_000_000);
    }

    #[test]
    fn detects_varying_speed() {
        assert!(!speed(100, [42_000, 43_000, 50_000]).varies);
        assert!(speed(100, [42_500, 60_000, 78_000]).varies);
    }

    proptest! {
        #[test]
        fn floor_matches_packets_at_every_ns(
            gaps in prop::collection::btree_map(1..300_u64, 1..6_u64, 0..12),
            quiet_ns in 0..20_000_u64,
        ) {
            let lengths: Vec<(u64, u64)> = gaps.into_iter().collect();
            let watched_ns = quiet_ns + lengths.iter().map(|(ns, count)| ns * count).sum::<u64>() + 1;
            let all = waits(&lengths, watched_ns);
            for value in floor(&lengths, watched_ns) {
                let more = |wait: u64| all.iter().filter(|other| **other > wait).count() as f64;
                let beyond = watched_ns as f64 * (100.0 - value.percentile) / 100.0;
                // Shortest wait, in whole ns, that at most this share of packets exceeds.
                prop_assert!(more(value.wait_ns) <= beyond + 1e-6, "{value:?} {lengths:?}");
                prop_assert!(value.wait_ns == 0 || more(value.wait_ns - 1) > beyond - 1e-6, "{value:?} {lengths:?}");
                // The exact wait is not a whole number of ns, so the number of longer gaps is known only to
                // within a range.
                let longer = |wait: u64| lengths.iter().filter(|(ns, _)| *ns > wait).map(|(_, n)| n).sum::<u64>();
                prop_assert!(value.gaps_beyond >= longer(value.wait_ns));
                prop_assert!(value.gaps_beyond <= longer(value.wait_ns.saturating_sub(1)));
            }
        }
    }
}
