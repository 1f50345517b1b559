//! Spectrum of the times of late packets, and the frequency that causes a peak in it.
//!
//! The Rayleigh power of a set of n times t at a frequency f is `|Σ exp(2πi f t)|² / n`. For random times it
//! is exponentially distributed with mean 1 (Rayleigh 1880; Schuster 1898; Mardia and Jupp 2000, 6.3). If the
//! times are clustered, the powers at low frequencies are higher. Each power is therefore first divided by
//! the mean of its neighborhood (van der Klis 1989).

use std::f64::consts::{LN_2, TAU};

use super::fft::{Complex, transform};
use super::fold::{BestArc, best_arc, phase};
use crate::stats::list::median;

/// Number of powers in a neighborhood of the spectrum.
const NEIGHBOURHOOD: usize = 1024;
/// Highest harmonic of a clock that is considered as the cause of a peak.
const HARMONICS: u32 = 48;
/// Number of candidate clocks that are compared with all packets.
const CANDIDATES: usize = 24;
/// Minimum number of cycles that a period must have in the capture.
pub const CYCLES_MIN: f64 = 20.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    pub frequency_hz: f64,
    /// Upper bound on the probability that the spectrum of random times has a peak of this height.
    pub false_alarm: f64,
}

pub fn power(times_ns: &[i64], frequency_hz: f64) -> f64 {
    let (mut re, mut im) = (0.0, 0.0);
    for at_ns in times_ns {
        let (sin, cos) = (TAU * phase(*at_ns, frequency_hz)).sin_cos();
        (re, im) = (re + cos, im + sin);
    }
    (re * re + im * im) / times_ns.len() as f64
}

/// The highest peak between [`CYCLES_MIN`] cycles in the span and half the packet rate. `None` for fewer than
/// ten times, or if that range of frequencies is empty.
pub fn peak(late_ns: &[i64], span_ns: i64, packets: usize) -> Option<Peak> {
    if late_ns.len() < 10 || packets < 1000 || span_ns <= 0 {
        return None;
    }
    // If packets are sent evenly, one bin per packet loses no information. With zero padding to twice the
    // length, no peak falls between two frequencies.
    let bin_ns = span_ns as f64 / (packets - 1) as f64;
    let mut data: Vec<Complex> = vec![(0.0, 0.0); (2 * packets).next_power_of_two()];
    for at_ns in late_ns {
        let bin = (*at_ns as f64 / bin_ns).round().max(0.0) as usize;
        if let Some(cell) = data.get_mut(bin) {
            cell.0 += 1.0;
        }
    }
    transform(&mut data);
    let step_hz = 1e9 / (bin_ns * data.len() as f64);
    let span_s = span_ns as f64 * 1e-9;
    let first = (CYCLES_MIN / span_s / step_hz).ceil() as usize;
    let last = (packets as f64 / span_s / 2.0 / step_hz).floor() as usize;
    if first >= last {
        return None;
    }
    let count = late_ns.len() as f64;
    let powers: Vec<f64> = data[first..=last].iter().map(|(re, im)| (re * re + im * im) / count).collect();
    let (mut best, mut best_power) = (0, 0.0);
    for (block, chunk) in powers.chunks(NEIGHBOURHOOD).enumerate() {
        // The median of an exponential distribution is its mean times ln 2.
        let usual = median(chunk.iter().copied()).map_or(1.0, |median| (median / LN_2).max(1.0));
        for (place, power) in chunk.iter().enumerate() {
            if power / usual > best_power {
                (best, best_power) = (block * NEIGHBOURHOOD + place, power / usual);
            }
        }
    }
    let coarse_hz = (first + best) as f64 * step_hz;
    // Neighboring powers of a zero-padded spectrum are not independent. Counting all of them is conservative.
    let false_alarm = (powers.len() as f64 * (-best_power).exp()).min(1.0);
    Some(Peak { frequency_hz: sharpen(late_ns, coarse_hz, step_hz), false_alarm })
}

/// Finds the frequency with the highest power within a step of `coarse_hz`, accurate to a thousandth of the
/// step.
fn sharpen(late_ns: &[i64], coarse_hz: f64, step_hz: f64) -> f64 {
    let (mut center, mut reach) = (coarse_hz, step_hz);
    for _ in 0..4 {
        let around = (-8..=8).map(|place| center + reach * f64::from(place) / 8.0);
        let best = around.map(|hz| (power(late_ns, hz), hz)).max_by(|a, b| a.0.total_cmp(&b.0));
        center = best.map_or(center, |(_, hz)| hz);
        reach /= 6.0;
    }
    center
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    pub frequency_hz: f64,
    /// Standard error of the frequency.
    pub error_hz: f64,
    /// The part of the clock's cycle in which packets are late.
    pub arc: BestArc,
}

