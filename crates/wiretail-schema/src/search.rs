//! Results of a search for the highest load that a device sustains. Meaning and methods:
//! `docs/kpi/search.md`.
//!
//! A load is either a rate in packets per second or a burst size in packets, depending on [`Over`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::SettingRecord;
use crate::units::{Budget, UnitError};

/// Schema name and version of the searches. The number increases if a reader of the old version would misread
/// the new one.
pub const SEARCH_SCHEMA: &str = "wiretail.search/1";

/// All searches of an experiment: the content of `search.json` in a run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searches {
    /// Schema name and version ([`SEARCH_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Title of the experiment.
    pub title: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Start time, in s since 1970.
    pub started_s: u64,
    /// Full names of the keys that vary between searches, in order.
    pub factors: Vec<String>,
    /// Number of searches that the experiment defines. `searches` holds fewer while it runs.
    pub searches_planned: usize,
    /// Searches in the order they were executed.
    pub searches: Vec<Search>,
}

/// A search for the load that one device sustains, with one kind of traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Number of the repeat, from 1.
    pub repeat: u64,
    /// Name made of the factor values: "skeleton-mlrsearch".
    pub name: String,
    /// Every key of the experiment with its value in this search.
    pub settings: Vec<SettingRecord>,
    /// Method and limits of the search.
    pub effort: Effort,
    /// Goals and their results, in the order requested.
    pub goals: Vec<GoalResult>,
    /// All trials, in the order they were executed.
    pub trials: Vec<SearchTrial>,
    /// Total time during which packets were sent, over all trials, in s.
    pub sending_s: f64,
    /// Duration of the search from start to end, in s.
    pub elapsed_s: f64,
    /// Whether the search ran to its end.
    pub complete: bool,
}

/// Parameters of a search: how loads are chosen and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effort {
    /// Search method.
    pub method: Method,
    /// Kind of load that is varied.
    #[serde(default)]
    pub over: Over,
    /// Lowest load that is tried.
    pub lowest: u64,
    /// Highest load that is tried.
    pub highest: u64,
    /// Largest accepted distance between the two bounds of a result, as a fraction of the upper bound. For
    /// the linear search, a fraction of the highest rate.
    pub width: f64,
    /// Length of a full trial, in ns: the "goal final trial duration" of RFC 9971.
    pub full_ns: u64,
    /// Length of the first trials of MLRsearch, in ns: its "goal initial trial duration".
    pub first_ns: u64,
    /// Number of full trials that decide whether a load meets a goal: the "goal duration sum" of RFC 9971, in
    /// full trials. The binary search uses `verify` instead.
    pub trials: u64,
    /// Fraction of the full trials at a load, weighted by duration, that may miss the goal: the "goal exceed
    /// ratio" of RFC 9971.
    pub exceed: f64,
    /// How often the binary search repeats a trial that missed the goal: the loss verification of ETSI GS
    /// NFV-TST 009.
    pub verify: u64,
    /// Largest accepted backlog of a trial: the additional time that the device may need to send the packets,
    /// as a fraction of the time in which they arrive. A trial with a larger backlog misses every goal.
    pub stretch: f64,
}

/// Kind of load that a search varies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// A rate, in packets per second.
    #[default]
    Rate,
    /// Number of packets sent back to back (RFC 2544, 26.4; RFC 9004), at a constant mean rate.
    Burst,
}

impl Over {
    /// Returns the unit of a load, for display.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "pps",
            Self::Burst => "packets back to back",
        }
    }
}

/// Method by which a search chooses loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Multiple loss ratio search, RFC 9971.
    Mlrsearch,
    /// Binary search with loss verification, ETSI GS NFV-TST 009, for one goal after another.
    Binary,
    /// Linear search: every rate from the lowest, in steps of the width, until all goals are missed.
    Linear,
}

/// Goal of a search: the highest load at which the condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Goal {
    /// At most this fraction of packets is lost. 0 gives the non-drop rate (NDR), a higher value a partial
    /// drop rate (PDR).
    Loss {
        /// Allowed loss ratio, from 0 to less than 1.
        ratio: f64,
    },
    /// At least `percentile` percent of the packets arrive within `limit_ns`. A lost packet counts as a miss.
    Delay {
        /// The budget as text: "100us@99.9%".
        budget: String,
        /// Highest delay allowed, in ns.
        limit_ns: i64,
        /// Percentage of packets that must arrive within the limit.
        percentile: f64,
    },
}

/// Result of a search for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// How the search for this goal ended.
    pub ending: Ending,
    /// Result: highest load that meets the goal; null if there is none.
    pub lower: Option<u64>,
    /// Lowest load above `lower` that misses the goal; null if there is none.
    pub upper: Option<u64>,
    /// Rate that the device forwarded at the load `lower`, in packets per second: the "conditional
    /// throughput" of RFC 9971. Null in a search over bursts.
    pub forwarded_pps: Option<f64>,
    /// Packets of a burst that the device still held when the last one arrived: the corrected buffer of RFC
    /// 9004, 6.4, in packets. Null in a search over rates.
    #[serde(default)]
    pub held: Option<f64>,
    /// One sentence: the evidence for the result, or the reason why there is no result.
    pub reason: String,
}

