//! The capacity model's document. Formulas: `docs/kpi/capacity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::Goal;

/// Name and version of [`CapacityModel`].
pub const CAPACITY_SCHEMA: &str = "wiretail.capacity/1";

/// What `wiretail predict capacity --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityModel {
    /// [`CAPACITY_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// The deployments, in the order given.
    pub deployments: Vec<Deployment>,
}

/// A device in an environment: what is known of it, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployment {
    /// What it was computed from.
    pub inputs: CapacityInputs,
    /// What the model says.
    pub capacity: Capacity,
    /// Against the overload that was measured; null where none was given.
    pub against: Option<CapacityValidation>,
    /// Against what a search of the same device found, for each goal of loss; empty where the run has none.
    #[serde(default)]
    pub searched: Vec<SearchValidation>,
}

/// What the model takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityInputs {
    /// The deployment's name.
    pub name: String,
    /// Median delay through the device under test, in ns.
    pub dut_median_ns: Estimate,
    /// Median delay through a forwarder in its place that does no work, in ns.
    pub forwarder_median_ns: Estimate,
    /// What interrupts the device's core.
    pub interrupts: Vec<InterruptLoad>,
    /// The overload as measured: the highest rate that was carried and the lowest that was not, in packets a second.
    pub overload_pps: Option<[u64; 2]>,
    /// What the medians rest on; null where they were given as numbers.
    #[serde(default)]
    pub basis: Option<CapacityBasis>,
}

/// What both medians rest on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityBasis {
    /// Of the device.
    pub dut: MedianBasis,
    /// Of the forwarder.
    pub forwarder: MedianBasis,
}

/// What a median rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MedianBasis {
    /// The trial: "2 (suricata-10kpps)".
    pub trial: String,
    /// Packets matched.
    pub packets: u64,
    /// Where the stamps come from: that of the ingress, and of the egress where it is another.
    pub clock: String,
    /// Finest step that their difference has, in ns.
    pub granularity_ns: f64,
}

/// A value with the bounds of its 95 % confidence interval; both equal the value where it is taken as exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound; null where there is none.
    pub high: Option<f64>,
}

impl Estimate {
    /// A value that is taken as exact.
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: Some(value) }
    }

    /// Value and bounds times `factor`, which is not negative.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high.map(|high| high * factor) }
    }

    /// Whether it has a width.
    pub fn is_exact(self) -> bool {
        self.low == self.value && self.high == Some(self.value)
    }
}

/// Interrupts of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptLoad {
    /// What: "LOC", "TLB shootdowns (TLB)", or "all together".
    pub name: String,
    /// How often a second; null where only their time is known.
    pub rate_hz: Option<Estimate>,
    /// How long each time on average, in ns; null where only their time is known.
    pub length_ns: Option<f64>,
    /// Time that they take of each second, in ns.
    pub time_ns: Estimate,
}

impl InterruptLoad {
    /// Their time by rate times length.
    pub fn new(name: String, rate_hz: Estimate, length_ns: f64) -> Self {
        Self { name, time_ns: rate_hz.times(length_ns), rate_hz: Some(rate_hz), length_ns: Some(length_ns) }
    }

    /// All interrupts together, of which only the time in each second is known.
    pub fn together(time_ns: f64) -> Self {
        let name = "all together".to_owned();
        Self { name, rate_hz: None, length_ns: None, time_ns: Estimate::exact(time_ns) }
    }
}

/// What the model says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Time of the device's core for a packet, in ns: median of the device less that of the forwarder.
    pub cpu_ns: Estimate,
    /// Time that interrupts take of each second, in ns.
    pub interrupts_ns: Estimate,
    /// Highest rate, in packets a second; its upper bound is null where the medians' intervals overlap.
    pub max_pps: Estimate,
}

/// The model against what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityValidation {
    /// The answer.
    pub judgement: Judgement,
    /// The answer in a sentence.
    pub reason: String,
    /// How far R_max is from the nearer of both bounds, in parts of that bound: below 0 too low, above 0 too high, 0 between
    /// them.
    pub error: f64,
}

/// The model against what a search found for a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchValidation {
    /// The search: "skeleton-mlrsearch".
    pub search: String,
    /// What was sought.
    pub goal: Goal,
    /// Highest rate that meets the goal, in packets a second; null where none does.
    pub lower_pps: Option<u64>,
    /// Lowest rate above it that misses the goal, in packets a second; null where none does.
    pub upper_pps: Option<u64>,
    /// The answer; null where the bounds that were found don't tell.
    pub judgement: Option<Judgement>,
    /// As of [`CapacityValidation`]; null where the bounds that were found don't tell.
    pub error: Option<f64>,
}

/// Where a predicted capacity lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Between the highest rate carried and the lowest that was not.
    Inside,
    /// Below: the device carries more than predicted, at least what the model says.
    LowerBound,
    /// Above: the device was overloaded at a rate that it should carry.
    Off,
}
