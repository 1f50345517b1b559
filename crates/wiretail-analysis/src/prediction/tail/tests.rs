//! Tests against closed forms, another program, and injected faults.

use super::distribution::Distribution;
use super::gpd::Gpd;
use super::thresholds::FIT_CHANCE;
use super::*;
use crate::prediction::tail::mixture::Mixture;
use crate::stats::random::{gamma, poisson};

const EXPONENTIAL: Gpd = Gpd { shape: 0.0, scale: 100.0 };

fn drawn(gpd: Gpd, count: usize, seed: u64) -> Vec<f64> {
    let mut drawn = gpd.simulate(count, &mut Random::new(seed));
    drawn.sort_unstable_by(f64::total_cmp);
    drawn
}

/// Quantiles at (i - 1/2)/200 for a scale of 100, fitted by scipy 1.17.1: `genpareto.nnlf` at location 0,
/// minimized by Nelder-Mead to 1e-10, starting 0.05 away from the true shape. The statistic uses scipy's
/// `cdf`.
#[test]
fn fit_matches_scipy() {
    for (shape, fitted, scale, statistic) in [
        (1.0, 0.993_036_5, 100.349_985, 0.006_609_05),
        (0.3, 0.291_694_8, 100.605_201, 0.007_146_03),
        (-0.3, -0.313_655_3, 101.235_285, 0.011_450_79),
    ] {
        let gpd = Gpd { shape, scale: 100.0 };
        let ascending: Vec<f64> =
            (0..200).rev().map(|i| gpd.exceeded_with((f64::from(i) + 0.5) / 200.0)).collect();
        let found = gpd::fit(&ascending).expect("a fit");
        assert!((found.shape - fitted).abs() < 1e-4, "{found:?}, scipy {fitted}");
        assert!((found.scale - scale).abs() < 1e-2, "{found:?}, scipy {scale}");
        let ours = diagnostics::anderson_darling(&ascending, &found);
        assert!((ours - statistic).abs() < 1e-5, "{ours}, scipy {statistic}");
    }
}

/// Expected shapes: exponential 0, uniform -1, Pareto 1/alpha, for both estimates.
#[test]
fn estimates_shape_of_known_distributions() {
    let mut random = Random::new(5);
    let pareto = |alpha: f64, random: &mut Random| random.uniform().powf(-1.0 / alpha) - 1.0;
    let n = 4000;
    let samples: [(f64, Vec<f64>); 4] = [
        (0.0, (0..n).map(|_| -random.uniform().ln()).collect()),
        (-1.0, (0..n).map(|_| random.uniform()).collect()),
        (0.25, (0..n).map(|_| pareto(4.0, &mut random)).collect()),
        (0.5, (0..n).map(|_| pareto(2.0, &mut random)).collect()),
    ];
    for (shape, mut sample) in samples {
        sample.sort_unstable_by(f64::total_cmp);
        let found = gpd::fit(&sample).expect("a fit").shape;
        let moments = gpd::probability_weighted(&sample).expect("a fit").shape;
        assert!((found - shape).abs() < 0.08, "{shape}: found {found}");
        assert!((moments - shape).abs() < 0.15, "{shape}: by moments {moments}");
    }
}

/// Out of 300 intervals at 95 %, 274 to 295 contain the true value with a probability of 0.998.
#[test]
fn shape_intervals_have_nominal_coverage() {
    for shape in [0.0, 0.25, -0.2] {
        let gpd = Gpd { shape, scale: 100.0 };
        let held = (0..300).filter(|seed| {
            let sample = drawn(gpd, 200, 1000 + seed);
            let (low, high) = gpd::shape_interval(&sample, gpd::fit(&sample).expect("a fit"));
            (low..=high).contains(&shape)
        });
        let held = held.count();
        assert!((272..=296).contains(&held), "shape {shape}: {held} of 300");
    }
}

