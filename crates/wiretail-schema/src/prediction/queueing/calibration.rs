//! A twin's model from a measured run, and the model against other runs. Meaning and formulas: `docs/kpi/queueing.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{QueueingLoad, QueueingModel, Release};
use crate::prediction::capacity::Estimate;
use crate::run::SettingRecord;

/// Name and version of the file that `wiretail predict queueing --save` writes.
pub const QUEUEING_MODEL_SCHEMA: &str = "wiretail.queueing-model/1";

/// A model in a file of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedQueueingModel {
    /// [`QUEUEING_MODEL_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub wiretail_version: String,
    /// The path.
    pub model: QueueingModel,
    /// What it rests on; None where it was given by hand.
    #[serde(default)]
    pub calibration: Option<QueueingCalibration>,
}

/// What a calibrated model rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingCalibration {
    /// The trials whose packets were taken, "RUN:NUMBER (NAME)".
    pub trials: Vec<String>,
    /// What the experiment says of the device, its batches and their release aside: a model is of one device.
    #[serde(default)]
    pub device: Vec<SettingRecord>,
    /// How it was to release packets; None where nothing said so.
    #[serde(default)]
    pub release: Option<Release>,
    /// How the service time was found.
    pub method: CalibrationMethod,
    /// Packets that arrived and left.
    pub packets: u64,
    /// Times between departures (of a batch release, between batches) while packets waited.
    pub gaps: u64,
    /// All of them together: how long the server was seen busy, in ns.
    pub busy_ns: f64,
    /// Median of the service time, in ns; of packets that no interrupt met.
    pub service_ns: Estimate,
    /// Interrupts.
    pub interrupts: InterruptEvidence,
    /// Packets that found the server idle.
    pub isolated: u64,
    /// What they waited for besides service and transfer, by the time for which the server was idle.
    pub wakes: Vec<WakeEvidence>,
    /// Gaps of the sender within a burst, in ns: the median; None where no burst was sent.
    pub spacing_ns: Option<f64>,
    /// What the reader should know.
    pub remarks: Vec<String>,
}

/// How a service time was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationMethod {
    /// By the times between departures while packets waited.
    Gaps,
    /// By the times between released batches.
    Batches,
    /// By the median delay less that of a forwarder without work: weaker, as queues and spread are unknown.
    Baseline,
}

/// The interrupts that were seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptEvidence {
    /// Where they are from: "gaps", "trace".
    pub source: String,
    /// A longer gap was taken for interrupted, in ns; None of a trace.
    pub above_ns: Option<f64>,
    /// How many.
    pub count: u64,
    /// How many a second.
    pub per_second: Estimate,
    /// Share of the time that they take.
    pub share: f64,
    /// The longest, in ns.
    pub longest_ns: f64,
}

/// What packets that found the server idle waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WakeEvidence {
    /// It was idle for so long at least, in ns.
    pub after_idle_ns: f64,
    /// Packets.
    pub packets: u64,
    /// The mean of what they waited besides, in ns.
    pub mean_ns: f64,
}

/// A load as predicted and as measured, by one trial or by several that repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingValidation {
    /// The trials, each as "RUN:NUMBER".
    pub trials: Vec<String>,
    /// Their name, without the repeat.
    pub name: String,
    /// As predicted.
    pub predicted: QueueingLoad,
    /// Matched packets as measured, in all trials.
    pub measured_packets: u64,
    /// Lost of sent, as measured, in all trials.
    pub measured_loss_ratio: f64,
    /// The percentiles that are judged or shown; of repeats the median counts.
    pub percentiles: Vec<ComparedPercentile>,
    /// Whether every percentile that has a limit is within it.
    pub within: bool,
    /// Whether every percentile that is not within its limit lies between the smallest and the largest of the repeats: the
    /// measurement itself does not repeat to within the limit.
    pub within_repeats: bool,
    /// What failed, in words; empty where nothing did.
    pub failures: Vec<String>,
    /// The same with what each trial recorded.
    #[serde(default)]
    pub replay: QueueingReplay,
    /// Both distributions, for a plot; of repeats the one with the median p99.
    pub curve: Vec<ComparedPercentile>,
}

/// A load replayed: as calibrated, with the arrivals that each trial recorded and, where it lists them, the stalls. What is off
/// here is the device's; what is off in the prediction alone is the load generator's and the machine's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingReplay {
    /// Whether the device's stalls were those that were recorded, too.
    pub stalls: bool,
    /// Percentiles, each of the repeat whose error is the median one in size.
    pub percentiles: Vec<ComparedPercentile>,
    /// Whether every percentile that has a limit is within it.
    pub within: bool,
}

/// A percentile as predicted and as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedPercentile {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// As predicted, in ns; of a load that was simulated several times the median.
    pub predicted_ns: i64,
    /// Of such a load, one time in twenty it is below this, in ns.
    pub predicted_low_ns: i64,
    /// Of such a load, one time in twenty it is above this, in ns.
    pub predicted_high_ns: i64,
    /// As measured, in ns; of repeats the median.
    pub measured_ns: i64,
    /// The smallest of the repeats, in ns.
    pub measured_low_ns: i64,
    /// The largest of the repeats, in ns.
    pub measured_high_ns: i64,
    /// Predicted less measured, in parts of the measured.
    pub error: f64,
    /// How large the error may be; None where it is not judged.
    pub limit: Option<f64>,
    /// Whether n (1 - p) of the measured packets is at least 10.
    pub supported: bool,
}

/// The highest rate that a device takes, as predicted and as a search measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingSearchValidation {
    /// The search, as "RUN:NUMBER".
    pub search: String,
    /// Its name.
    pub name: String,
    /// Its goal: "NDR", "PDR 0.5 %".
    pub goal: String,
    /// The model's capacity, in packets a second.
    pub predicted_pps: f64,
    /// Highest rate that met the goal, in packets a second.
    pub lower_pps: u64,
    /// Lowest rate above it that missed the goal, in packets a second.
    pub upper_pps: Option<u64>,
    /// How far the prediction is from the nearer bound, in parts of it; 0 between both.
    pub error: f64,
    /// How large the error may be.
    pub limit: f64,
    /// Whether it is not larger.
    pub within: bool,
}
