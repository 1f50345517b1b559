//! What a packet that found the server idle waited for, besides service and transfer; the interrupts that it met are told apart
//! by [`interrupts`].

use wiretail_schema::predict::calibration::WakeEvidence;
use wiretail_schema::predict::twin::{Length, Wake};

use super::service::{Work, at, limit, median, moments, shared};
use super::{Lone, interrupts};

/// The smallest delays are compared at this share: the very first may be a stamp's fault.
const SMALLEST: f64 = 0.01;
/// Less than this part of the service is none: as exact the service is known at best.
const NEGLIGIBLE: f64 = 2e-3;
/// Packets in a class of idle times at least.
const CLASS_MIN: usize = 50;
/// From one class of idle times to the next, as a factor.
const CLASS: f64 = 4.0;
/// First bound of classes, in ns.
const CLASS_FIRST_NS: f64 = 4_000.0;

/// Transfer, the times to wake up by classes of idle times, and interrupts.
pub(super) struct Found {
    pub transfer_ns: f64,
    pub wakes: Vec<Wake>,
    pub evidence: Vec<WakeEvidence>,
    pub interrupts: interrupts::Found,
}

/// The transfer is the smallest delays less the smallest services, and at least `-least_ns`, so that no delay is negative.
/// Whatever every packet waits for is in it.
pub(super) fn of(lone: &[Lone], work: &Work, least_ns: f64) -> Found {
    let mut delays: Vec<f64> = lone.iter().map(|one| one.delay_ns).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let smallest_ns = match &work.service {
        // Sorted, as its median was taken.
        Length::Samples(sorted) => at(sorted, SMALLEST),
        Length::Constant(ns) | Length::Exponential(ns) => *ns,
    } + work.overhead_ns;
    let transfer_ns = (at(&delays, SMALLEST) - smallest_ns).max(-least_ns);
    // Who came while a packet that had left was still worked on did not find it idle.
    let idle = lone.iter().map(|one| Lone { idle_ns: one.idle_ns + transfer_ns.min(0.0), ..*one });
    let mut idle: Vec<Lone> = idle.filter(|one| one.idle_ns > 0.0).collect();
    idle.sort_unstable_by(|a, b| a.idle_ns.total_cmp(&b.idle_ns));
    let classes = classes(&idle);
    // What held the sender as well is known from gaps alone: nothing was sent while it took an idle server.
    let late: Vec<f64> = classes.iter().flat_map(|class| late(class)).collect();
    let interrupts = interrupts::of(work, &idle, &late);
    let hits = interrupts.hits(work.mean_ns);
    let transfer_ns =
        classes.iter().fold(transfer_ns, |least, class| least.min(most(class, work, hits))).max(-least_ns);
    let (mut wakes, mut evidence) = (Vec::new(), Vec::new());
    for class in classes {
        let after_idle_ns = if wakes.is_empty() { 0.0 } else { class[0].idle_ns };
        let length = length(class, work, transfer_ns, hits);
        evidence.push(WakeEvidence { after_idle_ns, packets: class.len() as u64, mean_ns: mean(&length) });
        wakes.push(Wake { after_idle_ns, length });
    }
    if wakes.iter().all(|wake| mean(&wake.length) == 0.0) {
        wakes.clear();
    }
    Found { transfer_ns, wakes, evidence, interrupts }
}

/// By how much those far above the others are later than the median.
fn late(class: &[Lone]) -> Vec<f64> {
    let mut delays: Vec<f64> = class.iter().map(|one| one.delay_ns).collect();
    let middle = median(&mut delays).map_or(0.0, |found| found.value);
    let above = limit(&delays);
    let late = class.iter().map(|one| (one.delay_ns, one.held_ns)).filter(|(delay_ns, _)| *delay_ns > above);
    shared(late.map(|(delay_ns, held_ns)| (delay_ns - middle, held_ns))).1
}

/// Consecutive packets, by powers of [`CLASS`], each class with enough of them.
fn classes(sorted: &[Lone]) -> Vec<&[Lone]> {
    let class = |one: &Lone| (one.idle_ns / CLASS_FIRST_NS).max(1.0 / CLASS).log(CLASS).floor() as i64;
    let mut found: Vec<&[Lone]> = Vec::new();
    let mut from = 0;
    for to in 1..=sorted.len() {
        let ends = to == sorted.len() || class(&sorted[to]) != class(&sorted[to - 1]);
        if ends && (to - from >= CLASS_MIN || (to == sorted.len() && found.is_empty())) {
            found.push(&sorted[from..to]);
            from = to;
        }
    }
    // Too few at the end belong to the class before.
    if from < sorted.len()
        && let Some(last) = found.pop()
    {
        let begin = from - last.len();
        found.push(&sorted[begin..]);
    }
    found
}

/// No packet waits for less than nothing, so the transfer is at most what the packets of a class took on average, two standard errors
/// added, less the service.
fn most(class: &[Lone], work: &Work, hit: f64) -> f64 {
    let delays = undisturbed(class, hit);
    let (delay_ns, variance) = moments(&delays);
    delay_ns + 2.0 * ((variance + work.variance) / delays.len().max(1) as f64).sqrt() - work.mean_ns
}

/// The delays of a class in order, without as many of the longest as interrupts hit.
fn undisturbed(class: &[Lone], hit: f64) -> Vec<f64> {
    let mut delays: Vec<f64> = class.iter().map(|one| one.delay_ns).collect();
    delays.sort_unstable_by(f64::total_cmp);
    let above = limit(&delays);
    let late = delays.iter().filter(|delay| **delay > above).count();
    let hits = late.min((hit * delays.len() as f64).ceil() as usize);
    delays.truncate(delays.len() - hits);
    delays
}

/// Delays less service and transfer. Both vary, and only their sum was seen: mean and variance of the sum are those of the parts,
/// so what is left is stretched to the variance that is left.
fn length(class: &[Lone], work: &Work, transfer_ns: f64, hit: f64) -> Length {
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
    // What was cut off below 0 has raised the mean.
    let raised = moments(&samples).0;
    Length::Samples(samples.iter().map(|sample| sample * mean_ns / raised).collect())
}

fn mean(length: &Length) -> f64 {
    match length {
        Length::Constant(ns) | Length::Exponential(ns) => *ns,
        Length::Samples(samples) => moments(samples).0,
    }
}
