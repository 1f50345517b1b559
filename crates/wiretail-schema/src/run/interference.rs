//! Interference injected into a device under test: the ground truth for the explanation of late packets. The
//! list is `interference.csv` in a trial's directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// File name of the list in a trial's directory.
pub const INTERFERENCE_FILE: &str = "interference.csv";
/// First line of the list.
const HEADER: &str = "kind,start_ns,end_ns,pid,task,start_monotonic_ns,end_monotonic_ns";

/// Kind of interference injected on the device's core or by its own loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterferenceKind {
    /// Another thread of the device's process releases memory page by page, which forces TLB shootdowns on
    /// the device's core.
    Shootdown,
    /// Timers expire on the device's core.
    Timer,
    /// A thread with a higher real-time priority computes on the device's core.
    Hog,
    /// The device's loop touches memory that is not mapped yet.
    PageFaults,
    /// Unrelated packets are received on the device's core.
    Softirq,
    /// Another core repeatedly makes the device's core run a function that does almost nothing.
    Ipi,
    /// The device's loop does other work for a while.
    Pause,
}

impl InterferenceKind {
    /// All kinds, in the order of injection.
    pub const ALL: [Self; 7] =
        [Self::Shootdown, Self::Timer, Self::Hog, Self::PageFaults, Self::Softirq, Self::Ipi, Self::Pause];

    /// Returns the name used in experiments and lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shootdown => "shootdown",
            Self::Timer => "timer",
            Self::Hog => "hog",
            Self::PageFaults => "page-faults",
            Self::Softirq => "softirq",
            Self::Ipi => "ipi",
            Self::Pause => "pause",
        }
    }

    /// Returns the kind with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the device's own loop injects this kind of interference.
    pub fn is_own(self) -> bool {
        matches!(self, Self::PageFaults | Self::Pause)
    }
}

/// One injection of interference: a line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interference {
    /// Kind of the interference.
    pub kind: InterferenceKind,
    /// Start, in ns since 1970: the clock of the packet timestamps.
    pub start_ns: i64,
    /// End, in ns since 1970.
    pub end_ns: i64,
    /// Thread that injected the interference; for timers, the thread that armed them.
    pub pid: i32,
    /// Name of the thread.
    pub task: String,
    /// Start, CLOCK_MONOTONIC in ns: the clock of the trace.
    pub start_monotonic_ns: u64,
    /// End, CLOCK_MONOTONIC in ns.
    pub end_monotonic_ns: u64,
}

impl Interference {
    /// Formats the list as CSV. Commas and line ends in thread names become underscores.
    pub fn list(interferences: &[Self]) -> String {
        let mut text = format!("{HEADER}\n");
        for row in interferences {
            let task = row.task.replace([',', '\n', '\r'], "_");
            let (kind, pid) = (row.kind.name(), row.pid);
            let _ = writeln!(
                text,
                "{kind},{},{},{pid},{task},{},{}",
                row.start_ns, row.end_ns, row.start_monotonic_ns, row.end_monotonic_ns
            );
        }
        text
    }

    /// Parses a list.
    ///
    /// # Errors
    /// Returns an error that names the first invalid line, counted from 1, and the expected format.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("line 1: expected the header of the interference list, {HEADER}"));
        }
        let row = |(at, line)| {
            Self::row(line)
                .ok_or_else(|| format!("line {}: \"{line}\" is not a valid entry; expected {HEADER}", at + 2))
        };
        lines.enumerate().map(row).collect()
    }

    fn row(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [kind, start, end, pid, task, start_monotonic, end_monotonic] = fields[..] else { return None };
        Some(Self {
            kind: InterferenceKind::of_name(kind)?,
            start_ns: start.parse().ok()?,
            end_ns: end.parse().ok()?,
            pid: pid.parse().ok()?,
            task: task.to_owned(),
            start_monotonic_ns: start_monotonic.parse().ok()?,
            end_monotonic_ns: end_monotonic.parse().ok()?,
        })
    }
}

/// How well one kind of interference was attributed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindGroundTruth {
    /// Number of times that interference of this kind was injected.
    pub injected: u64,
    /// Number of late packets that belong to an injection of this kind.
    pub packets: u64,
    /// Number of these packets that were attributed to this kind.
    pub found: u64,
    /// Number of late packets within any injected window that were attributed to this kind, including those
    /// that belong to other kinds.
    pub said: u64,
    /// Senders named in correct attributions.
    pub senders: BTreeSet<String>,
    /// Threads that injected this kind.
    pub injectors: BTreeSet<String>,
}

impl KindGroundTruth {
    /// Returns the fraction of the packets delayed by this kind that were attributed to it; `None` if it
    /// delayed none.
    pub fn recall(&self) -> Option<f64> {
        share(self.found, self.packets)
    }

    /// Returns the fraction of the packets attributed to this kind that it actually delayed; `None` if no
    /// packets were attributed to it.
    pub fn precision(&self) -> Option<f64> {
        share(self.found, self.said)
    }

    /// Returns whether every injector was named as a sender. True for a kind that is attributed without a
    /// sender.
    pub fn is_every_sender_named(&self) -> bool {
        self.injectors.is_subset(&self.senders)
    }
}

/// How well injected interference was attributed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroundTruthReport {
    /// Results for each kind that was injected or attributed.
    pub kinds: BTreeMap<InterferenceKind, KindGroundTruth>,
    /// Late packets outside of all injected windows; the machine itself delayed them.
    pub not_injected: u64,
    /// Late packets that are not judged because they followed others too closely. Even if the device delayed
    /// every packet by only the baseline, they would have queued for more than half of their excess delay.
    pub crowded: u64,
    /// Late packets that are not judged because the interference covers less than half of their excess delay,
    /// so something else was the main cause.
    pub doubtful: u64,
    /// Mismatches between injected and attributed causes.
    pub confused: Vec<Confused>,
}

/// Packets attributed to a cause other than the injected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confused {
    /// Injected kind.
    pub injected: InterferenceKind,
    /// Attributed cause; empty if no cause was named.
    pub said: String,
    /// Number of packets.
    pub packets: u64,
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(kind: InterferenceKind) -> Interference {
        Interference {
            kind,
            start_ns: 1_800_000_000_000_000_001,
            end_ns: 1_800_000_000_000_200_001,
            pid: 77,
            task: "wt-hog".to_owned(),
            start_monotonic_ns: 1_000,
            end_monotonic_ns: 201_000,
        }
    }

    #[test]
    fn list_round_trips() {
        let list: Vec<_> = InterferenceKind::ALL.into_iter().map(one).collect();
        assert_eq!(Interference::parse(&Interference::list(&list)), Ok(list));
        let named = Interference { task: "a,b\nc".to_owned(), ..one(InterferenceKind::Hog) };
        assert_eq!(Interference::parse(&Interference::list(&[named])).unwrap()[0].task, "a_b_c");
    }

    #[test]
    fn rejects_other_lists_by_line() {
        assert!(Interference::parse("kind\n").unwrap_err().starts_with("line 1: expected"));
        let text = format!("{}nap,1,2,3,x,4,5\n", Interference::list(&[one(InterferenceKind::Pause)]));
        assert!(Interference::parse(&text).unwrap_err().starts_with("line 3: \"nap,"));
    }
}
