//! Tally of one record: outcomes of packets, and the timestamps of each tap.

use wiretail_schema::packet::Record;
use wiretail_schema::run::interval::{IntervalRecord, ReorderingCounts, TapInterval, bucket};

use super::LiveSettings;
use crate::matching::{GivenUp, Observer, Outcome, Sent};
use crate::metrics::measurement::LossRuns;
use crate::metrics::reordering::ReorderingTally;
use crate::metrics::tap::{GRANULARITY_TIMESTAMPS, granularity};
use crate::metrics::worst::{Candidate, WorstTally};

/// Tallies the matcher's outcomes until they are taken, one record at a time.
pub(super) struct SecondTally {
    /// Counters that go into the record unchanged. The record's other fields are filled in when the record is
    /// taken.
    record: IntervalRecord,
    /// Number of packets per bucket of delays, up to the window.
    buckets: Vec<u64>,
    /// Sum of the squared delays, in ns².
    squares_ns2: u128,
    limits_ns: Vec<i64>,
    worst_max: usize,
    worst: WorstTally,
    reordering: ReorderingTally,
    loss_runs: LossRuns,
    /// Delay of the last matched packet, for the jitter.
    delay_ns: Option<i64>,
    jitter_ns: f64,
    lost_at_end: u64,
    last_post_ns: i64,
    trim_ns: i64,
    /// First ingress timestamp; `i64::MIN` before the first packet.
    first_pre_ns: i64,
    /// Time in ns; packets first seen before it are excluded.
    cut_ns: i64,
}

impl SecondTally {
    pub(super) fn new(settings: &LiveSettings) -> Self {
        let budgets = settings.limits_ns.len();
        Self {
            record: empty(budgets),
            buckets: vec![0; bucket(settings.window_ns) + 1],
            squares_ns2: 0,
            limits_ns: settings.limits_ns.clone(),
            worst_max: settings.worst,
            worst: WorstTally::new(settings.worst),
            reordering: ReorderingTally::default(),
            loss_runs: LossRuns::default(),
            delay_ns: None,
            jitter_ns: 0.0,
            lost_at_end: 0,
            last_post_ns: i64::MIN,
            trim_ns: settings.trim_ns,
            first_pre_ns: i64::MIN,
            cut_ns: i64::MIN,
        }
    }

    /// Records the first ingress timestamp. Later calls have no effect.
    #[inline]
    pub(super) fn first_sent(&mut self, ts_ns: i64) {
        if self.first_pre_ns == i64::MIN {
            self.first_pre_ns = ts_ns;
            if self.trim_ns > 0 {
                self.cut_ns = ts_ns.saturating_add(self.trim_ns);
            }
        }
    }

    /// Takes the record that started at `start_ns`. Its length and its taps are not filled in.
    pub(super) fn take(&mut self, start_ns: i64) -> IntervalRecord {
        let mut record = std::mem::replace(&mut self.record, empty(self.limits_ns.len()));
        // Three decimals of a ns suffice and keep the log short.
        let rounded = |ns: f64| (ns * 1000.0).round() / 1000.0;
        record.max_jitter_ns = rounded(record.max_jitter_ns.max(self.jitter_ns));
        record.jitter_ns = rounded(self.jitter_ns);
        record.start_ns = start_ns;
        record.sent = record.matched + record.negative + record.out_of_window + record.lost;
        record.lost_at_end = self.lost_at_end;
        let runs = self.loss_runs.take();
        record.loss_runs = runs.runs;
        record.loss_run_longest = runs.longest;
        record.loss_run_start = runs.longest_start;
        let counts = self.reordering.take_counts();
        record.reordering = (counts != ReorderingCounts::default()).then_some(counts);
        let worst = std::mem::replace(&mut self.worst, WorstTally::new(self.worst_max));
        record.worst = worst
            .into_sorted()
            .into_iter()
            .map(|worst| (worst.delay_ns, worst.pre_ns.saturating_sub(start_ns), worst.pre_index))
            .collect();
        if record.matched > 0 {
            let (low, high) = (bucket(record.min_ns), bucket(record.max_ns));
            for (bucket, count) in (low..).zip(&mut self.buckets[low..=high]) {
                if *count > 0 {
                    record.delays.push((bucket as u16, std::mem::take(count)));
                }
            }
            // n Σx² - (Σx)² without rounding: both fit for 10^7 packets with delays of one minute.
            let (n, sum) = (u128::from(record.matched), u128::from(record.sum_ns));
            let squares = self.squares_ns2.saturating_mul(n).saturating_sub(sum.saturating_mul(sum));
            record.squares_ns2 = (squares as f64 / record.matched as f64).round();
        }
        self.squares_ns2 = 0;
        record
    }

