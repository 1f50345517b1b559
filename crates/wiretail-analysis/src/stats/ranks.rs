//! Exact rank tests for small samples, with intervals, and predictions for the next sample.
//!
//! Both tests compare the sums of the ranks that the values of two samples have among all values. They hold for
//! any distribution, and a single outlier hardly affects them.
//!
//! - unpaired samples: the rank-sum test of Wilcoxon, Mann and Whitney (Annals of Mathematical Statistics 18,
//!   1947). Without a difference, every assignment of values to samples is equally probable.
//! - paired samples: the randomization test on ranks (Conover and Iman, American Statistician 35, 1981). Without a
//!   difference, the values of each pair could have been exchanged.
//!
//! The estimated shift is the median of all differences between values of the samples, and its interval contains
//! the shifts that the test does not reject (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963).

use wiretail_schema::units::Share;

/// Whether the samples are compared value by value or as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The samples have the same length, and values at the same place belong together.
    Paired,
    Unpaired,
}

/// Estimated shift between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Median of the differences.
    pub value: f64,
    /// Bounds of the interval; `None` if the samples are too small for its confidence.
    pub interval: Option<(f64, f64)>,
}

/// Two-sided p-value for both samples having the same distribution. Equal values share the mean of their ranks;
/// the p-value is exact given these ranks. 1 if a sample is empty.
pub fn p_value(design: Design, a: &[f64], b: &[f64]) -> f64 {
    let (ranks_a, ranks_b) = doubled_ranks(a, b);
    match design {
        Design::Paired => paired_p(&ranks_a, &ranks_b),
        Design::Unpaired => rank_sum_p(ranks_a, &ranks_b),
    }
}

/// Shift from `a` to `b`, and the interval that misses the true shift with a probability of at most `error`.
/// `None` if a sample is empty.
pub fn shift(design: Design, a: &[f64], b: &[f64], error: f64) -> Option<Shift> {
    let mut differences: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let value = *Share::MEDIAN.of(&differences)?;
    differences.dedup();
    // The ranks change only where the shift is one of the differences. gap(k) is between the differences k - 1
    // and k.
    let gap = |k: usize| match (k.checked_sub(1).map(|k| differences[k]), differences.get(k)) {
        (Some(low), Some(high)) => f64::midpoint(low, *high),
        (Some(low), None) => low + 1.0,
        (None, Some(high)) => high - 1.0,
        (None, None) => 0.0,
    };
    let rejects = |k: usize| {
        let moved: Vec<f64> = b.iter().map(|b| b - gap(k)).collect();
        p_value(design, a, &moved) <= error
    };
    let last = differences.len();
    let middle = differences.partition_point(|difference| *difference < value).min(last);
    let interval = (rejects(0) && rejects(last)).then(|| {
        // The lowest and the highest gap that is not rejected, if rejection is monotonic on either side.
        let low = first_where(0, middle, |k| !rejects(k));
        let high = last - first_where(0, last - middle, |k| !rejects(last - k));
        (differences[low.saturating_sub(1)].min(value), differences[high.min(last - 1)].max(value))
    });
    Some(Shift { value, interval })
}

/// The first number in `from..to` for which the monotonic condition holds, or `to`.
fn first_where(from: usize, to: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Ranks of the values of both samples among all values, doubled so that the mean rank of equal values is a
/// whole number.
fn doubled_ranks(a: &[f64], b: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let mut all: Vec<(f64, usize)> = a.iter().chain(b).copied().zip(0..).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0; all.len()];
    let mut first = 0;
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        same.iter().for_each(|(_, place)| ranks[*place] = 2 * first + same.len() + 1);
        first += same.len();
    }
    let ranks_b = ranks.split_off(a.len());
    (ranks, ranks_b)
}

