//! Wait of a packet that found the server idle, in addition to service and transfer. [`interrupts`] separates
//! the effect of interrupts.

use wiretail_schema::prediction::queueing::calibration::WakeEvidence;
use wiretail_schema::prediction::queueing::{Length, Wake};
use wiretail_schema::units::Share;

use super::service::{Work, limit, moments};
use super::{Isolated, interrupts};
use crate::prediction::queueing::feasibility::mean_of;
use crate::stats::list::median;

/// Percentile, as a share, that represents the smallest delays. The smallest delay itself may be a timestamp
/// error.
const SMALLEST: Share = Share::from_billionths(10_000_000).expect("1 %");
/// A wait below this fraction of the service time counts as zero, because the service time is not known more
/// precisely.
const NEGLIGIBLE: f64 = 2e-3;
/// Minimum number of packets in a class of idle times.
const CLASS_MIN: usize = 50;
/// The first class of idle times ends at twice this time, in ns; each later class ends at twice its start.
const CLASS_NS: f64 = 400.0;

/// Transfer time, wakeup times per class of idle times, and interrupts.
pub(super) struct Found {
    pub transfer_ns: f64,
    pub wakes: Vec<Wake>,
    pub evidence: Vec<WakeEvidence>,
    pub interrupts: interrupts::Found,
}

/// Estimates transfer, wakeups and interrupts. The transfer is the difference between the smallest delays and
/// the smallest service times. It is at least `-least_ns`, so that no delay is negative. It includes any wait
/// that all packets have in common.
pub(super) fn of(isolated: &[Isolated], work: &Work, least_ns: f64) -> Found {
    let mut delays: Vec<f64> = isolated.iter().map(|one| one.delay_ns).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let at_smallest = |sorted: &[f64]| SMALLEST.of(sorted).copied().unwrap_or(0.0);
    let smallest_ns = match &work.service {
        // The samples were sorted when their median was computed.
        Length::Samples(sorted) => at_smallest(sorted),
        Length::Constant(ns) | Length::Exponential(ns) => *ns,
    } + work.overhead_ns;
    let transfer_ns = (at_smallest(&delays) - smallest_ns).max(-least_ns);
    // Exclude packets that arrived while the server was still working on a packet after its departure.
    let idle = isolated.iter().map(|one| Isolated { idle_ns: one.idle_ns + transfer_ns.min(0.0), ..*one });
    let mut idle: Vec<Isolated> = idle.filter(|one| one.idle_ns > 0.0).collect();
    idle.sort_unstable_by(|a, b| a.idle_ns.total_cmp(&b.idle_ns));
    let classes = classes(&idle);
    let late: Vec<f64> = classes.iter().flat_map(|class| late(class)).collect();
    let interrupts = interrupts::of(work, &idle, &late);
    let hits = interrupts.hits(work.mean_ns);
    let transfer_ns =
        classes.iter().fold(transfer_ns, |least, class| least.min(most(class, work, hits))).max(-least_ns);
    let (mut wakes, mut evidence) = (Vec::new(), Vec::new());
    for class in classes {
        let after_idle_ns = if wakes.is_empty() { 0.0 } else { class[0].idle_ns };
        let length = length(class, work, transfer_ns, hits);
        evidence.push(WakeEvidence { after_idle_ns, packets: class.len() as u64, mean_ns: mean_of(&length) });
        wakes.push(Wake { after_idle_ns, length });
    }
    if wakes.iter().all(|wake| mean_of(&wake.length) == 0.0) {
        wakes.clear();
    }
    Found { transfer_ns, wakes, evidence, interrupts }
}

/// Delays far above the others, as excesses over the median.
fn late(class: &[Isolated]) -> Vec<f64> {
    let delays: Vec<f64> = class.iter().map(|one| one.delay_ns).collect();
    let middle = median(delays.iter().copied()).unwrap_or(0.0);
    let above = limit(&delays);
    delays.into_iter().filter(|delay_ns| *delay_ns > above).map(|delay_ns| delay_ns - middle).collect()
}

/// Groups packets by idle time. Each class has at least [`CLASS_MIN`] packets.
fn classes(sorted: &[Isolated]) -> Vec<&[Isolated]> {
    let class = |one: &Isolated| (one.idle_ns / CLASS_NS).max(1.0).log2() as i64;
    let mut found: Vec<&[Isolated]> = Vec::new();
    let mut from = 0;
    for to in 1..=sorted.len() {
        let ends = to == sorted.len() || class(&sorted[to]) != class(&sorted[to - 1]);
        if ends && (to - from >= CLASS_MIN || (to == sorted.len() && found.is_empty())) {
            found.push(&sorted[from..to]);
            from = to;
        }
    }
    // A remainder that is too small joins the previous class.
    if from < sorted.len()
        && let Some(last) = found.pop()
    {
        let begin = from - last.len();
        found.push(&sorted[begin..]);
    }
    found
}

/// Upper bound on the transfer. No wait is negative, so the transfer plus the service time is at most the
/// mean delay of a class plus two standard errors.
fn most(class: &[Isolated], work: &Work, hit: f64) -> f64 {
    let delays = undisturbed(class, hit);
    let (delay_ns, variance) = moments(&delays);
    delay_ns + 2.0 * ((variance + work.variance) / delays.len().max(1) as f64).sqrt() - work.mean_ns
}

/// Delays of a class in ascending order, without the longest ones: one delay is left out for each packet that
/// was hit by an interrupt.
fn undisturbed(class: &[Isolated], hit: f64) -> Vec<f64> {
    let mut delays: Vec<f64> = class.iter().map(|one| one.delay_ns).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let above = limit(&delays);
    let late = delays.iter().filter(|delay| **delay > above).count();
    let hits = late.min((hit * delays.len() as f64).ceil() as usize);
    delays.truncate(delays.len() - hits);
    delays
}

/// Distribution of the wakeup time: delays minus service and transfer. Only the sum of wakeup and service is
/// observed. Its mean and its variance are the sums of those of the two parts, so the samples are scaled to
/// the variance that remains for the wakeup.
fn length(class: &[Isolated], work: &Work, transfer_ns: f64, hit: f64) -> Length {
    let delays = undisturbed(class, hit);
    let (delay_ns, variance) = moments(&delays);
    let mean_ns = delay_ns - work.mean_ns - transfer_ns;
    if mean_ns <= NEGLIGIBLE * work.mean_ns {
        return Length::Constant(0.0);
    }
    let left = (variance - work.variance).max(0.0);
    if left.sqrt() < 0.01 * mean_ns {
        return Length::Constant(mean_ns);
    }
    let stretch = (left / variance).sqrt();
    let samples: Vec<f64> =
        delays.iter().map(|delay| (mean_ns + stretch * (delay - delay_ns)).max(0.0)).collect();
    // Truncation at 0 has raised the mean.
    let raised = moments(&samples).0;
    Length::Samples(samples.iter().map(|sample| sample * mean_ns / raised).collect())
}
