//! Searches on devices with a known capacity.

use proptest::prelude::*;
use wiretail_schema::search::{Effort, Ending, Goal, GoalResult, Method, Over, SearchTrial};

use super::simulated::Device;
use super::{Ask, INVALID_MAX, conclude, next};
use crate::stats::list::median;
use crate::stats::random::Random;

const METHODS: [Method; 3] = [Method::Linear, Method::Binary, Method::Mlrsearch];

fn effort(method: Method) -> Effort {
    Effort {
        over: Over::Rate,
        method,
        lowest: 1_000,
        highest: 100_000,
        width: 0.005,
        full_ns: 10_000_000_000,
        first_ns: 1_000_000_000,
        trials: 1,
        exceed: 0.0,
        verify: 1,
        stretch: 0.01,
    }
}

fn ndr() -> Goal {
    Goal::Loss { ratio: 0.0 }
}

fn pdr() -> Goal {
    Goal::Loss { ratio: 0.005 }
}

fn quick() -> Goal {
    Goal::Delay { budget: "1ms@99.9%".to_owned(), limit_ns: 1_000_000, percentile: 99.9 }
}

/// Runs a search to its end. The limit on the number of trials exceeds what any of these tests needs.
fn search(
    effort: &Effort,
    goals: &[Goal],
    mut trial: impl FnMut(Ask, usize) -> SearchTrial,
) -> (Vec<GoalResult>, Vec<SearchTrial>) {
    let mut trials = Vec::new();
    while let Some(ask) = next(effort, goals, &trials) {
        assert!((effort.lowest..=effort.highest).contains(&ask.load), "{ask:?}");
        assert!(trials.len() < 2_000, "no end: {ask:?} {:?}", &trials[trials.len() - 3..]);
        trials.push(trial(ask, trials.len() + 1));
    }
    (conclude(effort, goals, &trials), trials)
}

fn on(device: &Device, effort: &Effort, goals: &[Goal]) -> (Vec<GoalResult>, Vec<SearchTrial>) {
    search(effort, goals, |ask, number| device.trial(effort, goals, ask, number))
}

fn sending_s(trials: &[SearchTrial]) -> f64 {
    trials.iter().map(|trial| trial.duration_ns as f64 / 1e9).sum()
}

/// Asserts that the result agrees with the known capacity. Trials send whole packets, so the result may be off
/// by one.
fn assert_planted(effort: &Effort, result: &GoalResult, planted_pps: f64) {
    let said = format!("{:?}, planted {planted_pps}: {result:?}", effort.method);
    match result.ending {
        Ending::Found => {
            let (lower, upper) = (result.lower.unwrap() as f64, result.upper.unwrap() as f64);
            assert!(lower <= planted_pps + 1.0 && planted_pps <= upper + 1.0, "{said}");
            let apart = if effort.method == Method::Linear { effort.highest as f64 } else { upper };
            assert!(upper - lower <= f64::max(effort.width * apart, 1.0), "{said}");
            assert!(result.forwarded_pps.unwrap() > 0.98 * lower, "{said}");
        }
        Ending::AtHighest => {
            assert!(planted_pps + 1.0 >= effort.highest as f64, "{said}");
            assert_eq!((result.lower, result.upper), (Some(effort.highest), None), "{said}");
        }
        Ending::BelowLowest => {
            assert!(planted_pps <= effort.lowest as f64 + 1.0, "{said}");
            assert_eq!((result.lower, result.upper), (None, Some(effort.lowest)), "{said}");
        }
        Ending::Open => panic!("{said}"),
    }
}

const CAPACITIES: [f64; 12] = [
    400.0, 1_000.0, 1_003.0, 1_700.0, 9_876.5, 31_415.9, 65_600.0, 87_400.0, 99_600.0, 99_999.0, 100_000.0,
    2e6,
];