    /// Adds an arrival whose delay is not used. It still affects reordering.
    fn arrived_outside(&mut self, sent: &Sent, delay_ns: i64) {
        self.lost_at_end = 0;
        self.last_post_ns = self.last_post_ns.max(sent.ts_ns.saturating_add(delay_ns));
        self.reordering.arrive(sent.sequence);
    }

    fn lost(&mut self, sent: &Sent, early: Option<GivenUp>) {
        self.record.lost += 1;
        match early {
            Some(GivenUp::KeyReused) => self.record.reused += 1,
            Some(GivenUp::TooMany) => self.record.evicted += 1,
            None => {}
        }
        self.lost_at_end += u64::from(sent.ts_ns > self.last_post_ns);
        self.loss_runs.lose(sent);
    }
}

fn empty(budgets: usize) -> IntervalRecord {
    IntervalRecord { over: vec![0; budgets], ..IntervalRecord::default() }
}

impl Observer for SecondTally {
    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        if sent.ts_ns < self.cut_ns {
            return;
        }
        let record = &mut self.record;
        if record.matched == 0 {
            (record.min_ns, record.max_ns) = (delay_ns, delay_ns);
        }
        record.matched += 1;
        record.min_ns = record.min_ns.min(delay_ns);
        record.max_ns = record.max_ns.max(delay_ns);
        record.sum_ns = record.sum_ns.saturating_add(delay_ns as u64);
        record.zero += u64::from(delay_ns == 0);
        for (over, limit_ns) in record.over.iter_mut().zip(&self.limits_ns) {
            *over += u64::from(delay_ns > *limit_ns);
        }
        self.squares_ns2 += u128::from(delay_ns as u64) * u128::from(delay_ns as u64);
        // A matched delay is shorter than the window, so there is a bucket for it.
        self.buckets[bucket(delay_ns)] += 1;
        self.worst.take(Candidate { delay_ns, pre_ns: sent.ts_ns, pre_index: sent.index(), flow: 0 });
        // RFC 3550, A.8: J += (|D| - J) / 16.
        if let Some(before_ns) = self.delay_ns.replace(delay_ns) {
            self.jitter_ns += ((delay_ns - before_ns).unsigned_abs() as f64 - self.jitter_ns) / 16.0;
            record.max_jitter_ns = record.max_jitter_ns.max(self.jitter_ns);
        }
        self.lost_at_end = 0;
        self.last_post_ns = sent.ts_ns + delay_ns;
        self.reordering.arrive(sent.sequence);
    }

    #[inline(never)]
    fn outcome(&mut self, outcome: &Outcome) {
        if outcome.seen_ns() < self.cut_ns {
            return;
        }
        match outcome {
            Outcome::Matched { sent, delay_ns } => self.matched(sent, *delay_ns),
            Outcome::OutOfWindow { sent, delay_ns } => {
                self.record.out_of_window += 1;
                self.arrived_outside(sent, *delay_ns);
            }
            Outcome::Negative { sent, delay_ns } => {
                self.record.negative += 1;
                self.arrived_outside(sent, *delay_ns);
            }
            Outcome::Lost { sent, early } => self.lost(sent, *early),
            Outcome::DuplicatePre { .. } => self.record.duplicates_pre += 1,
            Outcome::DuplicatePost { record } => {
                self.record.duplicates_post += 1;
                self.last_post_ns = self.last_post_ns.max(record.ts_ns);
            }
            Outcome::Extra { record, evicted } => {
                self.record.extra += 1;
                self.record.evicted += u64::from(*evicted);
                self.record.extra_at_start += u64::from(record.ts_ns < self.first_pre_ns);
            }
        }
    }
}

