//! Document of the capacity model. Formulas: `docs/kpi/capacity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::Goal;

/// Schema name and version of [`CapacityModel`].
pub const CAPACITY_SCHEMA: &str = "wiretail.capacity/1";

/// Output of `wiretail predict capacity --json`: highest rates predicted by the capacity model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityModel {
    /// Schema name and version ([`CAPACITY_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Deployments, in the order given.
    pub deployments: Vec<Deployment>,
}

/// A device in an environment: its inputs and its predicted capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployment {
    /// Inputs of the model.
    pub inputs: CapacityInputs,
    /// Result of the model.
    pub capacity: Capacity,
    /// Comparison with the measured overload; null if none was given.
    pub against: Option<CapacityValidation>,
    /// Comparison with a search of the same device, one entry per loss goal; empty if the run has none.
    #[serde(default)]
    pub searched: Vec<SearchValidation>,
}

/// Inputs of the capacity model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityInputs {
    /// Name of the deployment.
    pub name: String,
    /// Median delay through the device under test, in ns.
    pub dut_median_ns: Estimate,
    /// Median delay through a forwarder that replaces the device and does no work, in ns.
    pub forwarder_median_ns: Estimate,
    /// Interrupts on the device's core.
    pub interrupts: Vec<InterruptLoad>,
    /// Measured overload: highest rate carried and lowest rate not carried, in packets per second. Null if
    /// none was given.
    pub overload_pps: Option<[u64; 2]>,
    /// Measurements from which the medians were computed; null if the medians were given as numbers.
    #[serde(default)]
    pub basis: Option<CapacityBasis>,
}

/// Measurements from which both medians were computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityBasis {
    /// Measurement of the device.
    pub dut: MedianBasis,
    /// Measurement of the forwarder.
    pub forwarder: MedianBasis,
}

/// Measurement from which a median was computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MedianBasis {
    /// Trial that was measured: "2 (suricata-10kpps)".
    pub trial: String,
    /// Number of matched packets.
    pub packets: u64,
    /// Source of the ingress timestamps, followed by the source of the egress timestamps if it differs.
    pub clock: String,
    /// Granularity of the delay, in ns.
    pub granularity_ns: f64,
}

/// A value with its 95 % confidence interval. Both bounds equal the value if it is assumed to be exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound; null if there is none.
    pub high: Option<f64>,
}

impl Estimate {
    /// Returns a value that is assumed to be exact.
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: Some(value) }
    }

    /// Returns the value and its bounds multiplied by `factor`, which must not be negative.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high.map(|high| high * factor) }
    }

    /// Returns whether the interval has zero width.
    pub fn is_exact(self) -> bool {
        self.low == self.value && self.high == Some(self.value)
    }
}

/// Load caused by one kind of interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptLoad {
    /// Name of the interrupt: "LOC", "TLB shootdowns (TLB)", or "all together".
    pub name: String,
    /// Interrupts per second; null if only their total time is known.
    pub rate_hz: Option<Estimate>,
    /// Mean duration of an interrupt, in ns; null if only their total time is known.
    pub length_ns: Option<f64>,
    /// Time spent in these interrupts per second, in ns.
    pub time_ns: Estimate,
}

impl InterruptLoad {
    /// Creates a load with the time computed as rate times length.
    pub fn new(name: String, rate_hz: Estimate, length_ns: f64) -> Self {
        Self { name, time_ns: rate_hz.times(length_ns), rate_hz: Some(rate_hz), length_ns: Some(length_ns) }
    }

    /// Creates the load of all interrupts together from their total time per second.
    pub fn together(time_ns: f64) -> Self {
        let name = "all together".to_owned();
        Self { name, rate_hz: None, length_ns: None, time_ns: Estimate::exact(time_ns) }
    }
}

/// Capacity predicted by the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// CPU time per packet, in ns: median of the device minus median of the forwarder.
    pub cpu_ns: Estimate,
    /// Time spent in interrupts per second, in ns.
    pub interrupts_ns: Estimate,
    /// Highest rate, in packets per second. Its upper bound is null if the intervals of the medians overlap.
    pub max_pps: Estimate,
}

/// Comparison of the predicted capacity with a measured overload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityValidation {
    /// Position of the prediction relative to the measured bounds.
    pub judgement: Judgement,
    /// The judgement in one sentence.
    pub reason: String,
    /// Distance of R_max from the nearer measured bound, as a fraction of that bound: negative if too low,
    /// positive if too high, 0 between the bounds.
    pub error: f64,
}

/// Comparison of the predicted capacity with the result of a search for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchValidation {
    /// Name of the search: "skeleton-mlrsearch".
    pub search: String,
    /// Goal of the search.
    pub goal: Goal,
    /// Highest rate that meets the goal, in packets per second; null if there is none.
    pub lower_pps: Option<u64>,
    /// Lowest rate above `lower_pps` that misses the goal, in packets per second; null if there is none.
    pub upper_pps: Option<u64>,
    /// Position of the prediction relative to `lower_pps` and `upper_pps`; null if these bounds are
    /// inconclusive.
    pub judgement: Option<Judgement>,
    /// Error, as in [`CapacityValidation`]; null if the bounds are inconclusive.
    pub error: Option<f64>,
}

/// Position of a predicted capacity relative to the measured bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Between the highest rate carried and the lowest rate not carried.
    Inside,
    /// Below the bounds: the device carries more than predicted, so the prediction is a lower bound.
    LowerBound,
    /// Above the bounds: the device was overloaded at a rate that the model expects it to carry.
    Off,
}
