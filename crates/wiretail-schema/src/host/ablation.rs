//! What the settings of a profile are worth: `ablation.json` in a run directory. Method: `docs/ablation.md`.
//!
//! Every trial belongs to an *arm*: the host as it is, with all settings, with all but one, or with one alone. All arms are
//! done once in each repeat, in an order that is drawn; effects are differences between two arms of the same repeat.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::Profile;

/// Name and version of the document; the number rises when a reader of the old one would be misled.
pub const ABLATION_SCHEMA: &str = "wiretail.ablation/1";

/// A proof: what was compared, every trial's numbers, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// Always [`ABLATION_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// The experiment's title.
    pub title: String,
    /// Seed of everything random, the order of the arms among it.
    pub seed: u64,
    /// When it began, in s since 1970.
    pub started_s: u64,
    /// The profile.
    pub profile: Profile,
    /// The cores that it leaves alone: "1-3".
    pub cores: String,
    /// How often each arm is done under each load.
    pub repeats: u64,
    /// What is compared, in the order of its numbers from 0: the host as it is, all settings, then the others.
    pub configurations: Vec<Configuration>,
    /// What of the profile can't be tried: words of the boot line, services.
    pub not_tried: Vec<String>,
    /// Names of the loads, in the experiment's order: its trials without repeats.
    pub loads: Vec<String>,
    /// Every trial so far, in the order they were done.
    pub trials: Vec<AblationTrial>,
    /// What follows, one a load.
    pub results: Vec<LoadResult>,
    /// Whether all trials were done.
    pub complete: bool,
}

/// One state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// What is in effect.
    pub kind: ConfigurationKind,
    /// The lever that it is about; None of the first two kinds.
    pub factor: Option<Factor>,
}

/// What is in effect in an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigurationKind {
    /// Nothing: the host as it was found.
    AsIs,
    /// All levers.
    All,
    /// All levers but one.
    Without,
    /// One lever.
    Alone,
}

/// Something that is switched as a whole: all settings of a rule, or a key of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// The rule of the audit, or the key's name: "irq-affinity", "host.fifo".
    pub name: String,
    /// What it does, in a few words.
    pub title: String,
    /// What it costs; empty where nothing is known.
    pub cost: String,
    /// What it changes: "/proc/sys/vm/swappiness 60 -> 10".
    pub changes: Vec<String>,
}

/// A trial of a proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationTrial {
    /// Number of its record in the manifest, from 1.
    pub number: usize,
    /// Which load, an index into [`Ablation::loads`].
    pub load: usize,
    /// Which arm, an index into [`Ablation::configurations`].
    pub configuration: usize,
    /// Which repeat, from 1.
    pub repeat: u64,
    /// Why its numbers may not be used; empty for a valid trial. An invalid one has no say.
    pub invalid: Vec<String>,
    /// Packets that its numbers rest on.
    pub packets: u64,
    /// Packets that were lost: they are in no percentile.
    pub lost: u64,
    /// Its percentiles and its maximum.
    pub levels: Vec<Level>,
}

/// A number of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Which.
    pub statistic: Statistic,
    /// In ns.
    pub value_ns: i64,
    /// Whether at least ten packets are beyond it; of a maximum never.
    pub supported: bool,
}

/// What trials are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The median delay.
    P50,
    /// 99 %.
    P99,
    /// 99.9 %: what settings are ranked by.
    P999,
    /// The largest delay: what settings are ranked by, too.
    Max,
}

impl Statistic {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::P50, Self::P99, Self::P999, Self::Max];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }

    /// In percent; None of the maximum.
    pub fn percentile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(50.0),
            Self::P99 => Some(99.0),
            Self::P999 => Some(99.9),
            Self::Max => None,
        }
    }
}

/// What follows under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// An index into [`Ablation::loads`].
    pub load: usize,
    /// The median of each statistic over the valid trials of each arm.
    pub configurations: Vec<ConfigurationMedians>,
    /// What all settings together are worth: the host as it is less the host with all of them.
    pub whole: Vec<Effect>,
    /// What each lever is worth.
    pub factors: Vec<FactorEffect>,
}

/// The median of an arm's trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationMedians {
    /// An index into [`Ablation::configurations`].
    pub configuration: usize,
    /// Valid trials.
    pub trials: usize,
    /// The median of each statistic, in ns; empty without trials.
    pub medians: Vec<Level>,
}

/// What a lever is worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactorEffect {
    /// The arm, an index into [`Ablation::configurations`]: without the lever it is held against all settings, alone against none.
    pub configuration: usize,
    /// Its effect on each statistic.
    pub effects: Vec<Effect>,
}

/// By how much a statistic is larger without something than with it, packets and repeat being the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Of what.
    pub statistic: Statistic,
    /// Repeats in which both arms have a valid trial.
    pub pairs: usize,
    /// What the differences within repeats are about, in ns: the median of the means of all pairs of them (Hodges, Lehmann). More than 0
    /// where it helps. None without pairs.
    pub difference_ns: Option<i64>,
    /// The interval of that, in ns; None where there are too few pairs for one.
    pub interval_ns: Option<(i64, i64)>,
    /// With which confidence, in percent, at least: so that all intervals of the same statistic and load hold together with 95 %.
    pub confidence: f64,
    /// What follows.
    pub verdict: EffectVerdict,
    /// The places that its interval allows among the settings with an effect, from 1; None of the others, and of the whole.
    pub ranks: Option<(usize, usize)>,
    /// Whether every number that it rests on has at least ten packets beyond it.
    pub supported: bool,
}

/// What an effect's interval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffectVerdict {
    /// Without it the statistic is larger.
    Helps,
    /// Without it the statistic is smaller.
    Harms,
    /// The interval has 0 in it.
    NotSeen,
    /// There are too few pairs for an interval.
    TooFew,
}

impl EffectVerdict {
    /// Whether there is an effect.
    pub fn is_seen(self) -> bool {
        matches!(self, Self::Helps | Self::Harms)
    }
}

impl Configuration {
    /// In words: "without irq-affinity".
    pub fn name(&self) -> String {
        let factor = self.factor.as_ref().map_or("", |factor| factor.name.as_str());
        match self.kind {
            ConfigurationKind::AsIs => "as it is".to_owned(),
            ConfigurationKind::All => "all settings".to_owned(),
            ConfigurationKind::Without => format!("without {factor}"),
            ConfigurationKind::Alone => format!("{factor} alone"),
        }
    }
}

impl Effect {
    /// Of this statistic among others.
    pub fn of(effects: &[Self], statistic: Statistic) -> Option<&Self> {
        effects.iter().find(|effect| effect.statistic == statistic)
    }
}
