//! Reordering by RFC 4737, exact, with memory proportional to the breaks in the order.
//!
//! The sequence is the order at ingress. A foreign packet at egress has no sequence number and does not affect
//! the result. Packets that are consecutive both in sequence and in arrival form a run. The metrics need two
//! lists of runs. The first contains the arrivals that were larger than all earlier ones, to find the packet
//! that overtook a reordered packet. The second contains the arrivals that are smaller than all later ones, to
//! count n-reordering.

use std::collections::VecDeque;

use wiretail_schema::run::interval::ReorderingCounts;
use wiretail_schema::summary::{NReordering, Reordering};

/// Maximum number of runs in each list. If there are more breaks in the order between a packet and the one
/// that overtook it, the packet gets the extent and n of the oldest run kept.
const RUNS_MAX: usize = 1 << 16;

/// A run of packets that are consecutive in sequence and in arrival.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    sequence: u64,
    arrival: u64,
    len: u64,
}

impl Run {
    fn last_sequence(&self) -> u64 {
        self.sequence + self.len - 1
    }
}

/// Streaming reordering metrics. Feed it the sequence numbers in the order of arrival.
#[derive(Debug, Clone, Default)]
pub struct ReorderingTally {
    /// The run that the next packet in order extends. It may be empty. It follows the last run of either
    /// list. Its end is the largest sequence number so far plus one ("NextExp" in the RFC).
    tail: Run,
    reordered: u64,
    /// Arrivals that were larger than all earlier ones, ascending.
    largest: VecDeque<Run>,
    /// Arrivals that are smaller than all later ones, ascending. The nearest smaller arrival is at the back.
    smaller: VecDeque<Run>,
    extent_max: u64,
    extent_sum: u64,
    n_max: u64,
    /// Number of packets that are exactly n-reordered, by class: n = 1, 2, 3, 4-7, 8-15 and so on.
    n_counts: Vec<u64>,
    max_late_time_ns: i64,
    late_time_unknown: u64,
}

impl ReorderingTally {
    /// Adds the next arrival. For a reordered packet, returns the sequence number of the first arrival among
    /// the packets sent after it.
    #[inline]
    pub fn arrive(&mut self, sequence: u64) -> Option<u64> {
        if sequence == self.tail.sequence + self.tail.len {
            self.tail.len += 1;
            return None;
        }
        self.break_order(sequence)
    }

    /// Handles a packet that does not extend the tail.
    #[inline(never)]
    fn break_order(&mut self, sequence: u64) -> Option<u64> {
        let tail = self.tail;
        let (next, arrival) = (tail.sequence + tail.len, tail.arrival + tail.len);
        if tail.len > 0 {
            push(&mut self.largest, tail);
            push(&mut self.smaller, tail);
        }
        if sequence >= next {
            self.tail = Run { sequence, arrival, len: 1 };
            return None;
        }
        self.tail = Run { sequence: next, arrival: arrival + 1, len: 0 };
        Some(self.arrive_late(sequence, arrival))
    }

    fn arrive_late(&mut self, sequence: u64, arrival: u64) -> u64 {
        self.reordered += 1;
        let overtaker = self.first_larger(sequence);
        let extent = arrival - overtaker.arrival;
        self.extent_max = self.extent_max.max(extent);
        self.extent_sum += extent;
        let n = self.run_of_larger(sequence, arrival);
        if n > 0 {
            self.n_max = self.n_max.max(n);
            let class = n_class(n);
            if self.n_counts.len() <= class {
                self.n_counts.resize(class + 1, 0);
            }
            self.n_counts[class] += 1;
        }
        push(&mut self.smaller, Run { sequence, arrival, len: 1 });
        overtaker.sequence
    }

    /// The earliest arrival with a larger sequence number. It was larger than all arrivals before it.
    fn first_larger(&self, sequence: u64) -> Run {
        let i = self.largest.partition_point(|run| run.last_sequence() <= sequence);
        let run = self.largest[i.min(self.largest.len() - 1)];
        let skip = (sequence + 1).saturating_sub(run.sequence);
        Run { sequence: run.sequence + skip, arrival: run.arrival + skip, len: 1 }
    }

    /// Number of arrivals immediately before this one that all have larger sequence numbers.
    fn run_of_larger(&mut self, sequence: u64, arrival: u64) -> u64 {
        while let Some(run) = self.smaller.back_mut() {
            if run.sequence > sequence {
                self.smaller.pop_back();
                continue;
            }
            run.len = run.len.min(sequence - run.sequence);
            let nearest = run.arrival + run.len - 1;
            return arrival - nearest - 1;
        }
        arrival
    }

    /// Records how much later a reordered packet arrived than the packet that overtook it, in ns. `None` if
    /// unknown.
    pub fn late_by(&mut self, late_ns: Option<i64>) {
        match late_ns {
            Some(late_ns) => self.max_late_time_ns = self.max_late_time_ns.max(late_ns),
            None => self.late_time_unknown += 1,
        }
    }

    /// Returns the current metrics.
    pub fn result(&self) -> Reordering {
        let counts = ReorderingCounts {
            reordered: self.reordered,
            extent_max: self.extent_max,
            extent_sum: self.extent_sum,
            n_max: self.n_max,
            n_counts: self.n_counts.clone(),
        };
        Reordering {
            max_late_time_ns: self.max_late_time_ns,
            late_time_unknown: self.late_time_unknown,
            ..metrics(self.tail.arrival + self.tail.len, &counts)
        }
    }

