//! Compares the join with brute force, the parts with closed forms, and differences with constructed ground
//! truth.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::json;
use wiretail_schema::random::Random;

use super::*;

fn sent(key: u64, flow: u32) -> Sent {
    Sent { ts_ns: 0, key, sequence: 0, duplicates_before: 0, flow }
}

/// Keys and delays of the packets seen by a pair of taps.
type Seen = Vec<(u64, i64)>;

fn joined(whole: &Seen, devices: &[Seen]) -> Option<(Breakdown, BreakdownCurves)> {
    let mut way = WholeWay::with_capacity(whole.len());
    whole.iter().for_each(|(key, delay)| way.take(&sent(*key, 0), *delay));
    let mut tally = way.complete();
    for device in devices {
        tally.next_device();
        device.iter().for_each(|(key, delay)| tally.take(&sent(*key, *key as u32 % 3), *delay));
    }
    tally.finish("forward")
}

/// The literal definition: (whole, infrastructure, devices) of each packet that was seen everywhere exactly
/// once.
fn brute_force(whole: &Seen, devices: &[Seen]) -> Vec<(i64, i64, i64)> {
    let by_key = |seen: &Seen| {
        let mut delays: HashMap<u64, Vec<i64>> = HashMap::new();
        seen.iter().for_each(|(key, delay)| delays.entry(*key).or_default().push(*delay));
        delays
    };
    let tables: Vec<_> = devices.iter().map(by_key).collect();
    let mut packets = Vec::new();
    for (key, delays) in by_key(whole) {
        let once = |delays: Option<&Vec<i64>>| delays.filter(|all| all.len() == 1).map(|all| all[0]);
        let (Some(all), Some(inside)) =
            (once(Some(&delays)), tables.iter().map(|table| once(table.get(&key))).sum::<Option<i64>>())
        else {
            continue;
        };
        if inside <= all {
            packets.push((all, all - inside, inside));
        }
    }
    packets
}

