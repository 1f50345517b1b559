//! Causes that delayed the worst packets of a traced trial: the document `explanation.json` in a trial's
//! directory.
//!
//! The *excess delay* of a packet is its delay minus the baseline, the median of the trial. It is split into
//! *parts*, each with its cause, and a remainder without a known cause. Formulas: `docs/kpi/attribution.md`.

pub mod capture;
pub mod mitigation;
pub mod trace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::causes::capture::Periodicity;
use crate::run::interference::GroundTruthReport;

/// Schema name and version of [`TrialExplanation`].
pub const EXPLANATION_SCHEMA: &str = "wiretail.explanation/1";
/// File name of the explanation in a trial's directory.
pub const EXPLANATION_FILE: &str = "explanation.json";

/// Schema name and version of [`RunExplanation`].
pub const RUN_EXPLANATION_SCHEMA: &str = "wiretail.run-explanation/1";

/// Output of `wiretail explain RUN --json`: explanations of all trials of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunExplanation {
    /// Schema name and version ([`RUN_EXPLANATION_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// The analyzed trials, in the order of the run.
    pub trials: Vec<TrialFindings>,
}

/// Findings about the late packets of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFindings {
    /// Number of the trial in the experiment, from 1.
    pub number: usize,
    /// Name of the trial.
    pub name: String,
    /// Explanation derived from the kernel trace; null if the trial was not traced.
    pub causes: Option<TrialExplanation>,
    /// Comparison of injected and attributed interference; null if none was injected.
    pub ground_truth: Option<GroundTruthReport>,
    /// Regular patterns among the trial's late packets.
    pub periodicity: Periodicity,
}

/// Prefix of the name of [`CauseKind::Paused`] if the tick of the host's kernel is the cause: "host tick, 250
/// Hz".
pub const HOST_TICK: &str = "host tick";
/// Name of [`CauseKind::Asleep`] while the interrupt that wakes the core is in flight.
pub const WAKING: &str = "waking";
/// Name of [`CauseKind::Burst`] if packets should have been sent evenly, but arrived late and together.
pub const CPU_LOAD_LATE: &str = "late sender";
/// Name of [`CauseKind::Burst`] if packets arrived as planned, but faster than the device serves them.
pub const CPU_LOAD_NEIGHBOUR: &str = "load";

/// Causes that delayed the worst packets of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialExplanation {
    /// Schema name and version ([`EXPLANATION_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Name of the trial.
    pub trial: String,
    /// Name of the segment: "forward".
    pub segment: String,
    /// Arrival of the segment's first packet, in ns since 1970.
    #[serde(default)]
    pub first_ns: i64,
    /// Number of packets matched after the warm-up.
    pub packets: u64,
    /// Baseline: the median delay, in ns.
    pub baseline_ns: i64,
    /// Number of tail packets: packets with a delay of at least [`TrialExplanation::tail_above_ns`].
    pub tail_packets: u64,
    /// The 99.9th percentile of the delay, in ns.
    pub tail_above_ns: i64,
    /// Sum of the excess delays of all tail packets, in ns.
    pub tail_lost_ns: u64,
    /// Part of `tail_lost_ns` without a known cause, in ns.
    pub tail_unknown_ns: u64,
    /// Measured percentiles, in the same order as [`without_ns`](CauseRow) of each cause.
    pub percentiles: Vec<PercentileValue>,
    /// Causes, largest share of the tail first.
    pub causes: Vec<CauseRow>,
    /// Senders of the interrupts and function calls that tail packets waited for, largest first.
    pub senders: Vec<CauseSender>,
    /// The worst packets, highest delay first.
    pub worst: Vec<PacketExplanation>,
    /// Evidence on which the explanation is based.
    pub evidence: Evidence,
}

/// Explanation of one trial of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedTrial {
    /// Number of the trial, from 1; see [`TrialRecord::number`](crate::run::TrialRecord::number).
    pub trial: usize,
    /// Causes that delayed the trial's worst packets.
    pub explanation: TrialExplanation,
}

