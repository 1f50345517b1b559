//! A run: what `manifest.json` in a run directory holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the document; the number rises when a reader of the old one would be misled.
pub const RUN_SCHEMA: &str = "wiretail.run/1";

/// A run of an experiment: what was done, on which host, with which outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// The experiment's title.
    pub title: String,
    /// Seed of everything random.
    pub seed: u64,
    /// When it began, in s since 1970.
    pub started_s: u64,
    /// The machine, a line a fact: "kernel: 6.1.0", "cpu: ...".
    pub host: Vec<Fact>,
    /// The trials done, in their order.
    pub trials: Vec<TrialRecord>,
}

/// A fact about the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// What: "kernel".
    pub name: String,
    /// Its value, as the host tells it.
    pub value: String,
}

/// One trial: its counters, and whether its numbers may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Its factors: "skeleton-10kpps"; with the number, the name of its directory.
    pub name: String,
    /// What became of it.
    pub state: TrialState,
    /// Why it is invalid or failed; empty otherwise.
    pub reasons: Vec<String>,
    /// Offered load asked for, in packets a second.
    pub offered_pps: u64,
    /// Packets that the load generator sent.
    pub sent: u64,
    /// Those that left later than the limit after their intended departure.
    pub late: u64,
    /// 99.9th percentile of actual minus intended departure, in ns.
    pub lateness_ns_p999: u64,
    /// Packets that the capture dropped at the ingress and at the egress tap: not the device's loss.
    pub capture_drops: [u64; 2],
    /// Where the stamps come from: "kernel software".
    pub timestamp_source: String,
}

/// What became of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// Its numbers may be used.
    Valid,
    /// It ran, but its numbers say nothing about the device under test.
    Invalid,
    /// It did not run to its end.
    Failed,
}
