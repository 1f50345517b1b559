//! From gaps to work and interrupts.

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::Length;

use super::{GAPS_MIN, Gap};
use crate::stats::list::{median, median_and_mad, median_estimate};

/// So many deviations above the median, a gap is taken for interrupted. Of normal ones, one in 10^15 is; of exponential
/// ones one in 600, which changes little: such work comes as often as such an interrupt would.
const DEVIATIONS: f64 = 8.0;
/// Standard deviation of a normal distribution in median absolute deviations (Hampel 1974).
const MAD: f64 = 1.4826;
/// Never nearer to the median than this part of it.
const APART: f64 = 0.05;
/// An interrupt takes at least this part of a packet's work: what takes less belongs to the packet, as a cache that is cold.
const OWN: f64 = 0.5;
/// Where work spreads by less than this part of it, it is taken as constant.
const SPREAD_MIN: f64 = 1e-3;

/// What a packet costs.
#[derive(Debug)]
pub(super) struct Work {
    pub service: Length,
    pub overhead_ns: f64,
    /// Median of the service, with the 95 % confidence interval.
    pub median_ns: Estimate,
    /// Mean and variance of service and overhead of a packet alone.
    pub mean_ns: f64,
    pub variance: f64,
    /// Gaps longer than this were interrupted, in ns.
    pub above_ns: f64,
    /// What interrupts took, each.
    pub excesses: Vec<f64>,
    /// All gaps together in which interrupts were looked for.
    pub busy_ns: f64,
    pub gaps: u64,
    pub remark: Option<String>,
}

/// Above which value numbers are no more of the bulk.
pub(super) fn limit(values: &[f64]) -> f64 {
    let (middle, mad) = median_and_mad(values).unwrap_or_default();
    middle + (DEVIATIONS * MAD * mad).max(APART * middle)
}

/// What takes longer was interrupted.
pub(super) fn interrupted_above(lengths: Vec<f64>) -> f64 {
    limit(&lengths) + OWN * median(lengths).unwrap_or(0.0)
}

/// What a packet costs in the gaps that were not interrupted, in order, and above which length one was.
fn bulk(gaps: &[Gap]) -> (Vec<f64>, f64) {
    let mut lengths: Vec<f64> = gaps.iter().map(|gap| gap.ns).collect();
    let above_ns = interrupted_above(lengths.clone());
    lengths.retain(|ns| *ns <= above_ns);
    lengths.sort_unstable_by(f64::total_cmp);
    (lengths, above_ns)
}

/// The gaps of packets that were sent together, where there are enough. One that was sent alone waits where the one before it was late:
/// such gaps lie near interrupts, which come in company, and in caches that these have left cold.
fn telling(gaps: &[Gap]) -> Vec<Gap> {
    let together: Vec<Gap> = gaps.iter().filter(|gap| gap.together).copied().collect();
    if together.len() >= GAPS_MIN { together } else { gaps.to_vec() }
}

/// Gaps as work, and those far above the others as work and an interrupt: its length is what the gap has above the mean of the bulk.
pub(super) fn of_gaps(gaps: &[Gap]) -> Work {
    let gaps = &telling(gaps)[..];
    let (mut bulk, above_ns) = bulk(gaps);
    let (mean_ns, variance) = moments(&bulk);
    let interrupted = gaps.iter().filter(|gap| gap.ns > above_ns);
    let median_ns = median_estimate(&mut bulk).unwrap_or(Estimate::exact(0.0));
    let constant = variance.sqrt() < SPREAD_MIN * mean_ns;
    Work {
        service: if constant { Length::Constant(mean_ns) } else { Length::Samples(bulk) },
        overhead_ns: 0.0,
        median_ns,
        mean_ns,
        variance,
        above_ns,
        excesses: interrupted.map(|gap| gap.ns - mean_ns).collect(),
        busy_ns: gaps.iter().map(|gap| gap.ns).sum(),
        gaps: gaps.len() as u64,
        remark: None,
    }
}

/// Mean and variance; zeros of nothing.
pub(super) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n)
}
