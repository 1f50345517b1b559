//! The interval log: what a soak writes down every half second, `intervals.log` in a trial's directory.
//!
//! A soak runs for hours or days, so its packets can't be kept. What became of them in each interval
//! of half a second can: a [`LogLine`] each, from which the same [`Summary`](crate::summary::Summary) is made as
//! from captures. A packet is counted in the interval in which its fate is decided: when it arrives,
//! or when it is given up as lost, twice the window after it was sent.
//!
//! Delays are counted in buckets of [`bucket`]s: every delay below 1024 ns has its own, above there
//! are 512 to an octave, so that the middle of a bucket is within [`RELATIVE_ERROR`] of its values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the log; the number rises when a reader of the old one would be misled.
pub const INTERVAL_SCHEMA: &str = "wiretail.interval/1";

/// Buckets of an octave: 2^9.
const OCTAVE_BITS: u32 = 9;

/// How far the middle of a bucket is from a value in it at most, relative to that value. (It is a
/// 1024th: half of the bucket's width, which is a 512th of the octave's lower end.)
pub const RELATIVE_ERROR: f64 = 0.001;

/// The bucket of a delay, from 0. Negative delays have no place here; they are taken as 0.
#[inline]
pub fn bucket(delay_ns: i64) -> usize {
    let value = delay_ns.max(0) as u64;
    // The first two octaves' worth of buckets hold one value each.
    let shift = (u64::BITS - (value >> OCTAVE_BITS).leading_zeros()).saturating_sub(1);
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// Smallest and largest delay of a bucket, in ns.
pub fn bucket_bounds(bucket: usize) -> (i64, i64) {
    let shift = ((bucket >> OCTAVE_BITS) as u32).saturating_sub(1);
    let low = ((bucket - ((shift as usize) << OCTAVE_BITS)) as u64) << shift;
    let high = low + ((1u64 << shift) - 1);
    (low as i64, high.min(i64::MAX as u64) as i64)
}

/// The delay in ns that stands for a bucket: its middle.
pub fn bucket_middle(bucket: usize) -> i64 {
    let (low, high) = bucket_bounds(bucket);
    low + (high - low + 1) / 2
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LogLine {
    /// Where a measurement starts: the first line, and one more each time that a soak is resumed.
    Segment(Box<SegmentStart>),
    /// What became of packets in one interval.
    Interval(Box<IntervalRecord>),
    /// The measurement ended as planned. It is missing where it was killed.
    End(SegmentEnd),
}

/// What is the same for all intervals of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentStart {
    /// Always [`INTERVAL_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// What is measured, for people.
    pub title: String,
    /// Delays shorter than this count as arrived, in ns.
    pub window_ns: i64,
    /// Packets sent in this first part of the measurement are left out, in ns.
    pub trim_ns: i64,
    /// The key rule, as `--key` takes it.
    pub key: String,
    /// Latency budgets, as `--budget` takes them; `over` in each interval counts for them.
    pub budgets: Vec<String>,
    /// The ingress tap.
    pub pre: TapStart,
    /// The egress tap.
    pub post: TapStart,
}

/// What is known of a tap before its first packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TapStart {
    /// Its name: "pre".
    pub name: String,
    /// Where its stamps come from: "kernel software".
    pub clock_source: String,
    /// Resolution of its stamps, in ns.
    pub resolution_ns: f64,
}

/// The measurement ended as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentEnd {
    /// When, in ns since the epoch of the taps' clock.
    pub end_ns: i64,
}

