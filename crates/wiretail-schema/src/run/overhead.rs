//! What tracing a trial changes of it: traced trials against untraced ones that are alike in all else. Formula and
//! limits: `docs/kpi/overhead.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::scenario::Scenario;

/// Traced trials and their untraced twins, of one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// What they have in common of the factors.
    pub scenario: Scenario,
    /// The traced trials, by their numbers: repeats.
    pub traced: Vec<usize>,
    /// The untraced ones.
    pub untraced: Vec<usize>,
    /// The median delay and a percentile of the tail.
    pub percentiles: Vec<OverheadAt>,
}

/// What tracing changes of one percentile of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverheadAt {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// With tracing, in ns: of several trials the median, of an even number the lower middle one.
    pub traced_ns: i64,
    /// Without, likewise.
    pub untraced_ns: i64,
    /// With less without, in ns.
    pub difference_ns: i64,
    /// The lowest among the untraced trials, in ns.
    pub lowest_ns: i64,
    /// The highest among them, in ns.
    pub highest_ns: i64,
    /// Whether the percentile is supported in all of these trials, n (1 - p) >= 10.
    pub supported: bool,
    /// What follows.
    pub verdict: OverheadVerdict,
}

impl OverheadAt {
    /// How far apart untraced trials are, that nothing distinguishes, in ns.
    pub fn range_ns(&self) -> i64 {
        self.highest_ns.saturating_sub(self.lowest_ns)
    }
}

/// Whether tracing can be told from what differs between trials anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverheadVerdict {
    /// The difference is no larger than the range of the untraced trials.
    Within,
    /// It is larger.
    Beyond,
    /// There is one untraced trial only: nobody knows how far apart two of them would be.
    Unknown,
}
