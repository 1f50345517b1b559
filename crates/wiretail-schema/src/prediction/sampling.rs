//! Which packets of constant-bit-rate traffic meet interrupts: the document of a simulation. Model and closed forms:
//! `docs/kpi/capacity.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of [`InterruptSampling`].
pub const SAMPLING_SCHEMA: &str = "wiretail.sampling/1";

/// What `wiretail predict interrupts --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptSampling {
    /// [`SAMPLING_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// Seed of the phases that were not given.
    pub seed: u64,
    /// Packets sent.
    pub packets: u64,
    /// Time of the core for a packet, in ns.
    pub service_ns: i64,
    /// The interrupts.
    pub interrupts: Vec<SampledInterrupt>,
    /// Time that they take of each second, in ns.
    pub interrupts_ns: f64,
    /// Highest rate that leaves no queue growing, in packets a second; null without a service time.
    pub max_pps: Option<f64>,
    /// At the rate asked for.
    pub outcome: SamplingOutcome,
    /// The same at other rates.
    pub sensitivity: Vec<SamplingOutcome>,
    /// The packets that waited the longest at the rate asked for, in order of time: 5000 at most.
    pub worst: Vec<LatePacket>,
    /// A measurement beside it; null where none was given.
    pub measured: Option<MeasuredLate>,
}

/// An interrupt that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledInterrupt {
    /// Its name; may be empty.
    pub name: String,
    /// How often a second.
    pub rate_hz: f64,
    /// How long each time, in ns.
    pub length_ns: i64,
    /// When it came first, in ns since the first packet.
    pub phase_ns: f64,
}

/// What interrupts do at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingOutcome {
    /// Packets sent a second.
    pub rate_pps: f64,
    /// Packets that waited.
    pub late: u64,
    /// late / packets.
    pub late_ratio: f64,
    /// The share that the closed form gives; null where it does not hold: interrupts that meet packets in a few
    /// phases only, or last until the next packet.
    pub late_ratio_expected: Option<f64>,
    /// Longest wait, in ns.
    pub max_wait_ns: f64,
    /// Mean wait of all packets, in ns.
    pub mean_wait_ns: f64,
    /// Whether packets come faster than they are served: waits grow with the length of the measurement.
    pub overloaded: bool,
    /// The pattern that each interrupt leaves, in their order.
    pub beats: Vec<Beat>,
}

/// How an interrupt drifts against the packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beat {
    /// How often a second the pattern of waits repeats: the interrupt's frequency as the packets sample it, or the
    /// packets' as the interrupt does. 0 where they keep step.
    pub beat_hz: f64,
    /// Packets from one interrupt to the next.
    pub packets_apart: f64,
}

/// A packet that waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatePacket {
    /// When it came, in ns since the first packet.
    pub at_ns: f64,
    /// How long, in ns; of a measured one its delay less the median.
    pub wait_ns: f64,
}

/// The worst packets of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredLate {
    /// The ingress capture, as given.
    pub pre: String,
    /// The egress capture, as given.
    pub post: String,
    /// Packets matched.
    pub packets: u64,
    /// Where the stamps come from: that of the ingress, and of the egress where it is another.
    #[serde(default)]
    pub clock: String,
    /// Finest step that their difference has, in ns.
    #[serde(default)]
    pub granularity_ns: f64,
    /// Packets sent a second.
    pub rate_pps: f64,
    /// Median delay, in ns.
    pub median_ns: i64,
    /// The packets with the highest delay, in order of time: as many as in the simulation.
    pub worst: Vec<LatePacket>,
    /// The simulation against them; null where nothing waited in one of both.
    #[serde(default)]
    pub against: Option<SamplingValidation>,
}

/// The simulation against a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingValidation {
    /// Longest measured wait, in ns.
    pub max_wait_ns: f64,
    /// Simulated over measured longest wait, less 1.
    pub wait_error: f64,
    /// Half of the simulated longest wait, in ns: packets that waited as long are compared by number.
    pub long_ns: f64,
    /// Their share among the simulated packets.
    pub long_simulated: f64,
    /// Their share among the measured packets.
    pub long_measured: f64,
    /// Simulated over measured share, less 1; null where no measured packet waited as long.
    pub long_error: Option<f64>,
    /// Whether all packets that are listed waited as long, in either of both: the share is that or more.
    pub long_or_more: bool,
}
