//! Roles of threads and cores during a traced trial. `roles.json` in the trace's folder is a [`TraceRoles`].

use serde::{Deserialize, Serialize};

/// Schema name and version of `roles.json`. The version number changes whenever the layout changes.
pub const ROLES_SCHEMA: &str = "wiretail.trace-roles/1";
/// File name of the roles in the folder of a trial's trace.
pub const ROLES_FILE: &str = "roles.json";

/// Threads that forwarded the packets of a trial, their core, and facts about the core that the trace does
/// not contain. All times are in ns on the trace clock (CLOCK_MONOTONIC).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRoles {
    /// Schema name and version ([`ROLES_SCHEMA`]).
    pub schema: String,
    /// Core of the device's packet threads.
    pub core: u32,
    /// The device's packet threads. If the device is the kernel itself (a bridge), the threads of the load
    /// generator, in whose context the kernel forwards.
    pub threads: Vec<i32>,
    /// Whether the packet threads have real-time priority. If so, an ordinary thread that runs in their place
    /// was scheduled by the fair server.
    pub fifo: bool,
    /// Whether the packet threads poll and never sleep voluntarily.
    pub polls: bool,
    /// Largest number of packets that the device takes and sends together; 1 if it is not known to batch.
    pub batch: u64,
    /// Core that sends the packets. Kernel work on this core also delays a packet before the device can see it.
    pub feeding: Option<u32>,
    /// Stalls of a polling device, logged by its own loop. Includes only stalls that occurred while packets
    /// were in flight.
    pub stalls: Vec<Gap>,
    /// Whether the device keeps a stall log. If so, time without an event and without a stall is the device's
    /// own work.
    pub logs_stalls: bool,
    /// Measurements of a loop that only reads the clock, made on the device's core before the first packet.
    pub spin: Option<Spin>,
}

/// A gap between two clock readings of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Last clock reading before the gap, in ns.
    pub from_ns: u64,
    /// First clock reading after the gap, in ns.
    pub to_ns: u64,
}

/// Measurements of a loop that only reads the clock, on a core whose events are recorded. Each gap contains one
/// or more events, including their cost before the first tracepoint (the head) and after the last one (the
/// tail).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spin {
    /// Core of the loop.
    pub core: u32,
    /// Thread ID of the loop.
    pub thread: i32,
    /// Start and end of the loop.
    pub span: Gap,
    /// Median time between two clock readings, in ns.
    pub step_ns: u64,
    /// Gaps of at least [`Spin::threshold_ns`], in order of time.
    pub gaps: Vec<Gap>,
    /// Shortest gap that is recorded, in ns.
    pub threshold_ns: u64,
    /// Mean cost of a page fault in the loop itself, in ns; null if not measured.
    pub page_fault_ns: Option<u64>,
}
