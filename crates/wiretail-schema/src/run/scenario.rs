//! Comparison of trials: which trials measure the same scenario under different loads, and the load at which
//! a device no longer keeps up.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::{Run, SettingRecord, TrialRecord};
use crate::summary::Summary;

/// Full name of the factor that sets the load.
pub const RATE: &str = "traffic.rate";

/// Analysis of one segment of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentResult {
    /// Number of the trial, from 1; see [`TrialRecord::number`].
    pub trial: usize,
    /// Index in [`TrialRecord::segments`]; 0 is the whole device under test.
    pub segment: usize,
    /// Summary of the segment.
    pub summary: Summary,
}

/// A subset of the factors that distinguish a trial from the others of its run. Repeats of a trial share a
/// scenario. Displayed as words: "skeleton, batch 32, 100 B".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// The factors of the subset, in the order of the experiment's keys, without keys that have no effect.
    pub settings: Vec<SettingRecord>,
}

/// Devices under the same load, ordered by one percentile of their delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranking {
    /// Factors that the devices have in common: the load.
    pub load: Scenario,
    /// Percentile used for the ranking: 99.9.
    pub percentile: f64,
    /// Devices in order of increasing delay.
    pub places: Vec<Place>,
}

/// Place of a device in a ranking. If the intervals of two devices overlap, neither ranks as faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The device, given by its factors.
    pub device: Scenario,
    /// Numbers of the valid trials used, which are repeats.
    pub trials: Vec<usize>,
    /// The percentile, in ns: the median over the trials, or the lower middle value for an even number of
    /// trials.
    pub value_ns: i64,
    /// Lowest of the lower bounds of the trials' 95 % confidence intervals, in ns.
    pub low_ns: i64,
    /// Highest of the upper bounds of the trials' 95 % confidence intervals, in ns; null if one of the
    /// intervals has no upper bound.
    pub high_ns: Option<i64>,
    /// Whether the percentile is supported in every trial used.
    pub supported: bool,
    /// Best rank that the intervals allow, from 1: one more than the number of devices that are certainly
    /// faster.
    pub best: usize,
    /// Worst rank that the intervals allow.
    pub worst: usize,
    /// Devices that cannot be distinguished from this one, as indices into [`Ranking::places`].
    pub alike: Vec<usize>,
}

/// Load above which a scenario leaves its plateau.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadMark {
    /// Factors of the trials, without [`RATE`].
    pub scenario: Scenario,
    /// Rate and sign of the overload.
    pub overload: Overload,
}

/// Rate at which a curve over the offered load leaves its plateau. The limits of the rule are defined here so
/// that the code that applies it and the code that explains it use the same values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Lowest overloaded rate, in packets per second.
    pub rate_pps: u64,
    /// Sign of the overload at that rate.
    pub sign: OverloadSign,
}

/// Sign that reveals an overload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverloadSign {
    /// The loss ratio exceeds the limit.
    Loss {
        /// Loss ratio at the rate.
        ratio: f64,
        /// Highest loss ratio that still belongs to the plateau.
        limit: f64,
    },
    /// The median delay exceeds the limit.
    Delay {
        /// Median delay at the rate, in ns.
        p50_ns: i64,
        /// Highest median delay that still belongs to the plateau, in ns.
        limit_ns: i64,
    },
}

impl Overload {
    /// Loss up to this fraction is not considered overload.
    pub const LOSS_MIN: f64 = 1e-3;
    /// Loss up to this multiple of the loss at lower rates is not considered overload, unless it exceeds that
    /// loss by more than [`Self::LOSS_STEP`].
    pub const LOSS_FACTOR: f64 = 10.0;
    /// A loss ratio that exceeds the ratio at lower rates by this much is always considered overload.
    pub const LOSS_STEP: f64 = 0.1;
    /// A median delay up to this multiple of the median at lower rates is not considered overload.
    pub const DELAY_FACTOR: f64 = 3.0;
    /// Minimum number of lower rates to compare the delay with. Fewer rates do not form a plateau, because one
    /// of them may be an outlier.
    pub const DELAY_RATES: usize = 2;
}

impl Scenario {
    /// Returns the factors of `trial` except those in `without`, given by their full names.
    pub fn of(run: &Run, trial: &TrialRecord, without: &[&str]) -> Self {
        let kept = run.factors.iter().filter(|key| !without.contains(&key.as_str()));
        Self { settings: kept.filter_map(|key| trial.setting(key)).cloned().collect() }
    }

    /// Returns the value of a factor, given its full name.
    pub fn get(&self, key: &str) -> Option<&SettingRecord> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.settings.is_empty() {
            return f.write_str("all trials");
        }
        for (index, setting) in self.settings.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}", setting.words())?;
        }
        Ok(())
    }
}

impl SettingRecord {
    /// Formats the value in words, with its key if the value alone is unclear: "skeleton", "batch 32".
    pub fn words(&self) -> String {
        let name = self.key.rsplit('.').next().unwrap_or_default();
        match self.key.as_str() {
            "dut.kind" | RATE | "traffic.size" | "traffic.pattern" | "traffic.directions" => {
                self.text.clone()
            }
            "trial.duration" => format!("for {}", self.text),
            "trace.record" => if self.text == "true" { "traced" } else { "untraced" }.to_owned(),
            _ => format!("{} {}", name.replace('-', " "), self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, text: &str) -> SettingRecord {
        SettingRecord { key: key.to_owned(), text: text.to_owned(), number: 0 }
    }

    #[test]
    fn formats_scenario_as_words() {
        let settings = [
            ("dut.kind", "skeleton"),
            ("dut.batch", "32"),
            ("dut.drop-every", "100"),
            ("traffic.rate", "10 kpps"),
            ("trial.duration", "10 min"),
            ("trace.record", "false"),
        ];
        let scenario = Scenario { settings: settings.map(|(key, text)| setting(key, text)).to_vec() };
        assert_eq!(scenario.to_string(), "skeleton, batch 32, drop every 100, 10 kpps, for 10 min, untraced");
        assert_eq!(scenario.get("dut.batch").unwrap().text, "32");
        assert_eq!(Scenario::default().to_string(), "all trials");
    }
}
