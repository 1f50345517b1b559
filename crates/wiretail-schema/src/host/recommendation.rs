//! What the papers recommend, given from one's own runs and audit: `wiretail host recommend --json`.
//!
//! Nothing in it is a score. A recommendation [stands](Stand) as the evidence has it, each [`Evidence`] says [where it is
//! from](Origin), and where there is none, what would give some.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::{HostRole, Verdict};

/// Name and version of the document.
pub const RECOMMEND_SCHEMA: &str = "wiretail.recommend/1";

/// Five recommendations and a matrix of deployments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendations {
    /// [`RECOMMEND_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub wiretail_version: String,
    /// The audited host.
    pub host: AuditedHost,
    /// The runs that were looked at.
    pub runs: Vec<RunLooked>,
    /// In the papers' order.
    pub recommendations: Vec<Recommendation>,
    /// What each deployment costs and gives.
    pub matrix: Matrix,
    /// What limits all of it; one sentence each.
    pub notes: Vec<String>,
}

/// The host that was audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedHost {
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// What the host is.
    pub role: HostRole,
    /// The cores that are to be left alone: "1-3".
    pub cores: String,
    /// How it is known which cores those are.
    pub cores_from: String,
}

/// A run that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLooked {
    /// Its directory, as it was given.
    pub directory: String,
    /// The experiment's title.
    pub title: String,
    /// Trials that were done.
    pub trials: usize,
    /// Those whose numbers may be used and were analysed: all evidence rests on these.
    pub valid: usize,
    /// Searches in it.
    pub searches: usize,
    /// Trials of which it is explained what delayed their worst packets.
    pub explained: usize,
}

/// One recommendation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Which.
    pub kind: Advice,
    /// What is recommended, in a few words.
    pub title: String,
    /// What is recommended, and why.
    pub advice: String,
    /// Whether it is to be followed here.
    pub stand: Stand,
    /// What it means here, in a sentence or two.
    pub says: String,
    /// What that rests on; empty where there is nothing.
    pub evidence: Vec<Evidence>,
    /// How to get more of it.
    pub next: Vec<NextStep>,
    /// Where the recommendation is from.
    pub source: String,
}

/// The five.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Measure with stamps of the network card.
    HardwareTimestamps,
    /// Leave capacity unused.
    SpareCapacity,
    /// Choose the kernel by how the application waits for packets.
    KernelByArchitecture,
    /// Choose and set the network card.
    Nic,
    /// Virtualise where walls are wanted, on cores of their own.
    Virtualisation,
}

impl Advice {
    /// As it is written in the document.
    pub fn name(self) -> &'static str {
        match self {
            Self::HardwareTimestamps => "hardware-timestamps",
            Self::SpareCapacity => "spare-capacity",
            Self::KernelByArchitecture => "kernel-by-architecture",
            Self::Nic => "network-card",
            Self::Virtualisation => "virtualisation",
        }
    }
}

/// Whether a recommendation is to be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    /// There is something to do.
    Follow,
    /// It is as recommended.
    AlreadySo,
    /// There is nothing here that it is about, or the user's own trials say otherwise.
    DoesNotApply,
    /// Neither the runs nor the audit tell.
    NoEvidenceYet,
}

impl Stand {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::AlreadySo => "already so",
            Self::DoesNotApply => "does not apply",
            Self::NoEvidenceYet => "no evidence yet",
        }
    }
}

/// A statement, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The statement.
    pub says: String,
    /// Where it is from.
    pub from: Origin,
    /// Delays that it rests on.
    pub delays: Vec<DelayOf>,
    /// Rates that it rests on.
    pub rates: Vec<RateOf>,
}

/// Where a statement is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// Trials of one's own runs.
    Trials {
        /// Which.
        trials: Vec<TrialsOf>,
    },
    /// A search of one's own.
    Search {
        /// The run's directory.
        run: String,
        /// [`Search::number`](crate::search::Search::number), from 1.
        search: usize,
    },
    /// A rule of the audit.
    Rule {
        /// Its name.
        rule: String,
        /// How it found the host.
        verdict: Verdict,
    },
    /// What a device is deployed with, whoever does it.
    Deployment,
}

/// Trials of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialsOf {
    /// The run's directory.
    pub run: String,
    /// [`TrialRecord::number`](crate::run::TrialRecord::number) of each, from 1.
    pub trials: Vec<usize>,
}

/// A percentile of the delay of some trials under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayOf {
    /// Of what: "bare".
    pub of: String,
    /// Which: 99.9; 100 for the maximum.
    pub percentile: f64,
    /// In ns: of several trials the median, of an even number the lower middle one; of maxima the highest.
    pub value_ns: i64,
    /// The lowest lower bound of the trials' 95 % confidence intervals, in ns; None for the maximum, which has none.
    pub low_ns: Option<i64>,
    /// The highest upper bound, in ns; None where one of them has none.
    pub high_ns: Option<i64>,
    /// Packets of all these trials together.
    pub packets: u64,
    /// Whether the percentile is supported in every one of them: ten packets are beyond it. The maximum is what it is.
    pub supported: bool,
    /// The trials.
    pub trials: Vec<TrialsOf>,
}

/// A rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateOf {
    /// Of what: "NDR, met at".
    pub of: String,
    /// In packets a second.
    pub pps: u64,
}

/// How to get evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// What it is for.
    pub what: String,
    /// The command; `experiments/` is the folder that comes along.
    pub command: String,
}

/// Latency, security and resources of each deployment: facts and numbers, no score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Those seen in the runs first; behind them those of which there is no evidence yet.
    pub rows: Vec<MatrixRow>,
    /// What the audit says of the host that is part of every row's security.
    pub host_security: Vec<Evidence>,
    /// The same of its resources.
    pub host_resources: Vec<Evidence>,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// What is around the device.
    pub deployment: Deployment,
    /// How its host or guest was started: "cores isolated", "tuned boot"; empty where none was seen.
    pub profile: String,
    /// Trials of it, all loads together.
    pub trials: usize,
    /// What was measured, a load each; empty: no evidence yet. Loads that most rows have come first.
    pub latency: Vec<Latency>,
    /// What is between the device and the others.
    pub security: Vec<Evidence>,
    /// What it takes.
    pub resources: Vec<Evidence>,
    /// How to get evidence, where there is none.
    pub next: Option<NextStep>,
}

/// What is around a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// A network namespace.
    Bare,
    /// A container.
    Container,
    /// A virtual machine.
    Vm,
}

impl Deployment {
    /// As it is shown, and as `dut.deployment` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Container => "container",
            Self::Vm => "vm",
        }
    }
}

/// The delay of a deployment under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Device and load: "skeleton, 2 kpps".
    pub load: String,
    /// The 99.9th and 99.99th percentile and the maximum.
    pub delays: Vec<DelayOf>,
    /// Whether the processor of the virtual machine was emulated in software, so that its delays say nothing of hardware;
    /// None where it is no virtual machine, or the run does not say.
    pub emulated: Option<bool>,
}
