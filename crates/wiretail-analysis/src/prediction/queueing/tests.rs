//! The simulation loop against a step-by-step reference, and rejected models.

use proptest::prelude::*;
use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Length, QueueingModel, Release, Wake};

use super::*;

fn plain(service: Length) -> QueueingModel {
    QueueingModel::serving(service, 4096, 32)
}

fn after(after_idle_ns: f64, wake_ns: f64) -> Wake {
    Wake { after_idle_ns, length: Length::Constant(wake_ns) }
}

fn outcomes(model: &QueueingModel, arrivals: &Arrivals) -> (Vec<(f64, Option<f64>)>, Totals) {
    outcomes_of(model, arrivals, 1 << 20)
}

fn outcomes_of(
    model: &QueueingModel,
    arrivals: &Arrivals,
    packets: u64,
) -> (Vec<(f64, Option<f64>)>, Totals) {
    let mut list = Vec::new();
    let totals = simulate(model, arrivals, packets, 1, |at, delay| list.push((at, delay))).unwrap();
    (list, totals)
}

/// Reference simulation in steps of 1 ns. Arriving packets enter the ring, interrupts accumulate, and an idle
/// server takes a batch. If a packet arrives at an idle server, the server must first wake up. How long this
/// takes depends on how long it was idle.
fn walked(model: &QueueingModel, times: &[u32], spans: &[(u32, u32)]) -> Vec<(f64, Option<f64>)> {
    let constant = |length: &Length| match length {
        Length::Constant(ns) => *ns as u32,
        _ => unreachable!("constant lengths only"),
    };
    let (service, overhead) = (constant(&model.service), constant(&model.batch_overhead));
    let mut list = Vec::new();
    let mut ring: Vec<u32> = Vec::new();
    // Current batch: arrival of each packet, and remaining work.
    let mut served: Vec<(u32, u32)> = Vec::new();
    let mut stalled: Vec<u32> = Vec::new();
    let (mut away, mut waking) = (0, 0);
    // Start of the current idle period; `None` before the first packet.
    let mut idle_since: Option<u32> = None;
    let wake = |idle: f64| {
        let mut wakes = model.wake.iter().rev();
        wakes.find(|wake| wake.after_idle_ns <= idle).map_or(0, |wake| constant(&wake.length))
    };
    let mut idle = true;
    let end = 100_000;
    for now in 0..end {
        while let Some(&(at, 0)) = served.first() {
            served.remove(0);
            stalled.push(at);
            if model.release == Release::Immediate || served.is_empty() {
                list.extend(stalled.drain(..).map(|at| (f64::from(at), Some(f64::from(now - at)))));
            }
            if served.is_empty() && ring.is_empty() {
                (idle, idle_since) = (true, Some(now));
            }
        }
        for &at in times.iter().filter(|at| **at == now) {
            if idle && idle_since != Some(now) {
                waking = wake(idle_since.map_or(f64::INFINITY, |since| f64::from(now - since)));
            }
            idle = false;
            if ring.len() < model.ring as usize {
                ring.push(at);
            } else {
                list.push((f64::from(at), None));
            }
        }
        let comes = spans.iter().filter(|span| span.0 == now);
        away += comes.map(|span| span.1).sum::<u32>();
        if served.is_empty() && away == 0 && waking == 0 && !ring.is_empty() {
            let taken = ring.len().min(model.batch as usize);
            served = ring.drain(..taken).map(|at| (at, service)).collect();
            served[0].1 += overhead;
        }
        match (away, served.first_mut()) {
            (0, Some(first)) => first.1 -= 1,
            (0, None) => waking = waking.max(1) - 1,
            _ => away -= 1,
        }
    }
    assert!(ring.is_empty() && served.is_empty(), "{end} ns are not enough");
    list
}

