//! The packets with the highest delay.

/// A candidate, ordered by delay (highest first), then by ingress time and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub delay_ns: i64,
    /// Ingress timestamp, in ns.
    pub pre_ns: i64,
    /// Position in the ingress capture, from 0.
    pub pre_index: u64,
    /// Flow, as an index into the flow table of the ingress tap.
    pub flow: u32,
}

impl Candidate {
    fn rank(&self) -> (i64, i64, u64) {
        (-self.delay_ns, self.pre_ns, self.pre_index)
    }
}

/// Keeps the `limit` packets with the highest delay.
///
/// Candidates are collected in a list of twice the limit. When the list is full, one selection halves it and
/// raises the threshold. This costs one comparison per packet; a heap would cost about a dozen.
#[derive(Debug, Clone)]
pub struct WorstTally {
    limit: usize,
    /// Delays at or above this threshold may be among the worst.
    bar_ns: i64,
    candidates: Vec<Candidate>,
}

impl WorstTally {
    pub fn new(limit: usize) -> Self {
        let bar_ns = if limit == 0 { i64::MAX } else { i64::MIN };
        Self { limit, bar_ns, candidates: Vec::new() }
    }

    /// Adds a packet.
    #[inline]
    pub fn take(&mut self, candidate: Candidate) {
        if candidate.delay_ns >= self.bar_ns {
            self.candidates.push(candidate);
            if self.candidates.len() >= self.limit.saturating_mul(2).max(64) {
                self.shrink();
            }
        }
    }

    #[inline(never)]
    fn shrink(&mut self) {
        if self.candidates.len() > self.limit && self.limit > 0 {
            self.candidates.select_nth_unstable_by_key(self.limit - 1, Candidate::rank);
            self.candidates.truncate(self.limit);
            self.bar_ns = self.candidates[self.limit - 1].delay_ns;
        }
    }

    /// The worst packets, highest delay first.
    pub fn into_sorted(mut self) -> Vec<Candidate> {
        self.shrink();
        self.candidates.sort_unstable_by_key(Candidate::rank);
        self.candidates.truncate(self.limit);
        self.candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_sorting_all(delays in prop::collection::vec(0..50i64, 0..1000), limit in 0..100usize) {
            let all: Vec<Candidate> = delays.iter().zip(0..)
                .map(|(&delay_ns, i)| Candidate { delay_ns, pre_ns: i as i64 / 3, pre_index: i, flow: 0 }).collect();
            let mut tally = WorstTally::new(limit);
            all.iter().for_each(|c| tally.take(*c));
            let mut sorted = all;
            sorted.sort_by_key(|c| (std::cmp::Reverse(c.delay_ns), c.pre_ns, c.pre_index));
            sorted.truncate(limit);
            prop_assert_eq!(tally.into_sorted(), sorted);
        }
    }
}
