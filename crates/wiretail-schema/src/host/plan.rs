//! Tuning plan of a host for packet processing: the output of `wiretail host plan --json`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::HostRole;

/// Schema name and version of the plan.
pub const PLAN_SCHEMA: &str = "wiretail.plan/1";

/// Settings to apply on a host, with their current values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuningPlan {
    /// Schema name and version ([`PLAN_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Profile of the plan.
    pub profile: Profile,
    /// Role of the host.
    pub role: HostRole,
    /// Cores to be isolated: "1-3".
    pub cores: String,
    /// The other online cores, which do all other work.
    pub housekeeping: String,
    /// All settings of the profile, including those already in effect.
    pub settings: Vec<Setting>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Profile of a host: the boot modes described in the papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The distribution's defaults: no core is isolated.
    Regular,
    /// The cores are isolated. They may sleep and reduce their frequency while idle.
    EnergySaving,
    /// The cores are isolated, never sleep and never reduce their frequency.
    Optimized,
}

impl Profile {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::EnergySaving => "energysaving",
            Self::Optimized => "optimized",
        }
    }
}

/// Selection of a profile's settings by the audit rules that require them: `all`, `thp, workqueue`, `all but
/// thp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// Settings of these rules only.
    Only(Vec<String>),
    /// Settings of all rules except these.
    AllBut(Vec<String>),
}

impl Rules {
    /// Returns whether the settings of a rule are selected.
    pub fn has(&self, rule: &str) -> bool {
        match self {
            Self::Only(rules) => rules.iter().any(|one| one == rule),
            Self::AllBut(rules) => rules.iter().all(|one| one != rule),
        }
    }

    /// Returns the rules named in the selection.
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

/// A setting of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Target of the setting.
    pub target: Target,
    /// Short description of its purpose.
    pub title: String,
    /// Audit rule that requires the setting; null if there is none.
    pub rule: Option<String>,
    /// Current value; null if absent or unknown.
    pub now: Option<String>,
    /// Value to set; null if a boot parameter is to be removed.
    pub wanted: Option<String>,
    /// State of the setting: current value compared with the value to set.
    pub state: SettingState,
    /// Reason for the state, such as a missing feature or an unreadable file; empty if there is nothing to
    /// add.
    pub detail: String,
    /// When a change takes effect.
    pub takes_effect: TakesEffect,
    /// Drawback of the setting: power, sharing, security.
    pub cost: String,
}

/// Target of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Target {
    /// A parameter of the kernel command line.
    BootWord {
        /// Name of the parameter, the part before `=`.
        name: String,
    },
    /// A file in /proc or /sys.
    File {
        /// Absolute path of the file.
        path: String,
    },
    /// A setting of a NIC, set by ethtool.
    Nic {
        /// Name of the network link.
        link: String,
        /// Name of the setting in a host record: "rx-usecs".
        setting: String,
    },
    /// A service to enable or disable.
    Service {
        /// Name of the systemd unit, without `.service`.
        name: String,
    },
}

impl Target {
    /// Returns the display name.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::BootWord { name } | Self::Service { name } => name.into(),
            Self::File { path } => path.into(),
            Self::Nic { link, setting } => format!("{link} {setting}").into(),
        }
    }
}

/// State of a setting: current value compared with the value to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingState {
    /// The setting already has this value.
    InEffect,
    /// The setting must be changed.
    Change,
    /// The setting was requested, but is not in effect according to the audit.
    Ineffective,
    /// The host lacks the setting, or does not control it.
    NotHere,
    /// The setting could not be read.
    Unseen,
}

impl SettingState {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InEffect => "in effect",
            Self::Change => "change",
            Self::Ineffective => "INEFFECTIVE",
            Self::NotHere => "not here",
            Self::Unseen => "not seen",
        }
    }
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TakesEffect {
    /// Immediately.
    Now,
    /// After a reboot.
    Reboot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_round_trip() {
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
