//! Disturbances that a device under test was given on purpose: what its trace is judged against. The list is
//! `interferences.csv` in a trial's directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the list in a trial's directory.
pub const INTERFERENCE_FILE: &str = "interference.csv";
/// Its first line.
const HEADER: &str = "kind,start_ns,end_ns,pid,task,start_monotonic_ns,end_monotonic_ns";

/// What is done to the device's core, or by its own loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterferenceKind {
    /// Another thread of the device's process gives memory back, page by page: its core has to forget addresses.
    Shootdown,
    /// Timers expire on its core.
    Timer,
    /// A thread of a higher real-time priority computes on its core.
    Hog,
    /// Its loop touches memory that is not there yet.
    PageFaults,
    /// Packets of somebody else's are received on its core.
    Softirq,
    /// Another core has it run a function that does next to nothing, again and again.
    Ipi,
    /// Its loop does something else for a while.
    Pause,
}

impl InterferenceKind {
    /// All kinds, in the order in which they take turns.
    pub const ALL: [Self; 7] =
        [Self::Shootdown, Self::Timer, Self::Hog, Self::PageFaults, Self::Softirq, Self::Ipi, Self::Pause];

    /// As it is written in experiments and lists.
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

    /// The kind of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the device's loop does it itself.
    pub fn is_own(self) -> bool {
        matches!(self, Self::PageFaults | Self::Pause)
    }
}

/// A disturbance that took place: a line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interference {
    /// What.
    pub kind: InterferenceKind,
    /// When it began, in ns since 1970: the clock of the packets' stamps.
    pub start_ns: i64,
    /// When it ended, in ns since 1970.
    pub end_ns: i64,
    /// The thread that did it; of timers, the one that armed them.
    pub pid: i32,
    /// Its name.
    pub task: String,
    /// When it began, CLOCK_MONOTONIC in ns: the clock of a trace.
    pub start_monotonic_ns: u64,
    /// When it ended, CLOCK_MONOTONIC in ns.
    pub end_monotonic_ns: u64,
}

impl Interference {
    /// The list as CSV. Commas and line ends of a thread's name become underscores.
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

    /// Reads a list.
    ///
    /// # Errors
    /// The first line that is none of it, counted from 1, and what was expected there.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("line 1: expected the header of a list of disturbances, {HEADER}"));
        }
        let row = |(at, line)| {
            Self::row(line)
                .ok_or_else(|| format!("line {}: \"{line}\" is no disturbance; expected {HEADER}", at + 2))
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

/// How well one kind was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindGroundTruth {
    /// Disturbances of that kind.
    pub injected: u64,
    /// Late packets that belong to one of them.
    pub packets: u64,
    /// Of these, those of which that was said.
    pub found: u64,
    /// Late packets within any planted window of which that was said; some of them belong to others.
    pub said: u64,
    /// Who was named as a sender where that was said rightly.
    pub senders: BTreeSet<String>,
    /// Who planted it.
    pub injectors: BTreeSet<String>,
}

impl KindGroundTruth {
    /// Share of the packets that it delayed of which that was said; None without any.
    pub fn recall(&self) -> Option<f64> {
        share(self.found, self.packets)
    }

    /// Share of the packets of which that was said that it delayed; None where it was never said.
    pub fn precision(&self) -> Option<f64> {
        share(self.found, self.said)
    }

    /// Whether everybody who planted it was named. True for a kind that is told without a sender.
    pub fn is_every_sender_named(&self) -> bool {
        self.injectors.is_subset(&self.senders)
    }
}

/// How well planted disturbances were told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroundTruthReport {
    /// By kind; those that were planted, or said.
    pub kinds: BTreeMap<InterferenceKind, KindGroundTruth>,
    /// Late packets outside of every planted window: this machine's own interruptions.
    pub not_injected: u64,
    /// Late packets that are not judged: they came so close behind others that by more than half of what they lost they
    /// would have waited anyway, in a device that always takes the usual time.
    pub crowded: u64,
    /// Late packets that are not judged: the disturbance was there for less than half of what they lost, so that
    /// something else delayed them in the main.
    pub doubtful: u64,
    /// Where what was said is not what was planted.
    pub confused: Vec<Confused>,
}

/// Packets of which something else was said than what was planted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confused {
    /// What was planted.
    pub injected: InterferenceKind,
    /// What was said; empty where no cause was named.
    pub said: String,
    /// How many packets.
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
    fn a_list_is_read_as_it_was_written() {
        let list: Vec<_> = InterferenceKind::ALL.into_iter().map(one).collect();
        assert_eq!(Interference::parse(&Interference::list(&list)), Ok(list));
        let named = Interference { task: "a,b\nc".to_owned(), ..one(InterferenceKind::Hog) };
        assert_eq!(Interference::parse(&Interference::list(&[named])).unwrap()[0].task, "a_b_c");
    }

    #[test]
    fn other_lists_are_refused_by_line() {
        assert!(Interference::parse("kind\n").unwrap_err().starts_with("line 1: expected"));
        let text = format!("{}nap,1,2,3,x,4,5\n", Interference::list(&[one(InterferenceKind::Pause)]));
        assert!(Interference::parse(&text).unwrap_err().starts_with("line 3: \"nap,"));
    }
}
