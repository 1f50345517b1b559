//! What delayed the worst packets of a traced trial: the document `explanation.json` in a trial's directory.
//!
//! A packet's *lost time* is its delay less the usual one, the median of the trial. It is split into *parts*, each
//! with its cause, and what is left without one. Formulas: `docs/kpi/attribution.md`.

pub mod capture;
pub mod mitigation;
pub mod trace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::causes::capture::Periodicity;
use crate::run::interference::GroundTruthReport;

/// Name and version of [`TrialExplanation`].
pub const EXPLANATION_SCHEMA: &str = "wiretail.explanation/1";
/// Name of the document in a trial's directory.
pub const EXPLANATION_FILE: &str = "explanation.json";

/// Name and version of [`RunExplanation`].
pub const RUN_EXPLANATION_SCHEMA: &str = "wiretail.run-explanation/1";

/// What `wiretail explain RUN --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunExplanation {
    /// [`RUN_EXPLANATION_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// The trials that were analysed, in their order.
    pub trials: Vec<TrialFindings>,
}

/// What is known of the late packets of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFindings {
    /// The trial's position in the experiment, from 1.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// By its trace; null where it was not traced.
    pub causes: Option<TrialExplanation>,
    /// What was planted against what was told; null where nothing was planted.
    pub ground_truth: Option<GroundTruthReport>,
    /// Regular patterns among its late packets.
    pub periodicity: Periodicity,
}

/// Beginning of the name of [`CauseKind::Paused`] by the tick of the host's kernel: "host tick, 250 Hz".
pub const HOST_TICK: &str = "host tick";
/// Name of [`CauseKind::Asleep`] while the interrupt that wakes the core is on its way.
pub const WAKING: &str = "waking";
/// Name of [`CauseKind::Burst`] where packets should have come evenly, and came late and together.
pub const CPU_LOAD_LATE: &str = "late sender";
/// Name of [`CauseKind::Burst`] where packets came as they should, and faster than the device serves them.
pub const CPU_LOAD_NEIGHBOUR: &str = "load";

/// What delayed the worst packets of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialExplanation {
    /// [`EXPLANATION_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// The trial's name.
    pub trial: String,
    /// The segment: "forward".
    pub segment: String,
    /// When the first of its packets came, in ns since 1970.
    #[serde(default)]
    pub first_ns: i64,
    /// Packets that were matched, behind the warm-up.
    pub packets: u64,
    /// The usual delay: the median, in ns.
    pub baseline_ns: i64,
    /// Packets of the tail: those at and above [`TrialExplanation::tail_above_ns`].
    pub tail_packets: u64,
    /// The 99.9th percentile, in ns.
    pub tail_above_ns: i64,
    /// Time that the tail's packets lost together, in ns.
    pub tail_lost_ns: u64,
    /// Of that, without a cause.
    pub tail_unknown_ns: u64,
    /// Percentiles as measured, and those that [`without_ns`](CauseRow) has, in the same order.
    pub percentiles: Vec<PercentileValue>,
    /// Causes, the largest share of the tail first.
    pub causes: Vec<CauseRow>,
    /// Who sent interrupts and calls that packets of the tail waited for, the largest first.
    pub senders: Vec<CauseSender>,
    /// The worst packets, the worst first.
    pub worst: Vec<PacketExplanation>,
    /// What it rests on.
    pub evidence: Evidence,
}

/// The explanation of one trial of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedTrial {
    /// [`TrialRecord::number`](crate::run::TrialRecord::number), from 1.
    pub trial: usize,
    /// What delayed its worst packets.
    pub explanation: TrialExplanation,
}

/// A percentile of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileValue {
    /// Which: 99.999; 100 for the maximum.
    pub percentile: f64,
    /// In ns.
    pub value_ns: i64,
    /// Whether at least ten packets are beyond it.
    pub supported: bool,
}

/// What kind of thing took the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// The local timer's interrupt, with what runs in it.
    Timer,
    /// Translations of addresses were flushed at the request of another core (TLB shootdown).
    TlbShootdown,
    /// Another core had a function run here by an interrupt; name: the function.
    FunctionCall,
    /// Another core asked this one to choose its task anew.
    Reschedule,
    /// Another interrupt of the processor's own; name: its vector.
    Vector,
    /// A device's interrupt; name: its handler.
    Irq,
    /// Work that an interrupt left for later; name: the softirq.
    Softirq,
    /// The non-maskable interrupt.
    Nmi,
    /// Another task ran; name: the task.
    Task,
    /// The kernel let an ordinary task run in a real-time thread's stead so that it is not starved (fair server, or
    /// throttling); name: the task.
    FairServer,
    /// The program touched memory that was not there yet.
    PageFault,
    /// The device's thread slept though a packet was there: it had to be woken, or waited for something else; name:
    /// [`WAKING`] from when it was sent the interrupt that wakes it.
    Asleep,
    /// The core stood still and the kernel knows nothing of it: the hypervisor or firmware took it; name: begins with
    /// [`HOST_TICK`] where short pauses keep to the frequency of a tick.
    Paused,
    /// The device's own thread ran, and nothing else did.
    Device,
    /// The packet waited behind others that came with it or shortly before; name: [`CPU_LOAD_LATE`], [`CPU_LOAD_NEIGHBOUR`], or
    /// empty where they were to be sent together.
    Burst,
    /// The packet was done, and left only with the others of its batch.
    Batch,
    /// The core that sends packets was taken before the device could see the packet; name: by what.
    Feeding,
}