#[test]
fn rejects_correct_fit_rarely_and_wrong_fit_often() {
    let rejected = |sample: &dyn Fn(u64) -> Vec<f64>| {
        let rejected = (0..100).filter(|&seed| {
            let sample = sample(seed);
            let gpd = gpd::fit(&sample).expect("a fit");
            diagnostics::fit_chance(&sample, &gpd, 1e-3, &mut Random::new(seed)).1 <= FIT_CHANCE
        });
        rejected.count()
    };
    let right = rejected(&|seed| drawn(Gpd { shape: 0.1, scale: 1.0 }, 100, seed));
    assert!(right <= 12, "{right} of 100");
    // Two causes, each with its own delays.
    let wrong = rejected(&|seed| {
        let mut sample = drawn(EXPONENTIAL, 60, seed);
        sample.extend(drawn(EXPONENTIAL, 40, seed + 500).iter().map(|y| y + 2000.0));
        sample
    });
    assert!(wrong >= 95, "{wrong} of 100");
}

/// With a timestamp granularity as coarse as the distribution is wide, a correct fit is rejected only
/// slightly more often.
#[test]
fn rejects_correct_fit_rarely_at_coarse_granularity() {
    let rejected = |granularity_ns: f64| {
        let rejected = (0..100).filter(|&seed| {
            let mut random = Random::new(900 + seed);
            let on_granularity = |excess: f64| ((excess / 12.5).floor() + random.uniform()) * 12.5;
            let mut sample: Vec<f64> =
                drawn(Gpd { shape: 0.0, scale: 12.5 }, 100, seed).into_iter().map(on_granularity).collect();
            sample.sort_unstable_by(f64::total_cmp);
            let gpd = gpd::fit(&sample).expect("a fit");
            diagnostics::fit_chance(&sample, &gpd, granularity_ns, &mut Random::new(5000 + seed)).1
                <= FIT_CHANCE
        });
        rejected.count()
    };
    let right = rejected(12.5);
    assert!(right <= 12, "{right} of 100");
    let blind = rejected(1e-6);
    assert!(blind > 12, "a test without the granularity: {blind} of 100");
}

#[test]
fn draws_and_fits_two_components() {
    let mixture = Mixture {
        lower_share: 0.7,
        lower: EXPONENTIAL,
        edge: 5000.0,
        upper: Gpd { shape: -0.5, scale: 200.0 },
    };
    assert!((mixture.survival(100.0) - (0.7 * (-1.0_f64).exp() + 0.3)).abs() < 1e-12);
    assert!((mixture.survival(5200.0) - 0.3 * 0.25).abs() < 1e-12);
    assert_eq!((mixture.survival(0.0), mixture.survival(5400.0)), (1.0, 0.7 * (-54.0_f64).exp()));
    let mut sample = mixture.simulate(20_000, &mut Random::new(8));
    for excess in [50.0, 300.0, 4000.0, 5100.0, 5300.0] {
        let above = sample.iter().filter(|y| **y > excess).count() as f64 / 20_000.0;
        assert!((above - mixture.survival(excess)).abs() < 0.012, "{excess}: {above}");
    }
    sample.sort_unstable_by(f64::total_cmp);
    let found = mixture.fit_again(&sample).expect("a fit");
    let close = |found: f64, ground_truth: f64, slack: f64| (found - ground_truth).abs() < slack;
    assert!(close(found.lower_share, 0.7, 0.01) && close(found.lower.scale, 100.0, 4.0), "{found:?}");
    assert!(close(found.lower.shape, 0.0, 0.04) && close(found.upper.shape, -0.5, 0.04), "{found:?}");
    assert!(Mixture::fit(&sample[..100], 5000.0).is_none(), "all below the edge");
}

#[test]
fn gap_is_wider_than_all_delays_below_it() {
    let component = |from: f64| (0..40).map(move |i| from + f64::from(i));
    let descending = |values: Vec<f64>| {
        let mut values = values;
        values.sort_unstable_by(|a, b| b.total_cmp(a));
        values
    };
    let two = descending(component(0.0).chain(component(100.0)).collect());
    assert_eq!(mixture::gap(&two).map(|rank| two[rank]), Some(100.0));
    // No second component is found if the gap (30 ns) is narrower than the component below it (39 ns), if
    // there is only one component, or if too few delays are above the gap.
    assert_eq!(mixture::gap(&descending(component(0.0).chain(component(69.0)).collect())), None);
    assert_eq!(mixture::gap(&descending(drawn(EXPONENTIAL, 2000, 4))), None);
    assert_eq!(mixture::gap(&descending(component(0.0).chain(component(900.0).take(29)).collect())), None);
    assert_eq!(mixture::gap(&[]), None);
}