/// Nearest rank.
fn at(mut values: Vec<i64>, share: f64) -> i64 {
    values.sort_unstable();
    values[((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1]
}

proptest! {
    #[test]
    fn join_equals_brute_force(
        whole in prop::collection::vec((0..60u64, 0..3000i64), 1..80),
        devices in prop::collection::vec(prop::collection::vec((0..64u64, 0..900i64), 0..90), 1..4),
    ) {
        let expected = brute_force(&whole, &devices);
        let (breakdown, _) = joined(&whole, &devices).unwrap();
        prop_assert_eq!(breakdown.packets, expected.len() as u64);
        prop_assert_eq!(breakdown.packets + breakdown.left_out + breakdown.contradictory, whole.len() as u64);
        if !expected.is_empty() {
            let parts = [
                (&breakdown.whole, expected.iter().map(|p| p.0).collect::<Vec<_>>()),
                (&breakdown.infrastructure, expected.iter().map(|p| p.1).collect()),
                (&breakdown.vnf, expected.iter().map(|p| p.2).collect()),
            ];
            for (found, values) in parts {
                prop_assert_eq!(found.max_ns, *values.iter().max().unwrap());
                prop_assert_eq!(found.percentiles[0].value_ns, at(values.clone(), 0.5));
                prop_assert_eq!(found.percentiles[1].value_ns, at(values, 0.99));
            }
        }
    }
}

#[test]
fn breaks_down_constant_delays_exactly() {
    let keys = || (0..5000u64).map(|i| i ^ (i % 7) << 47);
    let seen = |delay: i64| -> Seen { keys().map(|key| (key, delay)).collect() };
    let (breakdown, curves) = joined(&seen(1000), &[seen(300), seen(450)]).unwrap();
    assert_eq!(
        (breakdown.packets, breakdown.left_out, breakdown.contradictory, breakdown.devices),
        (5000, 0, 0, 2)
    );
    for (delays, expected) in
        [(&breakdown.whole, 1000), (&breakdown.infrastructure, 250), (&breakdown.vnf, 750)]
    {
        assert_eq!((delays.mean_ns, delays.max_ns), (expected as f64, expected));
        let shown: Vec<f64> = delays.percentiles.iter().map(|p| p.percentile).collect();
        assert_eq!(shown, PERCENTILES);
        assert!(delays.percentiles.iter().all(|p| p.value_ns == expected && p.low_ns == expected));
    }
    assert!(curves.vnf.len() > 100 && curves.vnf.iter().all(|p| p.value_ns == 750));
}

#[test]
fn parts_are_joined_packet_by_packet() {
    // Whenever the device is slow, the infrastructure is fast, so the whole is constant although the parts
    // vary. The difference of percentiles (1000 - 900 at p99) would be wrong for the infrastructure.
    let whole: Seen = (0..1000).map(|key| (key, 1000)).collect();
    let device: Seen = (0..1000).rev().map(|key| (key, 100 + 800 * i64::from(key % 2 == 0))).collect();
    let (breakdown, _) = joined(&whole, &[device]).unwrap();
    let p99 = |delays: &BreakdownDelays| delays.percentiles[1].value_ns;
    assert_eq!(
        (p99(&breakdown.whole), p99(&breakdown.infrastructure), p99(&breakdown.vnf)),
        (1000, 900, 900)
    );
}

#[test]
fn counts_packets_not_seen_everywhere_as_left_out() {
    let all = |packets: u64, delay: i64| -> Seen { (0..packets).map(|key| (key, delay)).collect() };
    // Key 3 does not enter the second device, key 5 leaves the first one twice, and key 9 appears twice on
    // the whole path.
    let (mut whole, mut first, mut second) = (all(20, 100), all(20, 10), all(20, 20));
    second.retain(|(key, _)| *key != 3);
    first.push((5, 11));
    whole.push((9, 100));
    // Key 7 has impossible timestamps; key 99 is seen only by a device.
    second[6] = (7, 500);
    second.push((99, 1));
    let (breakdown, _) = joined(&whole, &[first, second]).unwrap();
    assert_eq!((breakdown.packets, breakdown.left_out, breakdown.contradictory), (16, 4, 1));
    assert_eq!((breakdown.infrastructure.max_ns, breakdown.vnf.max_ns), (70, 30));
    let (none, _) = joined(&all(5, 100), &[Vec::new()]).unwrap();
    assert_eq!((none.packets, none.left_out, none.vnf.percentiles.len()), (0, 5, 0));
    assert!(joined(&Vec::new(), &[all(5, 1)]).is_none());
}

fn trial(
    number: usize,
    kind: &str,
    more: &[(&str, &str)],
    delay_of: impl Fn(u64) -> i64,
) -> (TrialRecord, TrialCurves) {
    let n = 20_000;
    let whole: Seen = (0..n).map(|key| (key, 1_000_000)).collect();
    let device: Seen = (0..n).map(|key| (key, delay_of(key))).collect();
    let (breakdown, curves) = joined(&whole, &[device]).unwrap();
    let mut settings = vec![json!({"key": KIND, "text": kind, "number": 0})];
    settings.extend(more.iter().map(|(key, text)| json!({"key": key, "text": text, "number": 0})));
    let record = serde_json::from_value(json!({
        "number": number, "repeat": 1, "name": kind, "directory": "", "state": "valid", "reasons": [], "notes": [],
        "retries": 0, "settings": settings, "generator": null, "taps": [], "segments": [],
        "stalls": {"threshold_ns": 0, "causes": [], "longest": []}, "breakdown": [breakdown],
    }));
    (record.unwrap(), TrialCurves { trial: number, curves: vec![curves] })
}

fn run(trials: Vec<(TrialRecord, TrialCurves)>) -> Vec<Addition> {
    let (trials, curves): (Vec<_>, Vec<_>) = trials.into_iter().unzip();
    let factors = [KIND, "dut.batch", "traffic.rate"];
    let run = Run {
        schema: String::new(),
        wiretail_version: String::new(),
        title: String::new(),
        seed: 0,
        started_s: 0,
        trials_planned: trials.len(),
        factors: factors.map(str::to_owned).to_vec(),
        host: Default::default(),
        trials,
    };
    additions(&run, &curves)
}

#[test]
fn added_delay_is_the_difference_of_quantile_functions() {
    // Uniform from 1000 to 20999 ns, compared with the same distribution stretched by three. The difference
    // of the quantile functions is 2 q, although the packets have a different order.
    let skeleton = trial(1, SKELETON, &[("dut.batch", "32")], |key| 1000 + key as i64);
    let device = trial(2, "other", &[], |key| 3 * (1000 + (key as i64 * 7919) % 20_000));
    let found = run(vec![skeleton, device]);
    let [addition] = &found[..] else { panic!("{found:?}") };
    assert_eq!((addition.trial, addition.skeleton, addition.max_ns), (2, 1, 2 * 20_999));
    let at = |wanted: f64| addition.points.iter().find(|p| p.percentile == wanted).unwrap();
    for (percentile, of_skeleton) in [(50.0, 10_999), (99.0, 20_799), (99.9, 20_979)] {
        let point = at(percentile);
        assert_eq!(point.value_ns, 2 * of_skeleton, "{percentile}");
        assert!(
            point.low_ns.unwrap() < point.value_ns && point.high_ns.is_none_or(|high| high > point.value_ns)
        );
    }
    // Near the maximum, no value bounds either distribution from above.
    let last = addition.points.last().unwrap();
    assert_eq!((last.low_ns, last.high_ns, last.supported), (None, None, false));
}

#[test]
fn interval_covers_zero_for_equal_distributions() {
    // The same distribution drawn twice: at each percentile, the 95 % interval contains zero in nearly all
    // draws.
    let draw = |seed: u64| {
        move |key: u64| {
            let share = Random::behind(Random::new(seed).bits(), key).uniform();
            (-(1.0 - share).ln() * 5000.0) as i64
        }
    };
    let draws = 60;
    let mut missed = 0;
    for seed in 0..draws {
        let found = run(vec![trial(1, SKELETON, &[], draw(seed)), trial(2, "other", &[], draw(seed + 1000))]);
        let p99 = found[0].points.iter().find(|p| p.percentile == 99.0).unwrap();
        missed += u64::from(p99.low_ns.unwrap() > 0 || p99.high_ns.unwrap() < 0);
    }
    // A miss rate of 5 % means 3 misses on average. The probability of more than 9 misses is then 0.1 %.
    assert!(missed <= 9, "{missed} of {draws}");
}

#[test]
fn compares_only_trials_under_the_same_load() {
    let skeleton =
        |number, rate| trial(number, SKELETON, &[("dut.batch", "1"), ("traffic.rate", rate)], |_| 10);
    let device = |number, rate| trial(number, "other", &[("traffic.rate", rate)], |_| 30);
    let pairs = |trials| run(trials).iter().map(|a| (a.trial, a.skeleton)).collect::<Vec<_>>();
    let trials = vec![skeleton(1, "1 kpps"), skeleton(2, "2 kpps"), device(3, "2 kpps"), device(4, "3 kpps")];
    assert_eq!(pairs(trials), [(3, 2)]);
    let mut invalid = vec![skeleton(1, "1 kpps"), device(2, "1 kpps")];
    invalid[1].0.state = TrialState::Invalid;
    assert_eq!(pairs(invalid), []);
    let mut repeats =
        vec![skeleton(1, "1 kpps"), device(2, "1 kpps"), skeleton(3, "1 kpps"), device(4, "1 kpps")];
    repeats[2].0.repeat = 2;
    repeats[3].0.repeat = 2;
    assert_eq!(pairs(repeats), [(2, 1), (4, 3)]);
}
