//! Calibration against known models: packets are simulated with a model and then calibrated.

use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Wake};

use super::*;
use crate::prediction::queueing::{predict, simulate};

const PACKETS: u64 = 400_000;

fn model(service: Length) -> QueueingModel {
    QueueingModel::serving(service, 8192, 32)
}

fn bursts(rate_pps: f64, packets: u64) -> Arrivals {
    Arrivals::Bursts { rate_pps, packets, spacing_ns: 1000.0 }
}

/// Packets as recorded by the taps around such a device.
fn recorded(model: &QueueingModel, arrivals: &Arrivals, packets: u64) -> Vec<(f64, f64)> {
    let mut list = Vec::new();
    simulate(model, arrivals, packets, 5, |at, delay| list.extend(delay.map(|delay| (at, delay.round()))))
        .unwrap();
    list
}

fn known(model: &QueueingModel) -> Known {
    Known { ring: model.ring, batch: model.batch, release: model.release }
}

fn calibrated(
    ground_truth: &QueueingModel,
    arrivals: &[(Arrivals, u64)],
) -> (QueueingModel, QueueingCalibration) {
    calibrated_by(PACKETS, ground_truth, arrivals)
}

fn calibrated_by(
    packets: u64,
    ground_truth: &QueueingModel,
    arrivals: &[(Arrivals, u64)],
) -> (QueueingModel, QueueingCalibration) {
    let runs: Vec<_> = arrivals
        .iter()
        .map(|(arrivals, burst)| (recorded(ground_truth, arrivals, packets), *burst))
        .collect();
    let observations: Vec<_> = runs.iter().map(|(packets, burst)| Observation::of(packets, *burst)).collect();
    calibrate(&observations, &known(ground_truth)).unwrap()
}

/// Asserts that both models predict the same median and 99th percentile at a load, within these relative
/// limits.
fn predicts(ground_truth: &QueueingModel, found: &QueueingModel, arrivals: &Arrivals, limits: [f64; 2]) {
    let run = |model: &QueueingModel, seed| predict(model, arrivals, PACKETS, seed).unwrap().0.delay.unwrap();
    let (ground_truth, found) = (run(ground_truth, 8), run(found, 9));
    for (percentile, limit) in [50.0, 99.0].into_iter().zip(limits) {
        let at = |delay: &wiretail_schema::prediction::queueing::QueueingDelay| {
            let found = delay.percentiles.iter().find(|at| at.percentile == percentile);
            found.unwrap().value_ns as f64
        };
        let error = at(&found) / at(&ground_truth) - 1.0;
        println!(
            "{arrivals:?} p{percentile}: {} for {}, {:+.2} %",
            at(&found),
            at(&ground_truth),
            error * 100.0
        );
        assert!(error.abs() <= limit, "{arrivals:?} p{percentile}: {} for {}", at(&found), at(&ground_truth));
    }
}

fn close(what: &str, found: f64, ground_truth: f64, limit: f64) {
    println!("{what}: {found:.5} for {ground_truth:.5}");
    assert!((found - ground_truth).abs() <= limit * ground_truth.abs(), "{what}: {found} for {ground_truth}");
}

fn mean(length: &Length) -> f64 {
    match length {
        Length::Constant(ns) | Length::Exponential(ns) => *ns,
        Length::Samples(samples) => samples.iter().sum::<f64>() / samples.len() as f64,
    }
}

#[test]
fn recovers_constant_service_with_interrupts() {
    let ground_truth = QueueingModel {
        interrupts: vec![Interrupts::Poisson { per_second: 500.0, length: Length::Exponential(60_000.0) }],
        transfer_ns: 1500.0,
        ..model(Length::Constant(10_000.0))
    };
    let (found, evidence) = calibrated(&ground_truth, &[(bursts(5000.0, 32), 32)]);
    assert_eq!(evidence.method, CalibrationMethod::Gaps);
    close("service", mean(&found.service), 10_000.0, 0.002);
    assert!(evidence.service_ns.low <= 10_000.0 && evidence.service_ns.high.unwrap() >= 10_000.0);
    // Interrupts shorter than the detection limit are not found.
    let rate = evidence.interrupts.per_second;
    let told = 500.0 * (-(evidence.interrupts.above_ns.unwrap() - 10_000.0) / 60_000.0).exp();
    assert!(rate.low <= told && told <= rate.high.unwrap(), "{rate:?}, {told}");
    close("share", evidence.interrupts.share, 0.03, 0.1);
    close("transfer", found.transfer_ns, 1500.0, 0.02);
    assert_eq!(evidence.spacing_ns, Some(1000.0));
    assert!(found.wake.is_empty());
    predicts(&ground_truth, &found, &bursts(20_000.0, 8), [0.01, 0.08]);
    predicts(&ground_truth, &found, &Arrivals::Constant { rate_pps: 50_000.0 }, [0.01, 0.08]);
    predicts(&ground_truth, &found, &Arrivals::Poisson { rate_pps: 70_000.0 }, [0.03, 0.08]);
}

