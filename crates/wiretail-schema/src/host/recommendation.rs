//! Recommendations of the papers, evaluated with the user's own runs and audit: the output of `wiretail host
//! recommend --json`.
//!
//! There are no scores. Each recommendation has a [`Stand`] that depends on the evidence. Each [`Evidence`]
//! names its [`Origin`]. Without evidence, the document shows how to obtain it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::{HostRole, Verdict};

/// Schema name and version of the recommendations.
pub const RECOMMEND_SCHEMA: &str = "wiretail.recommend/1";

/// Five recommendations and a matrix of deployments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendations {
    /// Schema name and version ([`RECOMMEND_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Host that was audited.
    pub host: AuditedHost,
    /// Runs that were evaluated.
    pub runs: Vec<RunLooked>,
    /// Recommendations, in the order of the papers.
    pub recommendations: Vec<Recommendation>,
    /// Costs and benefits of each deployment.
    pub matrix: Matrix,
    /// Limits of all recommendations; one sentence each.
    pub notes: Vec<String>,
}

/// The host that was audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedHost {
    /// Kernel release; null if unknown.
    pub kernel: Option<String>,
    /// Processor model; null if unknown.
    pub processor: Option<String>,
    /// Role of the host.
    pub role: HostRole,
    /// Cores to be isolated: "1-3".
    pub cores: String,
    /// Source of the list of cores.
    pub cores_from: String,
}

/// A run that was evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLooked {
    /// Run directory, as given.
    pub directory: String,
    /// Title of the experiment.
    pub title: String,
    /// Number of executed trials.
    pub trials: usize,
    /// Number of valid and analyzed trials. All evidence is based on these trials.
    pub valid: usize,
    /// Number of searches in the run.
    pub searches: usize,
    /// Number of trials with an explanation of their worst packets.
    pub explained: usize,
}

/// One recommendation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Identifier of the recommendation.
    pub kind: Advice,
    /// Short title.
    pub title: String,
    /// The recommendation and its reason.
    pub advice: String,
    /// Whether the recommendation should be followed on this host.
    pub stand: Stand,
    /// Meaning for this host, in one or two sentences.
    pub says: String,
    /// Evidence for this state; empty if there is none.
    pub evidence: Vec<Evidence>,
    /// Steps to obtain more evidence.
    pub next: Vec<NextStep>,
    /// Source of the recommendation.
    pub source: String,
}

/// The five recommendations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Measure with hardware timestamps of the NIC.
    HardwareTimestamps,
    /// Keep spare capacity.
    SpareCapacity,
    /// Choose the kernel according to how the application waits for packets.
    KernelByArchitecture,
    /// Choose and configure the NIC.
    Nic,
    /// Virtualize if isolation is required, on dedicated cores.
    Virtualisation,
}

impl Advice {
    /// Returns the name used in the document.
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

/// Whether a recommendation should be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    /// An action is required.
    Follow,
    /// The host already follows the recommendation.
    AlreadySo,
    /// Nothing on this host is affected, or the user's own trials contradict the recommendation.
    DoesNotApply,
    /// Neither the runs nor the audit provide evidence.
    NoEvidenceYet,
}

impl Stand {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::AlreadySo => "already so",
            Self::DoesNotApply => "does not apply",
            Self::NoEvidenceYet => "no evidence yet",
        }
    }
}

/// A statement and the data that support it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The statement.
    pub says: String,
    /// Origin of the statement.
    pub from: Origin,
    /// Delays that support the statement.
    pub delays: Vec<DelayOf>,
    /// Rates that support the statement.
    pub rates: Vec<RateOf>,
}

/// Origin of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// Trials of the user's own runs.
    Trials {
        /// The trials.
        trials: Vec<TrialsOf>,
    },
    /// A search of the user's own runs.
    Search {
        /// Run directory.
        run: String,
        /// Number of the search, from 1; see [`Search::number`](crate::search::Search::number).
        search: usize,
    },
    /// A rule of the audit.
    Rule {
        /// Name of the rule.
        rule: String,
        /// Verdict of the rule on the host.
        verdict: Verdict,
    },
    /// A property of the deployment itself, independent of any measurement.
    Deployment,
}

/// Trials of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialsOf {
    /// Run directory.
    pub run: String,
    /// Numbers of the trials, from 1; see [`TrialRecord::number`](crate::run::TrialRecord::number).
    pub trials: Vec<usize>,
}

/// A percentile of the delay under one load, over one or more trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayOf {
    /// Subject of the delay: "bare".
    pub of: String,
    /// Percentile, in percent: 99.9; 100 for the maximum.
    pub percentile: f64,
    /// Delay, in ns: the median over the trials, or the lower middle value for an even number of trials; for
    /// the maximum, the highest value of all trials.
    pub value_ns: i64,
    /// Lowest of the lower bounds of the trials' 95 % confidence intervals, in ns; null for the maximum,
    /// which has no interval.
    pub low_ns: Option<i64>,
    /// Highest of the upper bounds of the trials' 95 % confidence intervals, in ns; null if one of the
    /// intervals has no upper bound.
    pub high_ns: Option<i64>,
    /// Number of packets in all trials.
    pub packets: u64,
    /// Whether the percentile is supported in every trial: at least ten packets are beyond it. This flag has no
    /// meaning for the maximum.
    pub supported: bool,
    /// The trials.
    pub trials: Vec<TrialsOf>,
}

/// A packet rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateOf {
    /// Subject of the rate: "NDR, met at".
    pub of: String,
    /// Rate, in packets per second.
    pub pps: u64,
}

/// A step to obtain evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// Purpose of the step.
    pub what: String,
    /// Command to run. `experiments/` is the folder shipped with Wiretail.
    pub command: String,
}

/// Latency, security and resources of each deployment: facts and numbers without a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Deployments: first those with measurements, then those without evidence.
    pub rows: Vec<MatrixRow>,
    /// Audit findings about the host's security that apply to every row.
    pub host_security: Vec<Evidence>,
    /// Audit findings about the host's resources that apply to every row.
    pub host_resources: Vec<Evidence>,
}

/// A deployment of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// Kind of the deployment.
    pub deployment: Deployment,
    /// Profile that the host or guest was booted with: "cores isolated", "tuned boot"; empty without
    /// measurements.
    pub profile: String,
    /// Number of trials, over all loads.
    pub trials: usize,
    /// Measured latency, one entry per load; empty without evidence. Loads that most rows share come first.
    pub latency: Vec<Latency>,
    /// Isolation between the device and the rest of the system.
    pub security: Vec<Evidence>,
    /// Resources that the deployment needs.
    pub resources: Vec<Evidence>,
    /// How to obtain evidence; null if there is evidence.
    pub next: Option<NextStep>,
}

/// Environment of a device.
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
    /// Returns the display name, which is also the value of `dut.deployment`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Container => "container",
            Self::Vm => "vm",
        }
    }
}

/// Delay of a deployment under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Device and load: "skeleton, 2 kpps".
    pub load: String,
    /// The 99.9th and 99.99th percentiles and the maximum of the delay.
    pub delays: Vec<DelayOf>,
    /// Whether the processor of the virtual machine was emulated in software. If so, its delays do not
    /// describe hardware. Null if the deployment is not a virtual machine, or if the run does not record it.
    pub emulated: Option<bool>,
}
