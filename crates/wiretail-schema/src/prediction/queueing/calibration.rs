//! Calibration of the queueing simulation by a measured run, and its validation against other runs. Meaning
//! and formulas: `docs/kpi/queueing.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{QueueingLoad, QueueingModel, Release};
use crate::prediction::capacity::Estimate;
use crate::run::SettingRecord;

/// Schema name and version of the file written by `wiretail predict queueing --save`.
pub const QUEUEING_MODEL_SCHEMA: &str = "wiretail.queueing-model/1";

/// A queueing model saved to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedQueueingModel {
    /// Schema name and version ([`QUEUEING_MODEL_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the file.
    pub wiretail_version: String,
    /// Model of the path.
    pub model: QueueingModel,
    /// Calibration of the model; null if the model was given by hand.
    #[serde(default)]
    pub calibration: Option<QueueingCalibration>,
}

/// Measurements on which a calibrated model is based.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingCalibration {
    /// Trials used for the calibration, as "RUN:NUMBER (NAME)".
    pub trials: Vec<String>,
    /// Settings of the device, except for its batches and their release. A model describes a single device.
    #[serde(default)]
    pub device: Vec<SettingRecord>,
    /// How the experiment asked the device to release packets; null if not stated.
    #[serde(default)]
    pub release: Option<Release>,
    /// Method used to find the service time.
    pub method: CalibrationMethod,
    /// Number of packets that arrived and left.
    pub packets: u64,
    /// Number of intervals between departures while packets waited. If packets are released in batches, the
    /// intervals between batches are used.
    pub gaps: u64,
    /// Total length of these intervals, in ns: the time during which the server was observed to be busy.
    pub busy_ns: f64,
    /// Median service time, in ns, of packets that were not interrupted.
    pub service_ns: Estimate,
    /// Interrupts observed during the calibration.
    pub interrupts: InterruptEvidence,
    /// Number of isolated packets: packets that found the server idle.
    pub isolated: u64,
    /// How long isolated packets waited in addition to service and transfer, grouped by the server's
    /// preceding idle time.
    pub wakes: Vec<WakeEvidence>,
    /// Median gap between the packets of a burst at the time of sending, in ns; null if no burst was sent.
    pub spacing_ns: Option<f64>,
    /// Remarks about the calibration, for the reader.
    pub remarks: Vec<String>,
}

/// Method used to find a service time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationMethod {
    /// From the intervals between departures while packets waited.
    Gaps,
    /// From the intervals between released batches.
    Batches,
    /// From the median delay minus that of a forwarder that does no work. This evidence is weaker, because
    /// queues and variation are unknown.
    Baseline,
}

/// Interrupts observed during the calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptEvidence {
    /// Source of the interrupts: "gaps" or "trace".
    pub source: String,
    /// Intervals longer than this were considered interrupted, in ns; null for a trace.
    pub above_ns: Option<f64>,
    /// Number of interrupts.
    pub count: u64,
    /// Interrupts per second.
    pub per_second: Estimate,
    /// Fraction of the time spent in interrupts.
    pub share: f64,
    /// Longest interrupt, in ns.
    pub longest_ns: f64,
}

/// Additional wait of packets that found the server idle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakeEvidence {
    /// Minimum idle time of the server, in ns.
    pub after_idle_ns: f64,
    /// Number of packets.
    pub packets: u64,
    /// Mean additional wait, in ns.
    pub mean_ns: f64,
}

/// Comparison of a predicted load with one measured trial or several repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingValidation {
    /// Trials compared, each as "RUN:NUMBER".
    pub trials: Vec<String>,
    /// Name of the trials, without the repeat.
    pub name: String,
    /// Prediction for this load.
    pub predicted: QueueingLoad,
    /// Number of matched packets in all trials.
    pub measured_packets: u64,
    /// Measured loss ratio over all trials.
    pub measured_loss_ratio: f64,
    /// Percentiles that are judged or displayed, with the median over repeats.
    pub percentiles: Vec<ComparedPercentile>,
    /// Whether every percentile with a limit is within it.
    pub within: bool,
    /// Whether every percentile outside its limit lies between the smallest and the largest value of the
    /// repeats. If so, the repeats themselves differ by more than the limit.
    pub within_repeats: bool,
    /// Failed comparisons in words; empty if there are none.
    pub failures: Vec<String>,
    /// Comparison with a simulation of the recorded arrivals of each trial.
    #[serde(default)]
    pub replay: QueueingReplay,
    /// Predicted and measured distribution for a plot. If there are repeats, the trial with the median p99 is
    /// used.
    pub curve: Vec<ComparedPercentile>,
}

/// Comparison of measured delays with simulations, one for each trial. A simulation uses the trial's recorded
/// arrivals and, if the trial lists them, its recorded stalls. Errors in this comparison are caused by the
/// device; errors that appear only in the prediction are caused by the load generator and the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingReplay {
    /// Whether recorded stalls of the device were replayed as well.
    pub stalls: bool,
    /// Percentiles, each taken from the repeat with the median absolute error.
    pub percentiles: Vec<ComparedPercentile>,
    /// Whether every percentile with a limit is within it.
    pub within: bool,
}

/// A percentile as predicted and as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedPercentile {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// Predicted value, in ns; the median if the load was simulated several times.
    pub predicted_ns: i64,
    /// Lower bound, in ns: the value is lower in one of twenty simulations of the load.
    pub predicted_low_ns: i64,
    /// Upper bound, in ns: the value is higher in one of twenty simulations of the load.
    pub predicted_high_ns: i64,
    /// Measured value, in ns; the median over repeats.
    pub measured_ns: i64,
    /// Smallest measured value of the repeats, in ns.
    pub measured_low_ns: i64,
    /// Largest measured value of the repeats, in ns.
    pub measured_high_ns: i64,
    /// Predicted minus measured value, as a fraction of the measured value.
    pub error: f64,
    /// Largest error allowed; null if the percentile is not judged.
    pub limit: Option<f64>,
    /// Whether the measured percentile is supported: n (1 - p) is at least 10.
    pub supported: bool,
}

/// Comparison of the predicted highest rate of a device with a measured one from a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingSearchValidation {
    /// The search, as "RUN:NUMBER".
    pub search: String,
    /// Name of the search.
    pub name: String,
    /// Goal of the search: "NDR", "PDR 0.5 %".
    pub goal: String,
    /// Capacity according to the model, in packets per second.
    pub predicted_pps: f64,
    /// Highest rate that met the goal, in packets per second.
    pub lower_pps: u64,
    /// Lowest rate above `lower_pps` that missed the goal, in packets per second; null if there is none.
    pub upper_pps: Option<u64>,
    /// Distance of the prediction from the nearer bound, as a fraction of that bound; 0 between the bounds.
    pub error: f64,
    /// Largest error allowed.
    pub limit: f64,
    /// Whether the error is within the limit.
    pub within: bool,
}
