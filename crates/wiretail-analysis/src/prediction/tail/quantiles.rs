//! Events and the corresponding quantiles of the fitted distribution: data for a quantile plot (Coles 2001,
//! 4.3.5).

use wiretail_schema::prediction::tail::FittedQuantile;

use super::distribution::Distribution;
use super::gpd::Gpd;
use crate::stats::random::Random;

/// Number of samples for the bounds. The bounds exclude the five highest and the five lowest samples.
const SAMPLES: usize = 199;
const BEYOND: usize = 5;
/// Number of the highest events, all of which are kept, and maximum number of lower events to keep.
const HIGHEST: usize = 100;
const BELOW: usize = 100;

/// Excesses in ascending order, converted to delays, each with the corresponding quantile of the
/// distribution. The seed affects only the bounds.
pub fn quantiles(ascending: &[f64], gpd: Gpd, threshold_ns: f64, seed: u64) -> Vec<FittedQuantile> {
    let n = ascending.len();
    let places = places(n);
    let mut random = Random::new(seed);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(SAMPLES); places.len()];
    for _ in 0..SAMPLES {
        let mut sample = gpd.simulate(n, &mut random);
        sample.sort_unstable_by(f64::total_cmp);
        places.iter().zip(&mut drawn).for_each(|(&place, drawn)| drawn.push(sample[place]));
    }
    let at = |(&place, mut drawn): (&usize, Vec<f64>)| {
        drawn.sort_unstable_by(f64::total_cmp);
        let above = (n - place) as f64 / (n + 1) as f64;
        FittedQuantile {
            observed_ns: threshold_ns + ascending[place],
            fitted_ns: threshold_ns + gpd.exceeded_with(above),
            low_ns: threshold_ns + drawn[BEYOND - 1],
            high_ns: threshold_ns + drawn[SAMPLES - BEYOND],
        }
    };
    places.iter().zip(drawn).map(at).collect()
}

/// Kept indices out of `n`: the highest ones, and up to [`BELOW`] of the others, evenly spaced.
fn places(n: usize) -> Vec<usize> {
    let rest = n.saturating_sub(HIGHEST);
    let kept = rest.min(BELOW);
    (0..kept).map(|i| i * rest / kept).chain(rest..n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_all_highest_places() {
        assert_eq!(places(3), [0, 1, 2]);
        assert_eq!(places(200).len(), 200);
        let many = places(2000);
        assert_eq!((many.len(), many[0], many[1], many[99], many[100]), (200, 0, 19, 1881, 1900));
        assert!(many.is_sorted() && many.last() == Some(&1999) && places(0).is_empty());
    }

    /// The quantiles of an exponential distribution have a closed form. The smallest of n values is
    /// exponential with a mean of 1/n; the highest is below x with probability (1 - exp(-x))^n.
    #[test]
    fn quantiles_and_bounds_match_closed_form() {
        let n = 99_usize;
        let gpd = Gpd { shape: 0.0, scale: 1000.0 };
        let ascending: Vec<f64> = (1..=n).map(|i| -1000.0 * (1.0 - i as f64 / 100.0).ln()).collect();
        let found = quantiles(&ascending, gpd, 5000.0, 3);
        assert_eq!(found.len(), n);
        for (at, excess) in found.iter().zip(&ascending) {
            assert!((at.fitted_ns - 5000.0 - excess).abs() < 1e-6 && at.observed_ns == 5000.0 + excess);
            assert!((at.low_ns..=at.high_ns).contains(&at.fitted_ns), "{at:?}");
        }
        // The fifth of 199 samples from either end: the ranks vary by about two.
        let lowest = |p: f64| 5000.0 - 1000.0 / n as f64 * (1.0 - p).ln();
        let highest = |p: f64| 5000.0 - 1000.0 * (1.0 - p.powf(1.0 / n as f64)).ln();
        for (bound, closed, p) in [
            (found[0].low_ns, &lowest as &dyn Fn(f64) -> f64, 0.025),
            (found[0].high_ns, &lowest, 0.975),
            (found[n - 1].low_ns, &highest, 0.025),
            (found[n - 1].high_ns, &highest, 0.975),
        ] {
            let slack = 0.024;
            assert!((closed(p - slack)..=closed(p + slack)).contains(&bound), "{p}: {bound}, {}", closed(p));
        }
        assert_eq!(found, quantiles(&ascending, gpd, 5000.0, 3));
    }
}
