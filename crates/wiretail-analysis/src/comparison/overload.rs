//! The lowest offered rate at which a device under test no longer keeps up.
//!
//! Below the capacity, loss and median delay hardly depend on the rate: they form a plateau. Above the
//! capacity, the queue fills up. The delay rises until the queue is full, and further packets are lost. No
//! standard defines where the plateau ends. (RFC 2544 requires zero loss, which a single lost packet in a
//! million violates.) This module uses the following rule. A rate is overloaded if
//!
//! - more than [`Overload::LOSS_MIN`] is lost, and the loss exceeds [`Overload::LOSS_FACTOR`] times the
//!   median of the lower rates or that median plus [`Overload::LOSS_STEP`]; or
//! - the median delay is more than [`Overload::DELAY_FACTOR`] times the median of at least
//!   [`Overload::DELAY_RATES`] lower rates;
//!
//! and if the same holds, against the same lower rates, for every higher rate. An outlier followed by normal
//! rates is therefore not an overload. (At the highest rate, an outlier cannot be distinguished from an
//! overload.) If a rate has repeats, their median is used. The lowest rate cannot be marked, because there is
//! no lower rate that shows the plateau.

use wiretail_schema::run::scenario::{Overload, OverloadMark, OverloadSign, RATE, Scenario, SegmentResult};
use wiretail_schema::run::{Run, TrialState};

use crate::stats::list::median;

/// One trial: a point of the curves over the offered rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// Offered rate, in packets per second.
    pub rate_pps: u64,
    /// Share of packets lost, 0 to 1.
    pub loss_ratio: f64,
    /// Median delay, in ns; `None` if no packet arrived.
    pub p50_ns: Option<i64>,
}

/// Medians over the repeats at one rate.
#[derive(Debug, Clone, Copy)]
struct Level {
    rate_pps: u64,
    loss: f64,
    p50_ns: Option<f64>,
}

/// The lowest rate at and above which loss or delay has left the plateau. Returns `None` if no rate qualifies,
/// or if fewer than two rates were tried. The points may be in any order, with several per rate.
pub fn overload(points: &[LoadPoint]) -> Option<Overload> {
    let levels = levels(points);
    (1..levels.len()).find_map(|at| {
        let (lower, from_here) = levels.split_at(at);
        let mut signs = from_here.iter().map(|level| sign(lower, level));
        let first = signs.next()??;
        signs.all(|sign| sign.is_some()).then_some(Overload { rate_pps: from_here[0].rate_pps, sign: first })
    })
}

/// Overloads of a run, at most one per scenario, over the whole device under test in its valid trials. A
/// trial in which no packet arrived has no result and is ignored.
pub fn overloads(run: &Run, results: &[SegmentResult]) -> Vec<OverloadMark> {
    let valid = run.trials.iter().filter(|trial| trial.state == TrialState::Valid);
    let points = valid.filter_map(|trial| {
        let result = results.iter().find(|r| r.trial == trial.number && r.segment == 0)?;
        let p50 = result.summary.delay.percentile(50.0);
        let point = LoadPoint {
            rate_pps: trial.setting(RATE)?.number,
            loss_ratio: result.summary.loss.ratio,
            p50_ns: p50.map(|p| p.value_ns),
        };
        Some((Scenario::of(run, trial, &[RATE]), point))
    });
    marks(points)
}

/// The overload of each scenario that has one, in the order of their first points.
fn marks(points: impl Iterator<Item = (Scenario, LoadPoint)>) -> Vec<OverloadMark> {
    let mut curves: Vec<(Scenario, Vec<LoadPoint>)> = Vec::new();
    for (scenario, point) in points {
        match curves.iter_mut().find(|(other, _)| *other == scenario) {
            Some((_, points)) => points.push(point),
            None => curves.push((scenario, vec![point])),
        }
    }
    let marks = curves.into_iter().filter_map(|(scenario, points)| {
        overload(&points).map(|overload| OverloadMark { scenario, overload })
    });
    marks.collect()
}

/// Groups the points by rate, lowest first.
fn levels(points: &[LoadPoint]) -> Vec<Level> {
    let mut sorted = points.to_vec();
    sorted.sort_by_key(|point| point.rate_pps);
    let repeats = sorted.chunk_by(|a, b| a.rate_pps == b.rate_pps);
    repeats
        .map(|same| Level {
            rate_pps: same[0].rate_pps,
            loss: median(same.iter().map(|point| point.loss_ratio)).unwrap_or(0.0),
            p50_ns: median(same.iter().filter_map(|point| point.p50_ns).map(|ns| ns as f64)),
        })
        .collect()
}

/// Whether a rate is overloaded compared with the lower rates, and whether loss or delay shows it.
fn sign(lower: &[Level], level: &Level) -> Option<OverloadSign> {
    let usual = median(lower.iter().map(|level| level.loss))?;
    let limit = Overload::LOSS_MIN.max((usual * Overload::LOSS_FACTOR).min(usual + Overload::LOSS_STEP));
    if level.loss > limit {
        return Some(OverloadSign::Loss { ratio: level.loss, limit });
    }
    let delays: Vec<f64> = lower.iter().filter_map(|level| level.p50_ns).collect();
    if delays.len() < Overload::DELAY_RATES {
        return None;
    }
    let limit = median(delays)? * Overload::DELAY_FACTOR;
    let p50 = level.p50_ns.filter(|ns| *ns > limit)?;
    Some(OverloadSign::Delay { p50_ns: p50 as i64, limit_ns: limit as i64 })
}

