//! What the highest delays of a measurement say about those that were not measured. Formulas, sources and limits:
//! `docs/kpi/extreme-values.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of [`TailPrediction`].
pub const TAIL_SCHEMA: &str = "wiretail.tail/1";

/// What `wiretail predict tail --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailPrediction {
    /// [`TAIL_SCHEMA`].
    pub schema: String,
    /// Version of Wiretail.
    pub wiretail_version: String,
    /// The ingress capture, as given.
    pub pre: String,
    /// The egress capture, as given.
    pub post: String,
    /// Where the stamps come from: that of the ingress, and of the egress where it is another.
    #[serde(default)]
    pub clock: String,
    /// Packets sent in this first part were left out, in ns.
    pub trim_ns: i64,
    /// Share of the packets that was fitted, between 0 and 1; null where all were, and nothing was kept to compare with.
    pub calibrate: Option<f64>,
    /// What the packets that were fitted say.
    pub tail: Tail,
}

/// The tail of a series of delays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    /// Packets that were looked at, in the order in which they were sent.
    pub packets: u64,
    /// From the first of them to the last, in ns.
    pub span_ns: i64,
    /// Packets a second.
    pub rate_pps: f64,
    /// Grid of the delays, in ns: equal delays are spread at random over one step of it.
    pub granularity_ns: f64,
    /// Exceedances with fewer packets than this between them are one event.
    pub run_packets: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Why nothing is predicted; null where something is.
    pub refused: Option<Refusal>,
    /// The thresholds that were tried, the lowest first.
    pub candidates: Vec<Candidate>,
    /// The chosen threshold's distribution; null where none was accepted. There may be one beside a refusal: the fit that
    /// the refusal is about.
    pub fit: Option<Fit>,
    /// Delays that are exceeded once in a span of time; empty after a refusal.
    pub return_levels: Vec<ReturnLevel>,
    /// Events above some levels in the packets that follow; null after a refusal.
    pub forecast: Option<Forecast>,
    /// How long a measurement must run to support a percentile.
    pub support: Vec<Support>,
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// What kind of reason.
    pub kind: RefusalKind,
    /// The reason with its numbers.
    pub reason: String,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// No packets, too few exceedances, or no two delays that differ.
    TooFew,
    /// No generalised Pareto distribution fits above any threshold.
    BadFit,
    /// High delays come more often, or are higher, at some times than at others.
    NonStationary,
    /// Neither mean nor variance of what comes can be relied on, or the highest delay is none that the rest foretells.
    HeavyTailed,
}

/// A threshold that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The threshold, in ns; it lies between two steps of the grid.
    pub threshold_ns: f64,
    /// Packets above.
    pub exceedances: u64,
    /// Events: exceedances that are close together count once, with the highest delay.
    pub events: u64,
    /// Mean of the events' excess, in ns (mean residual life).
    pub mean_excess_ns: f64,
    /// Shape of the fit.
    pub shape: f64,
    /// Lower end of its 95 % confidence interval (profile likelihood).
    pub shape_low: f64,
    /// Upper end.
    pub shape_high: f64,
    /// Scale of the fit less shape times threshold, in ns: the same at all thresholds above the first that fits.
    pub modified_scale_ns: f64,
    /// Anderson-Darling statistic of the fit.
    pub anderson_darling: f64,
    /// Probability of as bad a fit by chance; where it is more than 0.05, only that is known.
    pub fit_chance: f64,
    /// Probability of as uneven counts over time by chance.
    pub counts_chance: f64,
    /// Probability of as uneven sizes over time by chance.
    pub sizes_chance: f64,
}