#[test]
fn random_numbers_have_expected_moments() {
    let mut random = Random::new(3);
    let n = 40_000;
    let mut moments = |draw: &mut dyn FnMut(&mut Random) -> f64| {
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(n))
    };
    for (mean, variance) in [(4.0, 8.0), (0.5, 2.0), (100.0, 300.0)] {
        let found = moments(&mut |random| gamma(random, mean, variance));
        assert!((found.0 / mean - 1.0).abs() < 0.05 && (found.1 / variance - 1.0).abs() < 0.1, "{found:?}");
    }
    for mean in [0.3, 20.0, 500.0] {
        let found = moments(&mut |random| poisson(random, mean));
        assert!((found.0 / mean - 1.0).abs() < 0.05 && (found.1 / mean - 1.0).abs() < 0.05, "{found:?}");
    }
}

#[test]
fn close_exceedances_form_one_event() {
    let delays = Delays::new(&[1, 9, 1, 8, 1, 1, 1, 7, 1], 1.0, &mut Random::new(1));
    let found = |run| {
        let events = delays.events(5.0, run, 0);
        events.iter().map(|event| (event.position, event.highest_ns.round())).collect::<Vec<_>>()
    };
    assert_eq!(found(1), [(1, 9.0), (3, 8.0), (7, 7.0)]);
    assert_eq!(found(2), [(1, 9.0), (7, 7.0)]);
    assert_eq!(found(4), [(1, 9.0)]);
}

fn settings(calibrate: Option<f64>) -> Settings {
    Settings {
        granularity_ns: 12.5,
        run_packets: 10,
        calibrate,
        ahead: None,
        once_in_ns: vec![60_000_000_000],
        seed: 1,
    }
}

/// 10,000 packets per second with a timestamp granularity of 12.5 ns.
fn measured(delays: impl Iterator<Item = f64>, calibrate: Option<f64>) -> Tail {
    let delays_ns: Vec<i64> = delays.map(|delay| ((delay / 12.5).floor() * 12.5).round() as i64).collect();
    let times_ns: Vec<i64> = (0..delays_ns.len() as i64).map(|i| i * 100_000).collect();
    predict(Packets { times_ns: &times_ns, delays_ns: &delays_ns }, &settings(calibrate))
}

fn shifted(seed: u64, count: usize) -> impl Iterator<Item = f64> {
    let mut random = Random::new(seed);
    (0..count).map(move |_| 10_000.0 - 1000.0 * random.uniform().ln())
}

/// For an exponential distribution, the delay that occurs once in N packets is the scale times ln N.
#[test]
fn prediction_of_known_tail_holds() {
    let (mut refused, mut missed, mut missed_level) = (0, 0, 0);
    for seed in 0..6 {
        let tail = measured(shifted(100 + seed, 75_000), Some(0.2));
        if tail.refused.is_some() {
            refused += 1;
            continue;
        }
        missed += u32::from(tail.forecast.expect("a forecast").holds != Some(true));
        let level = &tail.return_levels[0];
        let ground_truth = 10_000.0 + 1000.0 * level.once_in_packets.ln();
        missed_level += u32::from(!(level.low_ns..=level.high_ns).contains(&ground_truth));
        assert!(level.low_ns <= level.delay_ns && level.delay_ns <= level.high_ns);
    }
    assert!(refused <= 1 && missed <= 1 && missed_level <= 2, "{refused} {missed} {missed_level} of 6");
}

/// Exponential delays; one packet in `one_in` is delayed by an additional interrupt of 2 us.
fn interrupted(seed: u64, one_in: f64) -> impl Iterator<Item = f64> {
    let mut random = Random::new(seed);
    (0..100_000).map(move |_| {
        let usual = 10_000.0 - 100.0 * random.uniform().ln();
        if random.uniform() * one_in < 1.0 { usual + 2000.0 } else { usual }
    })
}

