//! The result of an analysis: what `--json` prints and `summary.json` holds.
//!
//! Names carry their unit. Every number stands beside what it rests on: how many packets, which
//! clock, which confidence interval. The JSON Schema in `docs/formats/` is generated from here.

pub mod figure;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::packet::FlowRule;
use crate::summary::figure::Figure;

/// Name and version of the document; the number rises when a reader of the old one would be misled.
pub const SUMMARY_SCHEMA: &str = "wiretail.summary/1";

/// One analysis, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Always [`SUMMARY_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote the document.
    pub wiretail_version: String,
    /// What stood on the command line, for people: "pre.pcap post.pcap".
    pub title: String,
    /// The ingress capture.
    pub pre: Capture,
    /// The egress capture.
    pub post: Capture,
    /// How packets were recognised at both taps.
    pub key: Key,
    /// Which packets found their counterpart.
    pub matching: Matching,
    /// One verdict a budget.
    pub verdicts: Vec<Verdict>,
    /// What the reader must know before trusting the numbers, worst first.
    pub findings: Vec<Finding>,
    /// One-way delay (RFC 7679).
    pub delay: Delay,
    /// Loss (RFC 7680).
    pub loss: Loss,
    /// Reordering (RFC 4737).
    pub reordering: Reordering,
    /// Delay variation: RFC 3393, RFC 5481, RFC 3550.
    pub variation: Variation,
    /// Per-flow breakdown, most packets first.
    pub flows: Flows,
    /// Highest delay of each interval, in order of egress time.
    pub intervals: Vec<Interval>,
    /// The packets with the highest delay, highest first.
    pub worst: Vec<Worst>,
    /// The exact share of packets at or below each delay, thinned to some hundred points.
    pub curve: Vec<CurvePoint>,
}

/// One tap's capture: what was read and what its stamps are like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// File name as given, or `-`.
    pub path: String,
    /// Format, compression and link types: "pcap (ns, little endian), zstd, Ethernet".
    pub format: String,
    /// The interface chosen in a file of several, by its index.
    pub interface: Option<u32>,
    /// Packets read from this tap.
    pub packets: u64,
    /// Packets that the key rule found nothing in (ARP, other protocols); they take no part.
    pub packets_without_key: u64,
    /// Packets without a time in their trailer; they take no part (`--timestamps trailer`).
    pub packets_without_time: u64,
    /// Packets that the tap lost, by the capture's own count (pcapng interface statistics); 0 where it
    /// does not say.
    #[serde(default)]
    pub packets_dropped: u64,
    /// Bytes on the wire, without frame check sequences.
    pub wire_bytes: u64,
    /// First stamp, in ns since the capture clock's epoch.
    pub first_ns: i64,
    /// Last stamp, in ns since the capture clock's epoch.
    pub last_ns: i64,
    /// Packets a second between the first and the last stamp.
    pub mean_rate_pps: f64,
    /// Packets in each second since the first stamp; seconds without packets are left out. Empty for
    /// a soak of more than an hour: see `intervals`.
    pub rate: Vec<Second>,
    /// Time from each packet to the next on this tap.
    pub gaps: Gaps,
    /// What the stamps say about the clock.
    pub clock: Clock,
    /// Whether the file ended within a record, and where.
    pub truncated: Option<Truncation>,
}

/// A capture that ended within a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    /// Offset of the incomplete record in the (decompressed) file, in bytes.
    pub offset: u64,
    /// What is missing.
    pub detail: String,
}

/// Packets in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Whole seconds since the first stamp.
    pub second: i64,
    /// Packets in it.
    pub packets: u64,
}

/// Time between a packet and the next on the same tap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// How many gaps; backward steps are not among them.
    pub count: u64,
    /// Smallest, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest, in ns.
    pub max_ns: i64,
    /// Standard deviation, in ns.
    pub stddev_ns: f64,
    /// Nearest-rank percentiles; empty where single gaps were not kept (a soak).
    pub percentiles: Vec<Percentile>,
}