/// How it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Between two stamps of the kernel's.
    Observed,
    /// Before the first tracepoint or behind the last one: what such an event usually costs there, by calibration.
    Modelled,
    /// By exclusion, or by a regular pattern.
    Inferred,
}

/// A cause, and what it did to the tail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseRow {
    /// What kind.
    pub kind: CauseKind,
    /// What exactly, where the kind says so; else empty.
    pub name: String,
    /// How often it was there in the whole trial.
    pub events: u64,
    /// How long together, in ns.
    pub total_ns: u64,
    /// Packets of the tail that it delayed.
    pub tail_packets: u64,
    /// How much it delayed them together, in ns: observed, modelled, inferred.
    pub tail_ns: [u64; 3],
    /// Of that, time in which the packet waited behind another one that it had delayed.
    pub tail_queued_ns: u64,
    /// The most that one packet lost by it, in ns.
    pub longest_ns: u64,
    /// The percentiles without it, in the order of [`TrialExplanation::percentiles`], in ns.
    pub without_ns: Vec<i64>,
}

impl CauseRow {
    /// One that was not seen yet.
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

/// Who sent what packets of the tail waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSender {
    /// The cause: an index of [`TrialExplanation::causes`].
    pub cause: usize,
    /// The sending thread; 0 is the idle one.
    pub pid: i32,
    /// Its name.
    pub task: String,
    /// The core that it ran on.
    pub cpu: u32,
    /// The kernel's function that ran here at its request.
    pub function: Option<String>,
    /// The system call that it was in, where stacks were recorded.
    pub system_call: Option<String>,
    /// How often in the whole trial.
    pub sends: u64,
    /// Packets of the tail that were delayed by it.
    pub tail_packets: u64,
    /// How much, in ns.
    pub tail_ns: u64,
}

/// A packet, and what delayed it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketExplanation {
    /// Its position in the ingress capture, from 0.
    pub index: u64,
    /// When it came, in ns since [`TrialExplanation::first_ns`].
    pub at_ns: i64,
    /// Its delay, in ns.
    pub delay_ns: i64,
    /// Time it lost: its delay less the usual one, in ns.
    pub lost_ns: u64,
    /// What it lost it to, the largest first.
    pub parts: Vec<Part>,
    /// Lost without a known cause, in ns.
    pub unknown_ns: u64,
    /// Packets that were in the device when it came.
    pub ahead: u64,
    /// Which incident it belongs to: the position in the ingress capture of the packet that found the device empty, and
    /// behind which all of the incident's have waited.
    #[serde(default)]
    pub incident: u64,
    /// Whether events are missing in its time: nothing is attributed then.
    pub events_missing: bool,
    /// What the device's core did from shortly before the packet came until it left; only of those worst packets that
    /// are shown one by one.
    #[serde(default)]
    pub timeline: Vec<TimelineSpan>,
}

/// A share of a packet's lost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The cause: an index of [`TrialExplanation::causes`].
    pub cause: usize,
    /// In ns.
    pub ns: u64,
    /// How that is known.
    pub certainty: Certainty,
    /// Who sent it: an index of [`TrialExplanation::senders`].
    pub sender: Option<usize>,
    /// It delayed a packet ahead of this one, which waited behind it.
    pub queued: bool,
}

/// What the device's core did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineSpan {
    /// Since the packet came, in ns; may be before.
    pub from_ns: i64,
    /// Since the packet came, in ns.
    pub to_ns: i64,
    /// The cause: an index of [`TrialExplanation::causes`]; none for the device's own work.
    pub cause: Option<usize>,
    /// How that is known.
    pub certainty: Certainty,
    /// Who sent it: an index of [`TrialExplanation::senders`].
    pub sender: Option<usize>,
}

/// What an explanation rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The device's core.
    pub core: u32,
    /// Events of the trace.
    pub events: u64,
    /// How long it was recorded, in ns.
    pub duration_ns: u64,
    /// How exactly its clock and the packets' are known against each other, in ns.
    pub clock_uncertainty_ns: u64,
    /// Windows in which events are missing.
    pub windows_lost: u64,
    /// Packets of the tail in such windows, to which nothing is attributed.
    pub packets_in_lost: u64,
    /// Whether senders' stacks were recorded.
    pub stacks: bool,
    /// What events cost before their first and behind their last tracepoint.
    pub calibration: Vec<EventCost>,
    /// Whether the device's loop says when it stood still.
    pub logs_stalls: bool,
    /// Events that the device's core had in the calibration without a gap to see: the processor took them while it
    /// was asleep, or they cost less than the threshold.
    pub remarks: Vec<String>,
}

/// What events of a kind cost besides the time between their tracepoints, by a loop that only reads the clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventCost {
    /// "local_timer", "call_function_single", "switch".
    pub event: String,
    /// Gaps with that event alone.
    pub gaps: u64,
    /// From the gap's beginning to the first tracepoint: median and 95th percentile, in ns.
    pub head_ns: [u64; 2],
    /// From the last tracepoint to the gap's end: median and 95th percentile, in ns.
    pub tail_ns: [u64; 2],
}
