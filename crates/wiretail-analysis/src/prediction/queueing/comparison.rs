//! Comparison of a prediction with a measurement of the same load.

use wiretail_schema::prediction::queueing::calibration::ComparedPercentile;
use wiretail_schema::units::Share;

use crate::stats::counts::Counts;
use crate::stats::list::percentiles;
use crate::stats::quantile::{curve_shares, percentiles_at};

/// Percentiles that are judged, in billionths, and the limit on their relative error.
pub const LIMITS: [(u64, Option<f64>); 3] =
    [(500_000_000, Some(0.1)), (990_000_000, Some(0.2)), (999_000_000, None)];

/// Percentiles over the rounds. Nine of ten rounds lie between the first and the last of these percentiles.
const TYPICAL: [Share; 3] = [Share::P5, Share::MEDIAN, Share::P95];

/// Limit on the relative error of the predicted capacity.
pub const CAPACITY_LIMIT: f64 = 0.1;

/// Predicted load: the delays of all rounds, and the judged percentiles of each round.
#[derive(Debug, Clone)]
pub struct Predicted {
    counts: Counts,
    rounds: Vec<Vec<i64>>,
}

impl Predicted {
    /// Creates a prediction from the delays of all rounds and the percentiles of each. Without rounds, all
    /// delays form one round.
    pub fn new(counts: Counts, mut rounds: Vec<Vec<i64>>) -> Self {
        if rounds.is_empty() {
            rounds.push(judged(&counts));
        }
        Self { counts, rounds }
    }

    /// Judged percentile with index `place`: the median over the rounds, and the range of nine of ten rounds.
    fn typical(&self, place: usize) -> Option<[i64; 3]> {
        let mut values: Vec<i64> = self.rounds.iter().filter_map(|round| round.get(place).copied()).collect();
        let [low, middle, high] = percentiles(&mut values, TYPICAL)?;
        Some([middle, low, high])
    }
}

/// Judged percentiles of a round, in ns; empty without delays.
pub fn judged(counts: &Counts) -> Vec<i64> {
    percentiles_at(counts, &LIMITS.map(|limit| limit.0)).into_iter().map(|one| one.value_ns).collect()
}

/// Compares the judged percentiles of a prediction with those of the repeats of a measurement. Also returns
/// the curve of the repeat with the median p99. For both, the median over rounds or repeats is used, because
/// it represents a typical trial. The percentile over all trials together does not: one long pause of a
/// machine may delay one packet in a hundred in a single trial, and none in the others. A percentile is not
/// judged if a repeat has too few packets for it.
pub fn compare(
    predicted: &Predicted,
    repeats: &[Counts],
) -> (Vec<ComparedPercentile>, Vec<ComparedPercentile>) {
    let shares = LIMITS.map(|limit| limit.0);
    let each: Vec<Vec<ComparedPercentile>> =
        repeats.iter().map(|measured| at(&predicted.counts, measured, &shares)).collect();
    let judged = LIMITS.iter().enumerate().filter_map(|(place, (_, limit))| {
        let ones: Option<Vec<ComparedPercentile>> = each.iter().map(|one| one.get(place).copied()).collect();
        let mut ones = ones.filter(|ones| !ones.is_empty())?;
        ones.sort_by_key(|one| one.measured_ns);
        let supported = ones.iter().all(|one| one.supported);
        let [predicted_ns, predicted_low_ns, predicted_high_ns] = predicted.typical(place)?;
        let middle = *Share::MEDIAN.of(&ones)?;
        let measured_ns = middle.measured_ns;
        Some(ComparedPercentile {
            predicted_ns,
            predicted_low_ns,
            predicted_high_ns,
            error: error(predicted_ns, measured_ns),
            measured_low_ns: ones[0].measured_ns,
            measured_high_ns: ones[ones.len() - 1].measured_ns,
            limit: limit.filter(|_| supported),
            supported,
            ..middle
        })
    });
    let judged: Vec<ComparedPercentile> = judged.collect();
    let mut order: Vec<usize> = (0..repeats.len()).collect();
    order.sort_by_key(|&place| each[place].get(1).map(|one| one.measured_ns));
    let typical = Share::MEDIAN.of(&order).map(|&place| &repeats[place]);
    let curve = typical.map(|one| at(&predicted.counts, one, &curve_shares(one.count().max(1))));
    (judged, curve.unwrap_or_default())
}

/// Compares the judged percentiles of repeats that were each simulated separately, as (predicted, measured).
/// For each percentile, returns the repeat with the median absolute error, and the smallest and the largest
/// measured value.
pub fn compare_each(repeats: &[(Counts, Counts)]) -> Vec<ComparedPercentile> {
    let shares = LIMITS.map(|limit| limit.0);
    let each: Vec<Vec<ComparedPercentile>> =
        repeats.iter().map(|(predicted, measured)| at(predicted, measured, &shares)).collect();
    let judged = LIMITS.iter().enumerate().filter_map(|(place, (_, limit))| {
        let ones: Option<Vec<ComparedPercentile>> = each.iter().map(|one| one.get(place).copied()).collect();
        let mut ones = ones?;
        ones.sort_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
        let supported = ones.iter().all(|one| one.supported);
        let measured = || ones.iter().map(|one| one.measured_ns);
        Some(ComparedPercentile {
            measured_low_ns: measured().min()?,
            measured_high_ns: measured().max()?,
            limit: limit.filter(|_| supported),
            supported,
            ..*Share::MEDIAN.of(&ones)?
        })
    });
    judged.collect()
}