/// Timestamp audit of one tap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Where the stamps come from, as far as the file says: "pcap file, source not recorded".
    pub source: String,
    /// Resolution that the file format gives, in ns.
    pub resolution_ns: f64,
    /// Grid that the stamps lie on, in ns, as found in the first stamps.
    pub granularity_ns: f64,
    /// Stamps that the grid was found in.
    pub granularity_timestamps: u64,
    /// Packets with the same stamp as the one before.
    pub identical: u64,
    /// Packets with an earlier stamp than the one before.
    pub backward: u64,
    /// Largest backward step, in ns.
    pub max_backward_ns: i64,
}

/// How packets were recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// The rule, as `--key` takes it.
    pub rule: String,
    /// Whether it was asked for or found by trial on the first packets.
    pub chosen_automatically: bool,
    /// What the trial saw, in the order tried; empty where the rule was given.
    pub tried: Vec<KeyTrial>,
}

/// A key rule tried on the first packets of both captures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyTrial {
    /// The rule, as `--key` takes it.
    pub rule: String,
    /// First ingress packets looked at.
    pub packets: u64,
    /// Those that the rule found a key in.
    pub with_key: u64,
    /// Those whose key another one has too.
    pub repeated: u64,
    /// Those whose key also came by on the egress side.
    pub matched: u64,
    /// Why the rule was taken or passed over.
    pub outcome: String,
}

/// Which packets found their counterpart. Every ingress packet with a key is in exactly one of
/// `matched`, `negative`, `out_of_window`, `lost`, `duplicates_pre`; every egress packet with a key
/// in exactly one of `matched`, `negative`, `out_of_window`, `duplicates_post`, `extra`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Matching {
    /// Packets seen in this first part of the measurement were left out, in ns (`--trim`). The
    /// captures' own numbers (rate, gaps, clock) are those of the whole.
    pub trim_ns: i64,
    /// Delays shorter than this count as arrived, in ns (RFC 7680 calls it the loss threshold).
    pub window_ns: i64,
    /// Packets seen at ingress and, at once or less than `window_ns` later, at egress: the delay rests on these.
    pub matched: u64,
    /// Those among `matched` with a delay of zero: shorter than the clock can tell.
    pub zero: u64,
    /// Packets seen at egress before ingress: an error of the clocks, not a delay.
    pub negative: u64,
    /// Packets that arrived `window_ns` later or more (up to twice that).
    pub out_of_window: u64,
    /// Packets seen at ingress and never at egress.
    pub lost: u64,
    /// Packets seen at egress only.
    pub extra: u64,
    /// Further copies at ingress of a packet that is still under way.
    pub duplicates_pre: u64,
    /// Further copies at egress of a packet that had already arrived.
    pub duplicates_post: u64,
    /// Keys that came again at ingress, later than the window, while their packet was still missing:
    /// that packet counts as lost. A sign of a key that repeats too soon.
    pub reused: u64,
    /// Packets given up early because more than the matcher's limit were under way; they count as lost or extra.
    pub evicted: u64,
    /// Those among `lost` that were seen at ingress after the last packet at egress: lost, or the
    /// egress capture stopped too early.
    pub lost_at_end: u64,
    /// Those among `extra` that were seen at egress before the first packet at ingress: foreign, or
    /// the ingress capture started too late.
    pub extra_at_start: u64,
    /// The single events behind the counts, in order of time, up to a limit a kind.
    pub events: Vec<Event>,
}

/// A packet that is not simply matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Its key, in hexadecimal.
    pub key: String,
    /// Position in the ingress capture among packets with a key, from 0.
    pub pre_index: Option<u64>,
    /// Ingress stamp in ns.
    pub pre_ns: Option<i64>,
    /// Egress stamp in ns.
    pub post_ns: Option<i64>,
}

/// What happened to a packet that is not simply matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Never seen at egress.
    Lost,
    /// Seen at egress only.
    Extra,
    /// Further copy at ingress.
    DuplicatePre,
    /// Further copy at egress.
    DuplicatePost,
    /// A delay of zero.
    Zero,
    /// Seen at egress before ingress.
    Negative,
    /// Arrived after the window.
    OutOfWindow,
    /// Arrived after a packet that was sent later.
    Reordered,
}

