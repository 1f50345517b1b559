//! Ranks devices by delay under a load, and reports which ones cannot be distinguished.
//!
//! Devices are ranked by the median of a percentile over their trials. Repeats are not pooled, because trials of
//! a device differ by more than their packets do. Two devices are distinguished if the test of
//! [`crate::stats::ranks`] finds a difference between their trials: within repeats if they have the same
//! repeats, otherwise between the groups. The p-values of a ranking are adjusted for its number of pairs (Holm).
//! A rank is a range from one plus the number of devices that are faster to the number of devices that are not
//! slower.

use wiretail_schema::run::scenario::{Place, Ranking, Scenario, SegmentResult};
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;

use crate::stats::list::median_estimate;
use crate::stats::ranks::{Design, holm, p_value};

/// Probability that at least one pair of a ranking is distinguished although it does not differ.
const ERROR: f64 = 0.05;
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
                    Some(Repeat { trial: trial.number, repeat: trial.repeat, found: *found })
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

/// A percentile in one trial.
#[derive(Debug, Clone, Copy)]
struct Repeat {
    trial: usize,
    repeat: u64,
    found: Percentile,
}

/// A device without its rank, with its trials; `None` without trials.
fn place(device: &Scenario, repeats: Vec<Repeat>) -> Option<(Place, Vec<Repeat>)> {
    let mut values: Vec<f64> = repeats.iter().map(|repeat| repeat.found.value_ns as f64).collect();
    let median = median_estimate(&mut values)?;
    // With few trials, no interval of the median has 95 % confidence. The range of the trials is shown instead.
    let (low, high) = match median.high {
        Some(high) => (median.low, high),
        None => (*values.first()?, *values.last()?),
    };
    let place = Place {
        device: device.clone(),
        trials: repeats.iter().map(|repeat| repeat.trial).collect(),
        value_ns: median.value as i64,
        low_ns: low as i64,
        high_ns: Some(high as i64),
        supported: repeats.iter().all(|repeat| repeat.found.supported),
        best: 0,
        worst: 0,
        alike: Vec::new(),
    };
    Some((place, repeats))
}

/// Sorts by delay, lowest first, and sets the ranks that the tests allow.
fn ranked(mut places: Vec<(Place, Vec<Repeat>)>) -> Vec<Place> {
    places.sort_by_key(|(place, _)| place.value_ns);
    let pairs: Vec<(usize, usize)> =
        (0..places.len()).flat_map(|a| (a + 1..places.len()).map(move |b| (a, b))).collect();
    let p_values: Vec<f64> = pairs.iter().map(|(a, b)| difference(&places[*a].1, &places[*b].1)).collect();
    let adjusted = holm(&p_values, ERROR);
    let differ = |a: usize, b: usize| {
        let pair = (a.min(b), a.max(b));
        pairs.iter().zip(&adjusted).any(|(other, (p, _))| *other == pair && *p <= ERROR)
    };
    let count = places.len();
    let mut places: Vec<Place> = places.into_iter().map(|(place, _)| place).collect();
    for (index, place) in places.iter_mut().enumerate() {
        place.best = 1 + (0..index).filter(|other| differ(*other, index)).count();
        place.worst = count - (index + 1..count).filter(|other| differ(*other, index)).count();
        place.alike = (0..count).filter(|other| *other != index && !differ(*other, index)).collect();
    }
    places
}

/// P-value of the difference between two devices.
fn difference(a: &[Repeat], b: &[Repeat]) -> f64 {
    let values = |repeats: &[Repeat]| repeats.iter().map(|r| r.found.value_ns as f64).collect::<Vec<_>>();
    let paired = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.repeat == b.repeat);
    p_value(if paired { Design::Paired } else { Design::Unpaired }, &values(a), &values(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of devices with these values per repeat, ordered by delay.
    fn ranks(devices: &[&[i64]]) -> Vec<(i64, usize, usize, Vec<usize>)> {
        let repeat = |(repeat, value_ns): (u64, &i64)| {
            let found = Percentile {
                percentile: 99.9,
                value_ns: *value_ns,
                low_ns: *value_ns,
                high_ns: None,
                supported: true,
                effective_packets: None,
            };
            Repeat { trial: repeat as usize, repeat, found }
        };
        let of =
            |values: &&[i64]| place(&Scenario::default(), (1..).zip(values.iter()).map(repeat).collect());
        let ranked = ranked(devices.iter().filter_map(of).collect());
        ranked.into_iter().map(|p| (p.value_ns, p.best, p.worst, p.alike)).collect()
    }

    #[test]
    fn clear_differences_give_ranks() {
        let around = |level: i64| (0..8).map(|i| level + i * 7 % 5).collect::<Vec<_>>();
        let devices = [around(200), around(300), around(100)];
        let devices: Vec<&[i64]> = devices.iter().map(Vec::as_slice).collect();
        let expected = [(102, 1, 1, vec![]), (202, 2, 2, vec![]), (302, 3, 3, vec![])];
        assert_eq!(ranks(&devices), expected);
    }

    #[test]
    fn few_repeats_give_ranges() {
        let devices: [&[i64]; 3] = [&[10, 11], &[500, 510], &[90, 95]];
        let expected = [(10, 1, 3, vec![1, 2]), (90, 1, 3, vec![0, 2]), (500, 1, 3, vec![0, 1])];
        assert_eq!(ranks(&devices), expected);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn overlapping_devices_share_ranges() {
        // The second device is between the others and overlaps both in most repeats.
        let low = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
        let middle = [14, 9, 18, 12, 20, 13, 22, 15, 24, 17];
        let high = [40, 41, 42, 43, 44, 45, 46, 47, 48, 49];
        let found = ranks(&[&high, &low, &middle]);
        assert_eq!((found[0].1, found[0].2, &found[0].3), (1, 2, &vec![1]));
        assert_eq!((found[1].1, found[1].2, &found[1].3), (1, 2, &vec![0]));
        assert_eq!((found[2].1, found[2].2), (3, 3));
    }
}
