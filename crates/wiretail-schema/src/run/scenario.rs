//! Trials side by side: which of them measure the same under another load, and from which load on a
//! device no longer keeps up.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::{Run, SettingRecord, TrialRecord};
use crate::summary::Summary;

/// Full name of the factor that is the load.
pub const RATE: &str = "traffic.rate";

/// The analysis of one segment of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentResult {
    /// [`TrialRecord::number`], from 1.
    pub trial: usize,
    /// Index in [`TrialRecord::segments`]; 0 is the whole device under test.
    pub segment: usize,
    /// Its numbers.
    pub summary: Summary,
}

/// What tells a trial from others of its run: its factors, without some of them. Repeats of a trial
/// share theirs. Shown as words: "skeleton, batch 32, 100 B".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// The factors left, in the order of the experiment's keys; a key without effect is not among them.
    pub settings: Vec<SettingRecord>,
}

/// Devices under the same load, in the order of one percentile of their delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranking {
    /// What they have in common of the factors: the load.
    pub load: Scenario,
    /// The percentile they are ranked by: 99.9.
    pub percentile: f64,
    /// The devices, by rising delay.
    pub places: Vec<Place>,
}

/// A device's place among others. Where the intervals of two overlap, neither is told to be faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The device: its factors.
    pub device: Scenario,
    /// Valid trials that it rests on, by their numbers: repeats.
    pub trials: Vec<usize>,
    /// The percentile, in ns: of several trials the median, of an even number the lower middle one.
    pub value_ns: i64,
    /// The lowest lower bound of the trials' 95 % confidence intervals, in ns.
    pub low_ns: i64,
    /// The highest upper bound, in ns; None where one of them has none.
    pub high_ns: Option<i64>,
    /// Whether the percentile is supported in every one of these trials.
    pub supported: bool,
    /// The best rank that the intervals allow, from 1: one more than there are devices that are faster for sure.
    pub best: usize,
    /// The worst rank that they allow.
    pub worst: usize,
    /// Positions in [`Ranking::places`] of those that it is not told apart from.
    pub alike: Vec<usize>,
}

/// The load from which on a scenario leaves its plateau.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadMark {
    /// The trials meant: their factors without [`RATE`].
    pub scenario: Scenario,
    /// From where on, and why.
    pub overload: Overload,
}

/// Where a curve over the offered rate leaves its plateau. The limits of the rule stand here, so that
/// who applies it and who explains it have the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Lowest overloaded rate, in packets a second.
    pub rate_pps: u64,
    /// What gave it away there.
    pub sign: OverloadSign,
}

/// What gives an overload away.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverloadSign {
    /// More packets were lost than the limit allows.
    Loss {
        /// Share of packets lost at the rate.
        ratio: f64,
        /// Highest share that still counts as the plateau.
        limit: f64,
    },
    /// The median delay is higher than the limit allows.
    Delay {
        /// Median delay at the rate, in ns.
        p50_ns: i64,
        /// Highest one that still counts as the plateau, in ns.
        limit_ns: i64,
    },
}

impl Overload {
    /// Loss up to this share is no overload.
    pub const LOSS_MIN: f64 = 1e-3;
    /// Nor is loss of up to so many times that of the lower rates, unless it exceeds [`Self::LOSS_STEP`].
    pub const LOSS_FACTOR: f64 = 10.0;
    /// This much more loss than at the lower rates is overload, however much they lose.
    pub const LOSS_STEP: f64 = 0.1;
    /// A median delay of up to so many times that of the lower rates is no overload.
    pub const DELAY_FACTOR: f64 = 3.0;
    /// Lower rates that the delay is held against: fewer are no plateau, as one of them may be odd.
    pub const DELAY_RATES: usize = 2;
}

impl Scenario {
    /// The factors of `trial` except those in `without`, by their full names.
    pub fn of(run: &Run, trial: &TrialRecord, without: &[&str]) -> Self {
        let kept = run.factors.iter().filter(|key| !without.contains(&key.as_str()));
        Self { settings: kept.filter_map(|key| trial.setting(key)).cloned().collect() }
    }

    /// The value of a factor by its full name.
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
    /// The value in words; with its key where the value alone says nothing: "skeleton", "batch 32".
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
    fn a_scenario_reads_as_words() {
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
