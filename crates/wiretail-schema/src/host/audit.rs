//! What an audit of a host found: `wiretail host audit --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the document.
pub const AUDIT_SCHEMA: &str = "wiretail.audit/1";

/// An audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// [`AUDIT_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub wiretail_version: String,
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
    /// A finding a rule, in the order of the rules.
    pub findings: Vec<Finding>,
    /// What is there and could not be read, whichever rules would have wanted it; by name.
    pub unreadable: Vec<Unreadable>,
}

/// What is there and could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// A file, or another name of a host record.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What a host is for the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostRole {
    /// The device under test runs on it, without a hypervisor.
    Bare,
    /// The device under test runs in a virtual machine on it.
    VmHost,
    /// A virtual machine.
    Vm,
    /// A container.
    Container,
}

impl HostRole {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::VmHost => "vm-host",
            Self::Vm => "vm",
            Self::Container => "container",
        }
    }
}

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// What it is about.
    pub group: RuleGroup,
    /// What is checked, in a few words.
    pub title: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was asked for, as it is written there; None where nobody asked.
    pub requested: Option<String>,
    /// What is in effect; None where it is not known.
    pub effective: Option<String>,
    /// What is wrong, or could not be seen and why; empty where nothing is.
    pub detail: String,
    /// Why it matters.
    pub why: String,
    /// How much it is worth where somebody measured it, and who.
    pub effect: Option<String>,
    /// Where the reason is from.
    pub source: String,
    /// What to do.
    pub mitigation: String,
    /// What that costs: power, sharing, security.
    pub cost: String,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleGroup {
    /// The boot line and the kernel's configuration.
    Boot,
    /// Processors.
    Processor,
    /// The kernel at run time.
    Kernel,
    /// Memory.
    Memory,
    /// Network cards.
    Network,
    /// Services.
    Services,
    /// Virtual machines and containers.
    Guests,
}

impl RuleGroup {
    /// As it is shown.
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

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was asked for and is not in effect, or contradicts itself.
    Ineffective,
    /// It takes time from the cores that are to be left alone.
    Harmful,
    /// It could be better; nobody asked for it.
    Improvable,
    /// As it should be.
    Good,
    /// It could not be seen.
    Unseen,
    /// There is no such thing on this host.
    NotHere,
}

impl Verdict {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ineffective => "BROKEN",
            Self::Harmful => "harmful",
            Self::Improvable => "improvable",
            Self::Good => "good",
            Self::Unseen => "not seen",
            Self::NotHere => "not here",
        }
    }

    /// Whether something is to be done.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Ineffective | Self::Harmful | Self::Improvable)
    }
}