/// A percentile of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileValue {
    /// Percentile, in percent: 99.999; 100 for the maximum.
    pub percentile: f64,
    /// Delay at this percentile, in ns.
    pub value_ns: i64,
    /// Whether at least ten packets are beyond the percentile.
    pub supported: bool,
}

/// Kind of a cause of delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The local timer interrupt and the work done in it.
    Timer,
    /// Another core requested a flush of address translations (TLB shootdown).
    TlbShootdown,
    /// Another core interrupted this core to run a function on it. Name: the function.
    FunctionCall,
    /// Another core requested that this core reschedule.
    Reschedule,
    /// Another interrupt raised by the processor. Name: the vector.
    Vector,
    /// Interrupt of a device. Name: the handler.
    Irq,
    /// Work that an interrupt deferred. Name: the softirq.
    Softirq,
    /// The non-maskable interrupt.
    Nmi,
    /// Another task ran. Name: the task.
    Task,
    /// The kernel ran an ordinary task in place of a real-time thread so that the task does not starve (fair
    /// server or throttling). Name: the task.
    FairServer,
    /// The program touched memory that was not mapped yet.
    PageFault,
    /// The device's thread slept although a packet was waiting: it had to be woken, or it waited for
    /// something else. Name: [`WAKING`] from the moment the wake-up interrupt was sent.
    Asleep,
    /// The core stood still, but the kernel recorded no reason: the hypervisor or the firmware took the core.
    /// The name starts with [`HOST_TICK`] if short pauses recur at the frequency of a tick.
    Paused,
    /// Only the device's own thread ran.
    Device,
    /// The packet queued behind packets that arrived with it or shortly before it. Name: [`CPU_LOAD_LATE`],
    /// [`CPU_LOAD_NEIGHBOUR`], or empty if the packets were meant to be sent together.
    Burst,
    /// The device had finished the packet but sent it only with the rest of its batch.
    Batch,
    /// The sending core was interrupted before the device could see the packet. Name: the interruption.
    Feeding,
}

/// How the duration of a cause was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Measured between two kernel timestamps.
    Observed,
    /// Modelled: the usual cost of such an event before its first or after its last tracepoint, taken from the
    /// calibration.
    Modelled,
    /// Concluded by exclusion or from a regular pattern.
    Inferred,
}

/// A cause and its effect on the tail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseRow {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Name within the kind, such as a task or a handler; empty if the kind has no names.
    pub name: String,
    /// Number of occurrences in the whole trial.
    pub events: u64,
    /// Total duration in the whole trial, in ns.
    pub total_ns: u64,
    /// Number of tail packets that the cause delayed.
    pub tail_packets: u64,
    /// Total delay that this cause added to the tail packets, in ns. The three parts were observed, modelled
    /// and inferred, in this order.
    pub tail_ns: [u64; 3],
    /// Part of `tail_ns` in which the packet queued behind another packet that the cause had delayed, in ns.
    pub tail_queued_ns: u64,
    /// Largest excess delay that this cause added to one packet, in ns.
    pub longest_ns: u64,
    /// Percentiles of the delay without this cause, in ns, in the order of [`TrialExplanation::percentiles`].
    pub without_ns: Vec<i64>,
}

impl CauseRow {
    /// Returns a row with all counts zero.
    pub fn blank(kind: CauseKind, name: String) -> Self {
        Self {
            kind,
            name,
            events: 0,
            total_ns: 0,
            tail_packets: 0,
            tail_ns: [0; 3],
            tail_queued_ns: 0,
            longest_ns: 0,
            without_ns: Vec::new(),
        }
    }
}

/// Sender of an interrupt or function call that tail packets waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSender {
    /// The cause, as an index into [`TrialExplanation::causes`].
    pub cause: usize,
    /// Thread ID of the sender; 0 is the idle thread.
    pub pid: i32,
    /// Name of the sending thread.
    pub task: String,
    /// Core that the sender ran on.
    pub cpu: u32,
    /// Kernel function that ran on the device's core at the sender's request; null if unknown.
    pub function: Option<String>,
    /// System call that the sender was in; null if stacks were not recorded.
    pub system_call: Option<String>,
    /// Number of sends in the whole trial.
    pub sends: u64,
    /// Number of tail packets that this sender delayed.
    pub tail_packets: u64,
    /// Total delay that this sender added to the tail packets, in ns.
    pub tail_ns: u64,
}