/// A generalised Pareto distribution of the excess over a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// The threshold, in ns.
    pub threshold_ns: f64,
    /// Packets above.
    pub exceedances: u64,
    /// Events that were fitted.
    pub events: u64,
    /// Whether there are fewer than the 100 events that a fit should have.
    pub thin: bool,
    /// Shape (xi): below 0 delays have an upper end, above 0 a power law.
    pub shape: f64,
    /// Lower end of its 95 % confidence interval (profile likelihood).
    pub shape_low: f64,
    /// Upper end.
    pub shape_high: f64,
    /// Shape by probability-weighted moments, another estimate of the same; null where they give none.
    pub shape_by_moments: Option<f64>,
    /// Scale (sigma), in ns.
    pub scale_ns: f64,
    /// Where the distribution ends, in ns; null where it does not.
    pub end_ns: Option<f64>,
    /// Variance of the events' counts over time against that of a Poisson process.
    pub dispersion: f64,
    /// Probability that the fit of the other events brings forth an event as high as the highest, as a rank among
    /// simulated measurements.
    pub maximum_chance: f64,
    /// The events against the distribution, the lowest first: all, or some where they are many, the highest among them.
    #[serde(default)]
    pub quantiles: Vec<FittedQuantile>,
    /// Delays below the threshold that are a heap of their own; null where 100 events and more are above the threshold, or two
    /// heaps do not fit.
    #[serde(default)]
    pub below: Option<Component>,
}

/// The lower one of two heaps of delays: from its threshold up to that of the fit. Both together are tested as one distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    /// Its threshold, in ns.
    pub threshold_ns: f64,
    /// Packets above, those of the upper heap among them.
    pub exceedances: u64,
    /// Events above, of both heaps.
    pub events: u64,
    /// Share of the events that is in this heap, between 0 and 1.
    pub share: f64,
    /// Shape of this heap's distribution.
    pub shape: f64,
    /// Its scale, in ns.
    pub scale_ns: f64,
    /// Anderson-Darling statistic of both heaps.
    pub anderson_darling: f64,
    /// Probability of as bad a fit of both by chance; where it is more than 0.05, only that is known.
    pub fit_chance: f64,
}

/// An event and the delay that the distribution has in its place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedQuantile {
    /// Delay of the event, in ns.
    pub observed_ns: f64,
    /// Of the i-th of n events: the delay that the distribution stays below with probability i/(n + 1), in ns.
    pub fitted_ns: f64,
    /// Lower bound of the delay in this place in 95 % of samples drawn from the distribution, in ns.
    pub low_ns: f64,
    /// Upper bound.
    pub high_ns: f64,
}

/// A delay that is exceeded once in a span of time, on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnLevel {
    /// The span, in ns.
    pub once_in_ns: i64,
    /// The packets in it, at this rate.
    pub once_in_packets: f64,
    /// The delay, in ns.
    pub delay_ns: f64,
    /// Lower end of its 95 % confidence interval.
    pub low_ns: f64,
    /// Upper end.
    pub high_ns: f64,
}

/// What is to be expected of packets that follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// How many packets.
    pub packets: u64,
    /// Probability that all bands hold together.
    pub confidence: f64,
    /// Levels, the lowest first.
    pub levels: Vec<LevelForecast>,
    /// Whether every observed number lies in its band; null where nothing was observed.
    pub holds: Option<bool>,
}

/// Events above a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelForecast {
    /// The level, in ns.
    pub level_ns: f64,
    /// Where the number comes from.
    pub basis: Basis,
    /// Events above it among the packets that were fitted.
    pub seen: u64,
    /// Events to be expected among those that follow.
    pub expected: f64,
    /// Fewest.
    pub low: u64,
    /// Most.
    pub high: u64,
    /// Events that were observed; null where nothing was.
    pub observed: Option<u64>,
    /// Expected over observed number, less 1; null where none was observed.
    #[serde(default)]
    pub error: Option<f64>,
}

/// Where a predicted number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// How many there were.
    Counted,
    /// The fitted distribution.
    Fitted,
}

/// How long a measurement must run to support a percentile: at least ten packets above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Support {
    /// The percentile, in percent.
    pub percentile: f64,
    /// Packets that it needs.
    pub packets: u64,
    /// How long that takes at this rate, in s; null where there is no rate.
    pub seconds: Option<f64>,
    /// Whether the packets that were looked at are enough.
    pub supported: bool,
}
