//! Metrics of a single tap: rate, gaps and clock quality.

use wiretail_schema::packet::Record;
use wiretail_schema::run::pauses::Pauses;
use wiretail_schema::summary::{Gaps, Second};

use crate::stats::counts::Counts;
use crate::stats::quantile::distribution;

/// Number of timestamps from which the granularity is determined.
pub(crate) const GRANULARITY_TIMESTAMPS: usize = 4096;
/// Number of seconds for which the rate is kept: three days. Later seconds are counted together.
const SECONDS_MAX: usize = 1 << 18;

/// Streaming statistics of one tap. Feed it every packet in the order of the capture.
#[derive(Debug, Clone)]
pub struct TapTally {
    packets: u64,
    first_ns: i64,
    last_ns: i64,
    before_ns: i64,
    gaps: Counts,
    identical: u64,
    backward: u64,
    max_backward_ns: i64,
    seconds: Vec<Second>,
    /// Start and end time of the last packet's second, and its index in `seconds`.
    current: (i64, i64, usize),
    timestamps: Vec<i64>,
    /// Pauses of the trial, on the tap's clock.
    pauses: Pauses,
    /// End of the first pause after the previous packet; `i64::MAX` if there is none.
    pause_end_ns: i64,
}

impl Default for TapTally {
    fn default() -> Self {
        Self {
            packets: 0,
            first_ns: 0,
            last_ns: 0,
            before_ns: 0,
            gaps: Counts::new(1024),
            identical: 0,
            backward: 0,
            max_backward_ns: 0,
            seconds: Vec::new(),
            current: (0, 0, 0),
            timestamps: Vec::new(),
            pauses: Pauses::default(),
            pause_end_ns: i64::MAX,
        }
    }
}

impl TapTally {
    /// Creates a tally that treats these pauses of the trial, on the tap's clock, as absent. A gap across a pause
    /// is left out, and seconds and rates count the time outside pauses.
    pub fn with_pauses(pauses: Pauses) -> Self {
        Self { pauses, ..Self::default() }
    }

    /// Adds the next packets.
    pub fn take(&mut self, records: &[Record]) {
        let mut rest = records;
        if self.packets == 0
            && let Some((first, others)) = records.split_first()
        {
            self.packets = 1;
            (self.first_ns, self.last_ns, self.before_ns) = (first.ts_ns, first.ts_ns, first.ts_ns);
            self.await_pause();
            self.count_second(first.ts_ns);
            rest = others;
        }
        let room = GRANULARITY_TIMESTAMPS.saturating_sub(self.timestamps.len());
        self.timestamps.extend(records.iter().take(room).map(|record| record.ts_ns));
        self.packets += rest.len() as u64;
        let backward = self.backward;
        let start_ns = self.before_ns;
        for record in rest {
            let gap = record.ts_ns.saturating_sub(self.before_ns);
            self.before_ns = record.ts_ns;
            if record.ts_ns >= self.pause_end_ns {
                self.await_pause();
            } else if gap > 0 {
                self.gaps.add(gap);
            } else {
                self.step_without_progress(gap);
            }
        }
        self.last_ns = self.last_ns.max(rest.iter().map(|record| record.ts_ns).max().unwrap_or(i64::MIN));
        // Most batches lie within one second and need no lookup.
        let is_one_second =
            self.backward == backward && start_ns >= self.current.0 && self.before_ns < self.current.1;
        if is_one_second && !rest.is_empty() {
            self.seconds[self.current.2].packets += rest.len() as u64;
        } else {
            rest.iter().for_each(|record| self.count_second(record.ts_ns));
        }
    }

    #[inline(never)]
    fn step_without_progress(&mut self, gap: i64) {
        if gap == 0 {
            self.identical += 1;
            self.gaps.add(0);
        } else {
            self.backward += 1;
            self.await_pause();
            self.max_backward_ns = self.max_backward_ns.max(gap.saturating_neg());
            self.first_ns = self.first_ns.min(self.before_ns);
        }
    }

    /// Finds the first pause that ends after the previous packet.
    #[cold]
    fn await_pause(&mut self) {
        let next = self.pauses.get(self.pauses.ended(self.before_ns));
        self.pause_end_ns = next.map_or(i64::MAX, |pause| pause.end_ns);
    }