/// Whether a budget holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The budget as `--budget` takes it: "1ms@99.999%".
    pub budget: String,
    /// Highest delay allowed, in ns.
    pub limit_ns: i64,
    /// Share of packets, in percent, that must arrive within the limit.
    pub percentile: f64,
    /// The answer.
    pub outcome: Outcome,
    /// Packets sent that the answer rests on.
    pub packets: u64,
    /// Those that were lost or later than the limit.
    pub failures: u64,
    /// Failures that the budget allows in that many packets.
    pub failures_allowed: f64,
    /// One-sided 95 % bounds on the share of failures (Clopper-Pearson).
    pub failure_ratio_low: f64,
    /// See `failure_ratio_low`.
    pub failure_ratio_high: f64,
    /// The answer in a sentence.
    pub reason: String,
}

/// PASS, FAIL or not enough packets to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// The share of failures lies within the budget with 95 % confidence.
    Pass,
    /// The data allows either answer.
    Undecided,
    /// The share of failures exceeds the budget with 95 % confidence.
    Fail,
}

/// Something the reader must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Stable name for programs, lower-case with dashes.
    pub code: String,
    /// What was seen, what it means, what to do.
    pub message: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The numbers must not be used as they are.
    Error,
    /// The numbers hold with a reservation.
    Warning,
    /// Good to know.
    Note,
}

/// One-way delay (RFC 7679) of the matched packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delay {
    /// Packets it rests on.
    pub count: u64,
    /// Smallest, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest, in ns.
    pub max_ns: i64,
    /// Standard deviation (of the sample, n - 1), in ns.
    pub stddev_ns: f64,
    /// Nearest-rank percentiles, 50 to 99.99999.
    pub percentiles: Vec<Percentile>,
    /// How far percentiles (with their bounds) and the curve may be from the values measured,
    /// relative to these: 0.001 for 0.1 %. None where they are exact. `min_ns`, `mean_ns`, `max_ns`
    /// and the worst packets always are.
    pub resolution: Option<f64>,
    /// Drift of the lower envelope of the delay over time, in ns a second: what the two taps'
    /// clocks drift apart, or how the path changes. None with fewer than ten intervals.
    pub drift_ns_per_s: Option<f64>,
    /// Half width of the 95 % confidence interval of the drift, in ns a second.
    pub drift_error_ns_per_s: Option<f64>,
}

impl Delay {
    /// A percentile, in percent; None where it is not among those that the packets reach.
    pub fn percentile(&self, percent: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|found| found.percentile == percent)
    }
}

/// A nearest-rank percentile with its distribution-free confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// p in percent: 99.999.
    pub percentile: f64,
    /// The value of rank ceil(p n), in ns.
    pub value_ns: i64,
    /// Lower bound of the 95 % confidence interval, in ns: an order statistic of the sample, or 0
    /// where no value of the sample bounds the percentile from below (fewer than six values).
    pub low_ns: i64,
    /// Upper bound, in ns. None where no value of the sample bounds the percentile from above: it
    /// may lie beyond the largest value seen.
    pub high_ns: Option<i64>,
    /// Whether n (1 - p) is at least 10.
    pub supported: bool,
}

/// Loss (RFC 7680).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Packets sent: all that were seen at ingress, further copies aside.
    pub sent: u64,
    /// Packets never seen at egress.
    pub lost: u64,
    /// Packets that arrived after the loss threshold; RFC 7680 counts them as lost.
    pub late: u64,
    /// (lost + late) / sent.
    pub ratio: f64,
    /// Bounds of the 95 % confidence interval of the ratio (Clopper-Pearson).
    pub ratio_low: f64,
    /// See `ratio_low`.
    pub ratio_high: f64,
    /// Most packets lost one after the other.
    pub longest_run: u64,
    /// Position in the ingress capture, from 0, where the longest run starts.
    pub longest_run_start: Option<u64>,
    /// How many runs of lost packets there are.
    pub runs: u64,
}