#[test]
fn finds_known_capacity() {
    for method in METHODS {
        for capacity_pps in CAPACITIES {
            let (effort, device) = (effort(method), Device::new(capacity_pps));
            for goals in [vec![ndr()], vec![ndr(), pdr(), quick()], vec![quick(), pdr(), ndr()]] {
                let (results, _) = on(&device, &effort, &goals);
                for (goal, result) in goals.iter().zip(&results) {
                    assert_planted(&effort, result, device.highest(goal));
                }
            }
        }
    }
}

#[test]
fn stretch_reveals_overload_hidden_by_ring() {
    for method in METHODS {
        // 10 s at 65 kpps are 650,000 packets: the ring absorbs an overload of 5 %.
        let device = Device { ring: 40_000, ..Device::new(65_000.0) };
        let effort = effort(method);
        let (results, _) = on(&device, &effort, &[ndr()]);
        // The allowed stretch of 1 % permits an overload of 1 %.
        let found = results[0].lower.unwrap() as f64;
        assert!(found > 65_000.0 * 0.994 && found < 65_000.0 * 1.011, "{results:?}");
    }
}

#[test]
fn binary_search_starts_at_highest_rate_and_halves() {
    let (_, trials) = on(&Device::new(30_000.0), &effort(Method::Binary), &[ndr()]);
    let rates: Vec<u64> = trials.iter().map(|trial| trial.load).collect();
    // Each miss is verified once: (1000 + 100000) / 2 = 50500, (1000 + 50500) / 2 = 25750, (25750 + 50500) / 2 = 38125.
    assert_eq!(rates[..7], [100_000, 100_000, 50_500, 50_500, 25_750, 38_125, 38_125]);
}

#[test]
fn one_good_repeat_is_sufficient() {
    let mut effort = effort(Method::Binary);
    let device = Device::new(30_000.0);
    for (verify, expected) in [(0, Ending::BelowLowest), (1, Ending::Found), (3, Ending::Found)] {
        effort.verify = verify;
        let mut seen = std::collections::BTreeMap::new();
        // The first trial at each rate suffers interference.
        let (results, _) = search(&effort, &[ndr()], |ask, number| {
            let mut trial = device.trial(&effort, &[ndr()], ask, number);
            let times = seen.entry(ask.load).or_insert(0);
            *times += 1;
            trial.poor[0] |= *times == 1;
            trial
        });
        assert_eq!(results[0].ending, expected, "{results:?}");
    }
}

#[test]
fn ignores_invalid_trials() {
    for method in METHODS {
        let effort = effort(method);
        let goals = [ndr(), quick()];
        let device = Device::new(65_600.0);
        let (plain, _) = on(&device, &effort, &goals);
        // Every third trial is invalid and has the opposite result.
        let (results, trials) = search(&effort, &goals, |ask, number| {
            let mut trial = device.trial(&effort, &goals, ask, number);
            if number % 3 == 0 {
                trial.invalid = vec!["the load generator was late".to_owned()];
                trial.poor.iter_mut().for_each(|poor| *poor = !*poor);
            }
            trial
        });
        assert!(trials.iter().any(|trial| !trial.invalid.is_empty()));
        for (a, b) in plain.iter().zip(&results) {
            assert_eq!((a.lower, a.upper, a.ending), (b.lower, b.upper, b.ending));
        }
    }
}

