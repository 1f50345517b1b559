//! Builds the document of a capture analysis from the records of a soak.
//!
//! [`SoakTotals`] sums the records. Its memory does not grow with their number, except for the time axis,
//! which is thinned to about a thousand points. [`SoakTotals::result`] builds the document. The program uses
//! this path both while a soak runs and after it ended or was killed.
//!
//! Counts, extremes, means, deviations, the worst packets and the packets beyond each budget are exact.
//! Percentiles are computed from buckets by nearest rank, within [`RELATIVE_ERROR`] of the measured value.
//! Metrics that the records do not contain are left out.

mod document;
mod figures;
pub mod live;

pub use document::LogFacts;

use wiretail_schema::run::interval::{
    IntervalRecord, RELATIVE_ERROR, ReorderingCounts, SegmentStart, TapInterval, bucket, bucket_middle,
};
use wiretail_schema::summary::{Matching, Second};
use wiretail_schema::units::Share;

use crate::metrics::intervals::IntervalTally;
use crate::metrics::reordering::add_counts;
use crate::metrics::worst::{Candidate, WorstTally};
use crate::soak::live::INTERVAL_NS;
use crate::stats::counts::Counts;

/// Maximum length of a soak, in seconds, for which the rate of every second is kept. The rate of a longer
/// soak is plotted from coarser points.
const RATE_SECONDS_MAX: usize = 3600;
/// Maximum number of gaps in the log that are reported individually.
const GAPS_MAX: usize = 20;
const SECOND_NS: i64 = 1_000_000_000;
/// Number of worst packets kept. Every record has at least as many, so these are the worst of all.
pub const WORST_MAX: usize = 10;

/// A time span without records in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGap {
    /// Start, in ns since the epoch of the taps' clock.
    pub from_ns: i64,
    /// End, in ns since the epoch of the taps' clock.
    pub to_ns: i64,
}

/// The sum of the records of a soak.
#[derive(Debug, Clone)]
pub struct SoakTotals {
    start: SegmentStart,
    segments: u64,
    /// Whether the last segment ended as planned.
    ended: bool,
    seconds: u64,
    /// Start and end of the records, in ns.
    span_ns: Option<(i64, i64)>,
    gaps: Vec<LogGap>,
    gaps_more: u64,
    gap_ns: i64,
    matching: Matching,
    min_ns: i64,
    max_ns: i64,
    sum_ns: u128,
    /// Number of values, mean and sum of squared deviations, for the standard deviation (Chan, Golub and
    /// LeVeque 1983).
    moments: (f64, f64, f64),
    buckets: Vec<u64>,
    over: Vec<u64>,
    worst: WorstTally,
    reordering: ReorderingCounts,
    loss_runs: u64,
    loss_run_longest: (u64, Option<u64>),
    jitter_ns: (f64, f64),
    intervals: IntervalTally,
    pre: TapTotals,
    post: TapTotals,
}

/// The sum of one tap's records.
#[derive(Debug, Clone, Default)]
struct TapTotals {
    sum: TapInterval,
    seen: bool,
    first_ns: i64,
    last_ns: i64,
    /// Empty if there are more seconds than fit.
    rate: Vec<Second>,
    rate_points: IntervalTally,
}

impl SoakTotals {
    /// Creates totals that contain only the first segment's start.
    pub fn new(start: SegmentStart) -> Self {
        let matching = Matching { window_ns: start.window_ns, trim_ns: start.trim_ns, ..Matching::default() };
        let tap =
            || TapTotals { rate_points: IntervalTally::with_length(INTERVAL_NS), ..TapTotals::default() };
        Self {
            segments: 1,
            ended: false,
            seconds: 0,
            span_ns: None,
            gaps: Vec::new(),
            gaps_more: 0,
            gap_ns: 0,
            matching,
            min_ns: i64::MAX,
            max_ns: 0,
            sum_ns: 0,
            moments: (0.0, 0.0, 0.0),
            buckets: Vec::new(),
            over: vec![0; start.budgets.len()],
            worst: WorstTally::new(WORST_MAX),
            reordering: ReorderingCounts::default(),
            loss_runs: 0,
            loss_run_longest: (0, None),
            jitter_ns: (0.0, 0.0),
            intervals: IntervalTally::with_length(INTERVAL_NS),
            pre: tap(),
            post: tap(),
            start,
        }
    }

