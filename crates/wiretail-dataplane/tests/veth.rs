//! Generator, skeleton and taps over real veth pairs. If this machine cannot create them, each test prints
//! `SKIPPED:` and the reason. No test asserts a timing.

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{Testbed, Trial, assert_nothing_lost, ids, injected_faults, on_a_testbed, run};
use wiretail_dataplane::timestamper::{BLOCK_TIMEOUT_MS, SNAPLEN};
use wiretail_dataplane::{
    Delay, Direction, Generator, GeneratorPlan, PacketTx, Pattern, PauseClock, PortKind, Release, RingPlan,
    SharedCounters, Sizes, Skeleton, SkeletonPlan, TimestampSource, Timestamper, TxMode, TxPlan,
    read_signature,
};
use wiretail_schema::run::pauses::Pauses;

#[test]
fn all_packets_arrive_in_order_on_both_wires() {
    on_a_testbed("all_packets_arrive_in_order_on_both_wires", |bed| {
        for release in [Release::Batch, Release::Immediate] {
            for mode in [TxMode::Call, TxMode::Ring(512)] {
                let tx = TxPlan { mode, qdisc_bypass: true };
                let mut trial = Trial::new(Pattern::Constant { rate_pps: 10_000 }, 10_000);
                trial.generator_tx = tx;
                trial.skeleton =
                    SkeletonPlan { release, port: PortKind::Packet(tx), ..SkeletonPlan::default() };
                let outcome = run(bed, &trial).unwrap();
                assert_nothing_lost(&outcome, 10_000);
                assert_eq!(ids(&outcome.post), ids(&outcome.pre), "{release:?} {mode:?}");
                let pairs = outcome.pre.iter().zip(&outcome.post);
                assert!(pairs.clone().all(|(pre, post)| pre.ts_ns < post.ts_ns));
                assert!(pairs.clone().all(|(pre, post)| pre.frame == post.frame && pre.wire_len == 100));
            }
        }
    });
}

#[test]
fn bursts_and_mixes_arrive_completely() {
    on_a_testbed("bursts_and_mixes_arrive_completely", |bed| {
        for mode in [TxMode::Call, TxMode::Ring(512)] {
            let mut trial = Trial::new(Pattern::Bursts { rate_pps: 20_000, burst: 100 }, 6_000);
            trial.sizes = Sizes::imix_csit();
            trial.generator_tx.mode = mode;
            let outcome = run(bed, &trial).unwrap();
            assert_nothing_lost(&outcome, 6_000);
            let count = |len| outcome.post.iter().filter(|record| record.wire_len == len).count();
            assert_eq!((count(60), count(566), count(1514)), (3500, 2000, 500));
        }
    });
}

#[test]
fn wire_shows_injected_faults() {
    on_a_testbed("wire_shows_injected_faults", |bed| {
        injected_faults(bed, Trial::new(Pattern::Constant { rate_pps: 40_000 }, 20_000));
    });
}

#[test]
fn delayed_packets_do_not_delay_others() {
    on_a_testbed("delayed_packets_do_not_delay_others", |bed| {
        let (packets, ns) = (10_000, 1_000_000);
        let mut trial = Trial::new(Pattern::Constant { rate_pps: 20_000 }, packets);
        trial.skeleton.delay = Some(Delay { ns, every: 50 });
        let outcome = run(bed, &trial).unwrap();
        assert_nothing_lost(&outcome, packets);
        assert_eq!(outcome.skeleton.delayed, packets / 50);
        let sent: HashMap<u32, i64> =
            ids(&outcome.pre).into_iter().zip(outcome.pre.iter().map(|r| r.ts_ns)).collect();
        for (id, record) in ids(&outcome.post).into_iter().zip(&outcome.post) {
            let delay_ns = record.ts_ns - sent[&id];
            assert!(id % 50 != 49 || delay_ns >= ns as i64, "{id}: {delay_ns}");
        }
    });
}

/// A skeleton whose trial was not announced sleeps whenever it has no packet.
#[test]
fn packets_wake_a_resting_skeleton() {
    on_a_testbed("packets_wake_a_resting_skeleton", |bed| {
        for (port, every) in
            [(PortKind::default(), 1 << 40), (PortKind::Xdp, 1 << 40), (PortKind::default(), 20)]
        {
            let packets = 1_000;
            let mut trial = Trial::new(Pattern::Constant { rate_pps: 2_000 }, packets);
            trial.skeleton.delay = (every < packets).then_some(Delay { ns: 3_000_000, every });
            if port == PortKind::Xdp {
                trial.forward_by_xdp();
            }
            trial.pauses = PauseClock::new(Pauses::plan(2_000_000_000, 1_000_000_000, 1_000_000));
            let outcome = run(bed, &trial).unwrap();
            assert_nothing_lost(&outcome, packets);
            assert_eq!(outcome.skeleton.delayed, packets / every);
        }
    });
}

