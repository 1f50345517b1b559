//! Breakdown of one packet's excess delay into causes.

use wiretail_schema::causes::Certainty;

use super::queue::Residence;
use super::timeline::{CpuLoad, NO_SENDER, Span};
use crate::causes::attribution::baseline::{Baseline, overlap_ns};
use crate::causes::attribution::overhead::within;

/// A group of packets counts as a late burst if it arrived in less than this fraction of the time that the
/// same number of packets takes at the mean rate.
const LATE_SHARE: f64 = 0.8;

/// Part of a packet's excess delay. Causes and senders have the same numbers as in the timelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawPart {
    pub cause: u16,
    /// Duration, in ns.
    pub ns: u64,
    /// How the part was determined.
    pub certainty: Certainty,
    /// Number of the sender, or [`NO_SENDER`].
    pub sender: u32,
    /// Whether the cause delayed earlier packets, for which this packet then waited.
    pub queued: bool,
}

/// Inputs of the breakdown.
pub struct Split<'a> {
    /// All packets, in the order of arrival.
    pub residences: &'a [Residence],
    /// Activity of the device's core.
    pub spans: &'a [Span],
    /// Usual times of the causes.
    pub baseline: &'a Baseline,
    /// Delay that each packet would have had if no cause had exceeded its baseline, in ns.
    pub undisturbed_ns: &'a [u64],
    /// Each packet's service interval minus the time that causes took from it beyond their baseline, in ns.
    pub own_ns: &'a [u64],
    /// Numbers of the causes that stand for packets waiting for each other, one number per reason.
    pub cpu_loads: [u16; 3],
    /// Whether packets are meant to arrive at even intervals.
    pub evenly: bool,
}

impl Split<'_> {
    /// Splits the excess delay `lost_ns` of the packet at `place` into parts. Returns the parts and the
    /// unexplained remainder, which together add up to `lost_ns`.
    pub fn packet(&self, place: usize, lost_ns: u64) -> (Vec<RawPart>, u64) {
        let residence = &self.residences[place];
        let served = self.served(place);
        let mut parts =
            self.taken(residence.in_ns, residence.out_ns, |cause| self.baseline.ns(cause, served));
        self.add_queued(place, &mut parts);
        fit(&mut parts, lost_ns);
        let known_ns: u64 = parts.iter().map(|part| part.ns).sum();
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        (parts, lost_ns - known_ns)
    }

    /// Returns why packets were queued ahead of this one although nothing interrupted the device.
    fn cpu_load(&self, place: usize) -> CpuLoad {
        if !self.evenly {
            return CpuLoad::Planned;
        }
        let (first, last) = (&self.residences[0], &self.residences[self.residences.len() - 1]);
        let began = self.residences[place].busy_from;
        let came_ns = self.residences[place].in_ns - self.residences[began].in_ns;
        let packets = (place - began) as f64;
        // Mean time between two packets of the trial.
        let mean_ns = (last.in_ns - first.in_ns) as f64 / (self.residences.len() - 1).max(1) as f64;
        if (came_ns as f64) < LATE_SHARE * packets * mean_ns { CpuLoad::Late } else { CpuLoad::Load }
    }

    /// Number of packets that left while this one waited for service.
    fn served(&self, place: usize) -> u64 {
        let residence = &self.residences[place];
        let ahead = self.residences[residence.busy_from..place].iter().rev();
        ahead
            .take_while(|other| other.out_ns > residence.in_ns)
            .filter(|other| other.out_ns <= residence.start_ns)
            .count() as u64
    }

    /// Time that causes took from the core in a window, minus their usual time in such a window.
    fn taken(&self, from_ns: u64, to_ns: u64, baseline_ns: impl Fn(u16) -> u64) -> Vec<RawPart> {
        let mut parts: Vec<RawPart> = Vec::new();
        for span in within(self.spans, from_ns, to_ns) {
            add(&mut parts, span, overlap_ns(span, from_ns, to_ns), false);
        }
        let mut done: Vec<u16> = Vec::new();
        for place in 0..parts.len() {
            let cause = parts[place].cause;
            let mut baseline_ns = baseline_ns(cause);
            if baseline_ns == 0 || done.contains(&cause) {
                continue;
            }
            done.push(cause);
            for part in parts.iter_mut().filter(|part| part.cause == cause) {
                let less_ns = baseline_ns.min(part.ns);
                part.ns -= less_ns;
                baseline_ns -= less_ns;
            }
        }
        parts.retain(|part| part.ns > 0);
        parts
    }

    /// Attributes the time in which the device worked on earlier packets. The time that these packets would
    /// have taken without any cause is attributed to the burst. The rest is attributed to the causes that
    /// occurred in the busy period before this packet arrived, starting with the latest one.
    fn add_queued(&self, place: usize, parts: &mut Vec<RawPart>) {
        let residence = &self.residences[place];
        let waits_ns = residence.start_ns - residence.in_ns;
        let served = self.served(place);
        let away =
            self.taken(residence.in_ns, residence.start_ns, |cause| self.baseline.whole_ns(cause, served));
        let away_ns: u64 = away.iter().map(|part| part.ns).sum();
        let work_ns = waits_ns.saturating_sub(away_ns);
        let anyway_ns = self.undisturbed_ns[place].saturating_sub(self.own_ns[place]);
        let burst_ns = work_ns.min(anyway_ns);
        if burst_ns > 0 {
            let (sender, certainty) = (NO_SENDER, Certainty::Modelled);
            let cause = self.cpu_loads[self.cpu_load(place) as usize];
            parts.push(RawPart { cause, ns: burst_ns, certainty, sender, queued: false });
        }
        let mut debt_ns = work_ns - burst_ns;
        let began_ns = self.residences[residence.busy_from].in_ns;
        for span in within(self.spans, began_ns, residence.in_ns).iter().rev() {
            if debt_ns == 0 {
                break;
            }
            let length_ns = overlap_ns(span, began_ns, residence.in_ns);
            let ns = length_ns.saturating_sub(self.baseline.whole_ns(span.cause, 1)).min(debt_ns);
            add(parts, span, ns, true);
            debt_ns -= ns;
        }
    }
}