    /// Parameters of the first segment.
    pub fn start(&self) -> &SegmentStart {
        &self.start
    }

    /// Marks the start of a resumed segment.
    pub fn resume(&mut self) {
        self.segments += 1;
        self.ended = false;
    }

    /// Records that the segment ended as planned.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Adds a record.
    pub fn add(&mut self, record: &IntervalRecord) {
        self.add_time(record);
        let m = &mut self.matching;
        let pairs = [
            (&mut m.matched, record.matched),
            (&mut m.zero, record.zero),
            (&mut m.negative, record.negative),
            (&mut m.out_of_window, record.out_of_window),
            (&mut m.lost, record.lost),
            (&mut m.extra, record.extra),
            (&mut m.duplicates_pre, record.duplicates_pre),
            (&mut m.duplicates_post, record.duplicates_post),
            (&mut m.reused, record.reused),
            (&mut m.evicted, record.evicted),
            (&mut m.extra_at_start, record.extra_at_start),
            (&mut self.loss_runs, record.loss_runs),
        ];
        for (sum, more) in pairs.into_iter().chain(self.over.iter_mut().zip(record.over.iter().copied())) {
            *sum = sum.saturating_add(more);
        }
        m.lost_at_end = record.lost_at_end;
        if record.loss_run_longest > self.loss_run_longest.0 {
            self.loss_run_longest = (record.loss_run_longest, record.loss_run_start);
        }
        if let Some(counts) = &record.reordering {
            add_counts(&mut self.reordering, counts);
        }
        if record.matched > 0 {
            self.add_delays(record);
        }
        self.pre.add(&record.pre, record.start_ns);
        self.post.add(&record.post, record.start_ns);
    }

    fn add_time(&mut self, record: &IntervalRecord) {
        self.seconds += 1;
        let (start, end) = (record.start_ns, record.start_ns.saturating_add(record.length_ns));
        let (first, last) = self.span_ns.unwrap_or((start, start));
        if start > last {
            self.gap_ns = self.gap_ns.saturating_add(start - last);
            if self.gaps.len() < GAPS_MAX {
                self.gaps.push(LogGap { from_ns: last, to_ns: start });
            } else {
                self.gaps_more += 1;
            }
        }
        self.span_ns = Some((first.min(start), last.max(end)));
    }

    fn add_delays(&mut self, record: &IntervalRecord) {
        self.min_ns = self.min_ns.min(record.min_ns);
        self.max_ns = self.max_ns.max(record.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(record.sum_ns));
        let (count, mean, squares) = self.moments;
        let (more, their_mean) = (record.matched as f64, record.sum_ns as f64 / record.matched as f64);
        let (all, apart) = (count + more, their_mean - mean);
        self.moments = (
            all,
            mean + apart * more / all,
            squares + record.squares_ns2 + apart * apart * count * more / all,
        );
        for &(bucket, packets) in &record.delays {
            let bucket = usize::from(bucket);
            if self.buckets.len() <= bucket {
                self.buckets.resize(bucket + 1, 0);
            }
            self.buckets[bucket] = self.buckets[bucket].saturating_add(packets);
        }
        for &(delay_ns, sent_ns, pre_index) in &record.worst {
            let pre_ns = record.start_ns.saturating_add(sent_ns);
            self.worst.take(Candidate { delay_ns, pre_ns, pre_index, flow: 0 });
        }
        self.jitter_ns = (record.jitter_ns, self.jitter_ns.1.max(record.max_jitter_ns));
        self.intervals.take_many(record.start_ns, record.matched, record.min_ns, record.max_ns);
    }

    /// Number of packets with a final outcome: matched, negative, out of window and lost.
    pub fn sent(&self) -> u64 {
        let m = &self.matching;
        [m.negative, m.out_of_window, m.lost].into_iter().fold(m.matched, u64::saturating_add)
    }

    pub fn matching(&self) -> &Matching {
        &self.matching
    }

    /// Largest delay, in ns; `None` if no packet was matched.
    pub fn max_ns(&self) -> Option<i64> {
        (self.matching.matched > 0).then_some(self.max_ns)
    }

