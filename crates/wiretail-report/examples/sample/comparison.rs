//! A comparison of two groups with every kind of answer.

use wiretail_schema::comparison::{
    Answer, COMPARISON_SCHEMA, Comparison, ComparisonOutcome, Group, GroupComparison, GroupLevel, LevelUnit,
    StatisticComparison,
};

/// Ten trials of each of two groups. The first name is that of the baseline.
pub fn comparison(names: [&str; 2]) -> Comparison {
    let group = |name: &str| Group {
        name: name.to_owned(),
        trials: (1..=10).map(|repeat| format!("{name}-repeat{repeat}")).collect(),
    };
    let level = |median: f64| GroupLevel {
        median,
        low: Some(0.95 * median),
        high: Some(1.1 * median),
        smallest: 0.9 * median,
        largest: 1.3 * median,
        next_low: Some(0.92 * median),
        next_high: Some(1.2 * median),
    };
    let statistic = |name: &str, unit, baseline: f64, bounds: Option<[f64; 2]>, change: f64, answer| {
        StatisticComparison {
            statistic: name.to_owned(),
            unit,
            baseline: level(baseline),
            other: level(baseline * (1.0 + change)),
            change,
            change_low: bounds.map(|[low, _]| low),
            change_high: bounds.map(|[_, high]| high),
            confidence: 99.0,
            p_value: Some(0.002),
            adjusted_p_value: Some(0.012),
            answer,
        }
    };
    Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        tolerance: 0.05,
        family: 6,
        warnings: vec![format!("{}: 1 of its trials is left out, because it is not valid", names[0])],
        outcome: ComparisonOutcome::Fail,
        pairs: vec![GroupComparison {
            baseline: group(names[0]),
            other: group(names[1]),
            paired: true,
            trials: 10,
            statistics: vec![
                statistic("p50", LevelUnit::Ns, 2100.0, Some([0.08, 0.16]), 0.12, Answer::Worse),
                statistic("p99", LevelUnit::Ns, 5400.0, Some([-0.03, 0.02]), -0.004, Answer::NotWorse),
                statistic("p99.9", LevelUnit::Ns, 32_000.0, Some([-0.4, 0.6]), 0.05, Answer::NotSeparated),
                statistic("p99.99", LevelUnit::Ns, 91_000.0, Some([-0.5, -0.1]), -0.3, Answer::Better),
                statistic("p99.999", LevelUnit::Ns, 180_000.0, None, 0.2, Answer::TooFewTrials { needed: 9 }),
                statistic("loss ratio", LevelUnit::Ratio, 1e-5, None, 1e-6, Answer::SingleTrial),
            ],
        }],
    }
}
