//! Result of an analysis, as printed by `--json` and stored in `summary.json`.
//!
//! Field names include the unit. Every number comes with the facts needed to judge it: number of packets,
//! clock, confidence interval. The JSON Schema in `docs/formats/` is generated from these types.

pub mod figure;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::packet::FlowRule;
use crate::summary::figure::Figure;

/// Schema name and version of the summary. The number increases if a reader of the old version would misread
/// the new one.
pub const SUMMARY_SCHEMA: &str = "wiretail.summary/1";

/// A complete analysis of two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Schema name and version ([`SUMMARY_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Title: the captures as given on the command line, "pre.pcap post.pcap".
    pub title: String,
    /// The ingress capture.
    pub pre: Capture,
    /// The egress capture.
    pub post: Capture,
    /// Rule that identified packets at both taps.
    pub key: Key,
    /// Counts of matched and unmatched packets.
    pub matching: Matching,
    /// Verdicts, one per budget.
    pub verdicts: Vec<Verdict>,
    /// Findings that affect how far the numbers can be trusted, most severe first.
    pub findings: Vec<Finding>,
    /// One-way delay (RFC 7679).
    pub delay: Delay,
    /// Loss (RFC 7680).
    pub loss: Loss,
    /// Reordering (RFC 4737).
    pub reordering: Reordering,
    /// Delay variation: RFC 3393, RFC 5481, RFC 3550.
    pub variation: Variation,
    /// Per-flow breakdown, flows with most packets first.
    pub flows: Flows,
    /// Whether the delay is steady over the measurement; null with too few packets (fewer than about 128), and
    /// for soaks.
    #[serde(default)]
    pub steady_state: Option<SteadyState>,
    /// Lowest and highest delay of each interval, in order of egress time.
    pub intervals: Vec<Interval>,
    /// Packets with the highest delay, highest first.
    pub worst: Vec<Worst>,
    /// Exact cumulative distribution of the delay, thinned to a few hundred points.
    pub curve: Vec<CurvePoint>,
}

/// Capture of one tap: packet counts and timestamp properties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// File name as given, or `-`.
    pub path: String,
    /// Format, byte order, compression and link types: "pcap (ns, little endian), zstd, Ethernet".
    pub format: String,
    /// Index of the chosen interface in a file with several interfaces; null otherwise.
    pub interface: Option<u32>,
    /// Packets read from this tap.
    pub packets: u64,
    /// Packets in which the key rule found no key (ARP, other protocols). They are excluded.
    pub packets_without_key: u64,
    /// Packets without a timestamp in their trailer (`--timestamps trailer`). They are excluded.
    pub packets_without_time: u64,
    /// Packets that the tap lost, as counted by the capture (pcapng interface statistics); 0 if it has no
    /// such count.
    #[serde(default)]
    pub packets_dropped: u64,
    /// Sum of frame lengths in bytes, without frame check sequences.
    pub wire_bytes: u64,
    /// First timestamp, in ns since the epoch of the capture clock.
    pub first_ns: i64,
    /// Last timestamp, in ns since the epoch of the capture clock.
    pub last_ns: i64,
    /// Packets per second between the first and the last timestamp.
    pub mean_rate_pps: f64,
    /// Packets in each second since the first timestamp; seconds without packets are omitted. Empty for a
    /// soak of more than an hour; see `intervals`.
    pub rate: Vec<Second>,
    /// Time between consecutive packets at this tap.
    pub gaps: Gaps,
    /// Audit of the timestamps.
    pub clock: Clock,
    /// Position at which the file was truncated; null if the file is complete.
    pub truncated: Option<Truncation>,
}

/// Truncation of a capture within a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    /// Offset of the incomplete record in the (decompressed) file, in bytes.
    pub offset: u64,
    /// Description of the missing data.
    pub detail: String,
}

/// Packets in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Whole seconds since the first timestamp.
    pub second: i64,
    /// Number of packets in this second.
    pub packets: u64,
}