fn add(parts: &mut Vec<RawPart>, span: &Span, ns: u64, queued: bool) {
    if ns == 0 {
        return;
    }
    let same = |part: &&mut RawPart| {
        (part.cause, part.sender, part.certainty, part.queued)
            == (span.cause, span.sender, span.certainty, queued)
    };
    match parts.iter_mut().find(same) {
        Some(part) => part.ns += ns,
        None => {
            let (cause, certainty, sender) = (span.cause, span.certainty, span.sender);
            parts.push(RawPart { cause, ns, certainty, sender, queued });
        }
    }
}

/// Reduces the parts if their sum exceeds the excess delay. Modelled parts are reduced first, because they
/// are the least certain. If that is not enough, inferred parts are reduced, and then all parts.
fn fit(parts: &mut Vec<RawPart>, lost_ns: u64) {
    let sum = |parts: &[RawPart]| parts.iter().map(|part| part.ns).sum::<u64>();
    for certainty in [Some(Certainty::Modelled), Some(Certainty::Inferred), None] {
        let over_ns = sum(parts).saturating_sub(lost_ns);
        if over_ns == 0 {
            break;
        }
        let is_meant = |part: &RawPart| certainty.is_none_or(|certainty| part.certainty == certainty);
        let meant_ns: u64 = parts.iter().filter(|part| is_meant(part)).map(|part| part.ns).sum();
        let keep_ns = meant_ns.saturating_sub(over_ns);
        for part in parts.iter_mut().filter(|part| is_meant(part)) {
            part.ns = (u128::from(part.ns) * u128::from(keep_ns) / u128::from(meant_ns.max(1))) as u64;
        }
    }
    parts.retain(|part| part.ns > 0);
}
