//! Overhead of tracing: traced trials compared with untraced trials that are otherwise identical.
//!
//! For each percentile, the difference between the medians of the traced and the untraced trials is compared
//! with the range of the untraced ones, because identical trials differ by that much anyway. Trials are not
//! pooled.

use wiretail_schema::run::overhead::{Overhead, OverheadAt, OverheadVerdict};
use wiretail_schema::run::scenario::{Scenario, SegmentResult};
use wiretail_schema::run::{Run, SettingRecord, TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;

use crate::stats::list::median;

/// Percentiles that are compared.
const PERCENTILES: [f64; 2] = [50.0, 99.9];
/// Full name of the key by which a traced trial and its control differ.
const RECORD: &str = "trace.record";
/// Prefix of the keys that configure tracing.
const TRACE: &str = "trace.";

/// Overhead of tracing over the whole device under test, for each scenario that has valid traced and untraced
/// trials.
pub fn overheads(run: &Run, results: &[SegmentResult]) -> Vec<Overhead> {
    found(run, |number| {
        let result = results.iter().find(|result| result.trial == number && result.segment == 0);
        result.map_or(&[], |result| &result.summary.delay.percentiles)
    })
}

/// Like [`overheads`], with a function that returns a trial's percentiles by its number.
fn found<'a>(run: &Run, percentiles: impl Fn(usize) -> &'a [Percentile]) -> Vec<Overhead> {
    let valid = || run.trials.iter().filter(|trial| trial.state == TrialState::Valid);
    let mut groups: Vec<Vec<&TrialRecord>> = Vec::new();
    for trial in valid() {
        match groups.iter_mut().find(|group| alike(group[0], trial)) {
            Some(group) => group.push(trial),
            None => groups.push(vec![trial]),
        }
    }
    groups.iter().filter_map(|group| overhead(run, group, &percentiles)).collect()
}

/// Whether two trials have the same settings, apart from tracing.
fn alike(a: &TrialRecord, b: &TrialRecord) -> bool {
    fn others(trial: &TrialRecord) -> impl Iterator<Item = &SettingRecord> {
        trial.settings.iter().filter(|setting| !setting.key.starts_with(TRACE))
    }
    others(a).eq(others(b))
}

/// Returns `None` unless the group has both traced and untraced trials.
fn overhead<'a>(
    run: &Run,
    group: &[&TrialRecord],
    percentiles: impl Fn(usize) -> &'a [Percentile],
) -> Option<Overhead> {
    let is_traced = |trial: &&TrialRecord| trial.setting(RECORD).is_some_and(|record| record.text == "true");
    let (traced, untraced): (Vec<&TrialRecord>, Vec<&TrialRecord>) =
        group.iter().partition(|trial| is_traced(trial));
    let at = |percentile: &f64| {
        let of = |trials: &[&TrialRecord]| -> Vec<Percentile> {
            let of_trial = |trial: &&TrialRecord| {
                percentiles(trial.number).iter().find(|p| p.percentile == *percentile).copied()
            };
            trials.iter().filter_map(of_trial).collect()
        };
        compare(*percentile, &of(&traced), &of(&untraced))
    };
    let percentiles: Vec<OverheadAt> = PERCENTILES.iter().filter_map(at).collect();
    if percentiles.is_empty() {
        return None;
    }
    let numbers = |trials: &[&TrialRecord]| trials.iter().map(|trial| trial.number).collect();
    Some(Overhead {
        scenario: Scenario::of(run, traced.first()?, &[RECORD]),
        traced: numbers(&traced),
        untraced: numbers(&untraced),
        percentiles,
    })
}

