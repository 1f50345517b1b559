//! Queueing simulation (digital twin): the model of a path, and its predictions. Meaning and formulas:
//! `docs/kpi/queueing.md`.
//!
//! All times are in ns and may have fractions.

pub mod calibration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::calibration::{QueueingCalibration, QueueingSearchValidation, QueueingValidation};

/// Schema name and version of the output of `wiretail predict queueing --json`.
pub const QUEUEING_SCHEMA: &str = "wiretail.queueing/1";

/// Distribution from which a duration is drawn each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// Constant duration, in ns.
    Constant(f64),
    /// Exponentially distributed with this mean, in ns.
    Exponential(f64),
    /// Measured durations, in ns, all equally probable.
    Samples(Vec<f64>),
}

/// A source of interrupts on the core that serves packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Interrupts {
    /// Interrupts with a fixed period.
    Periodic {
        /// Time from one interrupt to the next, in ns.
        period_ns: f64,
        /// Time of the first interrupt, in ns; less than the period. If null, it is drawn from the seed.
        phase_ns: Option<f64>,
        /// Duration of each interrupt.
        length: Length,
    },
    /// Interrupts at independent random times.
    Poisson {
        /// Mean number of interrupts per second.
        per_second: f64,
        /// Duration of each interrupt.
        length: Length,
    },
    /// Interrupts at recorded times.
    Recorded {
        /// Start and duration of each interrupt, both in ns, ordered by start.
        spans: Vec<(f64, f64)>,
    },
}

/// Additional wait of a packet that finds the server idle: a sleeping thread has to wake up, and caches have
/// become cold. The wait may depend on the idle time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wake {
    /// Minimum idle time, in ns. The entry applies up to the idle time of the next entry.
    pub after_idle_ns: f64,
    /// Additional wait.
    pub length: Length,
}

/// When packets leave the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Each packet leaves as soon as it is served.
    Immediate,
    /// All packets of a batch leave when the last of them is served.
    Batch,
}

/// Model of a path: a ring, a server that takes batches from the ring and can be interrupted, and a transfer.
///
/// The model describes a device independently of its load, so a device that was measured at one rate can be
/// predicted at others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingModel {
    /// Number of packets that may wait in the ring; a packet that finds it full is lost.
    pub ring: u64,
    /// Largest number of packets that the server takes at a time.
    pub batch: u64,
    /// When packets leave the server.
    pub release: Release,
    /// Work per packet.
    pub service: Length,
    /// Additional work per batch, before its first packet.
    pub batch_overhead: Length,
    /// Time from an arrival at the idle server to the start of service, ordered by idle time. If the list is
    /// empty, service starts at once.
    #[serde(default)]
    pub wake: Vec<Wake>,
    /// Interrupts on the server. An interrupt also suspends the service of a packet, which continues
    /// afterwards.
    pub interrupts: Vec<Interrupts>,
    /// Constant delay of the rest of the path, in ns. Negative if a packet leaves before the server has
    /// finished its work on it. The total delay is never below 0.
    pub transfer_ns: f64,
}

impl QueueingModel {
    /// Returns a server that has no interrupts and no wake-up delay and that releases each packet as soon as it
    /// is served.
    pub fn serving(service: Length, ring: u64, batch: u64) -> Self {
        Self {
            ring,
            batch,
            release: Release::Immediate,
            service,
            batch_overhead: Length::Constant(0.0),
            wake: Vec::new(),
            interrupts: Vec::new(),
            transfer_ns: 0.0,
        }
    }
}

/// Arrival process of packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// Evenly spaced packets.
    Constant {
        /// Packets per second.
        rate_pps: f64,
    },
    /// Evenly spaced bursts.
    Bursts {
        /// Packets per second, over all bursts.
        rate_pps: f64,
        /// Number of packets in a burst.
        packets: u64,
        /// Time between packets of a burst, in ns.
        spacing_ns: f64,
    },
    /// Independent, exponentially distributed gaps.
    Poisson {
        /// Mean number of packets per second.
        rate_pps: f64,
    },
    /// Recorded arrivals.
    Recorded {
        /// Arrival times, in ns, in order.
        times_ns: Vec<f64>,
    },
}

/// Predictions of a model at one or more loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingPrediction {
    /// Schema name and version, `wiretail.queueing/1`.
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Seed of all random numbers. The same seed gives the same results.
    pub seed: u64,
    /// Model of the path.
    pub model: QueueingModel,
    /// Calibration of the model; null if the model was given by hand.
    #[serde(default)]
    pub calibration: Option<QueueingCalibration>,
    /// Predictions at each load.
    pub loads: Vec<QueueingLoad>,
    /// Accuracy of the predictions, with one entry for each measured load that was compared.
    #[serde(default)]
    pub validations: Vec<QueueingValidation>,
    /// Accuracy of the predicted capacity, one entry per rate found by a search.
    #[serde(default)]
    pub searches: Vec<QueueingSearchValidation>,
}

/// Prediction at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingLoad {
    /// Offered load, in packets per second; null with fewer than two recorded arrivals.
    pub rate_pps: Option<f64>,
    /// Highest rate that the server sustains, in packets per second; null if packets take no service time.
    pub capacity_pps: Option<f64>,
    /// Offered load divided by capacity: 1 is full load. Null if the rate is unknown.
    pub load: Option<f64>,
    /// Whether the server cannot keep up. If so, the queue grows until the ring is full, and delays and loss
    /// depend on the length of the load.
    pub overloaded: bool,
    /// Number of packets that arrived.
    pub sent: u64,
    /// Number of packets that found the ring full.
    pub lost: u64,
    /// Loss ratio: lost / sent.
    pub loss_ratio: f64,
    /// Fraction of the time from the first arrival to the last departure that the server spent on packets and
    /// batches.
    pub utilisation: f64,
    /// Largest number of packets that waited in the ring.
    pub queue_max: u64,
    /// Number of batches served.
    pub batches: u64,
    /// Delays of the packets that were not lost; null if there are none.
    pub delay: Option<QueueingDelay>,
}

/// Delays from arrival to the end of the transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingDelay {
    /// Smallest delay, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Half the width of the 99 % confidence interval of the mean, in ns, computed from batch means. It
    /// describes the precision of the simulation, not of the model. Null under overload, or if there are fewer
    /// than a few thousand packets.
    pub mean_error_ns: Option<f64>,
    /// Largest delay, in ns.
    pub max_ns: i64,
    /// Nearest-rank percentiles from 50 to 99.99999 %.
    pub percentiles: Vec<QueueingPercentile>,
}

/// A percentile of the delay. It has no confidence interval, because the delays of neighboring packets in a
/// queue are not independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingPercentile {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// Delay at rank ceil(p n), in ns.
    pub value_ns: i64,
    /// Whether the percentile is supported: n (1 - p) is at least 10.
    pub supported: bool,
}
