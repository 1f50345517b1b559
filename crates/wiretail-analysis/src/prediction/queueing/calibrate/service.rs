//! Service time and interrupts, estimated from gaps.

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::Length;

use super::{GAPS_MIN, Gap};
use crate::stats::list::{median, median_and_mad, median_estimate};

/// A gap that exceeds the median by this many deviations is treated as interrupted. For a normal
/// distribution, this misclassifies one gap in 10^15. For an exponential distribution, it misclassifies one
/// gap in 600. The effect is small, because the interrupts that replace these service times occur equally
/// often.
const DEVIATIONS: f64 = 8.0;
/// Standard deviation of a normal distribution, in median absolute deviations (Hampel 1974).
const MAD: f64 = 1.4826;
/// Minimum distance of the limit from the median, as a fraction of the median.
const APART: f64 = 0.05;
/// Minimum length of an interrupt, as a fraction of the service time. Shorter delays, for example due to cold
/// caches, are part of the service time.
const OWN: f64 = 0.5;
/// A service time with a smaller relative deviation is treated as constant.
const SPREAD_MIN: f64 = 1e-3;

/// Service time of a device.
#[derive(Debug)]
pub(super) struct Work {
    pub service: Length,
    pub overhead_ns: f64,
    /// Median service time, with the 95 % confidence interval.
    pub median_ns: Estimate,
    /// Mean and variance of service plus overhead of a single packet.
    pub mean_ns: f64,
    pub variance: f64,
    /// Gaps longer than this, in ns, contain an interrupt.
    pub above_ns: f64,
    /// Length of each interrupt.
    pub excesses: Vec<f64>,
    /// Total length of the gaps that were searched for interrupts.
    pub busy_ns: f64,
    pub gaps: u64,
    pub remark: Option<String>,
}

/// Limit above which values do not belong to the bulk.
pub(super) fn limit(values: &[f64]) -> f64 {
    let (middle, mad) = median_and_mad(values).unwrap_or_default();
    middle + (DEVIATIONS * MAD * mad).max(APART * middle)
}

/// Length above which a gap contains an interrupt.
pub(super) fn interrupted_above(lengths: Vec<f64>) -> f64 {
    limit(&lengths) + OWN * median(lengths).unwrap_or(0.0)
}

/// Gaps without interrupts, in ascending order, and the length above which a gap contains one.
fn bulk(gaps: &[Gap]) -> (Vec<f64>, f64) {
    let mut lengths: Vec<f64> = gaps.iter().map(|gap| gap.ns).collect();
    let above_ns = interrupted_above(lengths.clone());
    lengths.retain(|ns| *ns <= above_ns);
    lengths.sort_unstable_by(f64::total_cmp);
    (lengths, above_ns)
}

/// Gaps of packets that were sent in bursts, if there are enough; otherwise all gaps. A packet that was sent
/// alone waits only if the previous one was late. Such gaps are close to interrupts, which occur in clusters
/// and leave cold caches.
fn telling(gaps: &[Gap]) -> Vec<Gap> {
    let together: Vec<Gap> = gaps.iter().filter(|gap| gap.together).copied().collect();
    if together.len() >= GAPS_MIN { together } else { gaps.to_vec() }
}

/// Splits gaps into service times and interrupts. The length of an interrupt is the gap's excess over the
/// mean of the bulk.
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

/// Mean and variance; zeros for an empty slice.
pub(super) fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n)
}
