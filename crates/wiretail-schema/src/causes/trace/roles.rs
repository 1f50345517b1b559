//! Who was who while a trial was traced. `roles.json` in the trace's folder is a [`TraceRoles`].

use serde::{Deserialize, Serialize};

/// Of `roles.json`; another number for another layout.
pub const ROLES_SCHEMA: &str = "wiretail.trace-roles/1";
/// Name of the document in the folder of a trial's trace.
pub const ROLES_FILE: &str = "roles.json";

/// Which threads forwarded the packets of a trial, on which core, and what is known of their cores besides the trace.
/// All times are those of the trace's clock (CLOCK_MONOTONIC), in ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRoles {
    /// Always [`ROLES_SCHEMA`].
    pub schema: String,
    /// The core of the device's packet threads.
    pub core: u32,
    /// The device's packet threads. Of a device that is the kernel itself (a bridge), the load generator's, in whose
    /// context the kernel forwards.
    pub threads: Vec<i32>,
    /// Whether they are real-time threads: who runs in their stead without being one was let in by the fair server.
    pub fifo: bool,
    /// Whether they never sleep of themselves.
    pub polls: bool,
    /// Most packets that the device takes and sends together; 1 where it is not known to do so.
    pub batch: u64,
    /// The core that packets are sent from: what the kernel does there before the device can see a packet takes time too.
    pub feeding: Option<u32>,
    /// When a polling device stood still, as its own loop saw it: only while packets were under way.
    pub stalls: Vec<Gap>,
    /// Whether the device keeps such a log: then time without an event and without a stall is its own.
    pub logs_stalls: bool,
    /// What a loop that only reads the clock saw on the device's core before the first packet.
    pub spin: Option<Spin>,
}

/// Time that a loop was away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Last reading of the clock before it.
    pub from_ns: u64,
    /// First reading behind it.
    pub to_ns: u64,
}

/// A loop that only reads the clock, on a core whose events are recorded: each gap is one or several events with what
/// they cost before their first tracepoint (the head) and behind the last one (the tail).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spin {
    /// Its core.
    pub core: u32,
    /// Its thread.
    pub thread: i32,
    /// When it began and ended.
    pub span: Gap,
    /// Median time between two readings.
    pub step_ns: u64,
    /// Gaps of [`Spin::threshold_ns`] and more, in order.
    pub gaps: Vec<Gap>,
    /// The shortest gap that is kept.
    pub threshold_ns: u64,
    /// Mean cost of a page fault of the loop's own, in ns; none where that was not measured.
    pub page_fault_ns: Option<u64>,
}
