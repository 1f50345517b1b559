//! Extrapolation from the highest measured delays to delays that were not measured. Formulas, sources and
//! limits: `docs/kpi/extreme-values.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name and version of [`TailPrediction`].
pub const TAIL_SCHEMA: &str = "wiretail.tail/1";

/// Output of `wiretail predict tail --json`: extrapolation of the tail of the delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailPrediction {
    /// Schema name and version ([`TAIL_SCHEMA`]).
    pub schema: String,
    /// Version of Wiretail that wrote the document.
    pub wiretail_version: String,
    /// Path of the ingress capture, as given.
    pub pre: String,
    /// Path of the egress capture, as given.
    pub post: String,
    /// Source of the ingress timestamps, followed by the source of the egress timestamps if it differs.
    #[serde(default)]
    pub clock: String,
    /// Length of the initial part that was excluded, in ns.
    pub trim_ns: i64,
    /// Fraction of the packets that were fitted, between 0 and 1; null if all were fitted and none were kept
    /// for a comparison.
    pub calibrate: Option<f64>,
    /// Tail of the fitted packets.
    pub tail: Tail,
}

/// Tail of a series of delays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    /// Number of packets analyzed, in the order sent.
    pub packets: u64,
    /// Time from the first of these packets to the last, in ns.
    pub span_ns: i64,
    /// Packets per second.
    pub rate_pps: f64,
    /// Granularity of the delays, in ns. Equal delays are spread at random over one step.
    pub granularity_ns: f64,
    /// Exceedances that are separated by fewer packets than this belong to the same event.
    pub run_packets: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Reason why nothing is predicted; null if there is a prediction.
    pub refused: Option<Refusal>,
    /// Thresholds that were tried, lowest first.
    pub candidates: Vec<Candidate>,
    /// Distribution fitted above the chosen threshold; null if no threshold was accepted. After a refusal
    /// this may hold the refused fit.
    pub fit: Option<Fit>,
    /// Delays that are exceeded once in a given time; empty after a refusal.
    pub return_levels: Vec<ReturnLevel>,
    /// Predicted number of events above several levels in later packets; null after a refusal.
    pub forecast: Option<Forecast>,
    /// Length of a measurement needed to support each percentile.
    pub support: Vec<Support>,
}

/// Reason why nothing is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Kind of the reason.
    pub kind: RefusalKind,
    /// The reason in words, with numbers.
    pub reason: String,
}

/// Kind of reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// There are no packets, there are too few exceedances, or all delays are equal.
    TooFew,
    /// No generalized Pareto distribution fits above any threshold.
    BadFit,
    /// High delays are more frequent or higher at some times than at others.
    NonStationary,
    /// Neither mean nor variance of future delays is reliable, or the highest delay is inconsistent with the
    /// distribution of the others.
    HeavyTailed,
}

/// A threshold that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Threshold, in ns; it lies between two steps of the granularity.
    pub threshold_ns: f64,
    /// Number of packets above the threshold.
    pub exceedances: u64,
    /// Number of events. Exceedances that are close together count as one event, with the highest delay.
    pub events: u64,
    /// Mean excess of the events, in ns (mean residual life).
    pub mean_excess_ns: f64,
    /// Shape parameter of the fit.
    pub shape: f64,
    /// Lower bound of the shape's 95 % confidence interval (profile likelihood).
    pub shape_low: f64,
    /// Upper bound of the shape's 95 % confidence interval (profile likelihood).
    pub shape_high: f64,
    /// Scale of the fit minus shape times threshold, in ns. It is the same at all thresholds above the first
    /// one that fits.
    pub modified_scale_ns: f64,
    /// Anderson-Darling statistic of the fit.
    pub anderson_darling: f64,
    /// Probability that a fit is this bad by chance. If it exceeds 0.05, its exact value is not known.
    pub fit_chance: f64,
    /// Probability that event counts are this uneven over time by chance.
    pub counts_chance: f64,
    /// Probability that event sizes are this uneven over time by chance.
    pub sizes_chance: f64,
}

