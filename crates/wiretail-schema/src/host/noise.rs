//! Interruptions of CPU cores and their causes: the output of `wiretail host noise --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::causes::{CauseKind, EventCost};
use crate::run::InterruptDelta;

/// Schema name and version of the document.
pub const NOISE_SCHEMA: &str = "wiretail.noise/1";

/// Interruptions that were measured on some cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Schema name and version ([`NOISE_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Real-time priority of the measuring loops (SCHED_FIFO); null for the ordinary scheduler.
    pub fifo: Option<u8>,
    /// How long a loop rests after measuring for [`Noise::watch_ns`], in ns; 0 if loops do not rest.
    pub rest_ns: u64,
    /// Time that a loop measures between two rests, in ns; 0 if loops do not rest.
    pub watch_ns: u64,
    /// Threshold, in ns. Shorter gaps are attributed to reading the clock.
    pub threshold_ns: u64,
    /// Whether the kernel was traced during the measurement. Tracing makes interrupts slightly longer.
    pub traced: bool,
    /// Names of the kinds of injected interference.
    pub injected: Vec<String>,
    /// Results per core, in ascending order.
    pub cores: Vec<CoreNoise>,
    /// Results of other measuring programs, which ran right afterwards.
    pub peers: Vec<PeerNoise>,
    /// Failed steps, and limits of the results; one sentence each.
    pub remarks: Vec<String>,
}

/// Interruptions of one core, measured by a loop that only reads the clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// Core number.
    pub core: u32,
    /// Measured time, in ns. It includes gaps, but not rests or the computation of [`CoreNoise::speed`].
    pub watched_ns: u64,
    /// Median time between two clock readings, in ns.
    pub step_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Total length of the gaps, in ns.
    pub total_ns: u64,
    /// Longest gap, in ns; 0 without gaps.
    pub longest_ns: u64,
    /// Number of gaps in which the scheduler ran another thread on the core.
    pub preempted: u64,
    /// Time that the hypervisor took from this core (steal time), in ns, with a resolution of 10 ms; null if
    /// the hypervisor does not report it.
    pub steal_ns: Option<u64>,
    /// Histogram of gap lengths: the non-empty buckets, in ascending order.
    pub histogram: Vec<GapBucket>,
    /// The longest gaps, longest first.
    pub longest: Vec<LongGap>,
    /// Lower bound on the wait of a packet that arrives at a random time.
    pub floor: Vec<FloorValue>,
    /// Causes of the gaps; null without a trace.
    pub causes: Option<GapCauses>,
    /// Interrupt counters of this core that rose during the measurement.
    pub interrupts: Vec<InterruptDelta>,
    /// Duration of a fixed computation, repeated many times; null if not requested.
    pub speed: Option<Speed>,
}

/// Histogram bucket of gaps with similar length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapBucket {
    /// Lower end of the bucket, in ns (inclusive).
    pub from_ns: u64,
    /// Upper end of the bucket, in ns (exclusive).
    pub to_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Total length of the gaps, in ns.
    pub total_ns: u64,
}

/// A long gap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongGap {
    /// Start of the gap, in ns since the start of the core's loop.
    pub at_ns: u64,
    /// Length of the gap, in ns.
    pub duration_ns: u64,
    /// Whether the scheduler ran another thread on the core.
    pub preempted: bool,
    /// Parts of the gap, longest first; empty without a trace, or if trace events are missing.
    pub parts: Vec<GapPart>,
}

/// A part of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapPart {
    /// The cause, as an index into [`GapCauses::causes`].
    pub cause: usize,
    /// Length of the part, in ns.
    pub ns: u64,
}

/// A percentile of the time that a packet waits for its core if it arrives at a random time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FloorValue {
    /// Percentile, in percent: 99.999; 100 for the maximum.
    pub percentile: f64,
    /// Wait, in ns.
    pub wait_ns: u64,
    /// Number of longer gaps. The value is based on these gaps.
    pub gaps_beyond: u64,
    /// Whether there are at least ten longer gaps. This flag has no meaning for the maximum.
    pub supported: bool,
}

/// Causes of the gaps of one core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapCauses {
    /// Causes, largest total time first. Each gap is attributed to the cause that accounts for most of it. A
    /// cause without gaps of its own is still listed if [`LongGap::parts`] refers to it.
    pub causes: Vec<GapCause>,
    /// Gaps with missing trace events, which are not attributed to a cause.
    pub gaps_missing: u64,
    /// Gaps whose parts are too short to be distinguished from reading the clock.
    pub gaps_unnamed: u64,
    /// Gaps that were counted only in the histogram and not attributed to a cause.
    pub gaps_not_kept: u64,
    /// Number of trace events.
    pub events: u64,
    /// Cost of events before their first and after their last tracepoint, computed from the gaps.
    pub calibration: Vec<EventCost>,
}

/// A cause of gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapCause {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// Name within the kind, such as a task or a handler; empty if the kind has no names.
    pub name: String,
    /// Number of gaps whose largest part is due to this cause.
    pub gaps: u64,
    /// Total length of these gaps, in ns.
    pub total_ns: u64,
    /// Longest of these gaps, in ns.
    pub longest_ns: u64,
    /// Threads that requested the work, most gaps first; empty if no thread requested it.
    pub senders: Vec<GapSender>,
}

/// A thread that requested the work for which the core was interrupted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapSender {
    /// Thread ID; 0 is the idle thread.
    pub pid: i32,
    /// Name of the thread.
    pub task: String,
    /// Core that the thread ran on.
    pub cpu: u32,
    /// System call that the thread was in; null if stacks were not recorded.
    pub system_call: Option<String>,
    /// Number of gaps.
    pub gaps: u64,
    /// Total length of these gaps, in ns.
    pub total_ns: u64,
}

/// Duration of a fixed computation: several independent chains of operations on bytes in the L1 cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// Number of runs of the computation.
    pub runs: u64,
    /// 10th percentile, in ns.
    pub p10_ns: u64,
    /// Median, in ns.
    pub p50_ns: u64,
    /// 90th percentile, in ns.
    pub p90_ns: u64,
    /// Whether the 90th percentile exceeds 1.2 times the 10th. If so, the core itself runs at more than one
    /// speed.
    pub varies: bool,
}

/// Measurement of another program on one of the cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerNoise {
    /// Name of the program: "cyclictest".
    pub program: String,
    /// Command line of the program.
    pub command: String,
    /// Core number.
    pub core: u32,
    /// Short description of what the program measures.
    pub measures: String,
    /// Number of measurements.
    pub samples: u64,
    /// 99.9th percentile, in ns; null if it is beyond the program's histogram.
    pub p999_ns: Option<u64>,
    /// Longest measurement, in ns.
    pub longest_ns: u64,
}
