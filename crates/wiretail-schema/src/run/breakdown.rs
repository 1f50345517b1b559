//! Latency breakdown: how much of a delay belongs to the devices (the VNFs), and how much to the switches and
//! links around them (the infrastructure). Formula and limits: `docs/kpi/breakdown.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Percentile;

/// Breakdown of the delay in one direction of a trial into devices and infrastructure, packet by packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Name of the segment from the first tap to the last, "forward" or "back", which gives the direction.
    pub segment: String,
    /// Number of devices that each packet crossed.
    pub devices: usize,
    /// Number of packets in all three distributions: those seen by the taps on both sides of every device.
    pub packets: u64,
    /// Packets of the whole path that were not seen by every tap, or that had a repeated key.
    pub left_out: u64,
    /// Packets excluded because their timestamps contradict each other: the delay inside the devices exceeds
    /// the delay of the whole path.
    pub contradictory: u64,
    /// Delay from the first tap to the last.
    pub whole: BreakdownDelays,
    /// Delay outside the devices: switch, links and their queues.
    pub infrastructure: BreakdownDelays,
    /// Delay inside the devices, summed over all devices, each measured between the taps on its two sides.
    pub vnf: BreakdownDelays,
}

/// Delay distribution of one part of a [`Breakdown`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakdownDelays {
    /// Arithmetic mean, in ns. Means add up, percentiles do not.
    pub mean_ns: f64,
    /// Largest delay, in ns.
    pub max_ns: i64,
    /// Percentiles 50, 99, 99.9 and 99.99 %, with 95 % confidence intervals; empty if no packets remain.
    pub percentiles: Vec<Percentile>,
}

/// The three delay distributions, at enough percentiles to plot them and to compare them between trials.
/// `breakdown.json` in a trial's directory holds one entry per direction. The percentiles are the same in every
/// trial, up to the highest that the number of packets supports.
///
/// The confidence intervals are 97.5 % rather than 95 %, so that the intervals of two trials hold
/// simultaneously with a confidence of 95 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakdownCurves {
    /// Name of the segment, as in [`Breakdown`].
    pub segment: String,
    /// Percentiles of the delay from the first tap to the last.
    pub whole: Vec<Percentile>,
    /// Percentiles of the delay in switch, links and their queues.
    pub infrastructure: Vec<Percentile>,
    /// Percentiles of the delay inside the devices.
    pub vnf: Vec<Percentile>,
}

/// Breakdown curves of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialCurves {
    /// Number of the trial, from 1; see [`TrialRecord::number`](crate::run::TrialRecord::number).
    pub trial: usize,
    /// Curves, one entry per direction.
    pub curves: Vec<BreakdownCurves>,
}

/// Delay that the devices of one trial add compared to a trial with the skeleton application in their place:
/// the difference between the two VNF distributions, percentile by percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Addition {
    /// Number of the trial.
    pub trial: usize,
    /// Number of the trial with the skeleton.
    pub skeleton: usize,
    /// Name of the segment, as in [`Breakdown`].
    pub segment: String,
    /// The difference at each percentile that both trials have, in ascending order.
    pub points: Vec<AddedDelay>,
    /// Difference between the largest delays, in ns. It has no interval, because each is a single packet.
    pub max_ns: i64,
}

/// Added delay at one percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddedDelay {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// Percentile of the device minus percentile of the skeleton, in ns.
    pub value_ns: i64,
    /// Lower bound of the confidence interval (at least 95 %), in ns; null if no packet of the skeleton bounds
    /// it.
    pub low_ns: Option<i64>,
    /// Upper bound of the interval, in ns; null if no packet of the device bounds it.
    pub high_ns: Option<i64>,
    /// Whether both percentiles are supported: n (1 - p) >= 10.
    pub supported: bool,
}
