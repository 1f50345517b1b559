//! However the packets are split into chunks, the records add up to the counts of the offline tally.

use proptest::prelude::*;
use wiretail_schema::run::interval::{SegmentStart, TapStart};

use super::*;
use crate::matching::Trimmed;
use crate::metrics::measurement::Measurement;
use crate::soak::{LogFacts, SoakTotals, WORST_MAX};
use crate::stats::quantile::distribution;

const WINDOW_NS: i64 = 50_000_000;
const LIMIT_NS: i64 = 5_000_000;

/// The offline analysis: all packets merged at once.
fn offline(pre: &[Record], post: &[Record], trim_ns: i64) -> Measurement {
    let first_ns = pre.first().map_or(i64::MIN, |record| record.ts_ns);
    let measurement = Measurement::new(WINDOW_NS, trim_ns, 5, first_ns);
    let mut observer = Trimmed::new(first_ns, trim_ns, measurement);
    let mut matcher = Matcher::new(WINDOW_NS);
    let (i, j) = merge(&mut matcher, pre, post, &mut observer);
    pre[i..].iter().for_each(|record| matcher.pre(record, &mut observer));
    post[j..].iter().for_each(|record| matcher.post(record, &mut observer));
    matcher.finish(&mut observer);
    observer.observer
}

fn settings(trim_ns: i64) -> LiveSettings {
    LiveSettings { window_ns: WINDOW_NS, trim_ns, limits_ns: vec![LIMIT_NS], worst: WORST_MAX }
}

fn totals(trim_ns: i64) -> SoakTotals {
    let tap = |name: &str| TapStart {
        name: name.to_owned(),
        clock_source: "made up".to_owned(),
        resolution_ns: 1.0,
    };
    SoakTotals::new(SegmentStart {
        schema: String::new(),
        wiretail_version: String::new(),
        title: String::new(),
        window_ns: WINDOW_NS,
        trim_ns,
        key: "signature".to_owned(),
        budgets: vec!["5ms@99%".to_owned()],
        pre: tap("pre"),
        post: tap("post"),
    })
}

/// Outcome of a packet: time since the previous one, delay, copies.
#[derive(Debug, Clone)]
struct Fate {
    gap_ns: i64,
    delay_ns: Option<i64>,
    again_at_pre: bool,
    again_at_post: bool,
    foreign: bool,
}

fn fate() -> impl Strategy<Value = Fate> {
    let gap = prop_oneof![8 => 0..3_000_000i64, 1 => 0..900_000_000i64, 1 => Just(0)];
    let delay = prop_oneof![
        8 => (0..20_000i64).prop_map(Some),
        2 => (0..9_000_000i64).prop_map(Some),
        1 => (-1_000_000..200_000_000i64).prop_map(Some),
        1 => Just(None),
    ];
    (gap, delay, prop::bool::weighted(0.03), prop::bool::weighted(0.03), prop::bool::weighted(0.03)).prop_map(
        |(gap_ns, delay_ns, again_at_pre, again_at_post, foreign)| Fate {
            gap_ns,
            delay_ns,
            again_at_pre,
            again_at_post,
            foreign,
        },
    )
}

fn packets(fates: &[Fate]) -> (Vec<Record>, Vec<Record>) {
    let record = |ts_ns, key| Record { ts_ns, key, flow: 0, wire_len: 60 };
    let (mut pre, mut post) = (Vec::new(), Vec::new());
    let mut now = 1_700_000_000_300_000_000;
    for (fate, key) in fates.iter().zip(0..) {
        now += fate.gap_ns;
        pre.push(record(now, key));
        if fate.again_at_pre {
            pre.push(record(now + 70, key));
        }
        if let Some(delay_ns) = fate.delay_ns {
            post.push(record(now + delay_ns, key));
            if fate.again_at_post {
                post.push(record(now + delay_ns + 900, key));
            }
        }
        if fate.foreign {
            post.push(record(now, 1_000_000 + key));
        }
    }
    pre.sort_by_key(|record| record.ts_ns);
    post.sort_by_key(|record| record.ts_ns);
    (pre, post)
}