/// What became of packets in one interval. Numbers that are left out are zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntervalRecord {
    /// Start of the interval, in ns since the epoch of the taps' clock.
    pub start_ns: i64,
    /// Its length, in ns: shorter where the measurement ended within it.
    pub length_ns: i64,
    /// Packets sent whose fate was decided: matched, negative, out of window and lost.
    pub sent: u64,
    /// Packets that arrived within the window.
    pub matched: u64,
    /// Those among `matched` with a delay of zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u64,
    /// Packets given up, twice the window after they were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Packets that arrived after the window.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_window: u64,
    /// Packets seen at egress before ingress.
    #[serde(skip_serializing_if = "is_zero")]
    pub negative: u64,
    /// Packets seen at egress only.
    #[serde(skip_serializing_if = "is_zero")]
    pub extra: u64,
    /// Further copies at ingress.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicates_pre: u64,
    /// Further copies at egress.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicates_post: u64,
    /// Those among `lost` whose key came again.
    #[serde(skip_serializing_if = "is_zero")]
    pub reused: u64,
    /// Packets given up early because too many were under way.
    #[serde(skip_serializing_if = "is_zero")]
    pub evicted: u64,
    /// Those among `extra` that came before the first ingress packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub extra_at_start: u64,
    /// At the end of the interval: lost packets since the last arrival.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_at_end: u64,
    /// Runs of lost packets that began.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss_runs: u64,
    /// Longest run of lost packets that grew in this interval, in packets.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss_run_longest: u64,
    /// Position in the ingress capture, from 0, where that run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_run_start: Option<u64>,
    /// Smallest delay, in ns; 0 where no packet was matched.
    pub min_ns: i64,
    /// Largest delay, in ns.
    pub max_ns: i64,
    /// Sum of the delays, in ns.
    pub sum_ns: u64,
    /// Sum of the squared deviations from the interval's mean, in ns².
    pub squares_ns2: f64,
    /// RFC 3550 jitter at the end of the interval, in ns.
    pub jitter_ns: f64,
    /// Largest RFC 3550 jitter in the interval, in ns.
    pub max_jitter_ns: f64,
    /// Matched packets beyond each budget, in the order of the segment's budgets.
    pub over: Vec<u64>,
    /// What is known of packets out of order; none where all came in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingCounts>,
    /// The packets with the highest delay, highest first: delay in ns, ingress stamp in ns since
    /// `start_ns`, position in the ingress capture from 0.
    pub worst: Vec<(i64, i64, u64)>,
    /// The ingress tap.
    pub pre: TapInterval,
    /// The egress tap.
    pub post: TapInterval,
    /// Delays: how many matched packets fall into which [`bucket`], ascending, no bucket without
    /// packets. The log has them packed in the text field `delays`.
    #[serde(skip)]
    pub delays: Vec<(u16, u64)>,
}

/// Packets out of order (RFC 4737), as counts that add up over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReorderingCounts {
    /// Packets that arrived after one that had been sent later.
    pub reordered: u64,
    /// Largest extent, in packets.
    pub extent_max: u64,
    /// Sum of the extents, in packets.
    pub extent_sum: u64,
    /// Largest n for which a packet is n-reordered.
    pub n_max: u64,
    /// Packets that are exactly n-reordered: n = 0, 1, 2, 3, then 4-7, 8-15 and so on.
    pub n_counts: Vec<u64>,
}

/// What one tap's stamps say by themselves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TapInterval {
    /// Packets with a key.
    pub packets: u64,
    /// Packets without.
    #[serde(skip_serializing_if = "is_zero")]
    pub packets_without_key: u64,
    /// Packets that the tap lost, by its own count: no loss of the device.
    #[serde(skip_serializing_if = "is_zero")]
    pub packets_dropped: u64,
    /// Bytes on the wire, without frame check sequences.
    pub wire_bytes: u64,
    /// First stamp, in ns since `start_ns`.
    pub first_ns: i64,
    /// Last stamp, in ns since `start_ns`.
    pub last_ns: i64,
    /// Gaps from one packet to the next, that from the interval before included.
    pub gaps: u64,
    /// Smallest gap, in ns.
    pub min_gap_ns: i64,
    /// Largest gap, in ns.
    pub max_gap_ns: i64,
    /// Sum of the gaps, in ns.
    pub gap_sum_ns: u64,
    /// Sum of the squared gaps, in ns².
    pub gap_squares_ns2: f64,
    /// Packets with the same stamp as the one before.
    #[serde(skip_serializing_if = "is_zero")]
    pub identical: u64,
    /// Packets with an earlier stamp than the one before.
    #[serde(skip_serializing_if = "is_zero")]
    pub backward: u64,
    /// Largest backward step, in ns.
    #[serde(skip_serializing_if = "is_zero_ns")]
    pub max_backward_ns: i64,
    /// Grid that the measurement's first stamps lie on, in ns, and how many stamps that rests on.
    pub granularity: (f64, u64),
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_zero_ns(ns: &i64) -> bool {
    *ns == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_leave_no_gap() {
        for value in 0..1024 {
            assert_eq!((bucket(value), bucket_bounds(value as usize)), (value as usize, (value, value)));
        }
        let mut next = 0;
        for number in 0..=bucket(i64::MAX) {
            let (low, high) = bucket_bounds(number);
            assert_eq!((low, bucket(low), bucket(high)), (next, number, number));
            let error = (high - bucket_middle(number)).max(bucket_middle(number) - low);
            assert!(error as f64 <= RELATIVE_ERROR * low as f64, "{low} to {high}");
            next = high.wrapping_add(1);
        }
        assert!(bucket(i64::MAX) < usize::from(u16::MAX));
        assert_eq!(bucket(-5), 0);
    }
}
