//! Causes of high delays found without a kernel trace: interrupt counters that rose while packets were late,
//! and regular patterns among late packets. Formulas and limits: `docs/kpi/weak-evidence.md` and
//! `docs/kpi/periodicity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of [`CaptureExplanation`].
pub const CAPTURE_EXPLANATION_SCHEMA: &str = "wiretail.capture-explanation/1";

/// Output of `wiretail explain --json`: causes of high delays found in two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureExplanation {
    /// Schema name and version ([`CAPTURE_EXPLANATION_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Path of the ingress capture, as given.
    pub pre: String,
    /// Path of the egress capture, as given.
    pub post: String,
    /// Number of matched packets.
    pub packets: u64,
    /// Time from the first matched packet to the last, in ns.
    pub span_ns: i64,
    /// Median delay of the matched packets, in ns.
    pub median_ns: i64,
    /// Packets with a delay of at least this value, in ns, belong to a stall.
    pub stall_above_ns: i64,
    /// The largest stalls, up to 100, in order of time.
    pub stalls: Vec<Stall>,
    /// Analysis of the interrupt counters; null without `--irq`.
    pub interrupts: Option<Interrupts>,
    /// Regular patterns among late packets.
    pub periodicity: Periodicity,
}

/// A group of outlier packets less than 100 ms apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Send time of the packet with the highest delay, in ns since the first packet.
    pub at_ns: i64,
    /// Number of packets in the stall.
    pub packets: u64,
    /// Highest delay of a packet in the stall, in ns.
    pub max_delay_ns: i64,
}

/// Interrupt counters of a machine over time, read from the published `irq.csv` or from two readings of
/// `/proc/interrupts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptTable {
    /// One column per CPU and vector.
    pub columns: Vec<InterruptColumn>,
    /// Readings in order of time. Each has one count per column.
    pub rows: Vec<InterruptRow>,
}

/// A column of [`InterruptTable`]: one interrupt vector on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterruptColumn {
    /// CPU number.
    pub cpu: u32,
    /// Vector with its description, such as "TLB shootdowns (TLB)" or "33 PCI-MSI virtio0-input.0".
    pub name: String,
}

/// One reading of all interrupt counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptRow {
    /// Time of the reading on the reader's own clock, in µs.
    pub at_us: i64,
    /// Number of interrupts since boot, one count per column.
    pub counts: Vec<u64>,
}

/// Interrupt counters and how well they fit the stalls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// Path of the file with the counters, as given.
    pub path: String,
    /// Number of readings.
    pub readings: usize,
    /// Time from the first reading to the last, in s.
    pub span_s: f64,
    /// CPUs, each with a list of the counters that rose on it. The list is empty if no counter rose.
    pub cpus: Vec<CpuInterrupts>,
    /// Number of counters compared with the stalls. Only counters that rise intermittently are compared.
    pub compared: usize,
    /// Compared counters that explain at least one stall, best fit first.
    pub alignments: Vec<Alignment>,
}

/// Interrupts of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuInterrupts {
    /// CPU number.
    pub cpu: u32,
    /// Counters that rose, most frequent first.
    pub rising: Vec<RisingCounter>,
}

/// A counter that rose during the readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RisingCounter {
    /// Vector with its description.
    pub name: String,
    /// Number of interrupts between the first reading and the last.
    pub interrupts: u64,
    /// Mean number of interrupts per second.
    pub per_second: f64,
    /// Number of intervals between readings in which the counter rose.
    pub intervals_risen: usize,
}

/// How well the rises of a counter fit the stalls, at the best offset between the two clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alignment {
    /// CPU number.
    pub cpu: u32,
    /// Vector with its description.
    pub name: String,
    /// Stalls that fall into intervals in which the counter rose, as indices into `stalls`.
    pub explained: Vec<usize>,
    /// Number of intervals within the capture in which the counter rose but no stall occurred.
    pub unmatched: usize,
    /// Earliest possible start of the capture on the counters' clock, in s.
    pub offset_low_s: f64,
    /// Latest possible start of the capture on the counters' clock, in s.
    pub offset_high_s: f64,
    /// Number of interrupts counted in the intervals that explain stalls.
    pub interrupts: u64,
    /// Probability that a counter that rises in the same number of random intervals fits at least as well at
    /// its best offset.
    pub chance: f64,
    /// Upper bound on the probability that the best of all compared counters fits at least as well by chance.
    pub chance_of_any: f64,
    /// Whether `chance` is exact. If false, it is estimated from random permutations.
    pub exact: bool,
}

/// Regular patterns among late packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Periodicity {
    /// Number of packets analyzed.
    pub packets: u64,
    /// Packets sent per second. The packets sample a recurring process at this rate, so frequencies that differ
    /// by a multiple of the rate cannot be distinguished.
    pub packets_per_second: f64,
    /// Regular patterns, most certain first.
    pub recurrences: Vec<Recurrence>,
}

/// Reference that a regular pattern is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// Time: a timer on any machine.
    Clock,
    /// The packets: their count or their content.
    Packets,
    /// A period in time and a period in packets fit the pattern equally well.
    Indistinguishable,
}

/// A regular pattern among late packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recurrence {
    /// What the pattern is tied to: time or packets.
    pub follows: Follows,
    /// Reason for the choice in `follows`.
    pub reason: String,
    /// Frequency, in Hz. If packets are sent at a constant rate, several frequencies fit the pattern; this is
    /// the lowest of them.
    pub frequency_hz: f64,
    /// Standard error of the frequency, in Hz.
    pub frequency_error_hz: f64,
    /// Period, in packets.
    pub period_packets: f64,
    /// Threshold for late packets, in ns: a packet is late if its delay exceeds the median delay of the packets
    /// around it by at least this much.
    pub late_above_ns: i64,
    /// Number of analyzed runs of late packets. Only the first packet of each run is compared with the pattern.
    pub late: u64,
    /// Number of analyzed runs whose first packet follows the pattern.
    pub late_inside: u64,
    /// Number of runs whose first packet is expected to follow the pattern by chance.
    pub expected_inside: f64,
    /// Mean delay of packets inside the pattern minus mean delay of the others, in ns.
    pub mean_excess_ns: f64,
    /// Upper bound on the probability that packets late at random times show an equally strong pattern with
    /// any period.
    pub false_alarm: f64,
    /// Name of a known clock with this frequency or a multiple of it; null if there is none.
    pub clock: Option<String>,
    /// Packet position and packet fields whose value, modulo the period, is the same in all packets of the
    /// pattern.
    pub residues: Vec<Residue>,
}

/// A number whose value, modulo the period, is the same in all packets of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Residue {
    /// Name of the number: the packet position or a field of the packet.
    pub of: String,
    /// Modulus of the residue.
    pub modulus: u64,
    /// Value of the number modulo `modulus`.
    pub residue: u64,
}