/// Timestamps of one tap within one record.
#[derive(Default)]
pub(super) struct TapSecond {
    second: TapInterval,
    /// Timestamp of the previous packet, kept across records.
    before_ns: Option<i64>,
    timestamps: Vec<i64>,
    /// Granularity of the first timestamps, and the number of timestamps it is based on.
    granularity: (f64, u64),
}

impl TapSecond {
    pub(super) fn without_key(&mut self, wire_len: u32) {
        self.second.packets_without_key += 1;
        self.second.wire_bytes += u64::from(wire_len);
    }

    pub(super) fn dropped(&mut self, packets: u64) {
        self.second.packets_dropped += packets;
    }

    /// Adds the next packets.
    pub(super) fn take(&mut self, records: &[Record]) {
        let Some(first) = records.first() else { return };
        if self.second.packets == 0 {
            (self.second.first_ns, self.second.last_ns) = (first.ts_ns, first.ts_ns);
            (self.second.min_gap_ns, self.second.max_gap_ns) = (i64::MAX, 0);
        }
        self.second.packets += records.len() as u64;
        let room = GRANULARITY_TIMESTAMPS.saturating_sub(self.timestamps.len());
        self.timestamps.extend(records.iter().take(room).map(|record| record.ts_ns));
        for record in records {
            self.second.wire_bytes += u64::from(record.wire_len);
            self.second.first_ns = self.second.first_ns.min(record.ts_ns);
            self.second.last_ns = self.second.last_ns.max(record.ts_ns);
            if let Some(before_ns) = self.before_ns.replace(record.ts_ns) {
                self.gap(record.ts_ns.saturating_sub(before_ns));
            }
        }
    }

    #[inline]
    fn gap(&mut self, gap_ns: i64) {
        let second = &mut self.second;
        if gap_ns < 0 {
            second.backward += 1;
            second.max_backward_ns = second.max_backward_ns.max(gap_ns.saturating_neg());
            return;
        }
        second.identical += u64::from(gap_ns == 0);
        second.gaps += 1;
        second.min_gap_ns = second.min_gap_ns.min(gap_ns);
        second.max_gap_ns = second.max_gap_ns.max(gap_ns);
        second.gap_sum_ns = second.gap_sum_ns.saturating_add(gap_ns as u64);
        second.gap_squares_ns2 += gap_ns as f64 * gap_ns as f64;
    }

    /// Timestamp of the last packet, in ns; `i64::MIN` before the first packet.
    pub(super) fn last_ns(&self) -> i64 {
        self.before_ns.unwrap_or(i64::MIN)
    }

    /// Returns the tap's numbers. Timestamps are relative to `start_ns`.
    pub(super) fn close(&mut self, start_ns: i64) -> TapInterval {
        let mut second = std::mem::take(&mut self.second);
        if self.granularity.1 < self.timestamps.len() as u64 {
            self.granularity = (granularity(&self.timestamps), self.timestamps.len() as u64);
        }
        second.granularity = self.granularity;
        if second.packets > 0 {
            second.first_ns = second.first_ns.saturating_sub(start_ns);
            second.last_ns = second.last_ns.saturating_sub(start_ns);
        }
        if second.gaps == 0 {
            second.min_gap_ns = 0;
        }
        second
    }
}
