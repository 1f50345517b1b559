//! Which packets are late: against the median of their surroundings, so that a drift of the whole is none.

use wiretail_schema::units::Share;

use crate::stats::list::{median, percentile};

/// Packets of a surrounding.
const SURROUNDING: usize = 1000;

/// Delay less the median of the thousand packets around, in ns.
pub fn excess(delays_ns: &[i64]) -> Vec<i64> {
    let mut excess = Vec::with_capacity(delays_ns.len());
    for block in delays_ns.chunks(SURROUNDING) {
        // A short last block is measured by the packets before it, too.
        let begin = excess.len();
        let around = if block.len() < SURROUNDING { begin.saturating_sub(SURROUNDING) } else { begin };
        let median = median(delays_ns[around..begin + block.len()].iter().copied()).unwrap_or_default();
        excess.extend(block.iter().map(|delay| delay - median));
    }
    excess
}

/// The places where runs of late packets begin, and the excess above which packets are late: this percentile.
/// A stall delays all packets behind it until its queue is gone: it is one event.
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
    fn a_drift_is_not_late_and_a_run_is_one_event() {
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
