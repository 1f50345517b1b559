//! The digital twin: the model of a path, and what it predicts. Meaning and formulas: `docs/kpi/queueing.md`.
//!
//! All times are in ns and may have fractions.

pub mod calibration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::calibration::{QueueingCalibration, QueueingSearchValidation, QueueingValidation};

/// Name and version of the document that `wiretail predict queueing --json` prints.
pub const QUEUEING_SCHEMA: &str = "wiretail.queueing/1";

/// How long something takes, each time anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// Always as long, in ns.
    Constant(f64),
    /// Exponentially distributed with this mean, in ns.
    Exponential(f64),
    /// Any of these, in ns, each as probable: measured ones.
    Samples(Vec<f64>),
}

/// A source of interrupts on the core that serves packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Interrupts {
    /// At the beat of a clock.
    Periodic {
        /// From one to the next, in ns.
        period_ns: f64,
        /// When the first one is, in ns; less than the period. None: drawn by the seed.
        phase_ns: Option<f64>,
        /// How long each takes.
        length: Length,
    },
    /// Independent of one another and of everything else.
    Poisson {
        /// How many a second.
        per_second: f64,
        /// How long each takes.
        length: Length,
    },
    /// Each at a time of its own: recorded ones.
    Recorded {
        /// When it starts and how long it takes, both in ns; in order of the starts.
        spans: Vec<(f64, f64)>,
    },
}

/// What a packet that finds the server idle waits for besides: a thread that sleeps has to wake up, and caches have
/// become cold. The longer it was idle, the more that may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wake {
    /// After having been idle for so long, in ns, and for less than the next one says.
    pub after_idle_ns: f64,
    /// How long it takes.
    pub length: Length,
}

/// When packets leave the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Each as soon as it is served.
    Immediate,
    /// All packets of a batch when the last of them is served.
    Batch,
}

/// A path: a ring, a server that takes batches of it and is interrupted, a transfer.
///
/// A device is described by this whatever its load is, so one that was measured at one rate predicts others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingModel {
    /// Packets that may wait; one that finds as many is lost.
    pub ring: u64,
    /// Packets that the server takes at a time, at most.
    pub batch: u64,
    /// When they leave.
    pub release: Release,
    /// Work for each packet.
    pub service: Length,
    /// Work for each batch besides, before its first packet.
    pub batch_overhead: Length,
    /// From the arrival at an idle server until it starts; in order of the idle time. Empty: at once.
    #[serde(default)]
    pub wake: Vec<Wake>,
    /// What takes the server away, also in the middle of a packet, which goes on behind it.
    pub interrupts: Vec<Interrupts>,
    /// Everything else on the way that is always as long, in ns. Negative where a packet has left before the server is done
    /// with it; the whole delay is never below 0.
    pub transfer_ns: f64,
}

impl QueueingModel {
    /// A server that is never away and awake at once: it does nothing but serve, and lets each packet go when it is done.
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

/// How packets arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Packets a second.
        rate_pps: f64,
    },
    /// Bursts, evenly spaced.
    Bursts {
        /// Packets a second, over all.
        rate_pps: f64,
        /// Packets in a burst.
        packets: u64,
        /// From one packet of a burst to the next, in ns.
        spacing_ns: f64,
    },
    /// Independent, exponentially distributed gaps.
    Poisson {
        /// Packets a second, on average.
        rate_pps: f64,
    },
    /// As recorded.
    Recorded {
        /// When each arrives, in ns; in order.
        times_ns: Vec<f64>,
    },
}

/// What a model predicts, at one load or more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingPrediction {
    /// `wiretail.queueing/1`.
    pub schema: String,
    /// Version of Wiretail that wrote it.
    pub wiretail_version: String,
    /// Seed of everything random; the same seed gives the same numbers.
    pub seed: u64,
    /// The path.
    pub model: QueueingModel,
    /// What the model rests on; None where it was given by hand.
    #[serde(default)]
    pub calibration: Option<QueueingCalibration>,
    /// What it does at each load.
    pub loads: Vec<QueueingLoad>,
    /// How right it is, for each trial that it was held against.
    #[serde(default)]
    pub validations: Vec<QueueingValidation>,
    /// How right its capacity is, for each rate that a search found.
    #[serde(default)]
    pub searches: Vec<QueueingSearchValidation>,
}

/// What a model predicts at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingLoad {
    /// Packets offered a second; None of fewer than two recorded arrivals.
    pub rate_pps: Option<f64>,
    /// Highest rate that the server keeps up with, in packets a second; None where nothing takes it any time.
    pub capacity_pps: Option<f64>,
    /// The rate in parts of the capacity: 1 is all of it. None where the rate is unknown.
    pub load: Option<f64>,
    /// Whether the server does not keep up: the queue grows until the ring is full, so that delays and loss depend
    /// on how long the load lasts.
    pub overloaded: bool,
    /// Packets that arrived.
    pub sent: u64,
    /// Packets that found the ring full.
    pub lost: u64,
    /// Lost of sent.
    pub loss_ratio: f64,
    /// Share of the time, from the first arrival to the last departure, that went into packets and batches.
    pub utilisation: f64,
    /// Most packets that waited in the ring at once.
    pub queue_max: u64,
    /// Batches served.
    pub batches: u64,
    /// Delays of the packets that were not lost; None where there are none.
    pub delay: Option<QueueingDelay>,
}

/// Delays, from the arrival to the end of the transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingDelay {
    /// Smallest, in ns.
    pub min_ns: i64,
    /// Arithmetic mean, in ns.
    pub mean_ns: f64,
    /// Half width of the mean's 99 % confidence interval by batch means, in ns; None for fewer than some thousand packets, and in
    /// an overload. It says
    /// how exact the simulation is, not the model.
    pub mean_error_ns: Option<f64>,
    /// Largest, in ns.
    pub max_ns: i64,
    /// Nearest-rank percentiles, 50 to 99.99999.
    pub percentiles: Vec<QueueingPercentile>,
}

/// A percentile of the delay. It has no interval: delays of neighbours in a queue are not independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueingPercentile {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// The delay of rank ceil(p n), in ns.
    pub value_ns: i64,
    /// Whether n (1 - p) is at least 10.
    pub supported: bool,
}