/// Finds the clock that causes a peak. A peak at p can be the k-th harmonic of any frequency (m·rate ± p)/k,
/// because packets sent at a constant rate cannot distinguish p from its mirror image at the rate. Chooses
/// the candidate with the strongest concentration of late packets within its cycle, relative to all packets.
pub fn clock(peak_hz: f64, late_ns: &[i64], times_ns: &[i64], rate_hz: f64) -> Clock {
    let lowest = CYCLES_MIN / (times_ns.last().map_or(1, |last| last - times_ns[0]).max(1) as f64 * 1e-9);
    let mut candidates: Vec<(f64, f64)> = Vec::new();
    for order in 1..=HARMONICS {
        for multiple in 0..=order.div_ceil(2) {
            for sign in [1.0, -1.0] {
                let hz = (f64::from(multiple) * rate_hz + sign * peak_hz) / f64::from(order);
                if hz >= lowest && hz <= rate_hz / 2.0 * (1.0 + 1e-9) {
                    candidates.push((best_arc(None, late_ns, hz).gain, hz));
                }
            }
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    candidates.truncate(CANDIDATES);
    candidates.push((0.0, peak_hz));
    let mut best: Option<(f64, BestArc)> = None;
    for (_, hz) in candidates {
        let arc = best_arc(Some(times_ns), late_ns, hz);
        // If two candidates fit equally well, the lower frequency is simpler.
        let better = best.is_none_or(|(best_hz, best)| {
            arc.gain > best.gain * 1.01 || (arc.gain > best.gain * 0.99 && hz < best_hz)
        });
        if better {
            best = Some((hz, arc));
        }
    }
    let (hz, arc) = best.unwrap_or_else(|| (peak_hz, best_arc(Some(times_ns), late_ns, peak_hz)));
    // The arc of a slightly wrong frequency cuts off the ends of the pattern, and a line through the remaining
    // points is not steep enough. Each iteration comes closer to the true frequency.
    let (mut clock, mut around) = (Clock { frequency_hz: hz, error_hz: f64::INFINITY, arc }, arc);
    for _ in 0..4 {
        let (frequency_hz, error_hz) = regress(clock.frequency_hz, &around, late_ns);
        let arc = best_arc(Some(times_ns), late_ns, frequency_hz);
        if !error_hz.is_finite() || arc.gain < 0.9 * clock.arc.gain {
            clock.error_hz = clock.error_hz.min(error_hz);
            break;
        }
        clock = Clock { frequency_hz, error_hz, arc };
        around = BestArc { begin: arc.begin - arc.len / 4.0, len: (1.5 * arc.len).min(0.75), ..arc };
    }
    clock
}

/// Fits a straight line through the phases inside the arc over time. Its slope is the error of the frequency.
fn regress(hz: f64, arc: &BestArc, late_ns: &[i64]) -> (f64, f64) {
    let points: Vec<(f64, f64)> = late_ns
        .iter()
        .filter(|at| arc.contains(phase(**at, hz)))
        .map(|at| (*at as f64 * 1e-9, (phase(*at, hz) - arc.begin).rem_euclid(1.0)))
        .collect();
    let n = points.len() as f64;
    if points.len() < 4 {
        return (hz, f64::INFINITY);
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mean_t, mean_p) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(t, p)| of(t - mean_t, p - mean_p)).sum()
    };
    let (tt, tp) = (sum(&|t, _| t * t), sum(&|t, p| t * p));
    if tt <= 0.0 {
        return (hz, f64::INFINITY);
    }
    let slope = tp / tt;
    let left = sum(&|t, p| (p - slope * t).powi(2)) / (n - 2.0);
    // Neighboring late packets lie at the same edge of the pattern, so the points are not all independent.
    // The pattern's arc gives a lower bound on the error.
    let span_s = points.last().map_or(0.0, |last| last.0 - points[0].0);
    let error_hz = (left / tt).sqrt().max(arc.len / (12_f64.sqrt() * span_s));
    (hz + slope, error_hz)
}
