//! Differences between groups of trials, with the trial as the unit.
//!
//! Trials are compared by rank tests, which hold for any distribution: within repeats if the trials of both
//! groups are interleaved or between the groups otherwise. Delays are compared by their
//! ratio, on a logarithmic scale. All p-values of one comparison are adjusted for their number (Holm), and each
//! interval has the confidence at which it agrees with its test.

use std::cmp::Ordering;

use wiretail_schema::comparison::{
    Answer, ComparisonOutcome, Group, GroupComparison, GroupLevel, LevelUnit, StatisticComparison,
};
use wiretail_schema::summary::Summary;

use crate::stats::list::{median, median_estimate};
use crate::stats::ranks::{self, Design, Shift, holm, prediction_ranks, shift, smallest_p, trials_needed};

/// Probability that at least one difference is reported although there is none.
const ERROR: f64 = 0.05;
/// Minimum number of packets beyond a percentile, in each trial. The margin covers rounding.
const BEYOND_MIN: f64 = 10.0 - 1e-6;
/// Percentiles that are compared if every trial has enough packets beyond them. The median is always compared.
pub const PERCENTILES: [f64; 5] = [50.0, 99.0, 99.9, 99.99, 99.999];

/// One trial of a group, or a run that counts as one.
#[derive(Debug, Clone)]
pub struct Trial<'a> {
    /// Path or name.
    pub name: String,
    /// Number of its repeat. Trials with the same number were made close together if the groups are interleaved.
    pub repeat: u64,
    /// Results. With several of them, the median of each statistic counts.
    pub summaries: Vec<&'a Summary>,
}

/// A group of trials and its baseline.
#[derive(Debug, Clone)]
pub struct GroupPair<'a> {
    /// Name of each group.
    pub names: [String; 2],
    /// Trials of the baseline, and of the other group.
    pub trials: [Vec<Trial<'a>>; 2],
    /// Whether trials with the same repeat are compared with each other.
    pub paired: bool,
}

/// Values of one statistic: of both groups, in the same order if they are paired.
struct Sample {
    statistic: String,
    unit: LevelUnit,
    values: [Vec<f64>; 2],
}