/// Time between consecutive packets at one tap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// Number of gaps, without backward steps of the clock.
    pub count: u64,
    /// Smallest gap, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest gap, in ns.
    pub max_ns: i64,
    /// Standard deviation, in ns.
    pub stddev_ns: f64,
    /// Nearest-rank percentiles; empty if individual gaps were not kept (a soak).
    pub percentiles: Vec<Percentile>,
}

/// Timestamp audit of one tap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Source of the timestamps, as far as the file records it: "pcap file, source not recorded".
    pub source: String,
    /// Timestamp resolution of the file format, in ns.
    pub resolution_ns: f64,
    /// Timestamp granularity, in ns, estimated from the first timestamps.
    pub granularity_ns: f64,
    /// Number of timestamps used to estimate the granularity.
    pub granularity_timestamps: u64,
    /// Packets with the same timestamp as the previous packet.
    pub identical: u64,
    /// Packets with an earlier timestamp than the previous packet.
    pub backward: u64,
    /// Largest backward step, in ns.
    pub max_backward_ns: i64,
}

/// Rule that identified packets at both taps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// The rule, as given to `--key`.
    pub rule: String,
    /// Whether the rule was chosen by a trial on the first packets. If false, `--key` set it.
    pub chosen_automatically: bool,
    /// Results of the trial, in the order tried; empty if `--key` set the rule.
    pub tried: Vec<KeyTrial>,
}

/// Result of trying a key rule on the first packets of both captures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyTrial {
    /// The rule, as given to `--key`.
    pub rule: String,
    /// Number of first ingress packets examined.
    pub packets: u64,
    /// Examined packets in which the rule found a key.
    pub with_key: u64,
    /// Examined packets that share their key with another packet.
    pub repeated: u64,
    /// Examined packets with a key that also occurs on the egress side.
    pub matched: u64,
    /// Reason for choosing or rejecting the rule.
    pub outcome: String,
}

/// Counts of matched and unmatched packets. Every ingress packet with a key is in exactly one of `matched`,
/// `negative`, `out_of_window`, `lost`, `duplicates_pre`; every egress packet with a key is in exactly one of
/// `matched`, `negative`, `out_of_window`, `duplicates_post`, `extra`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Matching {
    /// Length of the initial part of the measurement that was excluded, in ns (`--trim`). The captures' own
    /// numbers (rate, gaps, clock) include it.
    pub trim_ns: i64,
    /// Loss threshold (RFC 7680), in ns. Packets with a shorter delay count as arrived.
    pub window_ns: i64,
    /// Packets seen at ingress and at egress, with a delay of at least 0 and less than `window_ns`. The delay
    /// statistics are based on these packets.
    pub matched: u64,
    /// Packets in `matched` with a delay of zero: shorter than the clock can resolve.
    pub zero: u64,
    /// Packets seen at egress before ingress. This indicates a clock error, not a delay.
    pub negative: u64,
    /// Packets that arrived after `window_ns` or more (up to twice that time).
    pub out_of_window: u64,
    /// Packets seen at ingress but never at egress.
    pub lost: u64,
    /// Packets seen only at egress.
    pub extra: u64,
    /// Additional copies of a packet, seen at ingress while the packet is still in flight.
    pub duplicates_pre: u64,
    /// Additional copies of a packet, seen at egress after the packet has arrived.
    pub duplicates_post: u64,
    /// Keys that occurred again at ingress after the window, while the earlier packet with the key was still
    /// missing. The earlier packet counts as lost. A number above 0 means that keys repeat too soon.
    pub reused: u64,
    /// Packets given up early because more packets were in flight than the matcher's limit. They count as
    /// lost or extra.
    pub evicted: u64,
    /// Packets in `lost` that were seen at ingress after the last packet at egress. Either they were lost, or
    /// the egress capture stopped too early.
    pub lost_at_end: u64,
    /// Packets in `extra` that were seen at egress before the first packet at ingress. Either they are foreign,
    /// or the ingress capture started too late.
    pub extra_at_start: u64,
    /// Individual events of the counts above, in order of time, up to a limit per kind.
    pub events: Vec<Event>,
}

