//! Test for a change of the level within a series, and the place of the change.
//!
//! The test statistic is the largest absolute cumulative sum of the deviations from the mean (CUSUM), relative
//! to what it would be without a change. Without a change, its distribution is that of the largest absolute
//! value of a Brownian bridge, as in the test of Kolmogorov and Smirnov (Brown, Durbin and Evans, Journal of the
//! Royal Statistical Society B 37, 1975; Ploberger and Kraemer, Econometrica 60, 1992). The scale is the
//! long-run variance, because neighboring values depend on each other. It is computed from the deviations from
//! local means, which a change of the level hardly affects. The place of the change is the one with the highest
//! likelihood for a single step.

use super::dispersion::long_run_variance;

/// Number of segments with a local mean.
const SEGMENTS: usize = 16;
/// Minimum number of values of a segment.
const SEGMENT_MIN: usize = 8;

/// The most evident change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value after the change.
    pub index: usize,
    /// Probability that a series without a change has at least this evidence for one.
    pub p_value: f64,
    /// Mean of the values before the change, and from the change on.
    pub means: (f64, f64),
}

/// Returns the most evident change of a series; `None` if the series is too short for the test, or constant.
pub fn change(values: &[f64]) -> Option<Change> {
    let n = values.len();
    if n < SEGMENTS * SEGMENT_MIN {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let whole = mean(values);
    let (mut sum, mut largest) = (0.0, 0.0_f64);
    let (mut likeliest, mut index) = (0.0, 0);
    for (before, value) in (1..n).zip(values) {
        sum += value - whole;
        largest = largest.max(sum.abs());
        // The place of a step with the highest likelihood.
        let likelihood = sum * sum / (before as f64 * (n - before) as f64);
        if likelihood > likeliest {
            (likeliest, index) = (likelihood, before);
        }
    }
    let local: Vec<f64> = (0..SEGMENTS)
        .flat_map(|segment| {
            let part = &values[segment * n / SEGMENTS..(segment + 1) * n / SEGMENTS];
            let mean = mean(part);
            part.iter().map(move |value| value - mean)
        })
        .collect();
    let variance = long_run_variance(&local, n / SEGMENTS);
    if variance <= 0.0 {
        return None;
    }
    let p_value = bridge_exceeds(largest / (variance * n as f64).sqrt());
    let means = (mean(&values[..index.max(1)]), mean(&values[index..]));
    Some(Change { index, p_value, means })
}

/// Probability that the largest absolute value of a Brownian bridge exceeds `x` (Kolmogorov's distribution).
fn bridge_exceeds(x: f64) -> f64 {
    if x < 0.3 {
        return 1.0;
    }
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 1.0 } else { -1.0 };
        2.0 * sign * (-2.0 * f64::from(j * j) * x * x).exp()
    };
    (1..=20).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Random, normal};

    /// An autoregressive series with coefficient `a`.
    fn series(seed: u64, n: usize, a: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut x = 0.0;
        let step = |_| {
            x = a * x + normal(&mut random);
            x
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn brownian_bridge_matches_published_critical_values() {
        // Kolmogorov's distribution (Smirnov 1948).
        for (x, p) in [(1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01), (1.9495, 0.001)] {
            assert!((bridge_exceeds(x) - p).abs() < 2e-4 * (1.0 + p), "{x}: {}", bridge_exceeds(x));
        }
    }

    #[test]
    fn series_without_change_are_rarely_reported() {
        for a in [0.0, 0.5] {
            let reported =
                (0..400).filter(|seed| change(&series(*seed, 700, a)).unwrap().p_value < 0.01).count();
            assert!(reported <= 12, "{a}: {reported} of 400");
        }
    }

    #[test]
    fn finds_place_of_injected_step() {
        for seed in 0..50 {
            let mut values = series(seed, 800, 0.3);
            values[..170].iter_mut().for_each(|value| *value += 3.0);
            let found = change(&values).unwrap();
            assert!(found.p_value < 1e-6 && found.index.abs_diff(170) < 12, "{seed}: {found:?}");
            assert!((found.means.0 - found.means.1 - 3.0).abs() < 0.7, "{seed}: {found:?}");
        }
        assert_eq!(change(&[1.0; 700]), None);
        assert_eq!(change(&series(1, 100, 0.0)), None);
    }
}
