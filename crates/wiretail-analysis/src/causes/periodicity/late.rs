//! Finds packets that are late relative to the median of their neighbors. A drift of all delays therefore
//! makes no packet late.

use wiretail_schema::units::Share;

use crate::stats::list::{median, percentile};

/// Number of packets in a neighborhood.
const SURROUNDING: usize = 1000;

/// Delay minus the median of the surrounding thousand packets, in ns.
pub fn excess(delays_ns: &[i64]) -> Vec<i64> {
    let mut excess = Vec::with_capacity(delays_ns.len());
    for block in delays_ns.chunks(SURROUNDING) {
        // A short last block also uses the previous packets.
        let begin = excess.len();
        let around = if block.len() < SURROUNDING { begin.saturating_sub(SURROUNDING) } else { begin };
        let median = median(delays_ns[around..begin + block.len()].iter().copied()).unwrap_or_default();
        excess.extend(block.iter().map(|delay| delay - median));
    }
    excess
}

/// Returns the positions at which runs of late packets begin, and the threshold of lateness. The threshold is
/// the percentile `share` of the excess. A stall delays all following packets until its queue is empty, so a
/// run is a single event.
pub fn beginnings(excess: &[i64], share: Share) -> (Vec<usize>, i64) {
    let Some(threshold) = percentile(&mut excess.to_vec(), share) else { return (Vec::new(), i64::MAX) };
    let late = |place: usize| excess[place] > threshold;
    let begins = |place: &usize| late(*place) && (*place == 0 || !late(*place - 1));
    ((0..excess.len()).filter(begins).collect(), threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_not_late_and_a_run_is_one_event() {
        let mut delays: Vec<i64> = (0..10_500).map(|place| 5000 + place / 10 + place % 3).collect();
        for place in [2000, 2001, 2002, 7777, 10_499] {
            delays[place] += 100_000;
        }
        let (late, threshold) = beginnings(&excess(&delays), Share::P99_9);
        assert!(threshold < 100, "{threshold}");
        assert!(late.contains(&2000) && late.contains(&7777) && late.contains(&10_499));
        assert!(!late.contains(&2001) && !late.contains(&2002));
        assert_eq!(beginnings(&[], Share::P99), (Vec::new(), i64::MAX));
    }
}
