//! The interval log of a soak, written every half second: `intervals.log` in a trial's directory.
//!
//! A soak runs for hours or days, so its packets cannot be kept. The log keeps one [`LogLine`] per interval
//! of half a second, from which the same [`Summary`](crate::summary::Summary) is computed as from captures. A
//! packet is counted in the interval in which its fate is decided: when it arrives, or when it is given up as
//! lost, twice the window after it was sent.
//!
//! Delays are counted in buckets; see [`bucket`]. Every delay below 1024 ns has its own bucket. Above that
//! there are 512 buckets per octave, so that the middle of a bucket is within [`RELATIVE_ERROR`] of its
//! values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of the log. The number increases if a reader of the old version would misread the
/// new one.
pub const INTERVAL_SCHEMA: &str = "wiretail.interval/1";

/// Binary logarithm of the number of buckets per octave (2^9).
const OCTAVE_BITS: u32 = 9;

/// Upper bound on the relative distance from the middle of a bucket to a value in it. (The exact value is
/// 1/1024: half of the bucket's width, which is 1/512 of the octave's lower end.)
pub const RELATIVE_ERROR: f64 = 0.001;

/// Returns the bucket of a delay, from 0. Negative delays are counted as 0.
#[inline]
pub fn bucket(delay_ns: i64) -> usize {
    let value = delay_ns.max(0) as u64;
    // In the first two octaves, each bucket holds a single value.
    let shift = (u64::BITS - (value >> OCTAVE_BITS).leading_zeros()).saturating_sub(1);
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// Returns the smallest and largest delay of a bucket, in ns.
pub fn bucket_bounds(bucket: usize) -> (i64, i64) {
    let shift = ((bucket >> OCTAVE_BITS) as u32).saturating_sub(1);
    let low = ((bucket - ((shift as usize) << OCTAVE_BITS)) as u64) << shift;
    let high = low + ((1u64 << shift) - 1);
    (low as i64, high.min(i64::MAX as u64) as i64)
}

/// Returns the delay that represents a bucket: its middle, in ns.
pub fn bucket_middle(bucket: usize) -> i64 {
    let (low, high) = bucket_bounds(bucket);
    low + (high - low + 1) / 2
}

/// A line of the interval log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LogLine {
    /// Start of a measurement: the first line, and one more line each time that a soak is resumed.
    Segment(Box<SegmentStart>),
    /// Counts of one interval.
    Interval(Box<IntervalRecord>),
    /// The measurement ended as planned. This line is missing if the process was killed.
    End(SegmentEnd),
}

/// Properties common to all intervals of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentStart {
    /// Schema name and version ([`INTERVAL_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the log.
    pub wiretail_version: String,
    /// Title of the measurement.
    pub title: String,
    /// Loss threshold, in ns. Packets with a shorter delay count as arrived.
    pub window_ns: i64,
    /// Length of the initial part of the measurement that is excluded, in ns.
    pub trim_ns: i64,
    /// Key rule, as given to `--key`.
    pub key: String,
    /// Latency budgets, as given to `--budget`; `over` in each interval refers to them.
    pub budgets: Vec<String>,
    /// The ingress tap.
    pub pre: TapStart,
    /// The egress tap.
    pub post: TapStart,
}

/// Properties of a tap that are known before its first packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TapStart {
    /// Name of the tap: "pre".
    pub name: String,
    /// Source of the timestamps: "kernel software".
    pub clock_source: String,
    /// Resolution of the timestamps, in ns.
    pub resolution_ns: f64,
}

/// End of a measurement that ended as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentEnd {
    /// End time, in ns since the epoch of the taps' clock.
    pub end_ns: i64,
}