    /// Percentile (in billionths) of all delays, in ns, within [`RELATIVE_ERROR`].
    pub fn percentile_ns(&self, billionths: u64) -> Option<i64> {
        let filled = self.buckets.iter().copied().enumerate();
        percentile_ns(filled, billionths).map(|ns| ns.clamp(self.min_ns, self.max_ns))
    }

    /// The delays, each within [`RELATIVE_ERROR`]. The smallest, the largest and the worst delays are exact.
    pub fn delays(&self) -> Counts {
        let mut exact: Vec<i64> =
            self.worst.clone().into_sorted().into_iter().map(|worst| worst.delay_ns).collect();
        if exact.is_empty() {
            exact.push(self.max_ns);
        }
        if self.matching.matched > exact.len() as u64 {
            exact.push(self.min_ns);
        }
        let mut buckets = self.buckets.clone();
        let mut counts = Counts::new(4096);
        for exact in exact {
            if let Some(packets) = buckets.get_mut(bucket(exact))
                && *packets > 0
            {
                *packets -= 1;
                counts.add(exact);
            }
        }
        for (bucket, packets) in buckets.into_iter().enumerate() {
            counts.add_times(bucket_middle(bucket).clamp(self.min_ns, self.max_ns), packets);
        }
        counts
    }
}

/// Nearest-rank percentile (in billionths) of delays counted in buckets, in ns, within [`RELATIVE_ERROR`].
/// `None` for empty buckets.
pub fn percentile_ns(buckets: impl Iterator<Item = (usize, u64)> + Clone, billionths: u64) -> Option<i64> {
    let found = Share::from_billionths(billionths)?.of_counted(buckets)?;
    Some(bucket_middle(found))
}

impl TapTotals {
    fn add(&mut self, second: &TapInterval, start_ns: i64) {
        let sum = &mut self.sum;
        let pairs = [
            (&mut sum.packets, second.packets),
            (&mut sum.packets_without_key, second.packets_without_key),
            (&mut sum.packets_dropped, second.packets_dropped),
            (&mut sum.wire_bytes, second.wire_bytes),
            (&mut sum.identical, second.identical),
            (&mut sum.backward, second.backward),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
        if second.gaps > 0 {
            sum.min_gap_ns =
                if sum.gaps == 0 { second.min_gap_ns } else { sum.min_gap_ns.min(second.min_gap_ns) };
            sum.max_gap_ns = sum.max_gap_ns.max(second.max_gap_ns);
            sum.gap_sum_ns = sum.gap_sum_ns.saturating_add(second.gap_sum_ns);
            sum.gap_squares_ns2 += second.gap_squares_ns2;
            sum.gaps = sum.gaps.saturating_add(second.gaps);
        }
        sum.max_backward_ns = sum.max_backward_ns.max(second.max_backward_ns);
        // Use the granularity of the first segment with enough timestamps.
        if second.granularity.1 > sum.granularity.1 {
            sum.granularity = second.granularity;
        }
        if second.packets == 0 {
            return;
        }
        let (first_ns, last_ns) =
            (start_ns.saturating_add(second.first_ns), start_ns.saturating_add(second.last_ns));
        if !self.seen {
            (self.seen, self.first_ns, self.last_ns) = (true, first_ns, last_ns);
        }
        (self.first_ns, self.last_ns) = (self.first_ns.min(first_ns), self.last_ns.max(last_ns));
        self.rate_points.take_many(start_ns, second.packets, 0, 0);
        // One element beyond the limit marks that there are too many.
        if self.rate.len() <= RATE_SECONDS_MAX {
            let elapsed =
                start_ns.saturating_sub(self.first_ns.div_euclid(INTERVAL_NS).saturating_mul(INTERVAL_NS));
            let number = elapsed.div_euclid(SECOND_NS);
            match self.rate.last_mut().filter(|last| last.second == number) {
                Some(last) => last.packets += second.packets,
                None => self.rate.push(Second { second: number, packets: second.packets }),
            }
        }
    }
}

/// Relative resolution of the percentiles, for the document.
const RESOLUTION: Option<f64> = Some(RELATIVE_ERROR);

#[cfg(test)]
mod tests;