/// Feeds both taps in chunks. Each chunk extends to a given time and also contains a few later packets.
fn live(pre: &[Record], post: &[Record], steps: &[(i64, usize)], trim_ns: i64) -> Vec<IntervalRecord> {
    let mut live = LiveMeasurement::new(&settings(trim_ns));
    let (mut i, mut j) = (0, 0);
    let mut now = pre.first().map_or(0, |record| record.ts_ns) - 2_000_000;
    let mut records = Vec::new();
    for &(step_ns, ahead) in steps.iter().cycle() {
        now += step_ns;
        let past = |list: &[Record]| list.partition_point(|record| record.ts_ns < now);
        let (to_pre, to_post) =
            ((past(pre) + ahead).min(pre.len()), (past(post) + ahead / 2).min(post.len()));
        (i..to_pre).for_each(|at| live.packet(Tap::Pre, pre[at]));
        (j..to_post).for_each(|at| live.packet(Tap::Post, post[at]));
        (i, j) = (i.max(to_pre), j.max(to_post));
        live.advance(now);
        records.extend(live.take_closed());
        if i == pre.len() && j == post.len() {
            break;
        }
    }
    records.extend(live.finish());
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn records_add_up_to_offline_analysis(
        fates in prop::collection::vec(fate(), 1..300),
        steps in prop::collection::vec((1..300_000_000i64, 0..40usize), 1..20),
        trim_ns in prop_oneof![Just(0), 0..2_000_000_000i64],
    ) {
        let (pre, post) = packets(&fates);
        let exact = offline(&pre, &post, trim_ns);
        let records = live(&pre, &post, &steps, trim_ns);
        let mut totals = totals(trim_ns);
        records.iter().for_each(|record| totals.add(record));
        let expected = wiretail_schema::summary::Matching { events: vec![], ..exact.matching.clone() };
        prop_assert_eq!(totals.matching(), &expected);
        prop_assert_eq!(totals.sent(), exact.sent());
        prop_assert!(records.windows(2).all(|pair| pair[0].start_ns + INTERVAL_NS <= pair[1].start_ns));
        for record in &records {
            prop_assert_eq!(record.delays.iter().map(|d| d.1).sum::<u64>(), record.matched);
        }
        let found = distribution(&exact.delays());
        let Some((analysis, delays)) = totals.result(LogFacts::default()) else {
            prop_assert_eq!(found.count, 0);
            return Ok(());
        };
        let summary = analysis.summary;
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs() + 1e-2;
        prop_assert_eq!(delays.count(), found.count);
        prop_assert_eq!((summary.delay.min_ns, summary.delay.max_ns), (found.min_ns, found.max_ns));
        prop_assert!(close(summary.delay.mean_ns, found.mean_ns));
        prop_assert!((summary.delay.stddev_ns - found.stddev_ns).abs() < 1.0, "{} {}", summary.delay.stddev_ns, found.stddev_ns);
        let within = |rough: i64, exact: i64| (rough - exact).abs() as f64 <= 0.001 * exact as f64;
        for (rough, exact) in summary.delay.percentiles.iter().zip(&found.percentiles) {
            prop_assert!(within(rough.value_ns, exact.value_ns) && within(rough.low_ns, exact.low_ns));
            prop_assert_eq!(rough.high_ns.is_some(), exact.high_ns.is_some());
            prop_assert!(within(rough.high_ns.unwrap_or(0), exact.high_ns.unwrap_or(0)));
        }
        let mut beyond = exact.matching.lost + exact.matching.out_of_window;
        exact.delays().for_each(|delay, count| beyond += if delay > LIMIT_NS { count } else { 0 });
        prop_assert_eq!(summary.verdicts[0].failures, beyond);
        let expected = exact.reordering.result();
        let (found, expected) = (&summary.reordering, &expected);
        prop_assert_eq!((found.arrived, found.reordered, found.extent_max), (expected.arrived, expected.reordered, expected.extent_max));
        prop_assert_eq!(&found.n_reordering, &expected.n_reordering);
        prop_assert_eq!((summary.loss.runs, summary.loss.longest_run), (exact.loss_runs.runs, exact.loss_runs.longest));
        prop_assert!(close(summary.variation.rfc3550_jitter_ns, exact.variation.jitter_ns().0));
        let worst: Vec<_> = summary.worst.iter().take(5).map(|w| (w.delay_ns, w.pre_ns, w.pre_index)).collect();
        let expected = exact.worst.into_sorted().into_iter().map(|w| (w.delay_ns, w.pre_ns, w.pre_index));
        prop_assert_eq!(worst, expected.collect::<Vec<_>>());
        prop_assert_eq!(summary.pre.packets, pre.len() as u64);
        prop_assert_eq!(summary.post.packets, post.len() as u64);
    }
}

#[test]
fn clock_jump_leaves_gap_instead_of_empty_records() {
    let mut live = LiveMeasurement::new(&settings(0));
    let record = |ts_ns, key| Record { ts_ns, key, flow: 0, wire_len: 60 };
    live.packet(Tap::Pre, record(5, 1));
    live.packet(Tap::Post, record(3_000, 1));
    live.advance(100 * INTERVAL_NS);
    live.packet(Tap::Pre, record(i64::MAX / 2, 2));
    live.advance(i64::MAX / 2);
    live.advance(i64::MAX);
    let records = live.finish();
    assert!(records.len() < 2 * EMPTY_MAX as usize + 10, "{}", records.len());
    let mut totals = totals(0);
    records.iter().for_each(|record| totals.add(record));
    assert_eq!((totals.sent(), totals.matching().matched, totals.matching().lost), (2, 1, 1));
    let (analysis, _) = totals.result(LogFacts { torn: true, damaged: 1 }).unwrap();
    let codes: Vec<&str> = analysis.summary.findings.iter().map(|finding| finding.code.as_str()).collect();
    for code in ["gap", "soak-limits", "soak-interrupted", "damaged"] {
        assert!(codes.contains(&code), "{codes:?}");
    }
}

#[test]
fn reports_losses_without_further_packets() {
    let mut live = LiveMeasurement::new(&settings(0));
    live.packet(Tap::Pre, Record { ts_ns: 5, key: 1, flow: 0, wire_len: 60 });
    live.advance(INTERVAL_NS);
    let lost: Vec<u64> = live.take_closed().map(|record| record.lost).collect();
    assert_eq!(lost, [1]);
}