/// A packet that was not simply matched, for example because it was lost, duplicated or reordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Key of the packet, in hexadecimal.
    pub key: String,
    /// Position in the ingress capture among packets with a key, from 0; null if the packet was not seen
    /// there.
    pub pre_index: Option<u64>,
    /// Ingress timestamp, in ns; null if the packet was not seen there.
    pub pre_ns: Option<i64>,
    /// Egress timestamp, in ns; null if the packet was not seen there.
    pub post_ns: Option<i64>,
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The packet was never seen at egress.
    Lost,
    /// The packet was seen only at egress.
    Extra,
    /// An additional copy was seen at ingress.
    DuplicatePre,
    /// A further copy was seen at egress.
    DuplicatePost,
    /// The delay is zero.
    Zero,
    /// The packet was seen at egress before ingress.
    Negative,
    /// The packet arrived after the window.
    OutOfWindow,
    /// The packet arrived after one that was sent later.
    Reordered,
}

/// Verdict on a latency budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The budget, as given to `--budget`: "1ms@99.999%".
    pub budget: String,
    /// Highest delay allowed, in ns.
    pub limit_ns: i64,
    /// Percentage of packets that must arrive within the limit.
    pub percentile: f64,
    /// Outcome of the test.
    pub outcome: Outcome,
    /// Number of packets sent. The verdict is based on these packets.
    pub packets: u64,
    /// Packets that were lost or arrived after the limit.
    pub failures: u64,
    /// Index of dispersion of the failures: how many failures come together, at least 1. The bounds count such
    /// an episode as one failure.
    #[serde(default = "independent")]
    pub dispersion: f64,
    /// Number of lost or late packets that the budget allows among `packets`.
    pub failures_allowed: f64,
    /// Lower one-sided 95 % bound on the failure ratio (Clopper-Pearson).
    pub failure_ratio_low: f64,
    /// Upper one-sided 95 % bound on the failure ratio (Clopper-Pearson).
    pub failure_ratio_high: f64,
    /// The verdict in one sentence.
    pub reason: String,
}

/// Index of dispersion of independent packets.
fn independent() -> f64 {
    1.0
}

/// Outcome of a budget: pass, fail or undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// The failure ratio is within the budget with 95 % confidence.
    Pass,
    /// The number of packets is too small to decide.
    Undecided,
    /// The failure ratio exceeds the budget with 95 % confidence.
    Fail,
}

/// A finding that affects how the numbers may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Stable identifier for programs, lower case with dashes.
    pub code: String,
    /// Observation, its meaning and the recommended action.
    pub message: String,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The numbers must not be used as they are.
    Error,
    /// The numbers are valid with a reservation.
    Warning,
    /// For information only.
    Note,
}

/// One-way delay (RFC 7679) of the matched packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// Number of matched packets.
    pub count: u64,
    /// Smallest delay, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest delay, in ns.
    pub max_ns: i64,
    /// Sample standard deviation (n - 1), in ns.
    pub stddev_ns: f64,
    /// Nearest-rank percentiles from 50 to 99.99999 %.
    pub percentiles: Vec<Percentile>,
    /// Largest relative error of the percentiles, their bounds and the curve: 0.001 for 0.1 %. Null if they
    /// are exact. `min_ns`, `mean_ns`, `max_ns` and the worst packets are always exact.
    pub resolution: Option<f64>,
    /// Drift of the lower envelope of the delay over time, in ns per second. It is caused by drift between the
    /// clocks of the two taps or by a change of the path. Null with fewer than ten intervals.
    pub drift_ns_per_s: Option<f64>,
    /// Half width of the 95 % confidence interval of the drift, in ns per second; null with fewer than ten
    /// intervals.
    pub drift_error_ns_per_s: Option<f64>,
}

