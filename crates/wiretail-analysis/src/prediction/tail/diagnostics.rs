//! Conditions for a prediction: the distribution fits, events are evenly distributed over time, and the
//! highest event is consistent with the others.

use super::distribution::Distribution;
use super::events::Event;
use super::gpd::fit;
use crate::stats::random::{Random, open_uniform, shuffle};

/// Number of simulated measurements for the probability of a bad fit.
const FITS: u32 = 99;
/// If this many simulated fits are as bad as the real one, the fit is not rejected at 5 %.
const FITS_ENOUGH: u32 = 5;
/// Number of permutations for the probability of uneven counts and sizes.
const PERMUTATIONS: u32 = 999;
/// Number of time blocks that are permuted. Bursts shorter than a block are not detected as uneven.
const BLOCKS: usize = 50;
/// Number of simulated measurements for the probability of the highest event.
const MAXIMA: u32 = 1999;
/// Number of batches from which the dispersion of the counts is computed. It is as small as an estimate of
/// the variance permits, because each batch must be much longer than the clusters of events.
pub const BATCHES: usize = 5;

/// Anderson-Darling statistic (Anderson and Darling 1954) of excesses in ascending order.
pub fn anderson_darling(ascending: &[f64], distribution: &impl Distribution) -> f64 {
    let n = ascending.len();
    let above: Vec<f64> =
        ascending.iter().map(|y| distribution.survival(*y).clamp(1e-300, 1.0 - 1e-16)).collect();
    let term = |i: usize| (2 * i + 1) as f64 * ((-above[i]).ln_1p() + above[n - 1 - i].ln());
    -(n as f64) - (0..n).map(term).sum::<f64>() / n as f64
}

/// Anderson-Darling statistic, and the probability of a value at least as large under the distribution. The
/// tables for known parameters do not apply, because the parameters are estimated. The probability is
/// therefore computed by parametric bootstrap. Simulated values are rounded to the timestamp granularity and
/// spread over it like measured values. The simulation stops as soon as the probability exceeds 5 %.
pub fn fit_chance<D: Distribution>(
    ascending: &[f64],
    distribution: &D,
    granularity_ns: f64,
    random: &mut Random,
) -> (f64, f64) {
    let statistic = anderson_darling(ascending, distribution);
    let mut as_bad = 0;
    for done in 1..=FITS {
        let mut simulated = distribution.simulate(ascending.len(), random);
        for excess in &mut simulated {
            *excess = ((*excess / granularity_ns).floor() + open_uniform(random)) * granularity_ns;
        }
        simulated.sort_unstable_by(f64::total_cmp);
        let again = distribution.fit_again(&simulated);
        as_bad += u32::from(again.is_none_or(|fit| anderson_darling(&simulated, &fit) >= statistic));
        if as_bad == FITS_ENOUGH {
            return (statistic, f64::from(as_bad + 1) / f64::from(done + 1));
        }
    }
    (statistic, f64::from(as_bad + 1) / f64::from(FITS + 1))
}

/// Number of events in each of `parts` equal parts of the packets.
pub fn counts(events: &[Event], packets: usize, parts: usize) -> Vec<f64> {
    let mut counts = vec![0.0; parts];
    for event in events {
        counts[(event.position * parts / packets.max(1)).min(parts - 1)] += 1.0;
    }
    counts
}

/// Ratio of the variance of the batch counts to their mean: 1 for a Poisson process. The result is at least
/// 1.
pub fn dispersion(events: &[Event], packets: usize) -> f64 {
    let counts = counts(events, packets, BATCHES);
    let mean = counts.iter().sum::<f64>() / BATCHES as f64;
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    if mean > 0.0 { (squares / (BATCHES - 1) as f64 / mean).max(1.0) } else { 1.0 }
}

/// Probability that the block counts, in random order, drift at least as far from an even rate as in the
/// measured order.
pub fn counts_chance(events: &[Event], packets: usize, random: &mut Random) -> f64 {
    permuted(counts(events, packets, BLOCKS), random)
}

/// Probability that the sizes, in random order, drift at least as far as in the measured order. The test uses
/// ranks, so that a single stall does not determine the result.
pub fn sizes_chance(events: &[Event], random: &mut Random) -> f64 {
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_unstable_by(|a, b| events[*a].highest_ns.total_cmp(&events[*b].highest_ns));
    let mut ranks = vec![0.0; events.len()];
    for (rank, place) in order.into_iter().enumerate() {
        ranks[place] = rank as f64;
    }
    permuted(ranks, random)
}

/// Share of random orders in which the cumulative sum drifts as far from a straight line as in the given order
/// (a permutation test of Page's cumulative sums).
fn permuted(mut values: Vec<f64>, random: &mut Random) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let drift = |values: &[f64]| {
        let sums = values.iter().scan(0.0, |sum, value| {
            *sum += value - mean;
            Some(f64::abs(*sum))
        });
        sums.fold(0.0, f64::max)
    };
    let observed = drift(&values) * (1.0 - 1e-12);
    let mut as_far = 0;
    for _ in 0..PERMUTATIONS {
        shuffle(random, &mut values);
        as_far += u32::from(drift(&values) >= observed);
    }
    f64::from(as_far + 1) / f64::from(PERMUTATIONS + 1)
}

/// Probability that the ratio of the largest to the second largest excess is at least as large in
/// measurements simulated from a fit of all other excesses. The probability of the largest excess under that
/// fit would be less informative: if the fit has an end point, all values beyond it have probability 0.
pub fn maximum_chance(ascending: &[f64], random: &mut Random) -> f64 {
    let [others @ .., largest] = ascending else { return 1.0 };
    let (Some(second), Some(gpd)) = (others.last(), fit(others)) else { return 1.0 };
    let observed = largest / second;
    let mut as_far = 0;
    for _ in 0..MAXIMA {
        let (mut first, mut second) = (0.0, 0.0);
        for excess in gpd.simulate(ascending.len(), random) {
            (first, second) = if excess > first { (excess, first) } else { (first, excess.max(second)) };
        }
        as_far += u32::from(first >= observed * second);
    }
    f64::from(as_far + 1) / f64::from(MAXIMA + 1)
}
