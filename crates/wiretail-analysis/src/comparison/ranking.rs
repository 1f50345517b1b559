//! Ranks devices by delay under a load, and reports which ones cannot be distinguished.
//!
//! Devices are ranked by a percentile of the whole delay with its confidence interval. Repeats are not
//! pooled. A device's value is the median of its trials, and its interval reaches from the lowest bound of
//! its trials to the highest, so that variation between trials widens it. If the intervals of two devices
//! overlap, neither is called faster, and a rank is a range. The range starts at one plus the number of
//! devices with intervals entirely below. It ends at the number of devices with intervals not entirely above.

use wiretail_schema::run::scenario::{Place, Ranking, Scenario, SegmentResult};
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;
use wiretail_schema::units::Share;

/// Percentiles by which devices are ranked.
const PERCENTILES: [f64; 2] = [99.9, 50.0];
/// Factors that distinguish devices. If neither is a factor of the run, all trials measure the same device.
const CONTEST: [&str; 2] = ["dut.kind", "dut.deployment"];
/// Factors of the `dut` table that describe the path through the testbed, not the device.
const WAY: [&str; 2] = ["dut.hops", "dut.switch"];

/// Rankings of a run over the whole device under test in its valid trials, for each load and percentile.
/// Empty if all trials use the same device and deployment.
pub fn rankings(run: &Run, results: &[SegmentResult]) -> Vec<Ranking> {
    if !run.factors.iter().any(|key| CONTEST.contains(&key.as_str())) {
        return Vec::new();
    }
    let of_device = |key: &&str| key.starts_with("dut.") && !WAY.contains(key);
    let (device_keys, load_keys): (Vec<&str>, Vec<&str>) =
        run.factors.iter().map(String::as_str).partition(of_device);
    let mut loads: Vec<(Scenario, Vec<&TrialRecord>)> = Vec::new();
    for trial in run.trials.iter().filter(|trial| trial.state == TrialState::Valid) {
        add(&mut loads, Scenario::of(run, trial, &device_keys), trial);
    }
    let mut rankings = Vec::new();
    for (load, trials) in loads {
        let mut devices: Vec<(Scenario, Vec<&TrialRecord>)> = Vec::new();
        trials.iter().for_each(|trial| add(&mut devices, Scenario::of(run, trial, &load_keys), trial));
        for percentile in PERCENTILES {
            let places = devices.iter().filter_map(|(device, trials)| {
                let of = |trial: &&TrialRecord| {
                    let result = results.iter().find(|r| r.trial == trial.number && r.segment == 0)?;
                    let found = result.summary.delay.percentile(percentile)?;
                    Some((trial.number, *found))
                };
                place(device, trials.iter().filter_map(of).collect())
            });
            let places = ranked(places.collect());
            if places.len() > 1 {
                rankings.push(Ranking { load: load.clone(), percentile, places });
            }
        }
    }
    rankings
}

fn add<'a>(groups: &mut Vec<(Scenario, Vec<&'a TrialRecord>)>, scenario: Scenario, trial: &'a TrialRecord) {
    match groups.iter_mut().find(|(other, _)| *other == scenario) {
        Some((_, group)) => group.push(trial),
        None => groups.push((scenario, vec![trial])),
    }
}

/// Combines the percentiles of repeats, which are not pooled. The result is the median of their values, with
/// an interval from their lowest bound to their highest. `None` without repeats.
pub(crate) fn of_repeats(mut repeats: Vec<Percentile>) -> Option<Percentile> {
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

/// A device without its rank; `None` without trials.
fn place(device: &Scenario, repeats: Vec<(usize, Percentile)>) -> Option<Place> {
    let (trials, repeats): (Vec<usize>, Vec<Percentile>) = repeats.into_iter().unzip();
    let found = of_repeats(repeats)?;
    Some(Place {
        device: device.clone(),
        trials,
        value_ns: found.value_ns,
        low_ns: found.low_ns,
        high_ns: found.high_ns,
        supported: found.supported,
        best: 0,
        worst: 0,
        alike: Vec::new(),
    })
}

/// Sorts by delay, lowest first, and sets the ranks that the intervals allow.
fn ranked(mut places: Vec<Place>) -> Vec<Place> {
    places.sort_by_key(|place| place.value_ns);
    let bounds: Vec<(i64, i64)> = places.iter().map(|p| (p.low_ns, p.high_ns.unwrap_or(i64::MAX))).collect();
    for (index, place) in places.iter_mut().enumerate() {
        let (low, high) = bounds[index];
        let others = || bounds.iter().enumerate().filter(|(other, _)| *other != index);
        place.best = 1 + others().filter(|(_, (_, other_high))| *other_high < low).count();
        place.worst = bounds.len() - others().filter(|(_, (other_low, _))| *other_low > high).count();
        let overlap =
            |(_, (other_low, other_high)): &(usize, &(i64, i64))| *other_low <= high && *other_high >= low;
        place.alike = others().filter(overlap).map(|(other, _)| other).collect();
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(value_ns: i64, low_ns: i64, high_ns: Option<i64>) -> Percentile {
        Percentile { percentile: 99.9, value_ns, low_ns, high_ns, supported: true, effective_packets: None }
    }

    fn ranks(intervals: &[(i64, i64, Option<i64>)]) -> Vec<(i64, usize, usize, Vec<usize>)> {
        let places = intervals.iter().map(|&(value, low, high)| {
            place(&Scenario::default(), vec![(1, percentile(value, low, high))]).unwrap()
        });
        let ranked = ranked(places.collect());
        ranked.into_iter().map(|p| (p.value_ns, p.best, p.worst, p.alike)).collect()
    }

    #[test]
    fn disjoint_intervals_give_ranks() {
        let expected = [(10, 1, 1, vec![]), (20, 2, 2, vec![]), (30, 3, 3, vec![])];
        assert_eq!(ranks(&[(20, 18, Some(22)), (30, 28, Some(33)), (10, 9, Some(11))]), expected);
    }

    #[test]
    fn overlapping_intervals_are_not_distinguished() {
        // The middle interval overlaps the other two, which do not overlap each other.
        let chain = ranks(&[(10, 8, Some(14)), (15, 13, Some(19)), (20, 18, Some(25))]);
        assert_eq!(chain, [(10, 1, 2, vec![1]), (15, 1, 3, vec![0, 2]), (20, 2, 3, vec![1])]);
        // A device without an upper bound may be slower than all devices that follow.
        let open = ranks(&[(10, 8, None), (15, 13, Some(19)), (40, 38, Some(42))]);
        assert_eq!(open, [(10, 1, 3, vec![1, 2]), (15, 1, 2, vec![0]), (40, 2, 3, vec![0])]);
    }

    #[test]
    fn repeats_use_median_and_widest_interval() {
        let repeats = vec![
            (1, percentile(30, 25, Some(35))),
            (4, percentile(10, 9, Some(11))),
            (7, percentile(12, 11, Some(90))),
        ];
        let place = place(&Scenario::default(), repeats).unwrap();
        assert_eq!((place.value_ns, place.low_ns, place.high_ns), (12, 9, Some(90)));
        assert_eq!(place.trials, [1, 4, 7]);
        assert!(super::place(&Scenario::default(), Vec::new()).is_none());
    }
}
