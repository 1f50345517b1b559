//! Overhead of tracing: traced trials compared with untraced control trials that are otherwise identical.
//! Formula and limits: `docs/kpi/overhead.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::scenario::Scenario;

/// Overhead of tracing in one scenario: traced trials and their untraced controls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// Factors that the trials have in common.
    pub scenario: Scenario,
    /// Numbers of the traced trials, which are repeats.
    pub traced: Vec<usize>,
    /// Numbers of the untraced trials.
    pub untraced: Vec<usize>,
    /// Overhead at the median delay and at a percentile of the tail.
    pub percentiles: Vec<OverheadAt>,
}

/// Overhead of tracing at one percentile of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverheadAt {
    /// p in percent: 99.9.
    pub percentile: f64,
    /// Percentile with tracing, in ns: the median over the traced trials, or the lower middle value for an
    /// even number of trials.
    pub traced_ns: i64,
    /// Percentile without tracing, in ns, computed in the same way.
    pub untraced_ns: i64,
    /// `traced_ns` minus `untraced_ns`, in ns.
    pub difference_ns: i64,
    /// Lowest value among the untraced trials, in ns.
    pub lowest_ns: i64,
    /// Highest value among the untraced trials, in ns.
    pub highest_ns: i64,
    /// Whether the percentile is supported in all of these trials: n (1 - p) >= 10.
    pub supported: bool,
    /// Conclusion from the difference and the range of the untraced trials.
    pub verdict: OverheadVerdict,
}

impl OverheadAt {
    /// Returns the range of the untraced trials, which differ only by chance, in ns.
    pub fn range_ns(&self) -> i64 {
        self.highest_ns.saturating_sub(self.lowest_ns)
    }
}

/// Whether the effect of tracing is distinguishable from the variation between trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverheadVerdict {
    /// The difference does not exceed the range of the untraced trials.
    Within,
    /// The difference exceeds the range of the untraced trials.
    Beyond,
    /// There is only one untraced trial, so the variation between trials is unknown.
    Unknown,
}
