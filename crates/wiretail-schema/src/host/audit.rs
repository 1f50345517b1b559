//! Result of a host audit: the output of `wiretail host audit --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of the audit.
pub const AUDIT_SCHEMA: &str = "wiretail.audit/1";

/// Result of a host audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Schema name and version ([`AUDIT_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
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
    /// Findings, one per rule, in the order of the rules.
    pub findings: Vec<Finding>,
    /// Files that exist but could not be read, over all rules, sorted by name.
    pub unreadable: Vec<Unreadable>,
}

/// A file that exists but could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// Path of the file, or another name used in host records.
    pub name: String,
    /// Reason.
    pub why: String,
}

/// Role of a host with respect to the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostRole {
    /// The device under test runs directly on the host, without a hypervisor.
    Bare,
    /// The device under test runs in a virtual machine on the host.
    VmHost,
    /// The host is a virtual machine.
    Vm,
    /// The host is a container.
    Container,
}

impl HostRole {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::VmHost => "vm-host",
            Self::Vm => "vm",
            Self::Container => "container",
        }
    }
}

/// Result of one audit rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Group of the rule.
    pub group: RuleGroup,
    /// Short description of the check.
    pub title: String,
    /// Verdict of the rule.
    pub verdict: Verdict,
    /// Requested setting as written in its source; null if nothing was requested.
    pub requested: Option<String>,
    /// Setting in effect; null if unknown.
    pub effective: Option<String>,
    /// Description of the problem, or of what could not be read and why; empty if there is none.
    pub detail: String,
    /// Reason for the rule.
    pub why: String,
    /// Measured effect, with its source; null if there is no measurement.
    pub effect: Option<String>,
    /// Source of the reason.
    pub source: String,
    /// Recommended action.
    pub mitigation: String,
    /// Drawback of the action: power, sharing, security.
    pub cost: String,
}

/// Group of audit rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleGroup {
    /// Boot command line and kernel configuration.
    Boot,
    /// Processors.
    Processor,
    /// Kernel settings at run time.
    Kernel,
    /// Memory.
    Memory,
    /// NICs.
    Network,
    /// Services.
    Services,
    /// Virtual machines and containers.
    Guests,
}

impl RuleGroup {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot line and kernel",
            Self::Processor => "processor",
            Self::Kernel => "kernel at run time",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Services => "services",
            Self::Guests => "guests and containers",
        }
    }
}

/// Verdict of an audit rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The setting was requested but is not in effect, or contradicts another one.
    Ineffective,
    /// The setting takes time from the cores that should be isolated.
    Harmful,
    /// The setting could be better, but nothing was requested.
    Improvable,
    /// The setting is as recommended.
    Good,
    /// The setting could not be read.
    Unseen,
    /// The host lacks the feature that the rule is about.
    NotHere,
}

impl Verdict {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ineffective => "INEFFECTIVE",
            Self::Harmful => "harmful",
            Self::Improvable => "improvable",
            Self::Good => "good",
            Self::Unseen => "not seen",
            Self::NotHere => "not here",
        }
    }

    /// Returns whether the verdict calls for action.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Ineffective | Self::Harmful | Self::Improvable)
    }
}
