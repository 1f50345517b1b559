//! What a search found: how much load a device takes. Meaning and methods: `docs/kpi/search.md`.
//!
//! A load is a rate in packets a second, or a number of packets that come back to back: [`Over`] says which.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::SettingRecord;
use crate::units::{Budget, UnitError};

/// Name and version of the document; the number rises when a reader of the old one would be misled.
pub const SEARCH_SCHEMA: &str = "wiretail.search/1";

/// All searches of an experiment: what `search.json` in a run directory holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searches {
    /// Always [`SEARCH_SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub wiretail_version: String,
    /// The experiment's title.
    pub title: String,
    /// Seed of everything random.
    pub seed: u64,
    /// When it began, in s since 1970.
    pub started_s: u64,
    /// Full names of the keys that vary from search to search, in their order.
    pub factors: Vec<String>,
    /// Searches that the experiment asks for; `searches` holds fewer while it runs.
    pub searches_planned: usize,
    /// In the order they were done.
    pub searches: Vec<Search>,
}

/// One search: the load that one device takes, of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Position in the experiment, from 1.
    pub number: usize,
    /// Which repeat it is, from 1.
    pub repeat: u64,
    /// Its factors: "skeleton-mlrsearch".
    pub name: String,
    /// Every key of the experiment with its value in this search.
    pub settings: Vec<SettingRecord>,
    /// How it was sought.
    pub effort: Effort,
    /// What was sought, and what was found, in the order asked for.
    pub goals: Vec<GoalResult>,
    /// Every trial, in the order they were done.
    pub trials: Vec<SearchTrial>,
    /// How long packets were sent for in all trials together, in s.
    pub sending_s: f64,
    /// From its begin to its end, in s.
    pub elapsed_s: f64,
    /// Whether it ran to its end.
    pub complete: bool,
}

/// How rates are chosen and judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effort {
    /// The method.
    pub method: Method,
    /// What a load is.
    #[serde(default)]
    pub over: Over,
    /// Lowest load that is tried.
    pub lowest: u64,
    /// Highest load that is tried.
    pub highest: u64,
    /// How far apart the bounds of a result may be, in parts of the upper one; for the linear search in parts of the highest
    /// rate.
    pub width: f64,
    /// Length of a full trial, in ns: the "goal final trial duration" of RFC 9971.
    pub full_ns: u64,
    /// Length of the first trials of MLRsearch, in ns: its "goal initial trial duration".
    pub first_ns: u64,
    /// Full trials that a decision on a rate rests on: the "goal duration sum" of RFC 9971 in full trials. The binary search
    /// has its `verify` instead.
    pub trials: u64,
    /// Share of them, by time, that may miss the goal: the "goal exceed ratio" of RFC 9971.
    pub exceed: f64,
    /// How often the binary search repeats a trial that missed the goal: the loss verification of ETSI GS NFV-TST 009.
    pub verify: u64,
    /// By how much a trial may be stretched, in parts of its length, before it misses every goal.
    pub stretch: f64,
}

/// What a load is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// A rate, in packets a second.
    #[default]
    Rate,
    /// Packets that come back to back (RFC 2544, 26.4; RFC 9004), at the same mean rate.
    Burst,
}

impl Over {
    /// The unit of a load, for people.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "pps",
            Self::Burst => "packets back to back",
        }
    }
}

/// How loads are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Multiple loss ratio search, RFC 9971.
    Mlrsearch,
    /// Binary search with loss verification, ETSI GS NFV-TST 009, for one goal after the other.
    Binary,
    /// Every rate from the lowest on, in steps of the width, until all goals are missed.
    Linear,
}

/// What is sought: the highest load at which this holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Goal {
    /// No more than this share of packets is lost: 0 is the non-drop rate (NDR), more a partial drop rate (PDR).
    Loss {
        /// From 0 to less than 1.
        ratio: f64,
    },
    /// So large a share of the packets arrives within this time; a lost packet does not.
    Delay {
        /// The budget: "100us@99.9%".
        budget: String,
        /// The time, in ns.
        limit_ns: i64,
        /// The share, in percent.
        percentile: f64,
    },
}