#[test]
fn recovers_exponential_service_with_wakes() {
    let ground_truth = QueueingModel {
        wake: vec![Wake { after_idle_ns: 0.0, length: Length::Exponential(30_000.0) }],
        transfer_ns: 3000.0,
        ..model(Length::Exponential(10_000.0))
    };
    let (found, _) = calibrated(&ground_truth, &[(bursts(5000.0, 32), 32)]);
    // Service times longer than 6.4 means are classified as interrupts, which take up the same fraction of
    // time.
    let packet =
        |model: &QueueingModel| 1e9 / crate::prediction::queueing::capacity(model).unwrap().pps.unwrap();
    close("a packet's time", packet(&found), 10_000.0, 0.01);
    close("wake and transfer", mean(&found.wake[0].length) + found.transfer_ns, 33_000.0, 0.03);
    predicts(&ground_truth, &found, &Arrivals::Poisson { rate_pps: 20_000.0 }, [0.05, 0.05]);
    predicts(&ground_truth, &found, &Arrivals::Poisson { rate_pps: 80_000.0 }, [0.05, 0.08]);
    predicts(&ground_truth, &found, &bursts(20_000.0, 8), [0.05, 0.05]);
}

#[test]
fn distinguishes_wakes_by_idle_time() {
    let after = |after_idle_ns, ns| Wake { after_idle_ns, length: Length::Constant(ns) };
    let ground_truth = QueueingModel {
        // The steps coincide with class bounds: within a class, only the mixture is known.
        wake: vec![after(0.0, 0.0), after(51_200.0, 4_000.0), after(819_200.0, 20_000.0)],
        transfer_ns: -900.0,
        ..model(Length::Constant(10_000.0))
    };
    // With bursts alone, all idle times are equal. Poisson arrivals at the same rate provide other idle
    // times.
    let poisson = Arrivals::Poisson { rate_pps: 5000.0 };
    let (found, evidence) = calibrated(&ground_truth, &[(bursts(5000.0, 32), 32), (poisson, 1)]);
    close("transfer", found.transfer_ns, -900.0, 0.05);
    let of = |idle_ns: f64| {
        let step = found.wake.iter().rfind(|wake| wake.after_idle_ns <= idle_ns).unwrap();
        mean(&step.length)
    };
    assert!(of(20_000.0).abs() < 50.0 && (of(100_000.0) - 4000.0).abs() < 300.0, "{:?}", evidence.wakes);
    close("after a long time", of(5e6), 20_000.0, 0.05);
    predicts(&ground_truth, &found, &Arrivals::Constant { rate_pps: 50_000.0 }, [0.01, 0.01]);
    predicts(&ground_truth, &found, &Arrivals::Constant { rate_pps: 10_000.0 }, [0.01, 0.03]);
}

#[test]
fn finds_rare_long_interrupts_with_idle_arrivals() {
    // Each run has six interrupts of 2 ms per second, but only 0.08 s of busy time. The rate estimated from
    // the gaps alone would be zero, or a hundred if a single interrupt was observed.
    let ground_truth = QueueingModel {
        interrupts: vec![
            Interrupts::Poisson { per_second: 250.0, length: Length::Constant(15_000.0) },
            Interrupts::Poisson { per_second: 6.0, length: Length::Constant(2e6) },
        ],
        ..model(Length::Constant(10_000.0))
    };
    for seed in 1..=5 {
        let mut packets = Vec::new();
        let poisson = Arrivals::Poisson { rate_pps: 5000.0 };
        simulate(&ground_truth, &poisson, 50_000, seed, |at, delay| {
            packets.extend(delay.map(|delay| (at, delay)))
        })
        .unwrap();
        let seen = [Observation::of(&packets, 1)];
        let (_, evidence) = calibrate(&seen, &known(&ground_truth)).unwrap();
        println!("{seed}: {:?}", evidence.interrupts);
        let share = evidence.interrupts.share;
        assert!((0.009..0.025).contains(&share), "{:?}", evidence.interrupts);
    }
}

