//! Percentiles of lists. Like [`quantile`](super::quantile), this module uses the nearest rank
//! ([`Share::rank`]): the result is always a value of the list, not an interpolation.

use std::cmp::Ordering;

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::units::Share;

use super::quantile::{Confidence, interval_ranks};

/// A number with a total order.
pub trait Number: Copy {
    fn order(&self, other: &Self) -> Ordering;
}

impl Number for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

impl Number for i64 {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Number for u64 {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// Percentile of the values, or `None` for an empty slice. Selects instead of sorting, because sorting would
/// dominate the time for millions of values. Selection reorders the slice.
pub fn percentile<T: Number>(values: &mut [T], share: Share) -> Option<T> {
    let place = share.rank(values.len() as u64).checked_sub(1)? as usize;
    Some(*values.select_nth_unstable_by(place, T::order).1)
}

/// Percentiles at ascending shares, like [`percentile`]; `None` for an empty slice.
pub fn percentiles<T: Number, const N: usize>(values: &mut [T], shares: [Share; N]) -> Option<[T; N]> {
    let count = values.len() as u64;
    let (mut found, mut below) = ([*values.first()?; N], values);
    for (found, share) in found.iter_mut().zip(shares).rev() {
        let place = share.rank(count) as usize - 1;
        *found = *below.select_nth_unstable_by(place, T::order).1;
        below = &mut below[..=place];
    }
    Some(found)
}

/// Median of the values, or `None` if there are none. For an even number of values it is the lower one of the
/// two in the middle.
pub fn median<T: Number>(values: impl IntoIterator<Item = T>) -> Option<T> {
    percentile(&mut values.into_iter().collect::<Vec<T>>(), Share::MEDIAN)
}

/// Median with its 95 % confidence interval, computed as for percentiles. Sorts the values.
pub fn median_estimate(values: &mut [f64]) -> Option<Estimate> {
    values.sort_unstable_by(f64::total_cmp);
    let value = *Share::MEDIAN.of(values)?;
    let (low, high) = interval_ranks(values.len() as u64, 0.5, Confidence::P95);
    let at = |rank: u64| values.get(rank.checked_sub(1)? as usize).copied();
    Some(Estimate { value, low: at(low).unwrap_or(0.0), high: high.and_then(at) })
}

/// Median and median absolute deviation (Hampel, JASA 69, 1974); `None` for an empty slice.
pub fn median_and_mad(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median(values.iter().copied())?;
    Some((middle, median(values.iter().map(|value| (value - middle).abs()))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_equal_those_of_sorted_values(mut values in prop::collection::vec(0..50u64, 0..300)) {
            const PERCENTS: [u64; 4] = [500, 990, 999, 1000];
            let mut sorted = values.clone();
            sorted.sort_unstable();
            // The least value such that the given share (in thousandths) of the values is at or below it.
            let expected = PERCENTS.map(|share| {
                let enough = |at: &&u64| {
                    let not_above = sorted.iter().filter(|value| value <= at).count() as u64;
                    not_above * 1000 >= share * sorted.len() as u64
                };
                sorted.iter().find(enough).copied()
            });
            let shares = PERCENTS.map(|share| Share::from_billionths(share * 1_000_000).unwrap());
            let each = shares.map(|share| percentile(&mut values, share));
            prop_assert_eq!(each, expected);
            let all = percentiles(&mut values, shares);
            prop_assert_eq!(all.map(|found| found.map(Some)), expected[0].map(|_| expected));
        }
    }

    #[test]
    fn medians_and_deviations_match_hand_computed_values() {
        assert_eq!((median([4.0, 1.0, 3.0, 2.0]), median::<i64>([])), (Some(2.0), None));
        assert_eq!(median_and_mad(&[1.0, 9.0, 2.0, 4.0, 3.0]), Some((3.0, 1.0)));
        // For ten values, the second and the ninth bound the median with 97.9 % confidence (Conover, table
        // A3).
        let mut ten: Vec<f64> = (1..=10).map(f64::from).rev().collect();
        assert_eq!(median_estimate(&mut ten), Some(Estimate { value: 5.0, low: 2.0, high: Some(9.0) }));
        assert_eq!(median_estimate(&mut [7.0]), Some(Estimate { value: 7.0, low: 0.0, high: None }));
    }
}
