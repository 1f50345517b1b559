//! Whose the delay is: the devices' own (the VNFs'), or that of what carries packets to them and from them
//! (the infrastructure's). Formula and limits: `docs/kpi/breakdown.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Percentile;

/// The delay of one direction of a trial, packet by packet divided between the devices and the infrastructure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Which direction: the segment of the whole way, "forward" or "back".
    pub segment: String,
    /// Devices that each packet crossed.
    pub devices: usize,
    /// Packets that all three distributions rest on: those that were seen before and behind every device.
    pub packets: u64,
    /// Packets of the whole way that were not, or whose key came more than once.
    pub left_out: u64,
    /// Packets whose stamps say that the devices took longer than the whole way: left out, too.
    pub contradictory: u64,
    /// From the first tap to the last.
    pub whole: BreakdownDelays,
    /// What is left of it: switch, links, and their queues.
    pub infrastructure: BreakdownDelays,
    /// In the devices, from the tap before each to the tap behind it, all of them together.
    pub vnf: BreakdownDelays,
}

/// One distribution of [`Breakdown`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakdownDelays {
    /// Arithmetic mean, in ns. Means add up, percentiles do not.
    pub mean_ns: f64,
    /// Largest, in ns.
    pub max_ns: i64,
    /// 50, 99, 99.9 and 99.99 %, with their 95 % confidence intervals; empty where no packet is left.
    pub percentiles: Vec<Percentile>,
}

/// The three distributions at so many percentiles that they can be drawn and held against another trial's;
/// `breakdown.json` in a trial's directory holds one a direction. The percentiles are the same in every trial, up to
/// the last that its packets reach.
///
/// The intervals are of 97.5 %, not of 95 %, so that those of two trials together hold with 95 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakdownCurves {
    /// As in [`Breakdown`].
    pub segment: String,
    /// From the first tap to the last.
    pub whole: Vec<Percentile>,
    /// Switch, links, and their queues.
    pub infrastructure: Vec<Percentile>,
    /// In the devices.
    pub vnf: Vec<Percentile>,
}

/// The curves of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialCurves {
    /// [`TrialRecord::number`](crate::run::TrialRecord::number), from 1.
    pub trial: usize,
    /// One a direction.
    pub curves: Vec<BreakdownCurves>,
}

/// What the devices of one trial take beyond those of another, in which the skeleton application takes their
/// place: the difference of the two distributions of the VNFs' share, percentile by percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Addition {
    /// Number of the trial.
    pub trial: usize,
    /// Number of the trial with the skeleton.
    pub skeleton: usize,
    /// As in [`Breakdown`].
    pub segment: String,
    /// The difference at each percentile that both trials have, in ascending order.
    pub points: Vec<AddedDelay>,
    /// Difference of the largest delays, in ns: single packets, so without an interval.
    pub max_ns: i64,
}

/// The difference at one percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddedDelay {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// The percentile of the device less that of the skeleton, in ns.
    pub value_ns: i64,
    /// Lower bound of an interval of at least 95 %, in ns; None where no packet of the skeleton's bounds it.
    pub low_ns: Option<i64>,
    /// Upper bound, in ns; None where no packet of the device's bounds it.
    pub high_ns: Option<i64>,
    /// Whether both percentiles are supported, n (1 - p) >= 10.
    pub supported: bool,
}