/// A packet and the causes of its delay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketExplanation {
    /// Position of the packet in the ingress capture, from 0.
    pub index: u64,
    /// Arrival of the packet, in ns since [`TrialExplanation::first_ns`].
    pub at_ns: i64,
    /// Delay of the packet, in ns.
    pub delay_ns: i64,
    /// Excess delay of the packet: its delay minus the baseline, in ns.
    pub lost_ns: u64,
    /// Parts of the excess delay, largest first.
    pub parts: Vec<Part>,
    /// Excess delay without a known cause, in ns.
    pub unknown_ns: u64,
    /// Number of packets inside the device when this one arrived.
    pub ahead: u64,
    /// Incident that the packet belongs to: the position of its first packet in the ingress capture. The first
    /// packet found the device empty, and the other packets of the incident queued behind it.
    #[serde(default)]
    pub incident: u64,
    /// Whether trace events are missing from the time when the packet was inside the device. If so, no part
    /// of its delay is attributed.
    pub events_missing: bool,
    /// Activity of the device's core from shortly before the packet's arrival to its departure. Filled only
    /// for the worst packets that are shown individually.
    #[serde(default)]
    pub timeline: Vec<TimelineSpan>,
}

/// Part of a packet's excess delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The cause, as an index into [`TrialExplanation::causes`].
    pub cause: usize,
    /// Duration, in ns.
    pub ns: u64,
    /// How the duration was determined.
    pub certainty: Certainty,
    /// The sender, as an index into [`TrialExplanation::senders`]; null if there is none.
    pub sender: Option<usize>,
    /// Whether the cause delayed an earlier packet, and this packet queued behind that packet.
    pub queued: bool,
}

/// Activity of the device's core during a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineSpan {
    /// Start, in ns since the packet's arrival; may be negative.
    pub from_ns: i64,
    /// End, in ns since the packet's arrival.
    pub to_ns: i64,
    /// The cause, as an index into [`TrialExplanation::causes`]; null for the device's own work.
    pub cause: Option<usize>,
    /// How the span was determined.
    pub certainty: Certainty,
    /// The sender, as an index into [`TrialExplanation::senders`]; null if there is none.
    pub sender: Option<usize>,
}

/// Evidence on which an explanation is based.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Core of the device.
    pub core: u32,
    /// Number of trace events.
    pub events: u64,
    /// Duration of the trace, in ns.
    pub duration_ns: u64,
    /// Uncertainty of the offset between the trace clock and the packet clock, in ns.
    pub clock_uncertainty_ns: u64,
    /// Number of time windows in which trace events are missing.
    pub windows_lost: u64,
    /// Number of tail packets in windows with missing events; their delays are not attributed to causes.
    pub packets_in_lost: u64,
    /// Whether the stacks of senders were recorded.
    pub stacks: bool,
    /// Cost of events before their first and after their last tracepoint.
    pub calibration: Vec<EventCost>,
    /// Whether the device's loop logs its own stalls.
    pub logs_stalls: bool,
    /// Events on the device's core that left no visible gap during the calibration. Either the processor
    /// handled them while it was asleep, or they cost less than the threshold.
    pub remarks: Vec<String>,
}

/// Cost of one kind of event before its first and after its last tracepoint, measured by a loop that only reads
/// the clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventCost {
    /// Name of the event: "local_timer", "call_function_single", "switch".
    pub event: String,
    /// Number of gaps that contain only this event.
    pub gaps: u64,
    /// Time from the start of the gap to the first tracepoint: median and 95th percentile, in ns.
    pub head_ns: [u64; 2],
    /// Time from the last tracepoint to the end of the gap: median and 95th percentile, in ns.
    pub tail_ns: [u64; 2],
}