/// Counts of one interval. Omitted numbers are zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntervalRecord {
    /// Start of the interval, in ns since the epoch of the taps' clock.
    pub start_ns: i64,
    /// Length of the interval, in ns; shorter if the measurement ended within it.
    pub length_ns: i64,
    /// Sent packets whose fate is decided: matched, negative, out of window or lost.
    pub sent: u64,
    /// Packets that arrived within the window.
    pub matched: u64,
    /// Packets in `matched` with a delay of zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u64,
    /// Packets given up as lost, twice the window after they were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Packets that arrived after the window.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_window: u64,
    /// Packets seen at egress before ingress.
    #[serde(skip_serializing_if = "is_zero")]
    pub negative: u64,
    /// Packets seen only at egress.
    #[serde(skip_serializing_if = "is_zero")]
    pub extra: u64,
    /// Further copies at ingress.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicates_pre: u64,
    /// Further copies at egress.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicates_post: u64,
    /// Packets in `lost` whose key occurred again.
    #[serde(skip_serializing_if = "is_zero")]
    pub reused: u64,
    /// Packets given up early because too many were in flight.
    #[serde(skip_serializing_if = "is_zero")]
    pub evicted: u64,
    /// Packets in `extra` that arrived before the first ingress packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub extra_at_start: u64,
    /// Packets lost since the last arrival, at the end of the interval.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost_at_end: u64,
    /// Number of runs of lost packets that started in the interval.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss_runs: u64,
    /// Length, in packets, of the longest loss run that grew in this interval.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss_run_longest: u64,
    /// Position of the first packet of that run in the ingress capture, from 0; absent if no run grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_run_start: Option<u64>,
    /// Smallest delay, in ns; 0 if no packet was matched.
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
    /// Matched packets that exceed each budget, in the order of the segment's budgets.
    pub over: Vec<u64>,
    /// Counts of packets out of order; absent if all packets arrived in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingCounts>,
    /// Packets with the highest delay, highest first: delay in ns, ingress timestamp in ns since `start_ns`,
    /// position in the ingress capture from 0.
    pub worst: Vec<(i64, i64, u64)>,
    /// The ingress tap.
    pub pre: TapInterval,
    /// The egress tap.
    pub post: TapInterval,
    /// Number of matched packets per [`bucket`], in ascending order, without empty buckets. The log stores
    /// them packed in the text field `delays`.
    #[serde(skip)]
    pub delays: Vec<(u16, u64)>,
}

/// Counts of packets out of order (RFC 4737) that can be added up over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReorderingCounts {
    /// Packets that arrived after a packet that was sent later.
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

/// Timestamp and packet counts of one tap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TapInterval {
    /// Packets with a key.
    pub packets: u64,
    /// Packets without a key.
    #[serde(skip_serializing_if = "is_zero")]
    pub packets_without_key: u64,
    /// Packets that the tap itself reports as dropped. They do not count as loss of the device.
    #[serde(skip_serializing_if = "is_zero")]
    pub packets_dropped: u64,
    /// Sum of frame lengths in bytes, without frame check sequences.
    pub wire_bytes: u64,
    /// First timestamp, in ns since `start_ns`.
    pub first_ns: i64,
    /// Last timestamp, in ns since `start_ns`.
    pub last_ns: i64,
    /// Number of gaps between consecutive packets, including the gap to the previous interval.
    pub gaps: u64,
    /// Smallest gap, in ns.
    pub min_gap_ns: i64,
    /// Largest gap, in ns.
    pub max_gap_ns: i64,
    /// Sum of the gaps, in ns.
    pub gap_sum_ns: u64,
    /// Sum of the squared gaps, in ns².
    pub gap_squares_ns2: f64,
    /// Packets with the same timestamp as the previous packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub identical: u64,
    /// Packets with an earlier timestamp than the previous packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub backward: u64,
    /// Largest backward step, in ns.
    #[serde(skip_serializing_if = "is_zero_ns")]
    pub max_backward_ns: i64,
    /// Timestamp granularity, in ns, estimated from the measurement's first timestamps, and the number of
    /// timestamps used.
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
    fn buckets_are_narrow_and_contiguous() {
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
