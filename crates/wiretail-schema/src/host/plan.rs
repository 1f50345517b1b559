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
    pub wiretail_version: String,
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

/// Which settings of a profile are meant, by the rules of the audit that ask for them: `all`, `thp, workqueue`, `all but thp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// Of these rules.
    Only(Vec<String>),
    /// Of all rules but these.
    AllBut(Vec<String>),
}

impl Rules {
    /// Whether the settings of a rule are meant.
    pub fn has(&self, rule: &str) -> bool {
        match self {
            Self::Only(rules) => rules.iter().any(|one| one == rule),
            Self::AllBut(rules) => rules.iter().all(|one| one != rule),
        }
    }

    /// The rules that it names.
    pub fn names(&self) -> &[String] {
        let (Self::Only(rules) | Self::AllBut(rules)) = self;
        rules
    }
}

impl From<&str> for Rules {
    fn from(text: &str) -> Self {
        let names = |list: &str| -> Vec<String> {
            list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        };
        match text.trim().strip_prefix("all") {
            Some(rest) if rest.trim().is_empty() => Self::AllBut(Vec::new()),
            Some(rest) if rest.trim().starts_with("but ") => Self::AllBut(names(&rest.trim()[4..])),
            _ => Self::Only(names(text)),
        }
    }
}

impl std::fmt::Display for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AllBut(rules) if rules.is_empty() => write!(f, "all"),
            Self::AllBut(rules) => write!(f, "all but {}", rules.join(", ")),
            Self::Only(rules) => write!(f, "{}", rules.join(", ")),
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
    Nic {
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
            Self::Nic { link, setting } => format!("{link} {setting}").into(),
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
    Ineffective,
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
            Self::Ineffective => "BROKEN",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_shown() {
        for (text, has_thp, has_ksm) in [
            ("all", true, true),
            ("thp", true, false),
            ("thp, workqueue", true, false),
            ("all but thp", false, true),
            ("all but thp, ksm", false, false),
        ] {
            let rules = Rules::from(text);
            assert_eq!((rules.has("thp"), rules.has("ksm")), (has_thp, has_ksm), "{text}");
            assert_eq!(rules.to_string(), text);
        }
        assert_eq!(Rules::from(""), Rules::Only(Vec::new()));
    }
}