    /// Returns the counts since the last call and resets them. The order is kept.
    pub fn take_counts(&mut self) -> ReorderingCounts {
        ReorderingCounts {
            reordered: std::mem::take(&mut self.reordered),
            extent_max: std::mem::take(&mut self.extent_max),
            extent_sum: std::mem::take(&mut self.extent_sum),
            n_max: std::mem::take(&mut self.n_max),
            n_counts: std::mem::take(&mut self.n_counts),
        }
    }
}

/// Adds later counts to `sum`.
pub fn add_counts(sum: &mut ReorderingCounts, later: &ReorderingCounts) {
    sum.reordered = sum.reordered.saturating_add(later.reordered);
    sum.extent_max = sum.extent_max.max(later.extent_max);
    sum.extent_sum = sum.extent_sum.saturating_add(later.extent_sum);
    sum.n_max = sum.n_max.max(later.n_max);
    let classes = later.n_counts.len().min(N_CLASSES);
    if sum.n_counts.len() < classes {
        sum.n_counts.resize(classes, 0);
    }
    for (class, count) in sum.n_counts.iter_mut().zip(&later.n_counts) {
        *class = class.saturating_add(*count);
    }
}

/// Metrics of `arrived` packets, without late times.
pub fn metrics(arrived: u64, counts: &ReorderingCounts) -> Reordering {
    let at_least =
        |class: usize| counts.n_counts.iter().skip(class).fold(0, |a: u64, b| a.saturating_add(*b));
    let thresholds = [(1, 1), (2, 2), (3, 3)].into_iter().chain((2..63).map(|bits| (1u64 << bits, bits + 2)));
    let n_reordering = thresholds
        .map(|(n, class)| NReordering { n, packets: at_least(class) })
        .filter(|entry| entry.packets > 0)
        .collect();
    Reordering {
        arrived,
        reordered: counts.reordered,
        ratio: counts.reordered as f64 / arrived.max(1) as f64,
        extent_max: counts.extent_max,
        extent_mean: counts.extent_sum as f64 / counts.reordered.max(1) as f64,
        max_late_time_ns: 0,
        late_time_unknown: counts.reordered,
        n_reordering_max: counts.n_max,
        n_reordering,
    }
}

/// Number of classes of [`n_class`].
const N_CLASSES: usize = 66;

/// The classes are 1, 2 and 3, then one class per power of two: 4-7, 8-15, ...
fn n_class(n: u64) -> usize {
    if n < 4 { n as usize } else { n.ilog2() as usize + 2 }
}

fn push(runs: &mut VecDeque<Run>, run: Run) {
    if runs.len() == RUNS_MAX {
        runs.pop_front();
    }
    runs.push_back(run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definitions of RFC 4737, evaluated packet by packet.
    fn brute_force(arrivals: &[u64]) -> (u64, u64, u64, u64, Vec<u64>) {
        let (mut reordered, mut extent_max, mut extent_sum) = (0, 0, 0);
        let mut ns = Vec::new();
        for (i, &s) in arrivals.iter().enumerate() {
            if let Some(j) = arrivals[..i].iter().position(|&earlier| earlier > s) {
                reordered += 1;
                extent_max = extent_max.max((i - j) as u64);
                extent_sum += (i - j) as u64;
            }
            ns.push(arrivals[..i].iter().rev().take_while(|&&earlier| earlier > s).count() as u64);
        }
        ns.retain(|n| *n > 0);
        (reordered, extent_max, extent_sum, ns.iter().copied().max().unwrap_or(0), ns)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn tally_equals_rfc_4737_definitions(
            keep in prop::collection::vec(prop::bool::weighted(0.9), 0..200),
            swaps in prop::collection::vec((0..200usize, 0..200usize), 0..12),
        ) {
            let mut arrivals: Vec<u64> = keep.iter().enumerate().filter(|(_, k)| **k).map(|(i, _)| i as u64).collect();
            let len = arrivals.len();
            if len > 0 {
                for (a, b) in swaps {
                    let moved = arrivals.remove(a % len);
                    arrivals.insert(b % len, moved);
                }
            }
            let mut tally = ReorderingTally::default();
            for (i, &s) in arrivals.iter().enumerate() {
                let overtaker = arrivals[..i].iter().find(|&&earlier| earlier > s).copied();
                prop_assert_eq!(tally.arrive(s), overtaker);
            }
            let result = tally.result();
            let (reordered, extent_max, extent_sum, n_max, ns) = brute_force(&arrivals);
            prop_assert_eq!((result.reordered, result.extent_max, tally.extent_sum, result.n_reordering_max), (reordered, extent_max, extent_sum, n_max));
            for entry in &result.n_reordering {
                prop_assert_eq!(entry.packets, ns.iter().filter(|n| **n >= entry.n).count() as u64);
            }
            let shown = result.n_reordering.iter().map(|e| e.n).max().unwrap_or(0);
            prop_assert!(n_max == 0 || (shown <= n_max && n_max < (shown + 1).max(2 * shown)));
        }
    }

    #[test]
    fn matches_example_of_rfc_4737() {
        // RFC 4737, table 1. In the order 1 2 3 5 6 7 8 4 9 10, packet 4 is reordered with extent 4, and
        // 4-reordered.
        let mut tally = ReorderingTally::default();
        for s in [1, 2, 3, 5, 6, 7, 8, 4, 9, 10] {
            tally.arrive(s);
        }
        let result = tally.result();
        assert_eq!((result.reordered, result.extent_max, result.n_reordering_max), (1, 4, 4));
    }
}