#[test]
fn outgoing_taps_see_packets_of_queueing_discipline() {
    on_a_testbed("outgoing_taps_see_packets_of_queueing_discipline", |bed| {
        let ring = RingPlan {
            packets: 1000,
            duration_ns: 0,
            snaplen: 64,
            source: TimestampSource::KernelSoftware,
            timeout_ms: BLOCK_TIMEOUT_MS,
        };
        for (qdisc_bypass, seen) in [(false, 500), (true, 0)] {
            let mut taps = Timestamper::open(&[bed.tap("g0", Direction::Out, 7)], &ring).unwrap();
            let mut trial = Trial::new(Pattern::Constant { rate_pps: 10_000 }, 500);
            trial.generator_tx.qdisc_bypass = qdisc_bypass;
            assert_nothing_lost(&run(bed, &trial).unwrap(), 500);
            let mut frames = 0;
            let reports = taps.drain(&mut |tap, _, _, frame| {
                assert_eq!((tap, frame.len()), (7, 64));
                frames += 1;
            });
            assert_eq!((frames, reports[0].drops), (seen, 0), "{reports:?}");
        }
    });
}

#[test]
fn full_tap_counts_its_drops() {
    on_a_testbed("full_tap_counts_its_drops", |bed| {
        let ring = RingPlan {
            packets: 1,
            duration_ns: 0,
            snaplen: 64,
            source: TimestampSource::KernelSoftware,
            timeout_ms: BLOCK_TIMEOUT_MS,
        };
        let mut taps = Timestamper::open(&[bed.tap("in0", Direction::In, 0)], &ring).unwrap();
        let outcome = run(bed, &Trial::new(Pattern::Constant { rate_pps: 50_000 }, 10_000)).unwrap();
        assert_nothing_lost(&outcome, 10_000);
        let report = &taps.drain(&mut |_, _, _, _| {})[0];
        assert!(report.drops > 0);
        assert_eq!((report.packets + report.drops, report.missing), (10_000, 0), "{report:?}");
    });
}

#[test]
fn hardware_timestamps_are_never_substituted() {
    on_a_testbed("hardware_timestamps_are_never_substituted", |bed| {
        let ring = RingPlan {
            packets: 1,
            duration_ns: 0,
            snaplen: 64,
            source: TimestampSource::Hardware,
            timeout_ms: BLOCK_TIMEOUT_MS,
        };
        for direction in [Direction::In, Direction::Out] {
            let error = Timestamper::open(&[bed.tap("in0", direction, 0)], &ring).unwrap_err().to_string();
            assert!(error.contains("in0: hardware timestamps were requested, but"), "{error}");
        }
    });
}

#[test]
fn forwards_both_directions_while_taps_are_read() {
    on_a_testbed("forwards_both_directions_while_taps_are_read", |bed| {
        for port in [PortKind::default(), PortKind::Xdp] {
            both_directions(bed, port);
        }
    });
}

fn both_directions(bed: &Testbed, port: PortKind) {
    let packets = 5_000;
    let ring = RingPlan {
        packets: 2_000,
        duration_ns: 0,
        snaplen: SNAPLEN,
        source: TimestampSource::KernelSoftware,
        timeout_ms: BLOCK_TIMEOUT_MS,
    };
    let taps = [bed.tap("s0", Direction::In, 0), bed.tap("g0", Direction::In, 1)];
    let mut taps = Timestamper::open(&taps, &ring).unwrap();
    let (input, output) = (bed.port("in0"), bed.port("out0"));
    let plan = SkeletonPlan { port, ..SkeletonPlan::default() };
    let skeleton = Skeleton::open(&[(input, output), (output, input)], plan).unwrap();
    let trial = Trial::new(Pattern::Constant { rate_pps: 10_000 }, packets);
    let (forth, back) = (trial.plan(), GeneratorPlan { id_first: 1 << 31, ..trial.plan() });
    let generators = [("g0", forth), ("s0", back)].map(|(interface, plan)| {
        let port = PacketTx::open(&bed.port(interface), trial.generator_tx).unwrap();
        Generator::new(vec![port], plan).unwrap()
    });
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut seen: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    let mut keep = |tap: u16, _, wire_len, frame: &[u8]| {
        seen[usize::from(tap)].push(read_signature(frame, wire_len).expect("signed").id);
    };
    let report = std::thread::scope(|scope| {
        let skeleton = scope.spawn(|| skeleton.run(&stop, &SharedCounters::default()));
        let running = generators
            .map(|generator| scope.spawn(|| generator.run(&never, &SharedCounters::default()).sent));
        while running.iter().any(|generator| !generator.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            taps.collect(&mut keep);
        }
        assert_eq!(running.map(|generator| generator.join().unwrap()), [packets; 2]);
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        skeleton.join().unwrap()
    });
    taps.collect(&mut keep);
    let so_far = taps.reports();
    assert!(so_far.iter().all(|tap| tap.packets + tap.missing == packets && tap.drops == 0), "{so_far:?}");
    let reports = taps.drain(&mut keep);
    assert_eq!((report.received, report.sent, report.dropped), (2 * packets, 2 * packets, 0));
    assert!(reports.iter().all(|tap| tap.packets == packets && tap.drops + tap.missing == 0), "{reports:?}");
    let ids = |first: u32| (first..first + packets as u32).collect::<Vec<_>>();
    assert_eq!(seen, [ids(0), ids(1 << 31)]);
}
