//! Description of a recorded kernel trace: everything needed to read it years later on another machine.
//!
//! `trace.json` in the trace's folder is a [`TraceInfo`]; docs/formats/trace.md describes the folder.

mod event;
mod roles;

use serde::{Deserialize, Serialize};

pub use event::{Event, Kind, TraceNames};
pub use roles::{Gap, ROLES_FILE, ROLES_SCHEMA, Spin, TraceRoles};

/// Schema name and version of `trace.json`. The version number changes whenever the layout changes.
pub const TRACE_SCHEMA: &str = "wiretail.trace/1";
/// File name of the description in a trace's folder.
pub const TRACE_FILE: &str = "trace.json";

/// Description of a recorded trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceInfo {
    /// Schema name and version ([`TRACE_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that recorded the trace.
    pub wiretail_version: String,
    /// Kernel release: `6.18.0`.
    pub kernel: String,
    /// Machine architecture: `x86_64`. Traces of big-endian machines cannot be read.
    pub machine: String,
    /// The kernel's name for the clock of all trace timestamps: `mono`.
    pub clock: String,
    /// Time on the trace clock at which all events were enabled, in ns.
    pub start_ns: u64,
    /// Time on the trace clock at which the events were disabled, in ns.
    pub end_ns: u64,
    /// Offset from the trace clock to CLOCK_REALTIME before the recording. Packet timestamps use
    /// CLOCK_REALTIME.
    pub clock_before: ClockOffset,
    /// Offset from the trace clock to CLOCK_REALTIME after the recording.
    pub clock_after: ClockOffset,
    /// Whether the offsets before and after the recording differ by more than their uncertainty. If so,
    /// CLOCK_REALTIME was set during the recording, and the trace cannot be aligned with packets.
    pub clock_stepped: bool,
    /// Cores whose events were recorded.
    pub watched: Vec<u32>,
    /// Whether the stacks of senders were recorded.
    pub stacks: bool,
    /// Size of a ring buffer page including its header, in bytes.
    pub page_bytes: u32,
    /// The kernel's `events/header_page`.
    pub header_page: String,
    /// Formats of the enabled events, and of the kernel's own events that may appear between them.
    pub events: Vec<EventFormat>,
    /// Requested events that this kernel lacks, and requests that it refused; one sentence each.
    pub remarks: Vec<String>,
    /// The files that hold the raw pages.
    pub streams: Vec<TraceStream>,
    /// Thread IDs and names, to the extent that the kernel and /proc provided them.
    pub tasks: Vec<(i32, String)>,
    /// Function start addresses and function names, in ascending order. This is an excerpt from
    /// /proc/kallsyms with the addresses that occur in the trace.
    #[serde(default)]
    pub symbols: Vec<(u64, String)>,
}

/// Offset to add to the trace clock to get CLOCK_REALTIME. To measure the offset, one clock is read many times,
/// each time between two readings of the other clock. The reading whose two enclosing readings are closest
/// together is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Time of the reading on the trace clock, in ns.
    pub at_ns: u64,
    /// The offset, in ns.
    pub offset_ns: i64,
    /// Upper bound on the error of the offset, in ns: half the time between the two enclosing readings.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// Whether one of the clocks was set between the two readings. Otherwise the offset is constant, because
    /// both clocks are slewed in the same way.
    pub fn stepped_until(self, later: ClockOffset) -> bool {
        /// Largest difference between the fast clocks of any two processors, in ns.
        const SLACK_NS: u64 = 200;
        let limit = self.uncertainty_ns.saturating_add(later.uncertainty_ns).saturating_add(SLACK_NS);
        self.offset_ns.abs_diff(later.offset_ns) > limit
    }
}

/// Format of a kernel trace event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFormat {
    /// Folder below `events`: `sched`.
    pub system: String,
    /// Name of the event in its folder: `sched_switch`.
    pub name: String,
    /// Filter applied while recording, in the kernel's syntax: `cpu == 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Full content of the event's `format` file.
    pub format: String,
}

/// Raw pages of one processor from one trace instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStream {
    /// Processor that the events happened on.
    pub cpu: u32,
    /// File name in the trace's folder: `cpu1.raw`.
    pub file: String,
    /// File length, in bytes.
    pub bytes: u64,
    /// Number of events that were overwritten before they were read. The trace pages mark the affected time
    /// windows.
    pub overrun: u64,
    /// Events that the kernel could not write; their times are unknown.
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_step_exceeds_uncertainty() {
        let at = |offset_ns, uncertainty_ns| ClockOffset { at_ns: 0, offset_ns, uncertainty_ns };
        assert!(!at(1_000_000, 30).stepped_until(at(1_000_100, 30)));
        assert!(at(1_000_000, 30).stepped_until(at(1_001_000, 30)));
        assert!(at(0, 0).stepped_until(at(i64::MIN, 0)));
        assert!(!at(0, u64::MAX).stepped_until(at(i64::MIN, 1)));
    }
}