/// Too few packets are interrupted for a separate fit with 100 events, and no single distribution fits all
/// delays.
#[test]
fn rarer_cause_is_a_separate_component() {
    let (mut refused, mut missed) = (0, 0);
    for seed in 0..4 {
        let tail = measured(interrupted(40 + seed, 600.0), Some(0.4));
        if tail.refused.is_some() {
            refused += 1;
            continue;
        }
        let fit = tail.fit.expect("a fit");
        assert!(fit.thin && (10_900.0..12_050.0).contains(&fit.threshold_ns), "{fit:?}");
        let below = fit.below.expect("a lower component");
        assert!(below.events >= 100 && below.exceedances >= below.events, "{below:?}");
        assert!((70.0..130.0).contains(&below.scale_ns) && below.fit_chance > FIT_CHANCE, "{below:?}");
        let upper = (1.0 - below.share) * below.events as f64;
        assert!((upper - fit.events as f64).abs() < 5.0, "{upper} of {}", fit.events);
        let forecast = tail.forecast.expect("a forecast");
        let lower = |level: &&LevelForecast| level.level_ns < 11_500.0;
        let lower: Vec<Basis> = forecast.levels.iter().filter(lower).map(|level| level.basis).collect();
        assert_eq!(lower, [Basis::Counted, Basis::Fitted]);
        missed += u32::from(forecast.holds != Some(true));
    }
    assert!(refused <= 1 && missed <= 1, "{refused} refused, {missed} missed of 4");
    // If the upper component has enough events, it is fitted as a tail of its own.
    let fit = measured(interrupted(50, 200.0), None).fit.expect("a fit");
    assert!(!fit.thin && fit.below.is_none(), "{fit:?}");
}

#[track_caller]
fn refusal(tail: &Tail) -> RefusalKind {
    assert!(tail.forecast.is_none() && tail.return_levels.is_empty());
    tail.refused.as_ref().expect("a refusal").kind
}

#[test]
fn refuses_unpredictable_delays() {
    assert_eq!(refusal(&measured(std::iter::empty(), None)), RefusalKind::TooFew);
    assert_eq!(refusal(&measured(std::iter::empty(), Some(0.2))), RefusalKind::TooFew);
    assert_eq!(refusal(&measured([1.0].into_iter(), Some(0.2))), RefusalKind::TooFew);
    assert_eq!(refusal(&measured(shifted(1, 2000), None)), RefusalKind::TooFew);
    assert_eq!(refusal(&measured(std::iter::repeat_n(500.0, 20_000), None)), RefusalKind::TooFew);
    // Tail without a mean.
    let mut random = Random::new(2);
    let heavy = (0..20_000).map(|_| 10_000.0 + 100.0 / random.uniform());
    assert_eq!(refusal(&measured(heavy, None)), RefusalKind::HeavyTailed);
    // A single stall.
    let stall = shifted(3, 20_000).enumerate().map(|(i, delay)| if i == 9000 { 1e6 } else { delay });
    assert_eq!(refusal(&measured(stall, None)), RefusalKind::HeavyTailed);
    // Delays increase by half from the middle on.
    let changed =
        shifted(4, 20_000).enumerate().map(|(i, delay)| if i > 10_000 { delay * 1.5 } else { delay });
    assert_ne!(refusal(&measured(changed, None)), RefusalKind::TooFew);
    // High delays become more frequent, with the same sizes.
    let mut random = Random::new(6);
    let rarer = shifted(5, 20_000).enumerate().map(|(i, delay)| {
        let kept = random.uniform() < 0.1 + 0.9 * i as f64 / 20_000.0;
        if kept { delay } else { 10_000.0 + (delay - 10_000.0) % 500.0 }
    });
    assert_eq!(refusal(&measured(rarer, None)), RefusalKind::NonStationary);
}

#[test]
fn same_seed_yields_same_numbers() {
    let run = || measured(shifted(9, 10_000), Some(0.5));
    assert_eq!(run(), run());
}

#[test]
fn ten_packets_above_percentile_support_it() {
    let tail = measured(shifted(9, 10_000), None);
    let found: Vec<_> = tail.support.iter().map(|s| (s.percentile, s.packets, s.supported)).collect();
    assert_eq!(found[0], (99.0, 1000, true));
    assert!(found.contains(&(99.9, 10_000, true)));
    assert!(found.contains(&(99.999, 1_000_000, false)));
}
