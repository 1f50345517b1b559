//! What can be said about the causes of high delays without a trace of the kernel: interrupt counters that rose
//! when packets were late, and regular patterns among late packets. Formulas and limits: `docs/kpi/weak-evidence.md`
//! and `docs/kpi/periodicity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of [`CaptureExplanation`].
pub const CAPTURE_EXPLANATION_SCHEMA: &str = "wiretail.capture-explanation/1";

/// What `wiretail explain --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureExplanation {
    /// [`CAPTURE_EXPLANATION_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// The ingress capture, as given.
    pub pre: String,
    /// The egress capture, as given.
    pub post: String,
    /// Packets that were matched.
    pub packets: u64,
    /// From the first of them to the last, in ns.
    pub span_ns: i64,
    /// Median delay, in ns.
    pub median_ns: i64,
    /// Delay from which on a packet belongs to a stall, in ns.
    pub stall_above_ns: i64,
    /// Stalls, in order of time: the largest 100 of them.
    pub stalls: Vec<Stall>,
    /// What the interrupt counters say; null without `--irq`.
    pub interrupts: Option<Interrupts>,
    /// Regular patterns among late packets.
    pub periodicity: Periodicity,
}

/// Packets that stand out, less than 100 ms from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// When the one with the highest delay was sent, in ns since the first packet.
    pub at_ns: i64,
    /// How many.
    pub packets: u64,
    /// Their highest delay, in ns.
    pub max_delay_ns: i64,
}

/// Interrupt counters of a machine over time, as read: the published `irq.csv`, or two readings of `/proc/interrupts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterruptTable {
    /// One for each CPU and vector.
    pub columns: Vec<InterruptColumn>,
    /// Readings in order of time; each as long as `columns`.
    pub rows: Vec<InterruptRow>,
}

/// What a column of [`InterruptTable`] counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterruptColumn {
    /// CPU.
    pub cpu: u32,
    /// Vector with its description, such as "TLB shootdowns (TLB)" or "33 PCI-MSI virtio0-input.0".
    pub name: String,
}

/// One reading of all counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptRow {
    /// When, in µs of the reader's own clock.
    pub at_us: i64,
    /// Interrupts since boot.
    pub counts: Vec<u64>,
}

/// What interrupt counters say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// The file, as given.
    pub path: String,
    /// Readings.
    pub readings: usize,
    /// From the first reading to the last, in s.
    pub span_s: f64,
    /// CPUs, and what rose on each; a CPU on which nothing rose has an empty list.
    pub cpus: Vec<CpuInterrupts>,
    /// Counters that rose now and then and were compared with the stalls.
    pub compared: usize,
    /// Those of them that explain at least one stall, the best first.
    pub alignments: Vec<Alignment>,
}

/// Interrupts of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuInterrupts {
    /// CPU.
    pub cpu: u32,
    /// Counters that rose, the most frequent first.
    pub rising: Vec<RisingCounter>,
}

/// A counter that rose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RisingCounter {
    /// Vector with its description.
    pub name: String,
    /// Interrupts between the first reading and the last.
    pub interrupts: u64,
    /// The same a second.
    pub per_second: f64,
    /// Intervals between readings in which it rose.
    pub intervals_risen: usize,
}

/// How well a counter's rises fit the stalls, with the best offset between the two clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alignment {
    /// CPU.
    pub cpu: u32,
    /// Vector with its description.
    pub name: String,
    /// Stalls that fall into intervals in which it rose: their places in `stalls`.
    pub explained: Vec<usize>,
    /// Intervals inside the capture in which it rose without a stall.
    pub unmatched: usize,
    /// Lowest time of the counters' clock at which the capture can have begun, in s.
    pub offset_low_s: f64,
    /// Highest such time, in s.
    pub offset_high_s: f64,
    /// How often the counter rose in the intervals that explain stalls.
    pub interrupts: u64,
    /// Probability that a counter that rises in as many intervals, at random, fits at least as well at its best offset.
    pub chance: f64,
    /// The same for the best of all that were compared, at most.
    pub chance_of_any: f64,
    /// Whether `chance` is exact; otherwise it is estimated from random permutations.
    pub exact: bool,
}

/// Regular patterns among late packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Periodicity {
    /// Packets that were looked at.
    pub packets: u64,
    /// Packets sent a second, which sample whatever recurs: frequencies are known up to multiples of it.
    pub packets_per_second: f64,
    /// Patterns, the most certain first.
    pub recurrences: Vec<Recurrence>,
}

/// What a recurrence follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// Time: a timer of whatever machine.
    Clock,
    /// The packets: their count, or what they hold.
    Packets,
    /// Both explain it equally.
    Indistinguishable,
}

/// A regular pattern among late packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recurrence {
    /// What it follows.
    pub follows: Follows,
    /// Why that is said.
    pub reason: String,
    /// Frequency, in Hz; of a process that is sampled by packets sent at a constant rate: the lowest that explains it.
    pub frequency_hz: f64,
    /// Standard error of the frequency, in Hz.
    pub frequency_error_hz: f64,
    /// Period in packets.
    pub period_packets: f64,
    /// Packets count as late from this excess over their surroundings' median on, in ns.
    pub late_above_ns: i64,
    /// Beginnings of late runs that were looked at.
    pub late: u64,
    /// Those that keep to the pattern.
    pub late_inside: u64,
    /// Those that would by chance.
    pub expected_inside: f64,
    /// Mean delay of packets inside the pattern, less that of the others, in ns.
    pub mean_excess_ns: f64,
    /// Probability, at most, that as strong a pattern of any period is found among late packets that come at random.
    pub false_alarm: f64,
    /// A clock known by name that has this frequency or a multiple of it.
    pub clock: Option<String>,
    /// Position and numbers in the packets that keep to the same residue wherever the pattern falls.
    pub residues: Vec<Residue>,
}

/// A number that is the same, modulo the period, in all packets of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Residue {
    /// Which number.
    pub of: String,
    /// Modulo this.
    pub modulus: u64,
    /// The residue.
    pub residue: u64,
}