fn compare(percentile: f64, traced: &[Percentile], untraced: &[Percentile]) -> Option<OverheadAt> {
    let of = |values: &[Percentile]| median(values.iter().map(|p| p.value_ns));
    let (traced_ns, untraced_ns) = (of(traced)?, of(untraced)?);
    let values = || untraced.iter().map(|p| p.value_ns);
    let mut at = OverheadAt {
        percentile,
        traced_ns,
        untraced_ns,
        difference_ns: traced_ns - untraced_ns,
        lowest_ns: values().min()?,
        highest_ns: values().max()?,
        supported: traced.iter().chain(untraced).all(|p| p.supported),
        verdict: OverheadVerdict::Unknown,
    };
    if untraced.len() > 1 {
        let within = at.difference_ns.abs() <= at.range_ns();
        at.verdict = if within { OverheadVerdict::Within } else { OverheadVerdict::Beyond };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use wiretail_schema::run::{HostSnapshot, RUN_SCHEMA};

    use super::*;

    fn trial(number: usize, settings: &[(&str, &str)]) -> TrialRecord {
        let setting = |(key, text): &(&str, &str)| SettingRecord {
            key: (*key).to_owned(),
            text: (*text).to_owned(),
            number: 0,
        };
        TrialRecord {
            settings: settings.iter().map(setting).collect(),
            ..TrialRecord::blank(number, 1, "", TrialState::Valid)
        }
    }

    fn run(trials: Vec<TrialRecord>) -> Run {
        Run {
            schema: RUN_SCHEMA.to_owned(),
            wiretail_version: String::new(),
            title: String::new(),
            seed: 0,
            started_s: 0,
            trials_planned: trials.len(),
            factors: vec!["traffic.rate".to_owned(), RECORD.to_owned()],
            host: HostSnapshot::default(),
            trials,
        }
    }

    /// p50 as given; p99.9 is ten times p50.
    fn percentiles(p50: &[i64]) -> Vec<Vec<Percentile>> {
        let p = |percentile, value_ns| Percentile {
            percentile,
            value_ns,
            low_ns: value_ns,
            high_ns: None,
            supported: true,
            effective_packets: None,
        };
        p50.iter().map(|&ns| vec![p(50.0, ns), p(99.9, ns * 10)]).collect()
    }

    const TRACED: [(&str, &str); 3] =
        [("traffic.rate", "10 kpps"), (RECORD, "true"), ("trace.stacks", "true")];
    const UNTRACED: [(&str, &str); 2] = [("traffic.rate", "10 kpps"), (RECORD, "false")];

    #[test]
    fn compares_controls_with_the_range_of_untraced_trials() {
        let other = [("traffic.rate", "20 kpps"), (RECORD, "true")];
        let mut trials = vec![
            trial(1, &TRACED),
            trial(2, &UNTRACED),
            trial(3, &TRACED),
            trial(4, &UNTRACED),
            trial(5, &TRACED),
            trial(6, &UNTRACED),
            trial(7, &other),
            trial(8, &UNTRACED),
        ];
        trials[7].state = TrialState::Invalid;
        let values = percentiles(&[120, 100, 130, 95, 110, 125, 900, 5_000]);
        let found = found(&run(trials), |number| &values[number - 1]);
        assert_eq!(found.len(), 1, "the rate without a control cannot be compared");
        assert_eq!(found[0].scenario.to_string(), "10 kpps");
        assert_eq!((&found[0].traced[..], &found[0].untraced[..]), (&[1, 3, 5][..], &[2, 4, 6][..]));
        let [p50, tail] = found[0].percentiles[..] else { panic!("two percentiles") };
        assert_eq!((p50.traced_ns, p50.untraced_ns, p50.difference_ns), (120, 100, 20));
        assert_eq!((p50.lowest_ns, p50.highest_ns, p50.range_ns()), (95, 125, 30));
        assert_eq!(p50.verdict, OverheadVerdict::Within);
        assert_eq!((tail.percentile, tail.difference_ns), (99.9, 200));
    }

    #[test]
    fn reports_difference_beyond_range_and_unknown_for_one_pair() {
        let trials = || vec![trial(1, &TRACED), trial(2, &UNTRACED), trial(3, &UNTRACED)];
        let verdict = |trials: Vec<TrialRecord>, p50: &[i64]| {
            let values = percentiles(p50);
            found(&run(trials), |number| &values[number - 1])[0].percentiles[0].verdict
        };
        assert_eq!(verdict(trials(), &[131, 100, 130]), OverheadVerdict::Beyond);
        assert_eq!(verdict(trials(), &[130, 100, 130]), OverheadVerdict::Within);
        // Being faster with tracing is as implausible as being slower.
        assert_eq!(verdict(trials(), &[69, 100, 130]), OverheadVerdict::Beyond);
        assert_eq!(verdict(trials()[..2].to_vec(), &[100, 100]), OverheadVerdict::Unknown);
    }

    #[test]
    fn compares_nothing_without_percentiles() {
        let trials = vec![trial(1, &TRACED), trial(2, &UNTRACED)];
        assert!(found(&run(trials), |_| &[]).is_empty());
        assert!(found(&run(Vec::new()), |_| &[]).is_empty());
    }
}