    #[inline]
    fn count_second(&mut self, ts_ns: i64) {
        if ts_ns < self.current.0 || ts_ns >= self.current.1 {
            self.seek_second(ts_ns);
        }
        self.seconds[self.current.2].packets += 1;
    }

    /// Finds the second of a timestamp, counted from the first timestamp of the capture without pauses.
    #[inline(never)]
    fn seek_second(&mut self, ts_ns: i64) {
        let origin = self.timestamps.first().copied().unwrap_or(self.first_ns);
        let (origin, sent) = (self.pauses.sending_time(origin), self.pauses.sending_time(ts_ns));
        let second = sent.saturating_sub(origin).div_euclid(1_000_000_000);
        let begin = origin.saturating_add(second.saturating_mul(1_000_000_000));
        let place = match self.seconds.binary_search_by_key(&second, |s| s.second) {
            Ok(place) => place,
            Err(place) if self.seconds.len() < SECONDS_MAX => {
                self.seconds.insert(place, Second { second, packets: 0 });
                place
            }
            Err(place) => place.min(self.seconds.len() - 1),
        };
        self.current = self.within_phase(ts_ns, begin, place);
    }

    /// Returns the part of a second that lies in the same sending phase as a packet. The second begins at
    /// `begin` of the sending time. A packet that arrives during a pause belongs to the phase before it.
    fn within_phase(&self, ts_ns: i64, begin: i64, place: usize) -> (i64, i64, usize) {
        let end = begin.saturating_add(1_000_000_000);
        if self.pauses.is_empty() {
            return (begin, end, place);
        }
        let ended = self.pauses.ended(ts_ns);
        let after = ended.checked_sub(1).and_then(|before| self.pauses.get(before)).map(|pause| pause.end_ns);
        let until = self.pauses.get(ended);
        // How far the clock is ahead of the sending time in this phase, up to the pause that follows.
        let ahead = (ended * self.pauses.length_ns()) as i64;
        let from = begin.saturating_add(ahead).max(after.unwrap_or(i64::MIN));
        let to = end.saturating_add(ahead);
        match until {
            Some(pause) if to > pause.start_ns => (from, pause.end_ns, place),
            _ => (from, to, place),
        }
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// First and last timestamp, in ns; the smallest and the largest if timestamps step backwards.
    pub fn span_ns(&self) -> (i64, i64) {
        (self.first_ns, self.last_ns)
    }

    /// Time of pauses between the first and the last timestamp, in ns.
    pub fn paused_ns(&self) -> i64 {
        self.pauses.between(self.first_ns, self.last_ns)
    }

    /// Packets per second between the first and the last timestamp, without pauses: n - 1 gaps divided by their
    /// sum, where a gap across a pause counts without the pause.
    pub fn mean_rate_pps(&self) -> f64 {
        let span_ns = self.last_ns.saturating_sub(self.first_ns).saturating_sub(self.paused_ns());
        let seconds = span_ns as f64 / 1e9;
        if seconds > 0.0 { (self.packets - 1) as f64 / seconds } else { 0.0 }
    }

    /// Packets per second, for each second that has any.
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    pub fn gap_counts(&self) -> &Counts {
        &self.gaps
    }

    /// Statistics of the gaps.
    pub fn gaps(&self) -> Gaps {
        let found = distribution(&self.gaps);
        Gaps {
            count: found.count,
            min_ns: found.min_ns,
            mean_ns: found.mean_ns,
            max_ns: found.max_ns,
            stddev_ns: found.stddev_ns,
            percentiles: found.percentiles,
        }
    }

    /// Number of packets with the same timestamp as the previous packet, number of packets with an earlier
    /// timestamp than the previous one, and the largest backward step in ns.
    pub fn irregular_steps(&self) -> (u64, u64, i64) {
        (self.identical, self.backward, self.max_backward_ns)
    }

    /// Granularity of the first timestamps in ns, and the number of timestamps it is based on.
    pub fn granularity_ns(&self) -> (f64, u64) {
        (granularity(&self.timestamps), self.timestamps.len() as u64)
    }
}

/// Clock periods of timestamping hardware and file formats, in tenths of a ns, coarsest first. They are 1 s
/// down to 1 us and round fractions of that; multiples of 12.5 ns (80 MHz, the Intel X550 family); 8 ns (125
/// MHz, i210 and i350) and its multiples; 7.5 ns; 6.4 ns (156.25 MHz, the 10 Gbit/s MAC clock) and its
/// multiples; 5, 4 and 2 ns.
const GRANULARITIES: [i64; 27] = [
    10_000_000_000,
    1_000_000_000,
    100_000_000,
    40_000_000,
    10_000_000,
    1_000_000,
    100_000,
    40_000,
    10_000,
    5000,
    2500,
    2000,
    1280,
    1000,
    640,
    500,
    400,
    320,
    250,
    200,
    160,
    125,
    100,
    80,
    75,
    64,
    50,
];

/// The coarsest known granularity of the timestamps, in ns; 1 if none fits. Timestamps are whole ns, so a
/// timestamp with a granularity of 12.5 ns is off by up to 1 ns, depending on the rounding.
pub(crate) fn granularity(timestamps: &[i64]) -> f64 {
    let Some((&origin, rest)) = timestamps.split_first() else { return 1.0 };
    let differences = || rest.iter().map(|timestamp| timestamp.saturating_sub(origin)).filter(|d| *d != 0);
    // Ten different timestamps fit a granularity of 5 ns by chance at most once in 10,000 cases. Evenly
    // spaced timestamps fit the granularity of their spacing, whatever the clock's granularity is.
    if differences().take(10).count() < 10 || !has_four_gaps(timestamps) {
        return 1.0;
    }
    let lies_on = |period: i64| {
        let slack = if period % 10 == 0 { 0 } else { 10 };
        differences().all(|d| {
            let off = i128::from(d) * 10 % i128::from(period);
            let off = off.abs().min(i128::from(period) - off.abs());
            off <= slack
        })
    };
    let found = GRANULARITIES.into_iter().find(|period| lies_on(*period));
    found
        .or_else(|| [40, 20].into_iter().find(|period| lies_on(*period)))
        .map_or(1.0, |period| period as f64 / 10.0)
}

/// Whether the timestamps have at least four different distances.
fn has_four_gaps(timestamps: &[i64]) -> bool {
    let mut seen: Vec<i64> = Vec::with_capacity(4);
    for pair in timestamps.windows(2) {
        let gap = pair[1].saturating_sub(pair[0]);
        if !seen.contains(&gap) {
            seen.push(gap);
        }
        if seen.len() == 4 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wiretail_schema::random::Random;

    #[test]
    fn finds_granularity_for_any_rounding_of_timestamps() {
        let mut random = Random::new(7);
        let mut ticks = Vec::new();
        let mut tick = 123_456_789u64;
        for _ in 0..1000 {
            tick += 1 + random.below(1000);
            ticks.push(tick);
        }
        for period in [1_000_000, 10_000, 125, 64, 80, 100, 50] {
            let exact = |t: &u64| *t as f64 * f64::from(period) / 10.0;
            for round in [f64::floor, f64::round, f64::ceil] {
                let timestamps: Vec<i64> = ticks.iter().map(|t| round(exact(t)) as i64).collect();
                assert_eq!(granularity(&timestamps), f64::from(period) / 10.0, "period {period}");
            }
        }
        let prime: Vec<i64> = ticks.iter().map(|t| *t as i64).collect();
        assert_eq!(granularity(&prime), 1.0);
        assert_eq!(granularity(&[5; 100]), 1.0);
        assert_eq!(granularity(&[]), 1.0);
        let even: Vec<i64> = (0..1000).map(|i| i * 10_000).collect();
        assert_eq!(granularity(&even), 1.0);
    }

    /// Arrivals of a trial with pauses: constant gaps, a little jitter, and packets in flight when a pause began.
    fn paused_arrivals(pauses: &Pauses) -> Vec<i64> {
        let mut random = Random::new(3);
        let departure = |sent: i64| {
            let before =
                pauses.list().take_while(|pause| pauses.sending_time(pause.start_ns) <= sent).count();
            sent + before as i64 * pauses.length_ns() as i64
        };
        (0..4000).map(|i| departure(i * 1_000_000) + 20_000 + random.below(10_000) as i64).collect()
    }

    #[test]
    fn pauses_are_absent_from_gaps_seconds_and_rates() {
        let pauses = Pauses::plan(4_000_000_000, 700_000_000, 100_000_000);
        assert_eq!(pauses.count(), 5);
        let times = paused_arrivals(&pauses);
        let record = |ts_ns: &i64| Record { ts_ns: *ts_ns, key: 0, flow: 0, wire_len: 60 };
        for batch in [1, 7, 1000, 4000] {
            let mut tally = TapTally::with_pauses(pauses);
            times.chunks(batch).for_each(|chunk| tally.take(&chunk.iter().map(record).collect::<Vec<_>>()));
            let gaps = tally.gaps();
            assert_eq!((gaps.count, gaps.max_ns < 1_100_000), (3999 - 5, true), "{gaps:?}");
            assert!((tally.mean_rate_pps() - 1000.0).abs() < 0.01, "{}", tally.mean_rate_pps());
            assert_eq!((tally.seconds().len(), tally.paused_ns()), (4, 500_000_000));
            assert!(tally.seconds().iter().all(|second| second.packets.abs_diff(1000) <= 1));
        }
    }

    proptest! {
        #[test]
        fn pauses_are_left_out_as_defined(
            timestamps in prop::collection::vec(prop_oneof![0..6_000_000_000i64, 0..20_000_000i64], 1..200),
            ascending in any::<bool>(),
            batch in 1..40usize,
            length in 1..900_000_000u64,
        ) {
            let mut timestamps = timestamps;
            if ascending {
                timestamps.sort_unstable();
            }
            let pauses = Pauses::plan(5_000_000_000, 700_000_000, length).shifted(1_000_000);
            let mut tally = TapTally::with_pauses(pauses);
            let record = |ts_ns: &i64| Record { ts_ns: *ts_ns, key: 0, flow: 0, wire_len: 60 };
            timestamps.chunks(batch).for_each(|chunk| tally.take(&chunk.iter().map(record).collect::<Vec<_>>()));
            let kept = timestamps.windows(2).filter(|w| w[1] >= w[0] && !pauses.spans(w[0], w[1])).count();
            prop_assert_eq!(tally.gaps().count, kept as u64);
            let mut seconds = std::collections::BTreeMap::new();
            for at in &timestamps {
                let sent = pauses.sending_time(*at) - pauses.sending_time(timestamps[0]);
                *seconds.entry(sent.div_euclid(1_000_000_000)).or_insert(0) += 1;
            }
            let counted: Vec<(i64, u64)> = tally.seconds().iter().map(|s| (s.second, s.packets)).collect();
            prop_assert_eq!(counted, seconds.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn counts_every_packet_and_gap(timestamps in prop::collection::vec(prop_oneof![0..5_000_000_000i64, any::<i64>()], 0..200), split in 0..200usize) {
            let records: Vec<Record> = timestamps.iter().map(|&ts_ns| Record { ts_ns, key: 0, flow: 0, wire_len: 60 }).collect();
            let mut tally = TapTally::default();
            let split = split.min(records.len());
            tally.take(&records[..split]);
            tally.take(&records[split..]);
            let (identical, backward, _) = tally.irregular_steps();
            prop_assert_eq!(tally.packets(), timestamps.len() as u64);
            prop_assert_eq!(tally.seconds().iter().map(|s| s.packets).sum::<u64>(), timestamps.len() as u64);
            let gaps = |f: &dyn Fn(i64) -> bool| timestamps.windows(2).filter(|w| f(w[1].saturating_sub(w[0]))).count() as u64;
            prop_assert_eq!(identical, gaps(&|g| g == 0));
            prop_assert_eq!(backward, gaps(&|g| g < 0));
            prop_assert_eq!(tally.gaps().count, gaps(&|g| g >= 0));
            if !timestamps.is_empty() {
                prop_assert_eq!(tally.span_ns(), (*timestamps.iter().min().unwrap(), *timestamps.iter().max().unwrap()));
            }
        }
    }
}