fn error(predicted_ns: i64, measured_ns: i64) -> f64 {
    (predicted_ns - measured_ns) as f64 / measured_ns.max(1) as f64
}

fn at(predicted: &Counts, measured: &Counts, shares: &[u64]) -> Vec<ComparedPercentile> {
    let both = percentiles_at(predicted, shares).into_iter().zip(percentiles_at(measured, shares));
    let compared = |(predicted, measured): (
        wiretail_schema::summary::Percentile,
        wiretail_schema::summary::Percentile,
    )| {
        ComparedPercentile {
            percentile: measured.percentile,
            predicted_ns: predicted.value_ns,
            predicted_low_ns: predicted.value_ns,
            predicted_high_ns: predicted.value_ns,
            measured_ns: measured.value_ns,
            measured_low_ns: measured.value_ns,
            measured_high_ns: measured.value_ns,
            error: error(predicted.value_ns, measured.value_ns),
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

    fn all(values: impl Iterator<Item = i64>) -> Predicted {
        Predicted::new(counts(values), vec![])
    }

    #[test]
    fn uses_median_over_rounds_instead_of_pooled_delays() {
        // One round in five has a long pause, which determines the p99 of all rounds together.
        let usual = || (1..=2000).map(|value| value * 10);
        let paused = || (1..=2000).map(|value| if value > 1500 { 5_000_000 } else { value * 10 });
        let rounds: Vec<Counts> =
            (0..5).map(|number| if number == 3 { counts(paused()) } else { counts(usual()) }).collect();
        let mut together = Counts::new(64);
        rounds.iter().for_each(|round| together.absorb(round));
        let predicted = Predicted::new(together, rounds.iter().map(judged).collect());
        let (judged, _) = compare(&predicted, &[counts(usual())]);
        assert_eq!((judged[1].predicted_ns, judged[1].error), (19_800, 0.0));
        assert_eq!((judged[1].predicted_low_ns, judged[1].predicted_high_ns), (19_800, 5_000_000));
    }

    #[test]
    fn errors_are_relative_to_measurement() {
        let (judged, curve) = compare(&all(1..=20_000), &[counts((1..=2000).map(|value| value * 8))]);
        assert_eq!((judged[0].predicted_ns, judged[0].measured_ns), (10_000, 8000));
        assert_eq!((judged[0].error, judged[0].limit), (0.25, Some(0.1)));
        // Only two of the 2000 measured packets are beyond p99.9, which is not judged anyway.
        assert_eq!((judged[1].limit, judged[2].limit, judged[2].supported), (Some(0.2), None, false));
        assert!(curve.is_sorted_by_key(|one| one.percentile) && curve.len() > 10);
    }

    #[test]
    fn accepts_too_few_or_no_packets_without_judgement() {
        let (judged, _) = compare(&all(1..=100), &[counts(1..=100)]);
        assert_eq!((judged[0].limit, judged[1].limit), (Some(0.1), None));
        assert_eq!(compare(&all(1..=100), &[counts(0..0)]), (vec![], vec![]));
        assert_eq!(compare(&all(1..=100), &[]), (vec![], vec![]));
    }

    #[test]
    fn uses_replay_with_median_error() {
        let repeat = |factor: i64| counts((1..=2000).map(move |value| value * factor));
        // Errors of -20, +10 and +50 %.
        let judged =
            compare_each(&[(repeat(8), repeat(10)), (repeat(33), repeat(30)), (repeat(30), repeat(20))]);
        let p50 = judged[0];
        assert_eq!(
            (p50.predicted_ns, p50.measured_ns, p50.error, p50.limit),
            (8000, 10_000, -0.2, Some(0.1))
        );
        assert_eq!((p50.measured_low_ns, p50.measured_high_ns), (10_000, 30_000));
        assert_eq!(compare_each(&[]), vec![]);
    }

    #[test]
    fn uses_median_over_repeats() {
        let repeat = |factor: i64| counts((1..=2000).map(move |value| value * factor));
        let (judged, curve) = compare(&all(1..=20_000), &[repeat(30), repeat(8), repeat(10)]);
        let p50 = judged[0];
        assert_eq!((p50.measured_low_ns, p50.measured_ns, p50.measured_high_ns), (8000, 10_000, 30_000));
        assert_eq!((p50.error, judged[1].error), (0.0, 0.0));
        assert!(curve.iter().any(|one| one.percentile == 50.0 && one.measured_ns == 10_000), "{curve:?}");
    }
}