#[test]
fn unusable_rates_leave_search_open_unless_others_decide() {
    let late = |above: u64, effort: &Effort, device: Device| {
        search(effort, &[ndr()], move |ask, number| {
            let mut trial = device.trial(effort, &[ndr()], ask, number);
            if ask.load > above {
                trial.invalid = vec!["the load generator was late".to_owned()];
            }
            trial
        })
    };
    for method in METHODS {
        let effort = effort(method);
        // The generator is too slow: the result is the highest rate that it reaches, with the reason.
        let (results, trials) = late(60_000, &effort, Device::new(80_000.0));
        let result = &results[0];
        assert_eq!(result.ending, Ending::Open, "{result:?}");
        let lower = result.lower.unwrap();
        assert!(result.upper.is_none() && lower <= 60_000 && lower > 59_500, "{result:?}");
        assert!(
            result.reason.contains("pps were invalid (the load generator was late)"),
            "{}",
            result.reason
        );
        let most = trials
            .iter()
            .map(|a| trials.iter().filter(|b| a.load == b.load && a.duration_ns == b.duration_ns).count());
        assert_eq!(most.max().unwrap(), INVALID_MAX);

        // Higher rates are unusable, but the capacity is below them.
        let (results, _) = late(60_000, &effort, Device::new(40_000.0));
        assert_planted(&effort, &results[0], 40_000.0);

        // All rates are unusable.
        let (results, trials) = late(0, &effort, Device::new(40_000.0));
        assert_eq!((results[0].ending, results[0].lower, results[0].upper), (Ending::Open, None, None));
        assert!(method == Method::Linear || trials.len() < 150, "{method:?}: {}", trials.len());
    }
}

#[test]
fn single_unusable_rate_does_not_affect_others() {
    for method in METHODS {
        let effort = effort(method);
        let device = Device::new(65_600.0);
        let (_, trials) = on(&device, &effort, &[ndr()]);
        let rates: std::collections::BTreeSet<u64> = trials.iter().map(|trial| trial.load).collect();
        for bad in rates.into_iter().rev().take(20) {
            let (results, _) = search(&effort, &[ndr()], |ask, number| {
                let mut trial = device.trial(&effort, &[ndr()], ask, number);
                if ask.load == bad {
                    trial.invalid = vec!["x".to_owned()];
                }
                trial
            });
            let result = &results[0];
            let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
            assert!(lower <= 65_600 && 65_600 <= upper, "{bad}: {result:?}");
            // The interval may contain the unusable rate, so it is at most two steps wide.
            assert!((upper - lower) as f64 <= 2.0 * 0.005 * 100_000.0 + 1.0, "{bad}: {result:?}");
            assert!(
                result.ending == Ending::Found || result.reason.contains("were invalid (x)"),
                "{result:?}"
            );
        }
    }
}

#[test]
fn reasons_list_deciding_trials() {
    let binary = effort(Method::Binary);
    let reason = |capacity: f64| {
        on(&Device::new(capacity), &binary, &[ndr()]).0.remove(0).reason.replace('\u{202f}', " ")
    };
    assert_eq!(reason(2e6), "1 full trial at the highest load, 100 000 pps, met it");
    assert_eq!(reason(400.0), "2 full trials at the lowest load, 1 000 pps, missed it");
    let found = reason(65_600.0);
    assert!(found.starts_with("1 full trial at 65 ") && found.contains(", 2 full trials at 65 "), "{found}");
    let nothing = conclude(&binary, &[ndr()], &[]).remove(0);
    assert_eq!(
        (nothing.ending, nothing.reason.as_str()),
        (Ending::Open, "the search ended before the first trial")
    );
    let (_, trials) = on(&Device::new(65_600.0), &binary, &[ndr()]);
    let midway = conclude(&binary, &[ndr()], &trials[..2]).remove(0).reason.replace('\u{202f}', " ");
    assert_eq!(
        midway,
        "the search ended before any load met the goal: 2 full trials at 100 000 pps missed it"
    );
}

#[test]
fn reports_inconsistent_device() {
    let linear = effort(Method::Linear);
    let device = Device::new(65_600.0);
    let (results, _) = search(&linear, &[ndr(), pdr()], |ask, number| {
        let mut trial = device.trial(&linear, &[ndr(), pdr()], ask, number);
        trial.poor[0] |= ask.load == 30_000;
        trial
    });
    assert_eq!((results[0].lower, results[0].upper), (Some(29_500), Some(30_000)));
    assert!(results[0].reason.contains("is inconsistent"), "{}", results[0].reason);
    assert!(!results[1].reason.contains("is inconsistent"), "{}", results[1].reason);
}

