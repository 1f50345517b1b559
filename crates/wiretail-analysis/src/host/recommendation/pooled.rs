//! Percentiles over several trials under one load.
//!
//! The delays of repeats are not pooled. The value reported for several trials is the median of their values.
//! Its interval extends from the lowest of the trials' lower bounds to the highest of their upper bounds, so that
//! it also covers variation between trials.

use wiretail_schema::host::recommendation::{DelayOf, TrialsOf};
use wiretail_schema::summary::Percentile;
use wiretail_schema::units::Share;

use crate::host::recommendation::sample::Seen;

/// The maximum, as a percentile.
pub const MAXIMUM: f64 = 100.0;

/// Percentile over these trials. `None` if one of them has no such percentile.
pub fn delay(of: &str, percentile: f64, seen: &[&Seen<'_>]) -> Option<DelayOf> {
    let packets = seen.iter().map(|one| one.summary.delay.count).sum();
    let (of, trials) = (of.to_owned(), trials(seen));
    if percentile == MAXIMUM {
        let value_ns = seen
            .iter()
            .filter(|one| one.summary.delay.count > 0)
            .map(|one| one.summary.delay.max_ns)
            .max()?;
        let none = DelayOf {
            of,
            percentile,
            value_ns,
            low_ns: None,
            high_ns: None,
            packets,
            supported: true,
            trials,
        };
        return Some(none);
    }
    let find = |one: &&Seen<'_>| one.summary.delay.percentile(percentile).copied();
    let found = of_repeats(seen.iter().map(find).collect::<Option<_>>()?)?;
    Some(DelayOf {
        of,
        percentile,
        value_ns: found.value_ns,
        low_ns: Some(found.low_ns),
        high_ns: found.high_ns,
        packets,
        supported: found.supported,
        trials,
    })
}

/// Combines the percentiles of repeats. The result is the median of their values, with an interval from their
/// lowest bound to their highest. `None` without repeats.
fn of_repeats(mut repeats: Vec<Percentile>) -> Option<Percentile> {
    repeats.sort_by_key(|p| p.value_ns);
    let median = *Share::MEDIAN.of(&repeats)?;
    let highs: Option<Vec<i64>> = repeats.iter().map(|p| p.high_ns).collect();
    Some(Percentile {
        low_ns: repeats.iter().map(|p| p.low_ns).min()?,
        high_ns: highs.and_then(|highs| highs.into_iter().max()),
        supported: repeats.iter().all(|p| p.supported),
        ..median
    })
}

/// The given `percentiles` that all of these trials have.
pub fn delays(of: &str, percentiles: &[f64], seen: &[&Seen<'_>]) -> Vec<DelayOf> {
    percentiles.iter().filter_map(|percentile| delay(of, *percentile, seen)).collect()
}

/// Trials, grouped by run.
pub fn trials(seen: &[&Seen<'_>]) -> Vec<TrialsOf> {
    let mut all: Vec<TrialsOf> = Vec::new();
    for one in seen {
        let number = one.trial.number;
        match all.iter_mut().find(|of| of.run == one.input.directory) {
            Some(of) => of.trials.push(number),
            None => all.push(TrialsOf { run: one.input.directory.clone(), trials: vec![number] }),
        }
    }
    all
}

/// Result of comparing two percentiles by their intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The interval is entirely above the baseline's.
    Higher,
    /// The interval is entirely below the baseline's.
    Lower,
    /// The intervals overlap: the two are indistinguishable.
    Alike,
}

/// Compares a percentile with the baseline's. `None` if either has too few packets or no interval.
pub fn told(baseline: &DelayOf, other: &DelayOf) -> Option<Told> {
    if !(baseline.supported && other.supported) {
        return None;
    }
    let top = |delay: &DelayOf| delay.high_ns.unwrap_or(i64::MAX);
    let (low, other_low) = (baseline.low_ns?, other.low_ns?);
    Some(if other_low > top(baseline) {
        Told::Higher
    } else if top(other) < low {
        Told::Lower
    } else {
        Told::Alike
    })
}