/// What was found for a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// How the search ended for it.
    pub ending: Ending,
    /// Highest load that meets the goal: the result.
    pub lower: Option<u64>,
    /// Lowest load above it that misses the goal.
    pub upper: Option<u64>,
    /// Of a rate, what the device forwarded at the lower one, in packets a second: the "conditional throughput" of RFC 9971.
    pub forwarded_pps: Option<f64>,
    /// Of a burst, packets of it that the device held when the last one came: the corrected buffer of RFC 9004, 6.4, in packets.
    #[serde(default)]
    pub held: Option<f64>,
    /// What the result rests on, or why there is none, in a sentence.
    pub reason: String,
}

/// How a search ended for a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Both bounds are there, and no further apart than asked for.
    Found,
    /// The highest rate meets the goal: the device takes more than was tried.
    AtHighest,
    /// The lowest rate misses the goal.
    BelowLowest,
    /// It ended before the bounds were close enough: interrupted, or trials were invalid.
    Open,
}

/// A trial of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchTrial {
    /// Number of its record in the manifest, from 1.
    pub number: usize,
    /// The load.
    pub load: u64,
    /// How long it sent, in ns.
    pub duration_ns: u64,
    /// Why its numbers may not be used; empty for a valid trial. An invalid one has no say.
    pub invalid: Vec<String>,
    /// Packets that were sent, without those of the warm-up.
    pub sent: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// How much longer packets left the device than they came to it, in parts of the time in which they came: what it
    /// had still to do at the end.
    pub stretch: f64,
    /// For each goal the share of packets that missed it: lost, or lost or late.
    pub missed: Vec<f64>,
    /// For each goal whether the trial as a whole missed it.
    pub poor: Vec<bool>,
}

impl Search {
    /// The last valid trial at the load that was found for the goal in `place`, among those that met it.
    pub fn trial_found(&self, place: usize) -> Option<&SearchTrial> {
        let lower = self.goals.get(place)?.lower?;
        let met = |trial: &&SearchTrial| {
            trial.load == lower && trial.invalid.is_empty() && trial.poor.get(place) == Some(&false)
        };
        self.trials.iter().rev().find(met)
    }

    /// The rates that were found for goals of loss; none of a search over bursts.
    pub fn rates_of_loss(&self) -> impl Iterator<Item = &GoalResult> {
        let over_rates = self.effort.over == Over::Rate;
        self.goals.iter().filter(move |result| over_rates && matches!(result.goal, Goal::Loss { .. }))
    }
}

const GOAL: &str = "a goal: ndr, pdr and a share such as pdr 0.5%, or a budget such as 100us@99.9%";

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
    /// The goals of a text with commas between them.
    ///
    /// # Errors
    /// One that is none, or none at all.
    pub fn list(text: &str) -> Result<Vec<Self>, UnitError> {
        text.split(',').map(str::parse).collect()
    }

    /// Largest share of packets that may miss it: be lost, or lost or late.
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
    fn goals_are_read_and_shown() {
        let goals = Goal::list("ndr, PDR 0.5 %,100us@99.9%").unwrap();
        let shown: Vec<String> = goals.iter().map(Goal::to_string).collect();
        assert_eq!(shown, ["NDR", "PDR 0.5 %", "100us@99.9%"]);
        assert_eq!(goals[1].allowed(), 0.005);
        assert!((goals[2].allowed() - 0.001).abs() < 1e-12);
        for wrong in ["", "ndr,", "pdr", "pdr 0.5", "pdr 100%", "pdr -1%", "100us", "99.9%"] {
            let error = Goal::list(wrong).unwrap_err().to_string();
            assert!(error.contains("such as pdr 0.5%"), "{wrong}: {error}");
        }
    }
}