proptest! {
    #[test]
    fn matches_step_by_step_reference(
        mut times in prop::collection::vec(0..3000u32, 1..120),
        mut spans in prop::collection::vec((0..3000u32, 0..90u32), 0..30),
        ring in 1..40u64,
        batch in 1..40u64,
        service in 1..60u32,
        overhead in 0..50u32,
        immediate in any::<bool>(),
        wakes in prop::collection::vec((0..60u32, 0..40u32), 0..4),
    ) {
        times.sort_unstable();
        spans.sort_unstable();
        let recorded = |spans: &[(u32, u32)]| Interrupts::Recorded {
            spans: spans.iter().map(|span| (f64::from(span.0), f64::from(span.1))).collect(),
        };
        let mut wakes = wakes;
        wakes.sort_unstable();
        let model = QueueingModel {
            ring,
            batch,
            release: if immediate { Release::Immediate } else { Release::Batch },
            batch_overhead: Length::Constant(f64::from(overhead)),
            wake: wakes.iter().map(|wake| after(f64::from(wake.0), f64::from(wake.1))).collect(),
            interrupts: vec![recorded(&spans)],
            ..plain(Length::Constant(f64::from(service)))
        };
        // A recording that consists only of interrupts is rejected; see below.
        prop_assume!(capacity(&model).is_ok());
        let arrivals = Arrivals::Recorded { times_ns: times.iter().copied().map(f64::from).collect() };
        let (mut found, totals) = outcomes(&model, &arrivals);
        let mut expected = walked(&model, &times, &spans);
        // The order of losses relative to departures differs.
        let lost = |list: &mut Vec<(f64, Option<f64>)>| -> Vec<_> {
            list.extract_if(.., |outcome| outcome.1.is_none()).collect()
        };
        prop_assert_eq!(lost(&mut found), lost(&mut expected));
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(totals.sent, times.len() as u64);
        prop_assert_eq!(totals.sent - totals.lost, found.len() as u64);
    }
}

#[test]
fn result_depends_only_on_seed() {
    let mut model = plain(Length::Exponential(20_000.0));
    model.interrupts = vec![
        Interrupts::Periodic { period_ns: 4e6, phase_ns: None, length: Length::Exponential(12_000.0) },
        Interrupts::Poisson { per_second: 100.0, length: Length::Samples(vec![1000.0, 90_000.0]) },
    ];
    let arrivals = Arrivals::Poisson { rate_pps: 20_000.0 };
    let run = |seed| predict(&model, &arrivals, 20_000, seed).unwrap().0;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).delay, run(2).delay);
}

#[test]
fn additional_sources_do_not_change_other_streams() {
    let arrivals = Arrivals::Poisson { rate_pps: 10.0 };
    let mut model = plain(Length::Exponential(1000.0));
    let alone = outcomes(&model, &arrivals).0;
    let never = Interrupts::Poisson { per_second: 1e-12, length: Length::Exponential(1.0) };
    model.interrupts = vec![never];
    assert_eq!(outcomes(&model, &arrivals).0, alone);
}

#[test]
fn reports_overload_and_loses_excess_packets() {
    let model = plain(Length::Constant(30_000.0));
    let at = |rate_pps| predict(&model, &Arrivals::Constant { rate_pps }, 200_000, 1).unwrap().0;
    let light = at(10_000.0);
    assert!(!light.overloaded && light.lost == 0 && light.queue_max == 1);
    assert!((light.utilisation - 0.3).abs() < 1e-4 && light.load == Some(0.3));
    // The capacity is 33.3 kpps: at 40 kpps, one sixth of the packets is lost once the ring is full.
    let heavy = at(40_000.0);
    assert!(heavy.overloaded && heavy.queue_max == 4096, "{heavy:?}");
    assert!((heavy.loss_ratio - 1.0 / 6.0).abs() < 0.03, "{heavy:?}");
    assert!(heavy.delay.unwrap().mean_error_ns.is_none());
    assert!(heavy.utilisation > 0.999);
    // A constant server can carry a constant load of exactly its capacity, but not a Poisson load.
    let model = plain(Length::Constant(25_000.0));
    let exact = |arrivals| predict(&model, &arrivals, 10_000, 1).unwrap().0.overloaded;
    assert!(!exact(Arrivals::Constant { rate_pps: 40_000.0 }));
    assert!(exact(Arrivals::Poisson { rate_pps: 40_000.0 }));
}