/// How the search for a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Both bounds are known and no further apart than requested.
    Found,
    /// The highest load meets the goal: the device sustains more than was tried.
    AtHighest,
    /// The lowest load misses the goal.
    BelowLowest,
    /// The search ended before the bounds were close enough: it was interrupted, or trials were invalid.
    Open,
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchTrial {
    /// Number of the trial's record in the manifest, from 1.
    pub number: usize,
    /// The load.
    pub load: u64,
    /// Sending time of the trial, in ns.
    pub duration_ns: u64,
    /// Reasons why the trial is invalid; empty for a valid trial. Invalid trials are ignored.
    pub invalid: Vec<String>,
    /// Number of packets sent, without the warm-up.
    pub sent: u64,
    /// Number of packets lost.
    pub lost: u64,
    /// Backlog left at the end: the additional time that the device needed to send the packets, as a fraction
    /// of the time in which they arrived.
    pub stretch: f64,
    /// For each goal, the fraction of packets that missed it. A lost packet misses every goal; a late packet
    /// misses a latency goal.
    pub missed: Vec<f64>,
    /// For each goal, whether the trial as a whole missed it.
    pub poor: Vec<bool>,
}

impl Search {
    /// Returns the last valid trial that ran at the load found for the goal at index `place` and met that goal.
    pub fn trial_found(&self, place: usize) -> Option<&SearchTrial> {
        let lower = self.goals.get(place)?.lower?;
        let met = |trial: &&SearchTrial| {
            trial.load == lower && trial.invalid.is_empty() && trial.poor.get(place) == Some(&false)
        };
        self.trials.iter().rev().find(met)
    }

    /// Returns the results of the loss goals; empty for a search over bursts.
    pub fn rates_of_loss(&self) -> impl Iterator<Item = &GoalResult> {
        let over_rates = self.effort.over == Over::Rate;
        self.goals.iter().filter(move |result| over_rates && matches!(result.goal, Goal::Loss { .. }))
    }
}

const GOAL: &str =
    "a goal: 'ndr', 'pdr' followed by a loss share (pdr 0.5%), or a delay budget (100us@99.9%)";

impl FromStr for Goal {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError { text: text.trim().to_owned(), expected: GOAL };
        let words = text.trim().to_ascii_lowercase();
        if words == "ndr" {
            return Ok(Self::Loss { ratio: 0.0 });
        }
        if let Some(share) = words.strip_prefix("pdr") {
            let number = share.trim().strip_suffix('%').ok_or_else(error)?;
            let percent = number.trim().parse::<f64>().ok();
            let percent = percent.filter(|percent| (0.0..100.0).contains(percent)).ok_or_else(error)?;
            return Ok(Self::Loss { ratio: percent / 100.0 });
        }
        let budget: Budget = text.trim().parse().map_err(|_| error())?;
        Ok(Self::Delay {
            budget: budget.to_string(),
            limit_ns: budget.limit.ns,
            percentile: budget.share.percent(),
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss { ratio: 0.0 } => write!(f, "NDR"),
            Self::Loss { ratio } => write!(f, "PDR {} %", ratio * 100.0),
            Self::Delay { budget, .. } => write!(f, "{budget}"),
        }
    }
}

impl Goal {
    /// Parses a comma-separated list of goals.
    ///
    /// # Errors
    /// Returns an error if the list is empty or an entry is not a goal.
    pub fn list(text: &str) -> Result<Vec<Self>, UnitError> {
        text.split(',').map(str::parse).collect()
    }

    /// Returns the largest fraction of packets that may miss the goal. A lost packet misses every goal; a late
    /// packet misses a latency goal.
    pub fn allowed(&self) -> f64 {
        match self {
            Self::Loss { ratio } => *ratio,
            Self::Delay { percentile, .. } => 1.0 - percentile / 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_goals() {
        let goals = Goal::list("ndr, PDR 0.5 %,100us@99.9%").unwrap();
        let shown: Vec<String> = goals.iter().map(Goal::to_string).collect();
        assert_eq!(shown, ["NDR", "PDR 0.5 %", "100us@99.9%"]);
        assert_eq!(goals[1].allowed(), 0.005);
        assert!((goals[2].allowed() - 0.001).abs() < 1e-12);
        for wrong in ["", "ndr,", "pdr", "pdr 0.5", "pdr 100%", "pdr -1%", "100us", "99.9%"] {
            let error = Goal::list(wrong).unwrap_err().to_string();
            assert!(error.contains("pdr 0.5%"), "{wrong}: {error}");
        }
    }
}