impl Delay {
    /// Returns the percentile `percent`; `None` if there are too few packets for it.
    pub fn percentile(&self, percent: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|found| found.percentile == percent)
    }
}

/// Test of whether the delay is steady over the measurement: the most evident change of its level, or of the
/// number of packets in its tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyState {
    /// Whether no change is both significant and large.
    pub steady: bool,
    /// Probability that a steady measurement has at least this evidence for a change.
    pub p_value: f64,
    /// Time of the most evident change, as egress time since the first arrival, in ns.
    pub change_ns: i64,
    /// Probability that a packet after the change has a higher delay than one before it; 0.5 if the change
    /// affects only the tail.
    pub slower_after: f64,
    /// Share of packets above the 99th percentile before the change; null if the level changed.
    pub tail_before: Option<f64>,
    /// Share of packets above the 99th percentile after the change; null if the level changed.
    pub tail_after: Option<f64>,
    /// Time to leave out at the beginning (`--trim`) so that the rest is steady, in ns; null if the measurement
    /// is steady, or if no trim of up to half of it has this effect.
    pub proposed_trim_ns: Option<i64>,
}

/// A nearest-rank percentile with its distribution-free confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// p in percent: 99.999.
    pub percentile: f64,
    /// Value of rank ceil(p n), in ns.
    pub value_ns: i64,
    /// Lower bound of the 95 % confidence interval, in ns: an order statistic of the sample, or 0 if no value
    /// of the sample bounds the percentile from below (fewer than six values).
    pub low_ns: i64,
    /// Upper bound of the 95 % confidence interval, in ns. Null if no value of the sample bounds the percentile
    /// from above. In this case, the percentile may exceed the largest measured value.
    pub high_ns: Option<i64>,
    /// Whether the percentile is supported: n (1 - p) is at least 10, where n is the number of effective packets
    /// if it is known.
    pub supported: bool,
    /// Effective sample size: the number of independent packets that would determine the percentile equally
    /// well. It is smaller than the number of packets if packets were delayed together. Null if the interval
    /// assumes independent packets (gaps, IPDV, single flows).
    #[serde(default)]
    pub effective_packets: Option<u64>,
}

/// Loss (RFC 7680).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Packets sent: all packets seen at ingress, without additional copies.
    pub sent: u64,
    /// Packets never seen at egress.
    pub lost: u64,
    /// Packets that arrived after the loss threshold. RFC 7680 counts them as lost.
    pub late: u64,
    /// Loss ratio: (lost + late) / sent.
    pub ratio: f64,
    /// Lower bound of the 95 % confidence interval of the ratio (Clopper-Pearson).
    pub ratio_low: f64,
    /// Upper bound of the 95 % confidence interval of the ratio (Clopper-Pearson).
    pub ratio_high: f64,
    /// Length of the longest run of consecutive lost packets.
    pub longest_run: u64,
    /// Position in the ingress capture, from 0, where the longest run starts; null if no packet was lost.
    pub longest_run_start: Option<u64>,
    /// Number of runs of lost packets.
    pub runs: u64,
}

/// Reordering (RFC 4737), relative to the order at ingress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reordering {
    /// Packets that arrived, without duplicates and foreign packets.
    pub arrived: u64,
    /// Packets that arrived after a packet that was sent later.
    pub reordered: u64,
    /// Reordered ratio: reordered / arrived (section 4.1 of the RFC).
    pub ratio: f64,
    /// Largest reordering extent, in packets (section 4.2).
    pub extent_max: u64,
    /// Mean reordering extent of the reordered packets, in packets.
    pub extent_mean: f64,
    /// Largest late time, in ns: time from the arrival of the overtaking packet to the arrival of the
    /// reordered packet (section 4.3).
    pub max_late_time_ns: i64,
    /// Reordered packets with an unknown late time: the overtaking packet is not among the last 32,768 sent,
    /// or timestamps were not kept (a soak).
    pub late_time_unknown: u64,
    /// Largest n for which a packet is n-reordered (section 5).
    pub n_reordering_max: u64,
    /// Packets that are at least n-reordered, for n = 1, 2, 3 and then doubling.
    pub n_reordering: Vec<NReordering>,
}

