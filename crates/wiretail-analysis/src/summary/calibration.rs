//! Calibration: does the measurement recover a known injected delay?
//!
//! The device under test delays every Nth packet by a known time. That time should equal the difference between
//! the medians of the delayed and the other packets, and the delayed packets should have the highest delays.
//! Any deviation is an error of the measurement. Packets that overlap a known stall are left out, because
//! another known cause delayed them.

use wiretail_schema::run::calibration::Calibration;
use wiretail_schema::units::Share;

use crate::matching::{Observer, Outcome};

/// A span of time in which a core was not available: from, to, in ns since 1970.
pub type Span = (i64, i64);

/// Collects the delays of a trial in which the device delays every Nth packet.
#[derive(Debug, Clone)]
pub struct CalibrationTally {
    injected_ns: u64,
    every: u64,
    delayed: Vec<(i64, i64)>,
    others: Vec<(i64, i64)>,
}

impl CalibrationTally {
    /// Creates a tally for a device that adds `injected_ns` to every `every`-th packet.
    pub fn new(injected_ns: u64, every: u64) -> Self {
        Self { injected_ns, every: every.max(1), delayed: Vec::new(), others: Vec::new() }
    }

    /// Returns the result, or `None` unless there are packets of both kinds. The stalls may be in any order.
    pub fn finish(self, stalls: &[Span]) -> Option<Calibration> {
        let stalls = merged(stalls);
        let total = self.delayed.len() + self.others.len();
        let undisturbed = |packets: Vec<(i64, i64)>| -> Vec<i64> {
            let outside = packets.into_iter().filter(|(pre, delay)| !overlaps(&stalls, *pre, pre + delay));
            outside.map(|(_, delay)| delay).collect()
        };
        let (mut delayed, mut others) = (undisturbed(self.delayed), undisturbed(self.others));
        delayed.sort_unstable();
        others.sort_unstable();
        let recovered_ns = Share::MEDIAN.of(&delayed)? - Share::MEDIAN.of(&others)?;
        // There should be only delayed packets among the highest delays, if as many delays are taken as there
        // are delayed packets. Any other packet among them displaces a delayed one.
        let not_found = (0..delayed.len())
            .find(|&missed| {
                let place = others.len() - missed.min(others.len());
                let highest_other = if missed < others.len() { others[place - 1] } else { i64::MIN };
                delayed[missed] >= highest_other
            })
            .unwrap_or(delayed.len());
        Some(Calibration {
            injected_ns: self.injected_ns,
            every: self.every,
            delayed: delayed.len() as u64,
            others: others.len() as u64,
            recovered_ns,
            found: (delayed.len() - not_found) as u64,
            in_stalls: (total - delayed.len() - others.len()) as u64,
        })
    }
}

impl Observer for CalibrationTally {
    fn outcome(&mut self, outcome: &Outcome) {
        let Outcome::Matched { sent, delay_ns } = outcome else { return };
        let delayed = (sent.index() + 1).is_multiple_of(self.every);
        if delayed { &mut self.delayed } else { &mut self.others }.push((sent.ts_ns, *delay_ns));
    }
}

/// Sorts spans and joins overlapping ones.
fn merged(spans: &[Span]) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(sorted.len());
    for (from, to) in sorted {
        match merged.last_mut() {
            Some((_, end)) if *end >= from => *end = (*end).max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Whether any of the spans, which are sorted and disjoint, overlaps `from..=to`.
fn overlaps(spans: &[Span], from: i64, to: i64) -> bool {
    let first = spans.partition_point(|(_, end)| *end < from);
    spans.get(first).is_some_and(|(start, _)| *start <= to)
}

#[cfg(test)]
mod tests {
    use wiretail_schema::random::Random;

    use crate::matching::Sent;

    use super::*;

    fn tally(delays: &[i64], every: u64) -> CalibrationTally {
        let mut tally = CalibrationTally::new(100, every);
        for (index, delay) in delays.iter().enumerate() {
            let sequence = index as u64;
            let sent =
                Sent { ts_ns: index as i64 * 1000, key: sequence, sequence, duplicates_before: 0, flow: 0 };
            tally.matched(&sent, *delay);
        }
        tally
    }

    #[test]
    fn medians_differ_by_injected_delay() {
        let result = tally(&[1, 2, 103, 3, 2, 102], 3).finish(&[]).unwrap();
        assert_eq!((result.delayed, result.others, result.recovered_ns, result.found), (2, 4, 100, 2));
        assert_eq!(result.error_ns(), 0);
        assert!(result.holds());
    }

    #[test]
    fn slow_other_packet_displaces_a_delayed_one() {
        // One of the two highest delays is not from a delayed packet.
        let result = tally(&[1, 999, 103, 3, 2, 102], 3).finish(&[]).unwrap();
        assert_eq!(result.found, 1);
        assert!(!result.holds());
        // That packet was in flight during a known stall.
        let result = tally(&[1, 999, 103, 3, 2, 102], 3).finish(&[(1500, 1600), (1550, 1700)]).unwrap();
        assert_eq!((result.found, result.in_stalls), (2, 1));
    }

    #[test]
    fn found_equals_result_of_full_sort() {
        let mut random = Random::new(7);
        for _ in 0..500 {
            let delays: Vec<i64> = (0..2 + random.below(30)).map(|_| random.below(1000) as i64).collect();
            let Some(result) = tally(&delays, 2).finish(&[]) else { continue };
            let mut all: Vec<(i64, bool)> =
                delays.iter().enumerate().map(|(at, delay)| (*delay, at % 2 == 1)).collect();
            // At equal delays the delayed packet comes first.
            all.sort_unstable_by_key(|(delay, delayed)| (-delay, !delayed));
            let found = all.iter().take(result.delayed as usize).filter(|(_, delayed)| *delayed).count();
            assert_eq!(result.found, found as u64, "{delays:?}");
        }
    }

    #[test]
    fn returns_none_without_both_kinds_of_packets() {
        assert_eq!(tally(&[], 3).finish(&[]), None);
        assert_eq!(tally(&[1, 2], 3).finish(&[]), None);
    }
}
