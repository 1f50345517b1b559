//! Percentiles from buckets, and thinning of long measurements.

use wiretail_schema::run::interval::TapStart;

use super::*;

fn start() -> SegmentStart {
    let tap = TapStart { name: "pre".to_owned(), clock_source: String::new(), resolution_ns: 1.0 };
    SegmentStart {
        schema: String::new(),
        wiretail_version: String::new(),
        title: String::new(),
        window_ns: INTERVAL_NS,
        trim_ns: 0,
        key: String::new(),
        budgets: Vec::new(),
        pre: tap.clone(),
        post: tap,
    }
}

fn second(number: i64, delay_ns: i64) -> IntervalRecord {
    let tap = TapInterval { packets: 100, last_ns: INTERVAL_NS - 1, ..TapInterval::default() };
    IntervalRecord {
        start_ns: number * INTERVAL_NS,
        length_ns: INTERVAL_NS,
        sent: 100,
        matched: 100,
        min_ns: delay_ns,
        max_ns: delay_ns,
        sum_ns: 100 * delay_ns as u64,
        delays: vec![(bucket(delay_ns) as u16, 100)],
        worst: (0..10).map(|i| (delay_ns, i, i as u64)).collect(),
        pre: tap.clone(),
        post: tap,
        ..IntervalRecord::default()
    }
}

#[test]
fn forty_hours_are_thinned_to_a_thousand_points() {
    let mut totals = SoakTotals::new(start());
    for number in 0..288_000 {
        totals.add(&second(number, 10_000 + number % 7));
    }
    totals.end();
    let (analysis, delays) = totals.result(LogFacts::default()).unwrap();
    let summary = &analysis.summary;
    assert_eq!((summary.loss.sent, delays.count()), (28_800_000, 28_800_000));
    assert!(summary.intervals.len() <= 1024 && summary.pre.rate.is_empty());
    assert!((summary.pre.mean_rate_pps - 200.0).abs() < 0.01);
    let rates = analysis.figures.iter().find(|figure| figure.id == "rates").unwrap();
    assert!(rates.series.iter().all(|series| series.x.len() <= 1024));
    assert!((rates.series[0].y[0] - 200.0).abs() < 1e-9);
    assert!(summary.findings.iter().all(|finding| finding.code == "soak-limits"), "{:?}", summary.findings);
    assert!(serde_size(summary) < 400_000);
}

/// Approximate length of the document's debug text, which must not grow with time.
fn serde_size(summary: &wiretail_schema::summary::Summary) -> usize {
    format!("{summary:?}").len()
}

#[test]
fn percentile_uses_nearest_rank() {
    let buckets = [(5, 90), (700, 9), (bucket(1_000_000), 1)];
    let at = |billionths| percentile_ns(buckets.into_iter(), billionths).unwrap();
    assert_eq!((at(500_000_000), at(900_000_000), at(900_000_001)), (5, 5, 700));
    assert!((at(1_000_000_000) - 1_000_000).abs() <= 1000);
    assert_eq!(percentile_ns(std::iter::empty(), 500_000_000), None);
}
