//! Delay variation: IPDV by RFC 3393 and interarrival jitter by RFC 3550.

use wiretail_schema::run::pauses::Pauses;
use wiretail_schema::summary::Ipdv;

use crate::stats::counts::Counts;
use crate::stats::quantile::distribution;

/// Length of the history, in sequence numbers. Pairs that arrive further apart are left out.
const HISTORY: usize = 1 << 15;

/// Marks a sequence number whose packet has not arrived, or arrived too long ago.
const NONE: Arrival = Arrival { post_ns: i64::MIN, delay_ns: i64::MIN };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    post_ns: i64,
    delay_ns: i64,
}

impl Arrival {
    fn counts(&self) -> bool {
        self.delay_ns != NONE.delay_ns
    }

    /// When the packet was sent, in ns.
    fn sent_ns(&self) -> i64 {
        self.post_ns - self.delay_ns
    }
}

/// Streaming delay variation. Feed it the matched packets in the order of arrival.
#[derive(Debug, Clone)]
pub struct VariationTally {
    /// Arrivals indexed by sequence number modulo `HISTORY`.
    history: Vec<Arrival>,
    /// Largest sequence number so far, plus one.
    next: u64,
    /// Sequence number of the last arrival, and the arrival.
    last: Option<(u64, Arrival)>,
    ipdv_abs: Counts,
    ipdv_min: i64,
    ipdv_max: i64,
    jitter_ns: f64,
    max_jitter_ns: f64,
    /// Pauses of the trial. Packets on either side of a pause do not form a pair.
    pauses: Pauses,
}

impl Default for VariationTally {
    fn default() -> Self {
        Self {
            history: vec![NONE; HISTORY],
            next: 0,
            last: None,
            ipdv_abs: Counts::new(1024),
            ipdv_min: i64::MAX,
            ipdv_max: i64::MIN,
            jitter_ns: 0.0,
            max_jitter_ns: 0.0,
            pauses: Pauses::default(),
        }
    }
}

impl VariationTally {
    /// Creates a tally that leaves out pairs of packets with one of these pauses between their departures.
    pub fn with_pauses(pauses: Pauses) -> Self {
        Self { pauses, ..Self::default() }
    }

    /// Adds the next matched packet.
    #[inline]
    pub fn arrive(&mut self, sequence: u64, delay_ns: i64, post_ns: i64) {
        let arrival = Arrival { post_ns, delay_ns };
        let last = self.last.replace((sequence, arrival));
        if let Some((_, before)) = last
            && !self.pauses.spans(before.sent_ns(), arrival.sent_ns())
        {
            // RFC 3550, A.8: J += (|D| - J) / 16, where D is the difference of the transit times of
            // consecutive arrivals.
            let change = (delay_ns - before.delay_ns).unsigned_abs() as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
            if self.jitter_ns > self.max_jitter_ns {
                self.max_jitter_ns = self.jitter_ns;
            }
        }
        match last {
            Some((before, last)) if before + 1 == sequence && sequence == self.next => {
                self.pair(last, arrival);
                self.next = sequence + 1;
                self.history[sequence as usize % HISTORY] = arrival;
            }
            _ => self.arrive_out_of_order(sequence, arrival),
        }
    }

    /// Adds a packet whose delay is ignored because it is too long or negative.
    pub fn arrive_outside(&mut self, sequence: u64, post_ns: i64) {
        self.place(sequence, Arrival { post_ns, delay_ns: NONE.delay_ns });
    }

    #[inline(never)]
    fn arrive_out_of_order(&mut self, sequence: u64, arrival: Arrival) {
        let before = sequence.checked_sub(1).and_then(|before| self.find(before));
        let after = self.find(sequence + 1);
        self.place(sequence, arrival);
        if let Some(before) = before.filter(Arrival::counts) {
            self.pair(before, arrival);
        }
        if let Some(after) = after.filter(Arrival::counts) {
            self.pair(arrival, after);
        }
    }

    fn place(&mut self, sequence: u64, arrival: Arrival) {
        // Slots of packets that have not arrived yet still hold packets from the previous round of the ring.
        for missing in (self.next..sequence).take(HISTORY) {
            self.history[missing as usize % HISTORY] = NONE;
        }
        if sequence >= self.next {
            self.next = sequence + 1;
        }
        if self.next - sequence <= HISTORY as u64 {
            self.history[sequence as usize % HISTORY] = arrival;
        }
    }

    /// The arrival with this sequence number, if it is within the last `HISTORY` packets sent.
    fn find(&self, sequence: u64) -> Option<Arrival> {
        let known = sequence < self.next && self.next - sequence <= HISTORY as u64;
        let arrival = self.history[sequence as usize % HISTORY];
        (known && arrival != NONE).then_some(arrival)
    }

    /// Arrival time in ns of the packet with this sequence number, if it is within the last `HISTORY` packets
    /// sent.
    pub fn arrival_ns(&self, sequence: u64) -> Option<i64> {
        self.find(sequence).map(|arrival| arrival.post_ns)
    }

