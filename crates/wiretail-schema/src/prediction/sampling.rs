//! Document of a simulation that finds which packets of constant-bit-rate traffic meet interrupts. Model and
//! closed forms: `docs/kpi/capacity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of [`InterruptSampling`].
pub const SAMPLING_SCHEMA: &str = "wiretail.sampling/1";

/// Output of `wiretail predict interrupts --json`: packets that meet interrupts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptSampling {
    /// Schema name and version ([`SAMPLING_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Seed of the phases that were not given.
    pub seed: u64,
    /// Number of packets sent.
    pub packets: u64,
    /// CPU time per packet, in ns.
    pub service_ns: i64,
    /// Simulated interrupts.
    pub interrupts: Vec<SampledInterrupt>,
    /// Time spent in interrupts per second, in ns.
    pub interrupts_ns: f64,
    /// Highest rate at which the queue does not grow, in packets per second; null without a service time.
    pub max_pps: Option<f64>,
    /// Outcome at the requested rate.
    pub outcome: SamplingOutcome,
    /// Outcomes at other rates.
    pub sensitivity: Vec<SamplingOutcome>,
    /// Packets that waited the longest at the requested rate, in order of time; at most 5000.
    pub worst: Vec<LatePacket>,
    /// Comparison with a measurement; null if none was given.
    pub measured: Option<MeasuredLate>,
}

/// A simulated interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledInterrupt {
    /// Name of the interrupt; may be empty.
    pub name: String,
    /// Interrupts per second.
    pub rate_hz: f64,
    /// Duration of each interrupt, in ns.
    pub length_ns: i64,
    /// Time of the first interrupt, in ns since the first packet.
    pub phase_ns: f64,
}

/// Effect of interrupts at one packet rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingOutcome {
    /// Packets sent per second.
    pub rate_pps: f64,
    /// Number of packets that waited.
    pub late: u64,
    /// Fraction of packets that were late: late / packets.
    pub late_ratio: f64,
    /// The same fraction according to the closed form. Null if the closed form does not apply because an
    /// interrupt meets packets only in a few phases or lasts until the next packet.
    pub late_ratio_expected: Option<f64>,
    /// Longest wait, in ns.
    pub max_wait_ns: f64,
    /// Mean wait over all packets, in ns.
    pub mean_wait_ns: f64,
    /// Whether packets arrive faster than they are served. If so, waits grow with the length of the
    /// measurement.
    pub overloaded: bool,
    /// Beat pattern of each interrupt, in the order of the interrupts.
    pub beats: Vec<Beat>,
}

/// Drift of an interrupt relative to the packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beat {
    /// Repetition frequency of the pattern of waits, in Hz: the interrupt's frequency aliased by the packet
    /// rate, or the packet rate aliased by the interrupt. 0 if the interrupt and the packets are synchronous.
    pub beat_hz: f64,
    /// Number of packets from one interrupt to the next.
    pub packets_apart: f64,
}

/// A packet that waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatePacket {
    /// Arrival of the packet, in ns since the first packet.
    pub at_ns: f64,
    /// Wait, in ns. For a measured packet, its delay minus the median.
    pub wait_ns: f64,
}

/// The worst packets of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredLate {
    /// Path of the ingress capture, as given.
    pub pre: String,
    /// Path of the egress capture, as given.
    pub post: String,
    /// Number of matched packets.
    pub packets: u64,
    /// Source of the ingress timestamps, followed by the source of the egress timestamps if it differs.
    #[serde(default)]
    pub clock: String,
    /// Granularity of the delay, in ns.
    #[serde(default)]
    pub granularity_ns: f64,
    /// Packets sent per second.
    pub rate_pps: f64,
    /// Median delay, in ns.
    pub median_ns: i64,
    /// Packets with the highest delays, in order of time; as many as in the simulation.
    pub worst: Vec<LatePacket>,
    /// Comparison with the simulation; null if no packet waited in the simulation or in the measurement.
    #[serde(default)]
    pub against: Option<SamplingValidation>,
}

/// Comparison of the simulation with a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingValidation {
    /// Longest measured wait, in ns.
    pub max_wait_ns: f64,
    /// Simulated longest wait divided by the measured longest wait, minus 1.
    pub wait_error: f64,
    /// Half of the longest simulated wait, in ns. The comparison counts the packets that waited at least this
    /// long.
    pub long_ns: f64,
    /// Fraction of simulated packets that waited at least `long_ns`.
    pub long_simulated: f64,
    /// Fraction of measured packets that waited at least `long_ns`.
    pub long_measured: f64,
    /// Simulated fraction divided by the measured fraction, minus 1; null if no measured packet waited at least
    /// `long_ns`.
    pub long_error: Option<f64>,
    /// Whether all packets listed for the simulation, or all packets listed for the measurement, waited at
    /// least `long_ns`. If so, the fraction is only a lower bound.
    pub long_or_more: bool,
}