/// P-value of the sum of the differences of ranks, if the sign of each difference is random.
fn paired_p(a: &[usize], b: &[usize]) -> f64 {
    let sizes: Vec<usize> = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).collect();
    let positive: usize = a.iter().zip(b).filter(|(a, b)| b > a).map(|(a, b)| b - a).sum();
    let all: usize = sizes.iter().sum();
    // Probability of each sum of a random subset of the sizes.
    let mut chance = vec![0.0_f64; all + 1];
    chance[0] = 1.0;
    for size in sizes.into_iter().filter(|size| *size > 0) {
        for sum in (0..=all).rev() {
            let with = if sum >= size { chance[sum - size] } else { 0.0 };
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    let below: f64 = chance[..=positive.min(all - positive)].iter().sum();
    (2.0 * below).min(1.0)
}

/// P-value of the sum of the ranks `a`, if they are a random choice of the ranks of both samples.
fn rank_sum_p(a: Vec<usize>, b: &[usize]) -> f64 {
    let (chosen, observed) = (a.len(), a.iter().sum::<usize>());
    let all: Vec<usize> = a.into_iter().chain(b.iter().copied()).collect();
    let total: usize = all.iter().sum();
    // ways[k][s]: number of ways to choose k of the ranks with sum s.
    let mut ways = vec![vec![0.0_f64; total + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in all.iter().enumerate() {
        for count in (1..=chosen.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            let (fewer, more) = (&fewer[count - 1], &mut more[0]);
            more[*rank..].iter_mut().zip(fewer).for_each(|(more, fewer)| *more += fewer);
        }
    }
    let ways = &ways[chosen];
    let count: f64 = ways.iter().sum();
    let at_most: f64 = ways[..=observed].iter().sum();
    let at_least: f64 = ways[observed..].iter().sum();
    (2.0 * at_most.min(at_least) / count).min(1.0)
}

/// The smallest p-value that a test of samples with `n` and `m` values can have.
pub fn smallest_p(design: Design, n: usize, m: usize) -> f64 {
    let ways = match design {
        Design::Paired => 2f64.powi(n.min(m) as i32),
        Design::Unpaired => (1..=m).map(|i| (n + i) as f64 / i as f64).product(),
    };
    (2.0 / ways).min(1.0)
}

/// The smallest number of trials a side with which a test can have a p-value of at most `error`.
pub fn trials_needed(design: Design, error: f64) -> usize {
    (2..1000).find(|n| smallest_p(design, *n, *n) <= error).unwrap_or(1000)
}

/// P-values adjusted for their number (Holm, Scandinavian Journal of Statistics 6, 1979), and for each of them
/// the error at which its interval agrees with the adjusted test at `error`.
pub fn holm(p_values: &[f64], error: f64) -> Vec<(f64, f64)> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![(1.0, error); p_values.len()];
    let (mut largest, mut level, mut stopped) = (0.0_f64, error, false);
    for (place, &index) in order.iter().enumerate() {
        let left = (p_values.len() - place) as f64;
        largest = largest.max((p_values[index] * left).min(1.0));
        // Once a hypothesis is not rejected, no later one is.
        if !stopped {
            level = error / left;
            stopped = largest > error;
        }
        adjusted[index] = (largest, level);
    }
    adjusted
}

/// Ranks l and u such that the median (the lower one of the two in the middle) of the next `next` values lies
/// between the l-th and the u-th of `n` values with at least the probability 1 - `error`. `None` if `n` is too
/// small. Both samples have the same distribution, whatever it is (Fligner and Wolfe, American Statistician 30,
/// 1976).
pub fn prediction_ranks(n: usize, next: usize, error: f64) -> Option<(usize, usize)> {
    let median = next.div_ceil(2);
    // Probability that the median of the next values is smaller than the i-th of the values: at least `median`
    // of the next ones are.
    let below = |i: usize| -> f64 { (median..=next).map(|k| placements(n, next, i, k)).sum() };
    let low = (1..=n).take_while(|i| below(*i) <= error / 2.0).last()?;
    let high = (1..=n).rev().take_while(|i| 1.0 - below(*i) <= error / 2.0).last()?;
    (low < high).then_some((low, high))
}

/// Probability that exactly `k` of the next `m` values are smaller than the `i`-th of `n` values.
fn placements(n: usize, m: usize, i: usize, k: usize) -> f64 {
    (ln_choose(k + i - 1, k) + ln_choose(m - k + n - i, m - k) - ln_choose(m + n, n)).exp()
}

fn ln_choose(n: usize, k: usize) -> f64 {
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Random, normal};

    /// P-value from the list of all sums that are equally probable without a difference.
    fn enumerated(sums: &[f64], observed: f64) -> f64 {
        let share = |holds: &dyn Fn(f64) -> bool| {
            sums.iter().filter(|sum| holds(**sum)).count() as f64 / sums.len() as f64
        };
        (2.0 * share(&|sum| sum <= observed).min(share(&|sum| sum >= observed))).min(1.0)
    }

    #[test]
    fn p_values_match_enumeration() {
        let values = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 5.0, 8.0, 9.0, 4.0];
        let rank = |value: f64| {
            let below = values.iter().filter(|other| **other < value).count() as f64;
            below + (values.iter().filter(|other| **other == value).count() as f64 + 1.0) / 2.0
        };
        let sum = |values: &[f64]| values.iter().map(|value| rank(*value)).sum::<f64>();
        for chosen in [0b11_1100_0001_u32, 0b00_0001_1111, 0b01_0101_0011] {
            let of = |group: u32, wanted: bool| -> Vec<f64> {
                (0..10).filter(|i| (group >> i & 1 == 1) == wanted).map(|i| values[i]).collect()
            };
            let (a, b) = (of(chosen, true), of(chosen, false));
            let groups = (0..1024).filter(|group: &u32| group.count_ones() == 5);
            let sums: Vec<f64> = groups.map(|group| sum(&of(group, true))).collect();
            let expected = enumerated(&sums, sum(&a));
            assert!((p_value(Design::Unpaired, &a, &b) - expected).abs() < 1e-12, "{chosen:b}");
            let swapped = |signs: u32| -> f64 {
                (0..5).map(|i| (rank(b[i]) - rank(a[i])) * if signs >> i & 1 == 1 { 1.0 } else { -1.0 }).sum()
            };
            let sums: Vec<f64> = (0..32).map(swapped).collect();
            let expected = enumerated(&sums, swapped(31));
            assert!((p_value(Design::Paired, &a, &b) - expected).abs() < 1e-12, "{chosen:b}");
        }
        assert_eq!(p_value(Design::Unpaired, &[], &[1.0]), 1.0);
        assert_eq!(p_value(Design::Paired, &[1.0; 4], &[1.0; 4]), 1.0);
        assert_eq!(shift(Design::Paired, &[], &[], 0.05), None);
    }

    #[test]
    fn intervals_exclude_zero_exactly_if_the_test_rejects() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let offset = (seed % 4) as f64 * 0.5;
            for design in [Design::Paired, Design::Unpaired] {
                let a: Vec<f64> = (0..9).map(|_| normal(&mut random)).collect();
                let b: Vec<f64> = (0..9).map(|_| normal(&mut random) + offset).collect();
                let (low, high) = shift(design, &a, &b, 0.05).unwrap().interval.unwrap();
                assert_eq!(low > 0.0 || high < 0.0, p_value(design, &a, &b) <= 0.05, "{seed} {design:?}");
            }
        }
        assert_eq!(shift(Design::Paired, &[1.0; 4], &[2.0; 4], 0.05).unwrap().interval, None);
    }

    #[test]
    fn intervals_cover_shift_between_drifting_pairs() {
        let mut covered = [0, 0];
        let mut width = [0.0, 0.0];
        for seed in 0..300 {
            let mut random = Random::new(seed);
            // The level drifts by ten times the noise.
            let level: Vec<f64> = (0..12).map(|_| 10.0 * normal(&mut random)).collect();
            let a: Vec<f64> = level.iter().map(|level| level + normal(&mut random)).collect();
            let b: Vec<f64> = level.iter().map(|level| level + normal(&mut random) + 2.0).collect();
            for (place, design) in [Design::Paired, Design::Unpaired].into_iter().enumerate() {
                let (low, high) = shift(design, &a, &b, 0.05).unwrap().interval.unwrap();
                covered[place] += usize::from(low <= 2.0 && high >= 2.0);
                width[place] += (high - low) / 300.0;
            }
        }
        assert!(covered.iter().all(|covered| *covered >= 276), "{covered:?} of 300");
        assert!(width[0] < width[1] / 2.0, "{width:?}");
    }

    #[test]
    fn holm_matches_worked_example() {
        // Holm (1979): 0.01, 0.04, 0.03, 0.005 at 5 %: only the smallest two are rejected.
        let found = holm(&[0.01, 0.04, 0.03, 0.005], 0.05);
        let adjusted: Vec<f64> = found.iter().map(|(p, _)| *p).collect();
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
        let levels: Vec<f64> = found.iter().map(|(_, level)| *level).collect();
        assert_eq!(levels, [0.05 / 3.0, 0.025, 0.025, 0.0125]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn needed_trials_reach_the_error() {
        let needed =
            |error: f64| [Design::Paired, Design::Unpaired].map(|design| trials_needed(design, error));
        assert_eq!((needed(0.05), needed(0.05 / 9.0)), ([6, 4], [9, 6]));
        assert!((smallest_p(Design::Unpaired, 10, 10) - 2.0 / 184_756.0).abs() < 1e-12);
    }

    #[test]
    fn prediction_ranks_hold_for_simulated_samples() {
        for (n, next) in [(10, 10), (20, 5), (20, 1)] {
            let Some((low, high)) = prediction_ranks(n, next, 0.1) else { panic!("{n} {next}") };
            let mut random = Random::new(7);
            let rounds = 4000;
            let inside = (0..rounds)
                .filter(|_| {
                    let mut sample = |count: usize| {
                        let mut values: Vec<f64> = (0..count).map(|_| normal(&mut random)).collect();
                        values.sort_unstable_by(f64::total_cmp);
                        values
                    };
                    let (seen, new) = (sample(n), sample(next));
                    let median = new[next.div_ceil(2) - 1];
                    seen[low - 1] <= median && median <= seen[high - 1]
                })
                .count() as f64
                / f64::from(rounds);
            assert!(inside >= 0.885, "{n} {next}: ranks {low} to {high} contain {inside}");
        }
        assert_eq!(prediction_ranks(3, 10, 0.05), None);
    }
}