#[test]
fn interrupted_search_continues_from_its_trials() {
    for method in METHODS {
        let effort = effort(method);
        let goals = [ndr(), pdr(), quick()];
        let device = Device { bursts_per_s: 0.02, burst: 20, ..Device::new(43_210.0) };
        let (results, trials) = on(&device, &effort, &goals);
        for cut in 0..trials.len() {
            let ask = next(&effort, &goals, &trials[..cut]).unwrap();
            assert_eq!((ask.load, ask.duration_ns), (trials[cut].load, trials[cut].duration_ns));
            assert_eq!(conclude(&effort, &goals, &trials[..cut]).len(), goals.len());
        }
        assert_eq!(conclude(&effort, &goals, &trials), results);
    }
}

#[test]
fn each_method_sends_for_less_time_than_the_previous() {
    for goals in [vec![ndr()], vec![ndr(), pdr()], vec![ndr(), pdr(), quick()]] {
        for overload in [1.0, 0.7] {
            let times = |method: Method| {
                let capacities = (1..=40).map(|n| 2_345.6 * f64::from(n));
                let devices = capacities.map(|pps| Device { overload, ..Device::new(pps) });
                median(devices.map(|device| sending_s(&on(&device, &effort(method), &goals).1))).unwrap()
            };
            let medians = METHODS.map(times);
            assert!(medians.is_sorted_by(|a, b| a > b), "{} goals, {overload}: {medians:?}", goals.len());
        }
    }
}

/// Counts searches with correct bounds, with and without an allowance for interference, on devices with
/// interference once in 50 s.
#[test]
fn distinguishes_interference_from_capacity() {
    let right = |effort: &Effort| {
        let searches = (0..100_u32).map(|n| {
            let capacity_pps = 20_000.0 + 700.0 * f64::from(n);
            let device =
                Device { bursts_per_s: 0.02, burst: 20, seed: n.into(), ..Device::new(capacity_pps) };
            let result = on(&device, effort, &[ndr()]).0.remove(0);
            result.lower.is_some_and(|lower| lower as f64 <= capacity_pps + 1.0)
                && result.upper.is_some_and(|upper| capacity_pps <= upper as f64 + 1.0)
        });
        searches.filter(|right| *right).count()
    };
    // Without an allowance, the search ends at the first interference, which a full trial has with
    // probability 1 - exp(-0.2).
    let linear = right(&effort(Method::Linear));
    let plain = right(&Effort { verify: 0, ..effort(Method::Binary) });
    let verified = right(&Effort { verify: 2, ..effort(Method::Binary) });
    let strict = right(&effort(Method::Mlrsearch));
    let allowed = right(&Effort { trials: 2, exceed: 0.5, ..effort(Method::Mlrsearch) });
    println!(
        "linear {linear}, binary {plain}, verified {verified}, mlrsearch {strict}, half of two {allowed}"
    );
    assert!(linear < 20 && plain < 70 && strict < 80, "{linear} {plain} {strict}");
    assert!(verified > 90 && allowed > 85, "{verified} {allowed}");
}

#[test]
fn mlrsearch_starts_from_forwarded_rate_with_longer_trials() {
    let (results, trials) = on(&Device::new(65_600.0), &effort(Method::Mlrsearch), &[ndr()]);
    let asks: Vec<(u64, u64)> =
        trials.iter().map(|trial| (trial.load, trial.duration_ns / 1_000_000)).collect();
    assert_eq!(asks[0], (100_000, 1_000));
    assert_eq!(asks[1].1, 1_000);
    assert!((65_000..65_600).contains(&asks[1].0), "{asks:?}");
    assert!(asks.is_sorted_by_key(|(_, length)| *length), "{asks:?}");
    assert_eq!(asks.last().unwrap(), &(results[0].lower.unwrap(), 10_000), "{asks:?}");
    assert!(asks.len() <= 7, "{asks:?}");
    let reason = results[0].reason.replace('\u{202f}', " ");
    assert!(reason.starts_with("1 full trial at 65 ") && reason.contains(" short trial"), "{reason}");
}

