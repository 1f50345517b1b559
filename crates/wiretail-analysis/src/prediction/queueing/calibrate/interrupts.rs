//! Rate and length of interrupts, estimated from the packets that they delayed.
//!
//! A busy server has many gaps, which show short interrupts. Long interrupts are rare, and few of them occur
//! while the server is busy. However, a packet that arrives at an idle server during an interrupt is also
//! delayed, so packets detect interrupts in part of the idle time as well. The longer the interrupts, the
//! larger this part.

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::calibration::InterruptEvidence;
use wiretail_schema::prediction::queueing::{Interrupts, Length};

use super::Isolated;
use super::service::Work;
use crate::prediction::capacity::counted;

/// The interrupts in this many of the longest gaps are treated as long. There are too few of them to estimate
/// their rate from busy times alone.
const LONG: usize = 10;
/// Number of samples that represent the long interrupts, in proportion to their weights.
const SAMPLES: usize = 512;

/// Interrupt sources of a device, and the evidence for them.
pub(super) struct Found {
    pub sources: Vec<Interrupts>,
    pub evidence: InterruptEvidence,
}

impl Found {
    /// Share of interrupted packets among the packets that find the server idle, if service takes this long.
    /// A packet is interrupted if an interrupt is in progress when it arrives, or starts during its service.
    pub(super) fn hits(&self, service_ns: f64) -> f64 {
        self.evidence.share + self.evidence.per_second.value * 1e-9 * service_ns
    }
}

/// Estimates the interrupts of a device. `late` lists the excess delays of packets that found the server idle
/// and took far longer than the others.
///
/// A long interrupt of length L is detected if it starts while the server works or during the last L of an
/// idle period. Its weight is 1 / (total length of these times) (Horvitz and Thompson, Journal of the
/// American Statistical Association 47, 1952).
pub(super) fn of(work: &Work, idle: &[Isolated], late: &[f64]) -> Found {
    let mut excesses = work.excesses.clone();
    excesses.sort_unstable_by(f64::total_cmp);
    let short = excesses.len().saturating_sub(LONG);
    // If all gaps are long ones, use the length at which a gap counts as interrupted.
    let bound = if short > 0 { excesses[short - 1] } else { work.above_ns - work.mean_ns };
    let mut long: Vec<f64> = excesses.split_off(short);
    long.extend(late.iter().copied().filter(|excess| *excess > bound));
    let isolated = idle.len() as f64;
    let watched = |length_ns: f64| {
        let idle: f64 = idle.iter().map(|one| one.idle_ns.min(length_ns)).sum();
        work.busy_ns + work.mean_ns * isolated + idle
    };
    let weights: Vec<f64> = long.iter().map(|length| 1e9 / watched(*length)).collect();
    let long_rate: f64 = weights.iter().sum();
    let seconds = work.busy_ns * 1e-9;
    let mut sources = Vec::new();
    if !excesses.is_empty() {
        let per_second = excesses.len() as f64 / seconds;
        sources.push(Interrupts::Poisson { per_second, length: Length::Samples(excesses.clone()) });
    }
    if !long.is_empty() {
        let length = Length::Samples(drawn(&long, &weights));
        sources.push(Interrupts::Poisson { per_second: long_rate, length });
    }
    let of_long = counted(long.len() as u64, long.len().max(1) as f64).times(long_rate);
    let of_short = counted(excesses.len() as u64, seconds);
    let short_share = excesses.iter().sum::<f64>() / work.busy_ns;
    let long_share: f64 = long.iter().zip(&weights).map(|(length, weight)| length * weight * 1e-9).sum();
    let evidence = InterruptEvidence {
        source: "gaps".to_owned(),
        above_ns: Some(work.above_ns),
        count: (excesses.len() + long.len()) as u64,
        per_second: sum([of_short, of_long]),
        share: short_share + long_share,
        longest_ns: long.iter().copied().fold(0.0, f64::max),
    };
    Found { sources, evidence }
}

/// Sums independent estimates. Adding the bounds makes the interval wider than necessary.
fn sum(estimates: [Estimate; 2]) -> Estimate {
    Estimate {
        value: estimates.iter().map(|one| one.value).sum(),
        low: estimates.iter().map(|one| one.low).sum(),
        high: estimates.iter().map(|one| one.high).sum(),
    }
}

/// Samples in which each length occurs in proportion to its weight.
fn drawn(lengths: &[f64], weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let mut samples = Vec::with_capacity(SAMPLES);
    let (mut place, mut passed) = (0, weights[0]);
    for number in 0..SAMPLES {
        let at = (number as f64 + 0.5) / SAMPLES as f64 * total;
        while passed < at && place + 1 < lengths.len() {
            place += 1;
            passed += weights[place];
        }
        samples.push(lengths[place]);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_occur_in_proportion_to_weights() {
        let samples = drawn(&[1.0, 2.0, 3.0], &[1.0, 2.0, 5.0]);
        let of = |length: f64| samples.iter().filter(|sample| **sample == length).count();
        assert_eq!((of(1.0), of(2.0), of(3.0)), (SAMPLES / 8, SAMPLES / 4, SAMPLES * 5 / 8));
    }
}
