//! Effect of the settings of a profile: `ablation.json` in a run directory. The method is described in
//! `docs/ablation.md`.
//!
//! Every trial belongs to a *configuration*: the host as it is, the host with all settings, with all settings
//! but one, or with a single setting. Each repeat runs all configurations once, in random order. Effects are
//! differences between two configurations of the same repeat.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::Profile;

/// Schema name and version of the ablation. The number increases if a reader of the old version would misread
/// the new one.
pub const ABLATION_SCHEMA: &str = "wiretail.ablation/1";

/// An ablation: the configurations, the numbers of every trial, and the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// Schema name and version ([`ABLATION_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Title of the experiment.
    pub title: String,
    /// Seed of all random numbers, including the order of the configurations.
    pub seed: u64,
    /// Start time, in s since 1970.
    pub started_s: u64,
    /// Profile whose settings are compared.
    pub profile: Profile,
    /// Cores that the profile isolates: "1-3".
    pub cores: String,
    /// Number of repeats of each configuration under each load.
    pub repeats: u64,
    /// Configurations, indexed from 0: the host as it is, all settings, then the others.
    pub configurations: Vec<Configuration>,
    /// Parts of the profile that cannot be tested: kernel command-line parameters and services.
    pub not_tried: Vec<String>,
    /// Names of the loads, in the order of the experiment. Each trial of the experiment, not counting
    /// repeats, is a load.
    pub loads: Vec<String>,
    /// All trials so far, in the order they were executed.
    pub trials: Vec<AblationTrial>,
    /// Results, one entry per load.
    pub results: Vec<LoadResult>,
    /// Whether all trials were executed.
    pub complete: bool,
}

/// One configuration of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// Kind of the configuration.
    pub kind: ConfigurationKind,
    /// Factor that the configuration adds or omits; null for the first two kinds.
    pub factor: Option<Factor>,
}

/// Kind of a configuration: which factors are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigurationKind {
    /// No factor is in effect: the host is not changed.
    AsIs,
    /// All factors.
    All,
    /// All factors but one.
    Without,
    /// A single factor.
    Alone,
}

/// A factor that is switched as a whole: all settings of an audit rule, or a key of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// Name of the audit rule or of the key: "irq-affinity", "host.fifo".
    pub name: String,
    /// Short description of its effect.
    pub title: String,
    /// Drawback of the factor; empty if none is known.
    pub cost: String,
    /// Changes made by the factor: "/proc/sys/vm/swappiness 60 -> 10".
    pub changes: Vec<String>,
}

/// A trial of an ablation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AblationTrial {
    /// Number of the trial's record in the manifest, from 1.
    pub number: usize,
    /// Load, as an index into [`Ablation::loads`].
    pub load: usize,
    /// Configuration, as an index into [`Ablation::configurations`].
    pub configuration: usize,
    /// Number of the repeat, from 1.
    pub repeat: u64,
    /// Reasons why the trial is invalid; empty for a valid trial. Invalid trials are ignored.
    pub invalid: Vec<String>,
    /// Number of packets in the delay statistics.
    pub packets: u64,
    /// Number of packets lost. They are not part of any percentile.
    pub lost: u64,
    /// Percentiles and maximum of the delay.
    pub levels: Vec<Level>,
}

/// Value of one statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// The statistic.
    pub statistic: Statistic,
    /// Value, in ns.
    pub value_ns: i64,
    /// Whether at least ten packets are beyond the value; always false for a maximum.
    pub supported: bool,
}

/// Statistic by which trials are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The median delay.
    P50,
    /// The 99th percentile of the delay.
    P99,
    /// The 99.9th percentile of the delay. Settings are ranked by this percentile.
    P999,
    /// The largest delay. Settings are also ranked by it.
    Max,
}

impl Statistic {
    /// All statistics.
    pub const ALL: [Self; 4] = [Self::P50, Self::P99, Self::P999, Self::Max];

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
        }
    }

    /// Returns the percentile in percent; `None` for the maximum.
    pub fn percentile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(50.0),
            Self::P99 => Some(99.0),
            Self::P999 => Some(99.9),
            Self::Max => None,
        }
    }
}

/// Results under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Load, as an index into [`Ablation::loads`].
    pub load: usize,
    /// For each configuration, the median of each statistic over the valid trials.
    pub configurations: Vec<ConfigurationMedians>,
    /// Effect of all settings together: each statistic of the host as it is, minus that of the host with all
    /// settings.
    pub whole: Vec<Effect>,
    /// Effect of each factor.
    pub factors: Vec<FactorEffect>,
}

/// Medians over the trials of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationMedians {
    /// Configuration, as an index into [`Ablation::configurations`].
    pub configuration: usize,
    /// Number of valid trials.
    pub trials: usize,
    /// Median of each statistic, in ns; empty without trials.
    pub medians: Vec<Level>,
}

/// Effect of one factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactorEffect {
    /// Configuration that was measured, as an index into [`Ablation::configurations`]. A configuration without
    /// the factor is compared with the configuration that has all settings. A configuration with only the
    /// factor is compared with the host as it is.
    pub configuration: usize,
    /// Effect on each statistic.
    pub effects: Vec<Effect>,
}

/// Increase in a statistic when a factor is removed. Both trials belong to the same repeat and send the same
/// packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The statistic.
    pub statistic: Statistic,
    /// Number of repeats in which both configurations have a valid trial.
    pub pairs: usize,
    /// Estimated difference, in ns (Hodges-Lehmann estimator). One difference is computed per repeat; the
    /// estimate is the median of the means of all pairs of these differences. Positive if the setting helps.
    /// Null if `pairs` is 0.
    pub difference_ns: Option<i64>,
    /// Confidence interval of the difference, in ns; null if there are too few pairs.
    pub interval_ns: Option<(i64, i64)>,
    /// Minimum confidence of the interval, in percent, chosen so that all intervals of the same statistic and
    /// load hold simultaneously with a confidence of 95 %.
    pub confidence: f64,
    /// Conclusion from the interval.
    pub verdict: EffectVerdict,
    /// Best and worst rank, from 1, that the interval allows among the settings with an effect; null for
    /// settings without an effect, and for all settings together.
    pub ranks: Option<(usize, usize)>,
    /// Whether every value used has at least ten packets beyond it.
    pub supported: bool,
}

/// Conclusion from the confidence interval of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffectVerdict {
    /// The statistic is larger without the setting.
    Helps,
    /// The statistic is smaller without the setting.
    Harms,
    /// The interval includes 0.
    NotSeen,
    /// There are too few pairs for an interval.
    TooFew,
}

impl EffectVerdict {
    /// Returns whether there is an effect.
    pub fn is_seen(self) -> bool {
        matches!(self, Self::Helps | Self::Harms)
    }
}

impl Configuration {
    /// Returns the display name: "without irq-affinity".
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
    /// Returns the effect on `statistic`.
    pub fn of(effects: &[Self], statistic: Statistic) -> Option<&Self> {
        effects.iter().find(|effect| effect.statistic == statistic)
    }
}