#[test]
fn widens_interval_if_longer_trials_refute_bound() {
    // Up to 60 kpps, all trials are good; up to 65.6 kpps, only trials of at most 5 s.
    let effort = effort(Method::Mlrsearch);
    let device = Device::new(65_600.0);
    let (results, trials) = search(&effort, &[ndr()], |ask, number| {
        let mut trial = device.trial(&effort, &[ndr()], ask, number);
        trial.poor[0] |= ask.load > 60_000 && ask.duration_ns > 5_000_000_000;
        trial
    });
    assert_planted(&effort, &results[0], 60_000.0);
    let full = trials.iter().filter(|trial| trial.duration_ns == effort.full_ns).count();
    assert!(full <= 9, "{full}");
}

fn any_trial() -> impl Strategy<Value = SearchTrial> {
    let parts = (0..=3_000_u64, 0..=30_u64, any::<bool>(), 0..=100_u64, any::<[bool; 2]>(), 0..=2_usize);
    parts.prop_map(|(rate, seconds, valid, lost, poor, judged)| SearchTrial {
        number: 1,
        load: rate,
        duration_ns: seconds * 500_000_000,
        invalid: if valid { vec![] } else { vec!["x".to_owned()] },
        sent: lost * 10,
        lost,
        stretch: if lost == 7 { f64::NAN } else { lost as f64 / 1e3 - 0.02 },
        missed: vec![0.0; judged],
        poor: poor[..judged].to_vec(),
    })
}

fn any_effort() -> impl Strategy<Value = Effort> {
    let parts =
        (0..METHODS.len(), 0..1_000_u64, 0..3_000_u64, 0.003..0.3, 1..=3_u64, 0..=2_u64, 0.0..0.9, 0..=3_u64);
    parts.prop_map(|(method, lowest, more, width, trials, first, exceed, verify)| Effort {
        over: Over::Rate,
        method: METHODS[method],
        lowest,
        highest: lowest + more,
        width,
        full_ns: 10_000_000_000,
        first_ns: 10_000_000_000 / 10_u64.pow(first as u32),
        trials,
        exceed,
        verify,
        stretch: 0.01,
    })
}

proptest! {
    #[test]
    fn accepts_any_history(effort in any_effort(), trials in prop::collection::vec(any_trial(), 0..60)) {
        let goals = [ndr(), pdr()];
        let ask = next(&effort, &goals, &trials);
        let highest = effort.highest.max(1);
        prop_assert!(ask.is_none_or(|ask| (effort.lowest.clamp(1, highest)..=highest).contains(&ask.load)));
        for result in conclude(&effort, &goals, &trials) {
            prop_assert!(!result.reason.is_empty());
            prop_assert!(result.upper.is_none_or(|upper| result.lower.is_none_or(|lower| lower < upper)));
        }
    }

    /// Random results: the search ends regardless of the device.
    #[test]
    fn search_ends_for_any_device(effort in any_effort(), chances in any::<[u8; 3]>(), seed in any::<u64>()) {
        let goals = [ndr(), pdr()];
        let mut trials = Vec::new();
        let mut random = Random::new(seed);
        while let Some(ask) = next(&effort, &goals, &trials) {
            let mut chance = |below: u8| random.below(256) < u64::from(below);
            let mut trial = Device::new(500.0).trial(&effort, &goals, ask, trials.len() + 1);
            trial.poor = vec![chance(chances[0]), chance(chances[1])];
            if chance(chances[2] / 2) {
                trial.invalid = vec!["x".to_owned()];
            }
            trials.push(trial);
            let rates = match effort.method {
                // This method may try all rates.
                Method::Linear => 1.0 / effort.width + 2.0,
                Method::Binary | Method::Mlrsearch => 2.0 * 40.0,
            };
            let each = (effort.trials + effort.verify + 1 + INVALID_MAX as u64) as f64;
            prop_assert!((trials.len() as f64) <= rates * each, "no end: {:?}", trials.iter().map(|t| (t.load, t.duration_ns, &t.poor)).collect::<Vec<_>>());
        }
    }
}