#[cfg(test)]
mod tests {
    use wiretail_schema::run::SettingRecord;

    use super::*;

    /// Points at 10, 20, 30, … kpps with the given loss and median delay in µs.
    fn points(values: &[(f64, i64)]) -> Vec<LoadPoint> {
        let point = |(index, &(loss_ratio, p50_us)): (usize, &(f64, i64))| LoadPoint {
            rate_pps: 10_000 * (index as u64 + 1),
            loss_ratio,
            p50_ns: Some(p50_us * 1000),
        };
        values.iter().enumerate().map(point).collect()
    }

    fn rate(values: &[(f64, i64)]) -> Option<u64> {
        overload(&points(values)).map(|overload| overload.rate_pps)
    }

    #[test]
    fn finds_injected_overloads() {
        assert_eq!(rate(&[(0.0, 10), (0.0, 11), (0.0, 12), (0.3, 900), (0.5, 1000)]), Some(40_000));
        // The queue fills before packets are lost.
        assert_eq!(rate(&[(0.0, 10), (0.0, 11), (0.0, 90), (0.2, 900)]), Some(30_000));
        // Loss without a queue: the device drops packets immediately.
        let found = overload(&points(&[(0.0, 10), (0.004, 10)])).unwrap();
        assert_eq!(found.sign, OverloadSign::Loss { ratio: 0.004, limit: Overload::LOSS_MIN });
        // Every rate is beyond the capacity. The lowest cannot be marked, but the next one can.
        assert_eq!(rate(&[(0.1, 900), (0.5, 950), (0.75, 960)]), Some(20_000));
        // The median over the lower rates is the lower of the two middle values, 10 µs. The limit is three
        // times that.
        let found = overload(&points(&[(0.0, 10), (0.0, 12), (0.0, 34)])).unwrap();
        assert_eq!(found.sign, OverloadSign::Delay { p50_ns: 34_000, limit_ns: 30_000 });
    }

    #[test]
    fn ignores_noise() {
        assert_eq!(rate(&[(0.0, 12), (1e-4, 9), (5e-4, 14), (9e-4, 20), (2e-4, 11)]), None);
        assert_eq!(rate(&[(0.0, 10), (0.0, 10), (0.0, 10), (0.0, 10)]), None, "all losses zero");
        // Delays fall with the rate if idle cores enter deep sleep states.
        assert_eq!(rate(&[(0.0, 60), (0.0, 25), (0.0, 10), (0.0, 12)]), None);
        // A device that drops one packet in a hundred on purpose, at any rate.
        assert_eq!(rate(&[(0.01, 10), (0.011, 10), (0.009, 11)]), None);
    }

    #[test]
    fn ignores_single_outlier() {
        assert_eq!(rate(&[(0.0, 10), (0.05, 400), (0.0, 11), (0.0, 12)]), None);
        assert_eq!(rate(&[(0.0, 10), (0.05, 400), (0.0, 11), (0.0, 12), (0.4, 900)]), Some(50_000));
        // One outlier among three repeats is not an overload either.
        let mut repeats = points(&[(0.0, 10), (0.0, 11), (0.0, 12)]);
        repeats.extend(points(&[(0.0, 10), (0.0, 10), (0.0, 13)]));
        repeats.extend(points(&[(0.0, 10), (0.0, 10), (0.6, 4000)]));
        assert_eq!(overload(&repeats), None);
    }

    #[test]
    fn requires_enough_rates_for_a_plateau() {
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[(0.9, 5000)]), None);
        assert_eq!(
            rate(&[(0.0, 10), (0.0, 5000)]),
            None,
            "one lower rate does not form a plateau of the delay"
        );
    }

    #[test]
    fn marks_rate_from_which_overload_persists() {
        let values = [(0.0, 10), (0.0, 10), (0.01, 10), (0.0, 10), (0.02, 50), (0.01, 10)];
        assert_eq!(rate(&values), Some(50_000));
        let mut shuffled = points(&values);
        shuffled.reverse();
        assert_eq!(overload(&shuffled), overload(&points(&values)), "the order of points does not matter");
    }

    #[test]
    fn rate_without_arrivals_is_overloaded() {
        let mut all = points(&[(0.0, 10), (0.0, 10), (1.0, 0)]);
        all[2].p50_ns = None;
        assert_eq!(overload(&all).map(|found| found.rate_pps), Some(30_000));
    }

    #[test]
    fn scenarios_have_separate_overloads() {
        let named = |kind: &str| {
            let (key, text) = ("dut.kind".to_owned(), kind.to_owned());
            Scenario { settings: vec![SettingRecord { key, text, number: 0 }] }
        };
        let slow = points(&[(0.0, 10), (0.0, 10), (0.3, 900)]).into_iter().map(|p| (named("bridge"), p));
        let fast = points(&[(0.0, 10), (0.0, 10), (0.0, 11)]).into_iter().map(|p| (named("skeleton"), p));
        let mixed: Vec<_> = fast.zip(slow).flat_map(|(a, b)| [a, b]).collect();
        let found = marks(mixed.into_iter());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].scenario.clone(), found[0].overload.rate_pps), (named("bridge"), 30_000));
    }
}