/// A generalized Pareto distribution fitted to the excess over a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Threshold, in ns.
    pub threshold_ns: f64,
    /// Number of packets above the threshold.
    pub exceedances: u64,
    /// Number of fitted events.
    pub events: u64,
    /// Whether fewer than 100 events were fitted. A fit should be based on at least 100.
    pub thin: bool,
    /// Shape (xi). Below 0, delays have an upper end; above 0, they follow a power law.
    pub shape: f64,
    /// Lower bound of the shape's 95 % confidence interval (profile likelihood).
    pub shape_low: f64,
    /// Upper bound of the shape's 95 % confidence interval (profile likelihood).
    pub shape_high: f64,
    /// Shape estimated by probability-weighted moments, for comparison; null if they give no estimate.
    pub shape_by_moments: Option<f64>,
    /// Scale (sigma), in ns.
    pub scale_ns: f64,
    /// Upper end of the distribution, in ns; null if there is none.
    pub end_ns: Option<f64>,
    /// Variance of the event counts over time, relative to a Poisson process.
    pub dispersion: f64,
    /// Probability that the distribution fitted to the other events produces an event as high as the highest
    /// one. It is computed from the rank of the highest event among simulated measurements.
    pub maximum_chance: f64,
    /// Events compared with the distribution, lowest first. A subset if there are many events; the highest
    /// are always included.
    #[serde(default)]
    pub quantiles: Vec<FittedQuantile>,
    /// Lower component of a two-component mixture, which describes delays below the threshold; null if at
    /// least 100 events are above the threshold, or if a mixture does not fit.
    #[serde(default)]
    pub below: Option<Component>,
}

/// Lower component of a two-component mixture of delays, from its own threshold up to the threshold of the
/// fit. Both components are tested as one distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    /// Threshold of this component, in ns.
    pub threshold_ns: f64,
    /// Packets above this threshold, including those of the upper component.
    pub exceedances: u64,
    /// Events above this threshold, of both components.
    pub events: u64,
    /// Fraction of the events that belongs to this component, between 0 and 1.
    pub share: f64,
    /// Shape of this component's distribution.
    pub shape: f64,
    /// Scale of this component's distribution, in ns.
    pub scale_ns: f64,
    /// Anderson-Darling statistic of the mixture.
    pub anderson_darling: f64,
    /// Probability that a fit of the mixture is this bad by chance. If it exceeds 0.05, its exact value is
    /// not known.
    pub fit_chance: f64,
}

/// An event, and the delay that the fitted distribution predicts for its rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FittedQuantile {
    /// Delay of the event, in ns.
    pub observed_ns: f64,
    /// Quantile of the fitted distribution, in ns: for the i-th of n events, at probability i/(n + 1).
    pub fitted_ns: f64,
    /// Lower bound of the delay at this rank in 95 % of samples drawn from the distribution, in ns.
    pub low_ns: f64,
    /// Upper bound of the delay at this rank in 95 % of samples drawn from the distribution, in ns.
    pub high_ns: f64,
}

/// A delay that is exceeded once in a given time, on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnLevel {
    /// Length of that time, in ns.
    pub once_in_ns: i64,
    /// Number of packets in that time, at the measured rate.
    pub once_in_packets: f64,
    /// Delay, in ns.
    pub delay_ns: f64,
    /// Lower bound of the delay's 95 % confidence interval, in ns.
    pub low_ns: f64,
    /// Upper bound of the delay's 95 % confidence interval, in ns.
    pub high_ns: f64,
}

/// Prediction for later packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Number of packets that follow.
    pub packets: u64,
    /// Probability that all intervals hold simultaneously.
    pub confidence: f64,
    /// Levels, lowest first.
    pub levels: Vec<LevelForecast>,
    /// Whether every observed number lies in its interval; null if nothing was observed.
    pub holds: Option<bool>,
}

/// Predicted number of events above a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelForecast {
    /// Level, in ns.
    pub level_ns: f64,
    /// Source of the expected number.
    pub basis: Basis,
    /// Number of events above the level among the fitted packets.
    pub seen: u64,
    /// Expected number of events among the later packets.
    pub expected: f64,
    /// Smallest number of events in the interval.
    pub low: u64,
    /// Largest number of events in the interval.
    pub high: u64,
    /// Observed number of events; null if nothing was observed.
    pub observed: Option<u64>,
    /// Expected number divided by the observed number, minus 1; null if no event was observed.
    #[serde(default)]
    pub error: Option<f64>,
}

/// Source of a predicted number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The number of events counted so far.
    Counted,
    /// The fitted distribution.
    Fitted,
}

/// Length that a measurement needs to support a percentile, that is, to have at least ten packets above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Support {
    /// Percentile, in percent.
    pub percentile: f64,
    /// Number of packets needed.
    pub packets: u64,
    /// Time needed at the measured rate, in s; null if the rate is unknown.
    pub seconds: Option<f64>,
    /// Whether enough packets were analyzed.
    pub supported: bool,
}
