//! How a host is to be set up for packets: `wiretail host plan --json`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::HostRole;

/// Name and version of the document.
pub const PLAN_SCHEMA: &str = "wiretail.plan/1";

/// What is to be set on a host, and how each of it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuningPlan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub version: String,
    /// How far it goes.
    pub profile: Profile,
    /// What the host is for the packets.
    pub role: HostRole,
    /// The cores that are to be left alone: "1-3".
    pub cores: String,
    /// The other cores that are online, which do everything else.
    pub housekeeping: String,
    /// Every setting of the profile, those that are in effect already among them.
    pub settings: Vec<Setting>,
    /// What the reader must know besides.
    pub notes: Vec<String>,
}

/// The boot modes of the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As the distribution has it: no core is isolated.
    Regular,
    /// The cores are isolated, and may sleep and slow down while there is nothing to do.
    EnergySaving,
    /// The cores are isolated, never sleep and never slow down.
    Optimized,
}

impl Profile {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::EnergySaving => "energysaving",
            Self::Optimized => "optimized",
        }
    }
}

/// One thing that a profile sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// What is set.
    pub target: Target,
    /// What for, in a few words.
    pub title: String,
    /// The rule of the audit that asks for it; None where none does.
    pub rule: Option<String>,
    /// How it is; None where it is not there, or not known.
    pub now: Option<String>,
    /// How it shall be; None for a boot word that is to be taken away.
    pub wanted: Option<String>,
    /// What is between the two.
    pub state: SettingState,
    /// Why it is so: what this host lacks, what could not be read; empty where there is nothing to say.
    pub detail: String,
    /// When a change takes effect.
    pub takes_effect: TakesEffect,
    /// What it costs: power, sharing, security.
    pub cost: String,
}

/// What is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Target {
    /// A word of the kernel's boot line.
    BootWord {
        /// Before its `=`.
        name: String,
    },
    /// A file of /proc or /sys.
    File {
        /// Which, whole path.
        path: String,
    },
    /// A setting of a network card, set by ethtool.
    Card {
        /// Which card.
        link: String,
        /// Which setting, by its name in a host record: "rx-usecs".
        setting: String,
    },
    /// A service that is to be on or off.
    Service {
        /// Of its unit, without `.service`.
        name: String,
    },
}

impl Target {
    /// As it is shown.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::BootWord { name } | Self::Service { name } => name.into(),
            Self::File { path } => path.into(),
            Self::Card { link, setting } => format!("{link} {setting}").into(),
        }
    }
}

/// What is between how a setting is and how it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingState {
    /// It is as it shall be.
    InEffect,
    /// It is to be changed.
    Change,
    /// It was asked for, and the audit says that it is not in effect.
    Broken,
    /// This host has no such thing, or it is not this host's to set.
    NotHere,
    /// It could not be read.
    Unseen,
}

impl SettingState {
    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::InEffect => "in effect",
            Self::Change => "change",
            Self::Broken => "BROKEN",
            Self::NotHere => "not here",
            Self::Unseen => "not seen",
        }
    }
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TakesEffect {
    /// At once.
    Now,
    /// When the machine is started again.
    Reboot,
}
