//! What stands beside a recorded kernel trace: all that reading it needs, years later, on another machine.
//!
//! `trace.json` in the trace's folder is a [`TraceInfo`]; docs/formats/trace.md describes the folder.

mod event;
mod roles;

use serde::{Deserialize, Serialize};

pub use event::{Event, Kind, TraceNames};
pub use roles::{Gap, ROLES_FILE, ROLES_SCHEMA, Spin, TraceRoles};

/// Of `trace.json`; another number for another layout.
pub const TRACE_SCHEMA: &str = "wiretail.trace/1";
/// Name of the document in the folder of a trace.
pub const TRACE_FILE: &str = "trace.json";

/// A recorded trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceInfo {
    /// Always [`TRACE_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// Release of the kernel: `6.18.0`.
    pub kernel: String,
    /// What the processors are: `x86_64`. Traces of big-endian machines are not read.
    pub machine: String,
    /// The kernel's name of the clock of all stamps: `mono`.
    pub clock: String,
    /// When all events were enabled, in ns of that clock.
    pub start_ns: u64,
    /// When they were disabled, in ns of that clock.
    pub end_ns: u64,
    /// CLOCK_REALTIME against the trace's clock before the recording: packets are stamped by CLOCK_REALTIME.
    pub clock_before: ClockOffset,
    /// The same after it.
    pub clock_after: ClockOffset,
    /// Whether the two differ by more than they are uncertain: CLOCK_REALTIME was set meanwhile, and the
    /// trace can't be aligned with packets.
    pub clock_stepped: bool,
    /// Cores whose events were recorded.
    pub watched: Vec<u32>,
    /// Whether senders' stacks were recorded.
    pub stacks: bool,
    /// Bytes of a page of the ring buffer, its header included.
    pub page_bytes: u32,
    /// The kernel's `events/header_page`.
    pub header_page: String,
    /// Formats of the events that were enabled, and of the kernel's own that may stand between them.
    pub events: Vec<EventFormat>,
    /// What was asked for and is not in this kernel, and what it refused; one sentence each.
    pub remarks: Vec<String>,
    /// The files with the pages.
    pub streams: Vec<TraceStream>,
    /// Names of tasks, as far as the kernel and /proc knew them: a thread's number and its name.
    pub tasks: Vec<(i32, String)>,
    /// Names of addresses, ascending: where a function starts, and what it is called. An excerpt of
    /// /proc/kallsyms with what the trace's addresses need.
    #[serde(default)]
    pub symbols: Vec<(u64, String)>,
}

/// What to add to the trace's clock to get CLOCK_REALTIME: from the narrowest of many readings of one between two of
/// the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// When, in ns of the trace's clock.
    pub at_ns: u64,
    /// In ns.
    pub offset_ns: i64,
    /// Half the width of the sandwich, in ns: the true offset is no further away.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// Whether the clocks were set against each other between the two readings. Both are slewed alike, so their
    /// offset is constant otherwise.
    pub fn stepped_until(self, later: ClockOffset) -> bool {
        /// What the fast clocks of two processors may differ by, in ns.
        const SLACK_NS: u64 = 200;
        let limit = self.uncertainty_ns.saturating_add(later.uncertainty_ns).saturating_add(SLACK_NS);
        self.offset_ns.abs_diff(later.offset_ns) > limit
    }
}

/// An event of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFormat {
    /// Folder below `events`: `sched`.
    pub system: String,
    /// Name in it: `sched_switch`.
    pub name: String,
    /// What was recorded of it only, as the kernel writes it: `cpu == 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The file `format`, whole.
    pub format: String,
}

/// Pages of one processor from one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStream {
    /// The processor that the events happened on.
    pub cpu: u32,
    /// Name in the folder: `cpu1.raw`.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Events that were overwritten before they were drained; the windows are in the pages.
    pub overrun: u64,
    /// Events that the kernel could not write, without a trace of when.
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_more_than_the_uncertainty() {
        let at = |offset_ns, uncertainty_ns| ClockOffset { at_ns: 0, offset_ns, uncertainty_ns };
        assert!(!at(1_000_000, 30).stepped_until(at(1_000_100, 30)));
        assert!(at(1_000_000, 30).stepped_until(at(1_001_000, 30)));
        assert!(at(0, 0).stepped_until(at(i64::MIN, 0)));
        assert!(!at(0, u64::MAX).stepped_until(at(i64::MIN, 1)));
    }
}