    /// How long after its overtaker a packet arrived at `post_ns`, in ns; `None` if the overtaker is no longer in
    /// the history, or a pause lies between the arrivals.
    pub fn late_ns(&self, overtaker: u64, post_ns: i64) -> Option<i64> {
        let overtaker_ns = self.arrival_ns(overtaker)?;
        (!self.pauses.spans(overtaker_ns, post_ns)).then(|| post_ns.saturating_sub(overtaker_ns))
    }

    #[inline]
    fn pair(&mut self, first: Arrival, second: Arrival) {
        if self.pauses.spans(first.sent_ns(), second.sent_ns()) {
            return;
        }
        let ipdv = second.delay_ns - first.delay_ns;
        self.ipdv_abs.add(ipdv.abs());
        self.ipdv_min = self.ipdv_min.min(ipdv);
        self.ipdv_max = self.ipdv_max.max(ipdv);
    }

    pub fn ipdv(&self) -> Ipdv {
        let found = distribution(&self.ipdv_abs);
        let any = found.count > 0;
        Ipdv {
            count: found.count,
            min_ns: if any { self.ipdv_min } else { 0 },
            max_ns: if any { self.ipdv_max } else { 0 },
            mean_abs_ns: found.mean_ns,
            percentiles_abs: found.percentiles,
        }
    }

    /// RFC 3550 jitter after the last packet, and the largest jitter so far, in ns.
    pub fn jitter_ns(&self) -> (f64, f64) {
        (self.jitter_ns, self.max_jitter_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every pair of packets that were sent consecutively and both arrived is counted once, in any order
        /// of arrival.
        #[test]
        fn pairs_equal_rfc_3393_definition(
            delays in prop::collection::vec(prop::option::weighted(0.8, 0..10_000i64), 0..200),
        ) {
            let mut arrivals: Vec<(i64, u64, i64)> = delays.iter().enumerate()
                .filter_map(|(s, d)| d.map(|d| (s as i64 * 500 + d, s as u64, d))).collect();
            arrivals.sort_unstable();
            let mut tally = VariationTally::default();
            for &(post, sequence, delay) in &arrivals {
                tally.arrive(sequence, delay, post);
            }
            let expected: Vec<i64> = delays.windows(2).filter_map(|pair| Some(pair[1]? - pair[0]?)).collect();
            let ipdv = tally.ipdv();
            prop_assert_eq!(ipdv.count, expected.len() as u64);
            prop_assert_eq!(ipdv.min_ns, expected.iter().copied().min().unwrap_or(0));
            prop_assert_eq!(ipdv.max_ns, expected.iter().copied().max().unwrap_or(0));
            let sum: i64 = expected.iter().map(|d| d.abs()).sum();
            prop_assert!((ipdv.mean_abs_ns * expected.len() as f64 - sum as f64).abs() < 1e-6);
            let mut jitter = 0.0;
            for pair in arrivals.windows(2) {
                jitter += ((pair[1].2 - pair[0].2).abs() as f64 - jitter) / 16.0;
            }
            prop_assert_eq!(tally.jitter_ns().0, jitter);
        }
    }

    #[test]
    fn packets_on_either_side_of_a_pause_are_no_pair() {
        let pauses = Pauses::plan(1000, 250, 100);
        // The second phase begins with slow packets, after a pause from 250 to 350.
        let packets = [(200, 10), (240, 11), (350, 90), (360, 92), (370, 91)];
        let mut tally = VariationTally::with_pauses(pauses);
        let mut without = VariationTally::default();
        for (sequence, (sent, delay)) in (0..).zip(packets) {
            tally.arrive(sequence, delay, sent + delay);
            without.arrive(sequence, delay, sent + delay);
        }
        assert_eq!((tally.ipdv().count, tally.ipdv().max_ns, tally.ipdv().min_ns), (3, 2, -1));
        assert_eq!((without.ipdv().count, without.ipdv().max_ns), (4, 79));
        assert!(tally.jitter_ns().1 < 1.0 && without.jitter_ns().1 > 4.0);
        // Packet 1 arrives after packet 2, which was sent in the next phase.
        let mut tally = VariationTally::with_pauses(pauses);
        tally.arrive(0, 10, 210);
        tally.arrive(2, 5, 355);
        tally.arrive(1, 130, 370);
        assert_eq!((tally.ipdv().count, tally.ipdv().max_ns), (1, 120));
        assert_eq!((tally.late_ns(2, 370), tally.late_ns(0, 370)), (Some(15), None));
    }

    #[test]
    fn history_forgets_packets_after_one_round() {
        let mut tally = VariationTally::default();
        tally.arrive(0, 10, 10);
        tally.arrive(HISTORY as u64 + 1, 20, 20);
        assert_eq!(tally.arrival_ns(0), None);
        // Packet 1 would pair with 0 and 2. Packet 0 is beyond the history, and 2 is missing.
        tally.arrive(1, 30, 30);
        assert_eq!(tally.ipdv().count, 0);
        assert_eq!(tally.arrival_ns(HISTORY as u64 + 1), Some(20));
    }
}
