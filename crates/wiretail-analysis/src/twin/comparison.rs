//! A prediction against the measurement of the same load.

use wiretail_schema::predict::calibration::ComparedPercentile;

use crate::counts::Counts;
use crate::quantile::{curve_shares, percentiles_at};

/// Percentiles that are judged, in billionths, and how large their error may be.
pub const LIMITS: [(u64, Option<f64>); 3] =
    [(500_000_000, Some(0.1)), (990_000_000, Some(0.2)), (999_000_000, None)];

/// The judged percentiles of both, and both curves. A percentile that the measurement does not support is not judged.
pub fn compare(predicted: &Counts, measured: &Counts) -> (Vec<ComparedPercentile>, Vec<ComparedPercentile>) {
    let judged = at(predicted, measured, &LIMITS.map(|limit| limit.0));
    let judged = judged
        .into_iter()
        .zip(LIMITS)
        .map(|(one, (_, limit))| ComparedPercentile { limit: limit.filter(|_| one.supported), ..one });
    let curve = at(predicted, measured, &curve_shares(measured.count().max(1)));
    (judged.collect(), curve)
}

fn at(predicted: &Counts, measured: &Counts, shares: &[u64]) -> Vec<ComparedPercentile> {
    let both = percentiles_at(predicted, shares).into_iter().zip(percentiles_at(measured, shares));
    let compared = |(predicted, measured): (
        wiretail_schema::summary::Percentile,
        wiretail_schema::summary::Percentile,
    )| {
        let off = (predicted.value_ns - measured.value_ns) as f64;
        ComparedPercentile {
            percentile: measured.percentile,
            predicted_ns: predicted.value_ns,
            measured_ns: measured.value_ns,
            error: off / measured.value_ns.max(1) as f64,
            limit: None,
            supported: measured.supported,
        }
    };
    both.map(compared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: impl Iterator<Item = i64>) -> Counts {
        let mut counts = Counts::new(64);
        values.for_each(|value| counts.add(value));
        counts
    }

    #[test]
    fn errors_are_parts_of_the_measured() {
        let (judged, curve) = compare(&counts(1..=20_000), &counts((1..=2000).map(|value| value * 8)));
        assert_eq!((judged[0].predicted_ns, judged[0].measured_ns), (10_000, 8000));
        assert_eq!((judged[0].error, judged[0].limit), (0.25, Some(0.1)));
        // Two packets are beyond p99.9 of the measured 2000, which is not judged anyway.
        assert_eq!((judged[1].limit, judged[2].limit, judged[2].supported), (Some(0.2), None, false));
        assert!(curve.is_sorted_by_key(|one| one.percentile) && curve.len() > 10);
    }

    #[test]
    fn too_few_packets_are_not_judged_and_none_are_no_fault() {
        let (judged, _) = compare(&counts(1..=100), &counts(1..=100));
        assert_eq!((judged[0].limit, judged[1].limit), (Some(0.1), None));
        assert_eq!(compare(&counts(1..=100), &counts(0..0)), (vec![], vec![]));
    }
}