/// Reordering (RFC 4737); the sequence is the order at ingress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reordering {
    /// Packets that arrived (duplicates and foreign packets aside).
    pub arrived: u64,
    /// Packets that arrived after one that had been sent later.
    pub reordered: u64,
    /// reordered / arrived (section 4.1 of the RFC).
    pub ratio: f64,
    /// Largest reordering extent in packets (section 4.2).
    pub extent_max: u64,
    /// Mean reordering extent of the reordered packets.
    pub extent_mean: f64,
    /// Largest late time: how long after the packet that overtook it a reordered packet came, in ns (section 4.3).
    pub max_late_time_ns: i64,
    /// Reordered packets whose late time is not known: the packet that overtook them is not among
    /// the last 32,768 sent, or stamps were not kept (a soak).
    pub late_time_unknown: u64,
    /// Largest n for which a packet is n-reordered (section 5).
    pub n_reordering_max: u64,
    /// Packets that are at least n-reordered, for n = 1, 2, 3 and doubling from there.
    pub n_reordering: Vec<NReordering>,
}

/// How many packets are at least n-reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NReordering {
    /// n.
    pub n: u64,
    /// Packets for which the n packets before them had all been sent later.
    pub packets: u64,
}

/// Delay variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variation {
    /// Inter-packet delay variation of packets sent one after the other (RFC 3393), signed. None
    /// where the pairs were not kept (a soak).
    pub ipdv: Option<Ipdv>,
    /// Percentiles of the packet delay variation against the smallest delay (RFC 5481).
    pub pdv: Vec<Percentile>,
    /// Interarrival jitter after the last packet, in ns (RFC 3550, section 6.4.1).
    pub rfc3550_jitter_ns: f64,
    /// Largest interarrival jitter, in ns.
    pub max_rfc3550_jitter_ns: f64,
}

/// Inter-packet delay variation (RFC 3393).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ipdv {
    /// Pairs it rests on.
    pub count: u64,
    /// Most negative, in ns.
    pub min_ns: i64,
    /// Most positive, in ns.
    pub max_ns: i64,
    /// Mean of the absolute values, in ns.
    pub mean_abs_ns: f64,
    /// Nearest-rank percentiles of the absolute values.
    pub percentiles_abs: Vec<Percentile>,
}

/// Per-flow breakdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// What tells flows apart.
    pub rule: FlowRule,
    /// How many flows were seen at ingress.
    pub count: u64,
    /// The flows with most packets, and last, where there are more, all others together.
    pub largest: Vec<Flow>,
}

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// Number of the flow at the ingress tap, as `samples.parquet` has it; None for all others together.
    pub number: Option<u32>,
    /// For people: "10.0.0.16:1024 > 192.168.1.2:53 udp"; "others" for those beyond the limit.
    pub name: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost (late ones aside).
    pub lost: u64,
    /// Packets reordered.
    pub reordered: u64,
    /// Delay of the flow's packets; None where none arrived.
    pub delay: Option<FlowDelay>,
}

/// Delay of one flow's packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowDelay {
    /// Packets it rests on.
    pub count: u64,
    /// Smallest, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Largest, in ns.
    pub max_ns: i64,
    /// Nearest-rank percentiles; empty for flows that came after the first 32, whose single delays
    /// are not kept apart.
    pub percentiles: Vec<Percentile>,
}

/// Delay in one interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Start, in ns since the first egress stamp.
    pub start_ns: i64,
    /// Length, in ns.
    pub length_ns: i64,
    /// Packets that arrived in it.
    pub packets: u64,
    /// Smallest delay among them, in ns.
    pub min_ns: i64,
    /// Largest delay among them, in ns.
    pub max_ns: i64,
}

/// One of the packets with the highest delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worst {
    /// Delay, in ns.
    pub delay_ns: i64,
    /// Ingress stamp in ns since the capture clock's epoch.
    pub pre_ns: i64,
    /// Egress stamp in ns since the capture clock's epoch.
    pub post_ns: i64,
    /// Position in the ingress capture among packets with a key, from 0.
    pub pre_index: u64,
    /// Flow, as an index into `flows.largest`; None for a flow that is not listed there.
    pub flow: Option<u32>,
}

/// A point of the distribution function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Delay, in ns.
    pub delay_ns: i64,
    /// Packets with this delay or less.
    pub cumulative: u64,
}

/// A summary together with the figures drawn from it: what the report shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// The numbers.
    pub summary: Summary,
    /// The plots, in the order shown.
    pub figures: Vec<Figure>,
}