/// Compares all pairs of groups. Returns the comparisons and the number of tests.
pub fn compare(
    pairs: &[GroupPair<'_>],
    percentiles: &[f64],
    tolerance: f64,
) -> (Vec<GroupComparison>, usize) {
    let samples: Vec<(bool, Vec<Sample>)> =
        pairs.iter().map(|pair| (pair.paired, samples(pair, percentiles))).collect();
    let (statistics, family) = judge(&samples, tolerance);
    let comparisons =
        pairs.iter().zip(samples.iter().zip(statistics)).map(|(pair, ((_, samples), statistics))| {
            let group = |place: usize| Group {
                name: pair.names[place].clone(),
                trials: pair.trials[place].iter().map(|trial| trial.name.clone()).collect(),
            };
            GroupComparison {
                baseline: group(0),
                other: group(1),
                paired: pair.paired,
                trials: samples
                    .first()
                    .map_or(0, |sample| sample.values[0].len().min(sample.values[1].len())),
                statistics,
            }
        });
    (comparisons.collect(), family)
}

/// Tests all samples of all pairs of groups, each with whether the pair is paired. Returns the results and the
/// number of tests.
fn judge(pairs: &[(bool, Vec<Sample>)], tolerance: f64) -> (Vec<Vec<StatisticComparison>>, usize) {
    let tested = |paired: bool, sample: &Sample| -> Option<f64> {
        let [a, b] = &sample.values;
        (a.len() > 1 && b.len() > 1).then(|| p_value(paired, sample))
    };
    let p_values: Vec<Vec<Option<f64>>> = pairs
        .iter()
        .map(|(paired, samples)| samples.iter().map(|sample| tested(*paired, sample)).collect())
        .collect();
    let all: Vec<f64> = p_values.iter().flatten().flatten().copied().collect();
    let mut adjusted = holm(&all, ERROR).into_iter();
    let results = pairs
        .iter()
        .zip(&p_values)
        .map(|((paired, samples), p_values)| {
            let result = |(sample, p): (&Sample, &Option<f64>)| {
                let test = p.and_then(|p| Some((p, adjusted.next()?)));
                statistic(*paired, sample, test, all.len(), tolerance)
            };
            samples.iter().zip(p_values).map(result).collect()
        })
        .collect();
    (results, all.len())
}

/// Conclusion of all statistics: FAIL if one is worse by more than the tolerance, PASS if that is excluded for
/// all of them.
pub fn outcome(comparisons: &[GroupComparison], tolerance: f64) -> ComparisonOutcome {
    let statistics = || comparisons.iter().flat_map(|comparison| &comparison.statistics);
    let beyond =
        |s: &StatisticComparison, change: f64| change > allowed(s.unit, s.baseline.median, tolerance);
    if statistics().any(|s| s.answer == Answer::Worse && s.change_low.is_some_and(|low| beyond(s, low))) {
        ComparisonOutcome::Fail
    } else if statistics().next().is_some()
        && statistics().all(|s| s.change_high.is_some_and(|high| !beyond(s, high)))
    {
        ComparisonOutcome::Pass
    } else {
        ComparisonOutcome::Undecided
    }
}

/// Largest accepted change: relative for delays, absolute for ratios.
fn allowed(unit: LevelUnit, baseline: f64, tolerance: f64) -> f64 {
    match unit {
        LevelUnit::Ns => tolerance,
        LevelUnit::Ratio => tolerance * baseline,
    }
}

/// Statistics that both groups have.
fn samples(pair: &GroupPair<'_>, percentiles: &[f64]) -> Vec<Sample> {
    let [baseline, other] = matched(pair);
    let sample = |statistic: String, unit, value: &dyn Fn(&Summary) -> Option<f64>| -> Option<Sample> {
        let of_trial = |trial: &&Trial<'_>| {
            let values =
                trial.summaries.iter().map(|summary| value(summary)).collect::<Option<Vec<f64>>>()?;
            median(values)
        };
        let of = |trials: &[&Trial<'_>]| trials.iter().map(of_trial).collect::<Option<Vec<f64>>>();
        let values = [of(&baseline)?, of(&other)?];
        values.iter().all(|values| !values.is_empty()).then_some(Sample { statistic, unit, values })
    };
    let percentile = |percent: f64| {
        let name = format!("p{percent}");
        sample(name, LevelUnit::Ns, &|summary| {
            let found = summary.delay.percentile(percent)?;
            // The spread between trials includes the uncertainty within them, so dependence does not matter here.
            let beyond = summary.delay.count as f64 * (100.0 - percent) / 100.0;
            (beyond >= BEYOND_MIN || percent == 50.0).then_some(found.value_ns as f64)
        })
    };
    let mut samples: Vec<Sample> = percentiles.iter().filter_map(|percent| percentile(*percent)).collect();
    let loss = sample("loss ratio".to_owned(), LevelUnit::Ratio, &|summary| Some(summary.loss.ratio));
    // Without any loss, there is nothing to test.
    samples.extend(loss.filter(|loss| loss.values.iter().flatten().any(|ratio| *ratio > 0.0)));
    samples
}

/// Trials of both groups. For paired groups, only the repeats that both have, in the same order.
fn matched<'p, 'a>(pair: &'p GroupPair<'a>) -> [Vec<&'p Trial<'a>>; 2] {
    let [baseline, other] = &pair.trials;
    if !pair.paired {
        return [baseline.iter().collect(), other.iter().collect()];
    }
    let both = baseline.iter().filter_map(|trial| {
        let partner = other.iter().find(|other| other.repeat == trial.repeat)?;
        Some((trial, partner))
    });
    let (baseline, other) = both.unzip();
    [baseline, other]
}

/// The scale on which values are compared. Delays of 0 are counted as 1 ns.
fn scaled(values: &[f64], unit: LevelUnit) -> Vec<f64> {
    values
        .iter()
        .map(|value| match unit {
            LevelUnit::Ns => value.max(1.0).ln(),
            LevelUnit::Ratio => *value,
        })
        .collect()
}

fn design(paired: bool) -> Design {
    if paired { Design::Paired } else { Design::Unpaired }
}

fn p_value(paired: bool, sample: &Sample) -> f64 {
    let [a, b] = &sample.values;
    ranks::p_value(design(paired), &scaled(a, sample.unit), &scaled(b, sample.unit))
}

/// `test` is the p-value, its adjusted value and the error of the interval; `None` with a single trial.
fn statistic(
    paired: bool,
    sample: &Sample,
    test: Option<(f64, (f64, f64))>,
    family: usize,
    tolerance: f64,
) -> StatisticComparison {
    let [baseline, other] = &sample.values;
    let levels = [level(baseline), level(other)];
    let (a, b) = (scaled(baseline, sample.unit), scaled(other, sample.unit));
    let error = test.map_or(ERROR, |(_, (_, error))| error);
    let found = shift(design(paired), &a, &b, error).unwrap_or(Shift { value: f64::NAN, interval: None });
    let change = |shift: f64| match sample.unit {
        LevelUnit::Ns => shift.exp_m1(),
        LevelUnit::Ratio => shift,
    };
    let interval = found.interval.filter(|_| test.is_some()).map(|(low, high)| (change(low), change(high)));
    let too_few = smallest_p(design(paired), baseline.len(), other.len()) > ERROR / family.max(1) as f64;
    let answer = match (test, interval) {
        (None, _) => Answer::SingleTrial,
        (Some(_), _) if too_few => {
            Answer::TooFewTrials { needed: trials_needed(design(paired), ERROR / family.max(1) as f64) }
        }
        (Some((_, (adjusted, _))), _) if adjusted <= ERROR => match found.value.total_cmp(&0.0) {
            Ordering::Greater => Answer::Worse,
            _ => Answer::Better,
        },
        (_, Some((_, high))) if high <= allowed(sample.unit, levels[0].median, tolerance) => Answer::NotWorse,
        _ => Answer::NotSeparated,
    };
    StatisticComparison {
        statistic: sample.statistic.clone(),
        unit: sample.unit,
        baseline: levels[0],
        other: levels[1],
        change: change(found.value),
        change_low: interval.map(|(low, _)| low),
        change_high: interval.map(|(_, high)| high),
        confidence: (1.0 - error) * 100.0,
        p_value: test.map(|(p, _)| p),
        adjusted_p_value: test.map(|(_, (adjusted, _))| adjusted),
        answer,
    }
}

/// Median, intervals and range of the values of a group.
pub fn level(values: &[f64]) -> GroupLevel {
    let mut values = values.to_vec();
    let estimate = median_estimate(&mut values);
    let bounded = estimate.filter(|estimate| estimate.high.is_some());
    let next = prediction_ranks(values.len(), values.len(), ERROR);
    let at = |rank: usize| values[rank - 1];
    GroupLevel {
        median: estimate.map_or(f64::NAN, |estimate| estimate.value),
        low: bounded.map(|estimate| estimate.low),
        high: bounded.and_then(|estimate| estimate.high),
        smallest: values.first().copied().unwrap_or(f64::NAN),
        largest: values.last().copied().unwrap_or(f64::NAN),
        next_low: next.map(|(low, _)| at(low)),
        next_high: next.map(|(_, high)| at(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::{Random, normal};

    /// Values of trials: log-normal, with an outlier of ten times the value in one of ten trials.
    fn trials(random: &mut Random, count: usize, factor: f64) -> Vec<f64> {
        let value = |_| {
            let outlier = if random.below(10) == 0 { 10.0 } else { 1.0 };
            10_000.0 * factor * outlier * (0.05 * normal(random)).exp()
        };
        (0..count).map(value).collect()
    }

    fn sample(statistic: &str, values: [Vec<f64>; 2]) -> Sample {
        Sample { statistic: statistic.to_owned(), unit: LevelUnit::Ns, values }
    }

    /// One pair of groups with three statistics, of which the first is larger by `factor`.
    fn answers(seed: u64, count: usize, factor: f64, paired: bool) -> Vec<StatisticComparison> {
        let mut random = Random::new(seed);
        let samples = (0..3).map(|place| {
            let factor = if place == 0 { factor } else { 1.0 };
            sample(&place.to_string(), [trials(&mut random, count, 1.0), trials(&mut random, count, factor)])
        });
        let (mut results, family) = judge(&[(paired, samples.collect())], 0.05);
        assert_eq!(family, 3);
        results.remove(0)
    }

    #[test]
    fn equal_groups_rarely_differ() {
        for paired in [false, true] {
            let wrong = (0..500)
                .filter(|seed| answers(*seed, 10, 1.0, paired).iter().any(|s| s.answer.is_difference()))
                .count();
            // 25 are expected at 5 % for all answers of a comparison together; 40 would be three deviations more.
            assert!(wrong <= 40, "{paired}: {wrong} of 500");
        }
    }

    #[test]
    fn finds_injected_change_with_its_size() {
        for paired in [false, true] {
            let (mut found, mut covered) = (0, 0);
            for seed in 0..100 {
                let result = &answers(seed, 10, 1.2, paired)[0];
                found += usize::from(result.answer == Answer::Worse);
                let (low, high) = (result.change_low.unwrap(), result.change_high.unwrap());
                covered += usize::from(low <= 0.2 && high >= 0.2);
            }
            assert!(found >= 75 && covered >= 93, "{paired}: found {found}, covered {covered} of 100");
        }
    }

    #[test]
    fn few_trials_are_undecided() {
        let few = answers(1, 4, 2.0, true);
        assert_eq!(few[0].answer, Answer::TooFewTrials { needed: 7 });
        let outcome_of = |statistics: Vec<StatisticComparison>| {
            let group = || Group { name: String::new(), trials: Vec::new() };
            let comparison =
                GroupComparison { baseline: group(), other: group(), paired: true, trials: 0, statistics };
            outcome(&[comparison], 0.05)
        };
        assert_eq!(outcome_of(few), ComparisonOutcome::Undecided);
        let (single, family) = judge(&[(false, vec![sample("p50", [vec![100.0], vec![300.0]])])], 0.05);
        assert_eq!((single[0][0].answer, family), (Answer::SingleTrial, 0));
        assert!((single[0][0].change - 2.0).abs() < 1e-9 && single[0][0].change_low.is_none());
        assert_eq!(outcome_of(single.into_iter().flatten().collect()), ComparisonOutcome::Undecided);
        assert_eq!(outcome_of(answers(1, 10, 3.0, false)), ComparisonOutcome::Fail);
        // Equal values: nothing can be worse.
        let equal = judge(&[(false, vec![sample("p50", [vec![100.0; 10], vec![100.0; 10]])])], 0.05).0;
        assert_eq!(equal[0][0].answer, Answer::NotWorse);
        assert_eq!(outcome_of(equal.into_iter().flatten().collect()), ComparisonOutcome::Pass);
        assert_eq!(outcome_of(Vec::new()), ComparisonOutcome::Undecided);
    }
}
