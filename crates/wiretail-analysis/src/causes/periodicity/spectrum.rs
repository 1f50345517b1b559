//! The spectrum of late packets' times, and the frequency behind a peak of it.
//!
//! Rayleigh power of n times t at a frequency f: `|Σ exp(2πi f t)|² / n`. Of times at random it is distributed
//! exponentially with mean 1 (Rayleigh 1880; Schuster 1898; Mardia and Jupp 2000, 6.3). Times that gather in clusters
//! raise the low frequencies: each power is divided by that of its neighbourhood first (van der Klis 1989).

use std::f64::consts::{LN_2, TAU};

use super::fft::{Complex, transform};
use super::fold::{BestArc, best_arc, phase};
use crate::stats::list::median;

/// A neighbourhood of the spectrum.
const NEIGHBOURHOOD: usize = 1024;
/// A clock is looked for behind a peak as far as the peak being its harmonic of this order.
const HARMONICS: u32 = 48;
/// How many candidates for a clock are compared with all packets.
const CANDIDATES: usize = 24;
/// A period has to come again so often.
pub const CYCLES_MIN: f64 = 20.0;

/// A peak of the spectrum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Frequency.
    pub frequency_hz: f64,
    /// Probability, at most, that a spectrum of times at random has as high a peak.
    pub false_alarm: f64,
}

/// Rayleigh power of times at one frequency.
pub fn power(times_ns: &[i64], frequency_hz: f64) -> f64 {
    let (mut re, mut im) = (0.0, 0.0);
    for at_ns in times_ns {
        let (sin, cos) = (TAU * phase(*at_ns, frequency_hz)).sin_cos();
        (re, im) = (re + cos, im + sin);
    }
    (re * re + im * im) / times_ns.len() as f64
}

/// The highest peak between [`CYCLES_MIN`] cycles in the span and half the packet rate. None for fewer than ten times,
/// or where there is no frequency between these two.
pub fn peak(late_ns: &[i64], span_ns: i64, packets: usize) -> Option<Peak> {
    if late_ns.len() < 10 || packets < 1000 || span_ns <= 0 {
        return None;
    }
    // A bin a packet: of packets sent evenly, nothing is lost by them. As much again of zeros, so that no peak falls
    // between two frequencies.
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
    // Neighbours of a spectrum with zeros behind the times are not independent; to count them all is on the safe side.
    let false_alarm = (powers.len() as f64 * (-best_power).exp()).min(1.0);
    Some(Peak { frequency_hz: sharpen(late_ns, coarse_hz, step_hz), false_alarm })
}

/// The highest power within a step of the frequency, to a thousandth of the step.
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

/// A clock that explains late packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// Its frequency.
    pub frequency_hz: f64,
    /// Standard error of that.
    pub error_hz: f64,
    /// When in its cycle packets are late.
    pub arc: BestArc,
}

/// The clock behind a peak. A peak at p can be the k-th harmonic of any frequency (m·rate ± p)/k: packets sent at a
/// constant rate see no difference between p and what is mirrored at the rate. Of all these the one is taken in
/// whose cycle late packets have the narrowest place, measured by how many packets in that place are not late.
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
        // Where two explain it equally well, the lower frequency is the simpler one.
        let better = best.is_none_or(|(best_hz, best)| {
            arc.gain > best.gain * 1.01 || (arc.gain > best.gain * 0.99 && hz < best_hz)
        });
        if better {
            best = Some((hz, arc));
        }
    }
    let (hz, arc) = best.unwrap_or_else(|| (peak_hz, best_arc(Some(times_ns), late_ns, peak_hz)));
    // The arc of a frequency that is a little off cuts the pattern at its ends: the line through what is left is not
    // steep enough, and the next one is nearer.
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

/// A straight line through the phases inside the arc over time: its slope is what the frequency is off by.
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
    // Neighbouring late packets see the same edge of the pattern: they are fewer than they seem. What is sure is that it
    // stays within its arc.
    let span_s = points.last().map_or(0.0, |last| last.0 - points[0].0);
    let error_hz = (left / tt).sqrt().max(arc.len / (12_f64.sqrt() * span_s));
    (hz + slope, error_hz)
}
