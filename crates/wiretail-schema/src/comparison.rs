//! Result of `wiretail compare`: differences between groups of trials.
//!
//! The unit is the trial, because trials of the same device differ by more than their packets do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of a comparison.
pub const COMPARISON_SCHEMA: &str = "wiretail.comparison/2";

/// A complete comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Schema name and version ([`COMPARISON_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Accepted degradation, as a fraction of the baseline.
    pub tolerance: f64,
    /// Number of tests. Their p-values are adjusted for this number (Holm), so that all answers together are
    /// right with 95 % confidence.
    pub family: usize,
    /// Facts about the groups that limit the comparison; usually empty.
    pub warnings: Vec<String>,
    /// Conclusion of all answers.
    pub outcome: ComparisonOutcome,
    /// Pairs of groups: each one with its baseline.
    pub pairs: Vec<GroupComparison>,
}

/// Conclusion of a comparison, as used by `--check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ComparisonOutcome {
    /// No statistic is worse by more than the tolerance.
    Pass,
    /// At least one statistic is worse by more than the tolerance.
    Fail,
    /// The trials do not decide.
    Undecided,
}

/// A group of trials compared with its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupComparison {
    /// Baseline group.
    pub baseline: Group,
    /// Group compared with the baseline.
    pub other: Group,
    /// Whether trials were compared within repeats: each repeat has one trial of either group, and the trials
    /// of a repeat were made close together.
    pub paired: bool,
    /// Number of pairs, or of trials in the smaller group.
    pub trials: usize,
    /// One entry per statistic.
    pub statistics: Vec<StatisticComparison>,
}

/// Trials of the same device under the same load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Paths or names of its trials.
    pub trials: Vec<String>,
}

/// One statistic of two groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatisticComparison {
    /// Name: "p99.9", "loss ratio".
    pub statistic: String,
    /// Unit of the levels.
    pub unit: LevelUnit,
    /// Values of the baseline's trials.
    pub baseline: GroupLevel,
    /// Values of the other group's trials.
    pub other: GroupLevel,
    /// Change from the baseline: relative for delays (0.1 means 10 % slower), absolute for ratios. It is the
    /// Hodges-Lehmann estimate; with one trial in a group, the difference of the medians.
    pub change: f64,
    /// Lower bound of the change; null if there are too few trials.
    pub change_low: Option<f64>,
    /// Upper bound of the change; null if there are too few trials.
    pub change_high: Option<f64>,
    /// Confidence of the interval, in percent. It is above 95 if the command makes several tests.
    pub confidence: f64,
    /// Two-sided p-value of the test; null with one trial in a group.
    pub p_value: Option<f64>,
    /// P-value adjusted for the number of tests (Holm).
    pub adjusted_p_value: Option<f64>,
    /// Conclusion.
    pub answer: Answer,
}

/// Unit of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LevelUnit {
    /// Delay in ns.
    Ns,
    /// Ratio between 0 and 1.
    Ratio,
}

/// Values of a statistic in the trials of a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupLevel {
    /// Median over the trials.
    pub median: f64,
    /// Lower bound of the median's 95 % confidence interval; null with fewer than six trials.
    pub low: Option<f64>,
    /// Upper bound of the median's 95 % confidence interval; null with fewer than six trials.
    pub high: Option<f64>,
    /// Smallest value of a trial.
    pub smallest: f64,
    /// Largest value of a trial.
    pub largest: f64,
    /// Lower bound of the 95 % prediction interval for the median of as many further trials; null with too few
    /// trials.
    pub next_low: Option<f64>,
    /// Upper bound of this prediction interval.
    pub next_high: Option<f64>,
}

/// Conclusion about one statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// Lower than in the baseline, with confidence.
    Better,
    /// Higher than in the baseline, with confidence.
    Worse,
    /// No difference was found, and a difference above the tolerance is excluded.
    NotWorse,
    /// No difference was found, but the interval includes differences above the tolerance.
    NotSeparated,
    /// Too few trials: no result of the test could be significant.
    TooFewTrials {
        /// Number of trials per group from which the test can find a difference.
        needed: usize,
    },
    /// One of the groups has a single trial, so that a difference between the devices cannot be separated from
    /// one between the trials.
    SingleTrial,
}

impl Answer {
    /// Returns whether a difference was found.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}