/// Number of packets that are at least n-reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NReordering {
    /// Degree of reordering, n.
    pub n: u64,
    /// Number of packets for which the n preceding packets were all sent later.
    pub packets: u64,
}

/// Delay variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variation {
    /// Signed inter-packet delay variation of consecutively sent packets (RFC 3393). Null if the pairs were
    /// not kept (a soak).
    pub ipdv: Option<Ipdv>,
    /// Percentiles of the packet delay variation relative to the smallest delay (RFC 5481).
    pub pdv: Vec<Percentile>,
    /// Interarrival jitter after the last packet, in ns (RFC 3550, section 6.4.1).
    pub rfc3550_jitter_ns: f64,
    /// Largest interarrival jitter, in ns.
    pub max_rfc3550_jitter_ns: f64,
}

/// Inter-packet delay variation (RFC 3393).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ipdv {
    /// Number of packet pairs.
    pub count: u64,
    /// Most negative variation, in ns.
    pub min_ns: i64,
    /// Most positive variation, in ns.
    pub max_ns: i64,
    /// Mean of the absolute values, in ns.
    pub mean_abs_ns: f64,
    /// Nearest-rank percentiles of the absolute values.
    pub percentiles_abs: Vec<Percentile>,
}

/// Per-flow breakdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// Rule that assigns packets to flows.
    pub rule: FlowRule,
    /// Number of flows seen at ingress.
    pub count: u64,
    /// Flows with most packets. If there are more, the last entry combines all others.
    pub largest: Vec<Flow>,
}

/// Numbers of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Number of the flow at the ingress tap, as in `samples.parquet`; null for the entry that combines all
    /// others.
    pub number: Option<u32>,
    /// Name of the flow: "10.0.0.16:1024 > 192.168.1.2:53 udp"; "others" for the combined entry.
    pub name: String,
    /// Number of packets sent.
    pub sent: u64,
    /// Number of packets lost, without late packets.
    pub lost: u64,
    /// Number of packets reordered.
    pub reordered: u64,
    /// Delay of the flow's packets; null if none arrived.
    pub delay: Option<FlowDelay>,
}

/// Delay of one flow's packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowDelay {
    /// Number of matched packets.
    pub count: u64,
    /// Smallest delay, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest delay, in ns.
    pub max_ns: i64,
    /// Nearest-rank percentiles; empty for flows after the first 32, for which individual delays are not
    /// kept.
    pub percentiles: Vec<Percentile>,
}

/// Delay in one interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Start of the interval, in ns since the first egress timestamp.
    pub start_ns: i64,
    /// Length of the interval, in ns.
    pub length_ns: i64,
    /// Number of packets that arrived in the interval.
    pub packets: u64,
    /// Smallest delay of these packets, in ns.
    pub min_ns: i64,
    /// Largest delay of these packets, in ns.
    pub max_ns: i64,
}

/// One of the packets with the highest delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worst {
    /// Delay, in ns.
    pub delay_ns: i64,
    /// Ingress timestamp, in ns since the epoch of the capture clock.
    pub pre_ns: i64,
    /// Egress timestamp, in ns since the epoch of the capture clock.
    pub post_ns: i64,
    /// Position in the ingress capture among packets with a key, from 0.
    pub pre_index: u64,
    /// Flow, as an index into `flows.largest`; null for a flow that is not listed there.
    pub flow: Option<u32>,
}

/// A point of the cumulative distribution function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Delay, in ns.
    pub delay_ns: i64,
    /// Number of packets with this delay or less.
    pub cumulative: u64,
}

/// A summary and its figures, as shown in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// Numeric results.
    pub summary: Summary,
    /// Plots, in display order.
    pub figures: Vec<Figure>,
}