#[test]
fn rejects_invalid_models_and_arrivals_by_name() {
    let arrivals = Arrivals::Constant { rate_pps: 1000.0 };
    let refused = |model: &QueueingModel, arrivals: &Arrivals, part: &str| {
        let error = predict(model, arrivals, 100, 1).expect_err(part).to_string();
        assert!(error.contains(part) && error.contains("expected"), "{error}");
    };
    let good = plain(Length::Constant(1000.0));
    refused(&QueueingModel { ring: 0, ..good.clone() }, &arrivals, "ring of 0");
    refused(&QueueingModel { ring: 1 << 40, ..good.clone() }, &arrivals, "too large");
    refused(&QueueingModel { batch: 0, ..good.clone() }, &arrivals, "batch of 0");
    refused(&QueueingModel { transfer_ns: f64::NAN, ..good.clone() }, &arrivals, "transfer");
    refused(
        &QueueingModel { transfer_ns: -1001.0, ..good.clone() },
        &arrivals,
        "cannot depart before it arrives",
    );
    refused(&QueueingModel { wake: vec![after(0.0, -1.0)], ..good.clone() }, &arrivals, "wakeup");
    refused(
        &QueueingModel { wake: vec![after(9.0, 1.0), after(8.0, 1.0)], ..good.clone() },
        &arrivals,
        "order",
    );
    refused(&plain(Length::Samples(vec![])), &arrivals, "no samples");
    refused(&plain(Length::Samples(vec![1.0, -1.0])), &arrivals, "-1 ns");
    let interrupted = |interrupts| QueueingModel { interrupts: vec![interrupts], ..good.clone() };
    let length = || Length::Constant(2000.0);
    let beat = |period_ns, phase_ns| Interrupts::Periodic { period_ns, phase_ns, length: length() };
    refused(&interrupted(beat(1000.0, None)), &arrivals, "interrupts take 200 %");
    refused(&interrupted(beat(0.0, None)), &arrivals, "period");
    refused(&interrupted(beat(5000.0, Some(5000.0))), &arrivals, "phase");
    let poisson = |per_second| Interrupts::Poisson { per_second, length: length() };
    refused(&interrupted(poisson(0.0)), &arrivals, "0 times per second");
    let often = Interrupts::Poisson { per_second: 1e12, length: Length::Constant(0.0) };
    refused(&interrupted(often), &arrivals, "too many to simulate");
    let back = Interrupts::Recorded { spans: vec![(5.0, 1.0), (4.0, 1.0)] };
    refused(&interrupted(back), &arrivals, "back in time");
    refused(&good, &Arrivals::Poisson { rate_pps: 0.0 }, "not a valid rate");
    refused(&good, &Arrivals::Recorded { times_ns: vec![] }, "no arrival");
    refused(&good, &Arrivals::Recorded { times_ns: vec![2.0, 1.0] }, "back in time");
    refused(&good, &Arrivals::Recorded { times_ns: vec![1.7e18] }, "too far from 0");
    let bursts = |packets, spacing_ns| Arrivals::Bursts { rate_pps: 1000.0, packets, spacing_ns };
    refused(&good, &bursts(0, 0.0), "burst of 0");
    refused(&good, &bursts(4, 2e6), "lasts longer");
}

#[test]
fn negative_transfer_shortens_delay() {
    let model = QueueingModel { transfer_ns: -400.0, ..plain(Length::Constant(1000.0)) };
    let arrivals = Arrivals::Bursts { rate_pps: 1000.0, packets: 2, spacing_ns: 0.0 };
    let delays: Vec<_> = outcomes(&model, &arrivals).0.iter().take(2).map(|outcome| outcome.1).collect();
    assert_eq!(delays, [Some(600.0), Some(1600.0)]);
}

#[test]
fn accepts_empty_and_single_packet_loads() {
    let model = plain(Length::Constant(1000.0));
    let none = predict(&model, &Arrivals::Constant { rate_pps: 1.0 }, 0, 1).unwrap().0;
    assert!(none.sent == 0 && none.delay.is_none() && none.utilisation == 0.0);
    let one = predict(&model, &Arrivals::Recorded { times_ns: vec![-5.0] }, 10, 1).unwrap().0;
    assert_eq!((one.sent, one.rate_pps, one.delay.unwrap().max_ns), (1, None, 1000));
    let nothing =
        predict(&plain(Length::Constant(0.0)), &Arrivals::Constant { rate_pps: 1.0 }, 5, 1).unwrap();
    assert_eq!((nothing.0.capacity_pps, nothing.0.load, nothing.1.count()), (None, Some(0.0), 5));
    // An empty recording of interrupts is valid.
    let silent = QueueingModel { interrupts: vec![Interrupts::Recorded { spans: vec![] }], ..model };
    assert!(predict(&silent, &Arrivals::Constant { rate_pps: 1.0 }, 5, 1).is_ok());
}
