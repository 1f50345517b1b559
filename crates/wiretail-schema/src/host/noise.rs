//! How long cores are taken away, and by whom: `wiretail host noise --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::causes::{CauseKind, EventCost};
use crate::run::InterruptDelta;

/// Name and version of the document.
pub const NOISE_SCHEMA: &str = "wiretail.noise/1";

/// What was seen on some cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// [`NOISE_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub wiretail_version: String,
    /// Real-time priority of the loops (SCHED_FIFO); none for the ordinary scheduler.
    pub fifo: Option<u8>,
    /// Each time so long, in ns, a loop rested behind each [`Noise::watch_ns`]; 0 for loops that never did.
    pub rest_ns: u64,
    /// How long a loop watched between two rests, in ns; 0 for loops that never rested.
    pub watch_ns: u64,
    /// Gaps below this belong to the reading of the clock, in ns.
    pub threshold_ns: u64,
    /// Whether the kernel was traced meanwhile, which makes its interrupts a little longer.
    pub traced: bool,
    /// What was planted on purpose, by name.
    pub injected: Vec<String>,
    /// A core each, in ascending order.
    pub cores: Vec<CoreNoise>,
    /// What other programs measured right afterwards.
    pub peers: Vec<PeerNoise>,
    /// What could not be done, and what limits the rest; one sentence each.
    pub remarks: Vec<String>,
}

/// What was seen on a core by a loop that only reads the clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreNoise {
    /// The core.
    pub core: u32,
    /// How long it was watched, gaps included, rests and the work of [`CoreNoise::speed`] excluded; in ns.
    pub watched_ns: u64,
    /// Median time between two readings of the clock, in ns.
    pub step_ns: u64,
    /// Gaps.
    pub gaps: u64,
    /// How long together, in ns.
    pub total_ns: u64,
    /// The longest, in ns; 0 without any.
    pub longest_ns: u64,
    /// Gaps in which the scheduler gave the core to another thread.
    pub preempted: u64,
    /// What its hypervisor gave of this core to others in the meantime, as the kernel was told (steal time), in ns, in
    /// steps of 10 ms; none where it is not told.
    pub steal_ns: Option<u64>,
    /// Gaps by their length: those buckets that have some, in ascending order.
    pub histogram: Vec<GapBucket>,
    /// The longest ones, the longest first.
    pub longest: Vec<LongGap>,
    /// What a packet that comes at a random time waits at least.
    pub floor: Vec<FloorValue>,
    /// Who took the core; none without a trace.
    pub causes: Option<GapCauses>,
    /// Counters of interrupts that rose meanwhile, on this core.
    pub interrupts: Vec<InterruptDelta>,
    /// How long the same work took again and again; none where it was not asked for.
    pub speed: Option<Speed>,
}

/// Gaps of about the same length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapBucket {
    /// The shortest that belongs to it, in ns.
    pub from_ns: u64,
    /// The shortest that belongs to the next one, in ns.
    pub to_ns: u64,
    /// How many.
    pub gaps: u64,
    /// How long together, in ns.
    pub total_ns: u64,
}

/// A long gap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongGap {
    /// When it began, in ns since the core's loop did.
    pub at_ns: u64,
    /// How long it was, in ns.
    pub duration_ns: u64,
    /// The scheduler gave the core to another thread.
    pub preempted: bool,
    /// What it was made of, the longest part first; empty without a trace, or where events are missing.
    pub parts: Vec<GapPart>,
}

/// A part of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapPart {
    /// The cause: an index of [`GapCauses::causes`].
    pub cause: usize,
    /// In ns.
    pub ns: u64,
}

/// A percentile of the time that a packet waits for its core, if it comes at a random time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FloorValue {
    /// Which: 99.999; 100 for the maximum.
    pub percentile: f64,
    /// In ns.
    pub wait_ns: u64,
    /// Gaps that are longer: what it rests on.
    pub gaps_beyond: u64,
    /// Whether these are at least ten; the maximum is what it is.
    pub supported: bool,
}

/// Who took a core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapCauses {
    /// Each gap is counted under what took the most of it; the largest sum of time first. One without a gap is there for
    /// [`LongGap::parts`].
    pub causes: Vec<GapCause>,
    /// Gaps in whose time events are missing, to which nothing is attributed.
    pub gaps_missing: u64,
    /// Gaps of pieces that are too short to be told from the reading of the clock.
    pub gaps_unnamed: u64,
    /// Gaps that were only counted by their length, and have no cause here.
    pub gaps_not_kept: u64,
    /// Events of the trace.
    pub events: u64,
    /// What events cost besides the time between their tracepoints, by the gaps themselves.
    pub calibration: Vec<EventCost>,
}

/// What took a core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapCause {
    /// What kind.
    pub kind: CauseKind,
    /// What exactly, where the kind says so; else empty.
    pub name: String,
    /// Gaps of which it took the most.
    pub gaps: u64,
    /// How long these were together, in ns.
    pub total_ns: u64,
    /// The longest of them, in ns.
    pub longest_ns: u64,
    /// Whose work that was, where another thread asked for it: the one of most gaps first.
    pub senders: Vec<GapSender>,
}

/// Who asked for what took a core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapSender {
    /// The thread; 0 is the idle one.
    pub pid: i32,
    /// Its name.
    pub task: String,
    /// The core that it ran on.
    pub cpu: u32,
    /// The system call that it was in, where stacks were recorded.
    pub system_call: Option<String>,
    /// Gaps.
    pub gaps: u64,
    /// How long these were together, in ns.
    pub total_ns: u64,
}

/// How long a fixed computation took: several independent chains of operations on bytes in the first cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speed {
    /// How often it was done.
    pub runs: u64,
    /// 10th percentile, in ns.
    pub p10_ns: u64,
    /// Median, in ns.
    pub p50_ns: u64,
    /// 90th percentile, in ns.
    pub p90_ns: u64,
    /// Whether the 90th percentile is more than 1.2 times the 10th: the core itself has more than one speed.
    pub varies: bool,
}

/// What another program measured on one of the cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerNoise {
    /// Its name: "cyclictest".
    pub program: String,
    /// How it was called.
    pub command: String,
    /// The core.
    pub core: u32,
    /// What it measures, in a few words.
    pub measures: String,
    /// How many measurements it made.
    pub samples: u64,
    /// Its 99.9th percentile, in ns; none where it is beyond the program's histogram.
    pub p999_ns: Option<u64>,
    /// Its longest, in ns.
    pub longest_ns: u64,
}