#[test]
fn recovers_batches_that_depart_together() {
    let ground_truth = QueueingModel {
        release: Release::Batch,
        batch_overhead: Length::Constant(4000.0),
        interrupts: vec![Interrupts::Poisson { per_second: 300.0, length: Length::Constant(50_000.0) }],
        transfer_ns: 2000.0,
        ..model(Length::Constant(1000.0))
    };
    // Four times as many packets: one burst in fifty is interrupted, so the estimated rate has a standard
    // error of 4 %.
    let (found, evidence) = calibrated_by(
        4 * PACKETS,
        &ground_truth,
        &[(Arrivals::Bursts { rate_pps: 20_000.0, packets: 64, spacing_ns: 700.0 }, 64)],
    );
    assert_eq!((evidence.method, found.release), (CalibrationMethod::Batches, Release::Batch));
    close("service", mean(&found.service), 1000.0, 0.05);
    close("overhead", mean(&found.batch_overhead), 4000.0, 0.1);
    close("interrupts", evidence.interrupts.per_second.value, 300.0, 0.15);
    close("transfer", found.transfer_ns, 2000.0, 0.1);
    // One burst in fifty is interrupted, so p99 is close to the edge.
    predicts(&ground_truth, &found, &bursts(10_000.0, 16), [0.03, 0.2]);
    predicts(&ground_truth, &found, &Arrivals::Poisson { rate_pps: 400_000.0 }, [0.05, 0.08]);
    let other = |model: &QueueingModel| QueueingModel { batch: 4, ..model.clone() };
    predicts(&other(&ground_truth), &other(&found), &bursts(10_000.0, 64), [0.03, 0.05]);
}

#[test]
fn single_departures_override_declared_batches() {
    let ground_truth = model(Length::Constant(2000.0));
    let packets = recorded(&ground_truth, &bursts(5000.0, 32), 20_000);
    let said = Known { release: Release::Batch, ..known(&ground_truth) };
    let (found, evidence) = calibrate(&[Observation::of(&packets, 32)], &said).unwrap();
    assert_eq!(found.release, Release::Immediate);
    close("service", mean(&found.service), 2000.0, 1e-9);
    assert!(evidence.remarks.iter().any(|remark| remark.contains("one by one")), "{:?}", evidence.remarks);
}

#[test]
fn rejects_unsuitable_packets_with_expected_input() {
    let ground_truth = model(Length::Constant(10_000.0));
    let refused = |packets: &[(f64, f64)], lost, part: &str| {
        let error = calibrate(&[Observation { lost, ..Observation::of(packets, 1) }], &known(&ground_truth))
            .expect_err(part);
        assert!(error.to_string().contains(part) && error.to_string().contains("expected"), "{error}");
    };
    let alone = recorded(&ground_truth, &Arrivals::Constant { rate_pps: 1000.0 }, 5000);
    refused(&alone, 0, "experiments/prediction/queueing.toml");
    refused(&[], 0, "only 0 packets waited");
    refused(&alone[..10], 0, "only 0 packets waited");
    refused(&recorded(&ground_truth, &bursts(5000.0, 32), 128), 0, "only 124 packets waited");
    refused(&alone, 100, "lost");
    let overload = recorded(&ground_truth, &Arrivals::Constant { rate_pps: 120_000.0 }, 5000);
    refused(&overload, 0, "found the device idle");
    refused(&[(2.0, 1.0), (1.0, 1.0)], 0, "out of order");
    refused(&[(1.0, 50.0), (2.0, 1.0)], 0, "departed before an earlier packet");
    refused(&[(f64::NAN, 1.0)], 0, "out of order");
}

#[test]
fn baseline_calibration_is_marked_as_weak() {
    let ground_truth = model(Length::Constant(10_000.0));
    let ground_truth = QueueingModel { transfer_ns: 2000.0, ..ground_truth };
    let packets = recorded(&ground_truth, &Arrivals::Constant { rate_pps: 1000.0 }, 500);
    let observations = [Observation::of(&packets, 1)];
    let (found, evidence) = by_baseline(&observations, 2000.0, &known(&ground_truth)).unwrap();
    assert_eq!((found.service, found.transfer_ns), (Length::Constant(10_000.0), 2000.0));
    assert!(evidence.remarks[0].contains("weak") && evidence.method == CalibrationMethod::Baseline);
    let slow = by_baseline(&observations, 20_000.0, &known(&ground_truth)).unwrap_err().to_string();
    assert!(slow.contains("expected a forwarder without work"), "{slow}");
    assert!(by_baseline(&[], 20_000.0, &known(&ground_truth)).is_err());
}
