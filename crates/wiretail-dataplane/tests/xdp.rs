//! AF_XDP ports and chains over real veth pairs. If this machine cannot create them, each test prints
//! `SKIPPED:` and the reason. No test asserts a timing.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Testbed, Trial, assert_nothing_lost, ids, injected_faults, on_a_testbed, run};
use wiretail_dataplane::{
    Delay, Pattern, PortKind, PortSpec, Redirect, RedirectCounts, Release, Sizes, Skeleton, SkeletonPlan,
    in_namespace,
};

/// Environment variable that makes a child test process hold ports.
const HOLD: &str = "WIRETAIL_TEST_HOLDS_PORTS";

fn xdp_trial(pattern: Pattern, packets: u64) -> Trial {
    let mut trial = Trial::new(pattern, packets);
    trial.forward_by_xdp();
    // Room for all packets, even if the forwarder loses its core for a long time.
    trial.skeleton.ring_slots = 1 << 15;
    trial
}

fn open(bed: &Testbed, ways: &[(&'static str, &'static str)]) -> Result<Skeleton, String> {
    let ways: Vec<_> = ways.iter().map(|(from, to)| (bed.port(from), bed.port(to))).collect();
    let plan = SkeletonPlan { port: PortKind::Xdp, ..SkeletonPlan::default() };
    Skeleton::open(&ways, plan).map_err(|error| error.to_string())
}

fn has_a_program(bed: &Testbed) -> bool {
    bed.in_dut("ip -d link show in0").contains("prog/xdp")
}

#[test]
fn all_packets_arrive_in_order() {
    on_a_testbed("all_packets_arrive_in_order", |bed| {
        for release in [Release::Batch, Release::Immediate] {
            for batch in [1, 32] {
                let mut trial = xdp_trial(Pattern::Constant { rate_pps: 40_000 }, 20_000);
                trial.skeleton.release = release;
                trial.skeleton.batch = batch;
                let outcome = run(bed, &trial).unwrap();
                assert_nothing_lost(&outcome, 20_000);
                assert_eq!(ids(&outcome.post), ids(&outcome.pre), "{release:?} {batch}");
                let mut pairs = outcome.pre.iter().zip(&outcome.post);
                assert!(pairs.all(|(pre, post)| pre.frame == post.frame && pre.wire_len == post.wire_len));
            }
        }
    });
}

#[test]
fn bursts_and_mixes_arrive_completely() {
    on_a_testbed("bursts_and_mixes_arrive_completely", |bed| {
        let mut trial = xdp_trial(Pattern::Bursts { rate_pps: 20_000, burst: 100 }, 6_000);
        trial.sizes = Sizes::imix_csit();
        let outcome = run(bed, &trial).unwrap();
        assert_nothing_lost(&outcome, 6_000);
        let count = |len| outcome.post.iter().filter(|record| record.wire_len == len).count();
        assert_eq!((count(60), count(566), count(1514)), (3500, 2000, 500));
    });
}

#[test]
fn wire_shows_injected_faults() {
    on_a_testbed("wire_shows_injected_faults", |bed| {
        injected_faults(bed, xdp_trial(Pattern::Constant { rate_pps: 40_000 }, 20_000));
    });
}

#[test]
fn delayed_packets_stay_intact_while_others_pass() {
    on_a_testbed("delayed_packets_stay_intact_while_others_pass", |bed| {
        let mut trial = xdp_trial(Pattern::Constant { rate_pps: 20_000 }, 10_000);
        trial.skeleton.delay = Some(Delay { ns: 1_000_000, every: 50 });
        let outcome = run(bed, &trial).unwrap();
        assert_nothing_lost(&outcome, 10_000);
        assert_eq!(outcome.skeleton.delayed, 200);
        for (id, record) in ids(&outcome.post).into_iter().zip(&outcome.post) {
            let sent = &outcome.pre[id as usize];
            assert_eq!(record.frame, sent.frame);
            assert!(id % 50 != 49 || record.ts_ns - sent.ts_ns >= 1_000_000, "{id}");
        }
    });
}

#[test]
fn small_ring_wraps_around_many_times() {
    on_a_testbed("small_ring_wraps_around_many_times", |bed| {
        for port in [PortKind::default(), PortKind::Xdp] {
            let mut trial = xdp_trial(Pattern::Constant { rate_pps: 2_000 }, 2_000);
            trial.skeleton.port = port;
            trial.skeleton.ring_slots = 64;
            trial.skeleton.delay = Some(Delay { ns: 10_000_000, every: 10 });
            let outcome = run(bed, &trial).unwrap();
            // A forwarder that loses its core for 32 ms drops packets and counts them.
            let counts = outcome.skeleton.counts;
            assert_eq!((counts.received + counts.dropped, counts.sent), (2_000, counts.received), "{port:?}");
            assert_eq!(outcome.post.len() as u64, counts.sent, "{port:?}");
            let posts = ids(&outcome.post).into_iter().zip(&outcome.post);
            assert!(posts.into_iter().all(|(id, post)| outcome.pre[id as usize].frame == post.frame));
        }
    });
}

#[test]
fn chain_forwards_hop_by_hop() {
    on_a_testbed("chain_forwards_hop_by_hop", |bed| {
        bed.in_dut("ip link add m0 type veth peer name m1");
        bed.in_dut("ip link set m0 up");
        bed.in_dut("ip link set m1 up");
        for port in [PortKind::default(), PortKind::Xdp] {
            let mut trial = xdp_trial(Pattern::Constant { rate_pps: 20_000 }, 10_000);
            trial.skeleton.port = port;
            trial.ways = vec![("in0", "m0"), ("m1", "out0")];
            let outcome = run(bed, &trial).unwrap();
            let (skeleton, twice) = (&outcome.skeleton, 20_000);
            assert_eq!((skeleton.received, skeleton.sent, skeleton.dropped), (twice, twice, 0), "{port:?}");
            assert_eq!(ids(&outcome.pre), (0..10_000).collect::<Vec<_>>());
            assert_eq!(ids(&outcome.post), ids(&outcome.pre));
        }
    });
}

#[test]
fn generator_sends_with_af_xdp() {
    on_a_testbed("generator_sends_with_af_xdp", |bed| {
        let patterns =
            [Pattern::Constant { rate_pps: 20_000 }, Pattern::Bursts { rate_pps: 20_000, burst: 200 }];
        for pattern in patterns {
            let mut trial = Trial::new(pattern, 10_000);
            trial.sizes = Sizes::imix_csit();
            trial.generator_xdp = true;
            assert_nothing_lost(&run(bed, &trial).unwrap(), 10_000);
        }
    });
}

#[test]
fn dropping_port_detaches_program() {
    on_a_testbed("dropping_port_detaches_program", |bed| {
        for _ in 0..3 {
            let skeleton = open(bed, &[("in0", "out0")]).unwrap();
            assert!(has_a_program(bed));
            let [(interface, mode)] = skeleton.xdp_modes() else { panic!("one interface") };
            assert_eq!(interface, "in0");
            assert!(mode.to_string().ends_with("copy"), "{mode}");
            drop(skeleton);
            assert!(!has_a_program(bed));
        }
    });
}

#[test]
fn killing_process_detaches_program() {
    if std::env::var_os(HOLD).is_some() {
        hold_ports();
    }
    on_a_testbed("killing_process_detaches_program", |bed| {
        let holder = || {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "killing_process_detaches_program", "--nocapture"])
                .env(HOLD, "1")
                .stdout(Stdio::piped())
                .spawn()
        };
        let mut holder = in_namespace(Some(bed.dut()), holder).unwrap().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ports are open")));
        assert!(has_a_program(bed));
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(!has_a_program(bed));
        open(bed, &[("in0", "out0")]).unwrap();
    });
}

/// Holds ports open in the namespace of this process until it is killed.
fn hold_ports() -> ! {
    let port = |interface| PortSpec { netns: None, interface };
    let plan = SkeletonPlan { port: PortKind::Xdp, ..SkeletonPlan::default() };
    let skeleton = Skeleton::open(&[(port("in0"), port("out0"))], plan).unwrap();
    println!("ports are open");
    loop {
        std::thread::park();
        assert!(!skeleton.xdp_modes().is_empty());
    }
}

#[test]
fn errors_name_cause_of_failed_open() {
    on_a_testbed("errors_name_cause_of_failed_open", |bed| {
        let refused = |ways: &[(&'static str, &'static str)]| open(bed, ways).unwrap_err();
        let missing = refused(&[("in0", "nosuch0")]);
        assert!(missing.contains("nosuch0: no such interface"), "{missing}");
        let twice = refused(&[("in0", "out0"), ("in0", "out0")]);
        assert!(twice.contains("in0 receives is 2"), "{twice}");
        let held = open(bed, &[("in0", "out0")]).unwrap();
        let taken = refused(&[("in0", "out0")]);
        assert!(taken.contains("in0: ") && taken.contains("another XDP program"), "{taken}");
        drop(held);
        bed.in_dut("ip link add q0 numrxqueues 2 numtxqueues 2 type veth peer name q1");
        let queues = refused(&[("q0", "out0")]);
        assert!(queues.contains("receive queues of q0 is 2") && queues.contains("ethtool -L"), "{queues}");
    });
}

/// Makes the other ends of the veth pairs accept redirected frames.
fn take_redirected(bed: &Testbed) {
    for link in ["g0", "s0"] {
        bed.in_load(&format!("ethtool -K {link} gro on"));
    }
}

/// Sends packets of 100 bytes through an interface and returns their number.
fn send(bed: &Testbed, from: &'static str, packets: u64) -> u64 {
    let mut trial = Trial::new(Pattern::Constant { rate_pps: 50_000 }, packets);
    trial.generator_port = from;
    let report = support::run_alone(bed, &trial).unwrap();
    // Waits for packets in flight in the kernel.
    std::thread::sleep(Duration::from_millis(100));
    report.sent
}

#[test]
fn kernel_redirects_one_and_both_directions() {
    on_a_testbed("kernel_redirects_one_and_both_directions", |bed| {
        take_redirected(bed);
        for both in [false, true] {
            let ends = [("in0", "out0"), ("out0", "in0")];
            let ways: Vec<_> = ends.iter().take(1 + usize::from(both)).collect();
            let ways: Vec<_> = ways.into_iter().map(|(from, to)| (bed.port(from), bed.port(to))).collect();
            let redirect = Redirect::open(&ways).unwrap();
            assert!(redirect.modes().all(|(_, native)| native), "veth has native XDP");
            let programs = ["in0", "out0"].map(|link| bed.in_dut(&format!("ip -d link show {link}")));
            assert_eq!(programs.map(|link| link.contains("prog/xdp")), [true, both]);
            for (way, (from, to)) in [("g0", "s0"), ("s0", "g0")].into_iter().take(ways.len()).enumerate() {
                let arrived = bed.received(to);
                assert_eq!(send(bed, from, 10_000), 10_000);
                assert_eq!(bed.received(to) - arrived, 10_000);
                let counts = redirect.counts(way).unwrap();
                let expected = RedirectCounts { received: 10_000, sent: 10_000, failed: 0 };
                assert_eq!(counts, expected, "{from}: failures known: {}", redirect.knows_failures(way));
                redirect.settle();
            }
            // The program that finds the devices listens to every packet and must be removed afterwards.
            let listens = |event: &str| {
                let open = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
                let texts = open.filter_map(|file| std::fs::read_to_string(file.path()).ok());
                texts.filter(|text| text.lines().any(|line| line == format!("tp_name:\t{event}"))).count()
            };
            let known = usize::from(redirect.knows_failures(0));
            assert_eq!([listens("xdp_redirect"), listens("xdp_devmap_xmit")], [0, known]);
            let total = 10_000 * ways.len() as u64;
            assert_eq!(redirect.total().unwrap().sent, total);
            drop(redirect);
            assert!(!has_a_program(bed));
        }
    });
}

#[test]
fn counts_rejected_redirected_packets() {
    on_a_testbed("counts_rejected_redirected_packets", |bed| {
        let redirect = Redirect::open(&[(bed.port("in0"), bed.port("out0"))]).unwrap();
        if !redirect.knows_failures(0) {
            println!("SKIPPED: this process cannot trace the results of redirections");
            return;
        }
        let arrived = bed.received("s0");
        assert_eq!(send(bed, "g0", 1000), 1000);
        let lost = RedirectCounts { received: 1000, sent: 0, failed: 1000 };
        assert_eq!(redirect.total().unwrap(), lost);
        assert_eq!(bed.received("s0"), arrived);
        take_redirected(bed);
        assert_eq!(send(bed, "g0", 1000), 1000);
        let half = RedirectCounts { received: 2000, sent: 1000, failed: 1000 };
        assert_eq!(redirect.total().unwrap(), half);
        assert_eq!(bed.received("s0") - arrived, 1000);
    });
}

#[test]
fn redirects_in_stack_without_native_xdp() {
    on_a_testbed("redirects_in_stack_without_native_xdp", |bed| {
        bed.in_dut("ip link add link in0 name over0 type macvlan mode passthru");
        bed.in_dut("ip link set over0 up");
        let redirect = Redirect::open(&[(bed.port("over0"), bed.port("out0"))]).unwrap();
        assert_eq!(redirect.modes().collect::<Vec<_>>(), [("over0", false)]);
        let arrived = bed.received("s0");
        assert_eq!(send(bed, "g0", 1000), 1000);
        assert_eq!(bed.received("s0") - arrived, 1000);
        assert!(!redirect.knows_failures(0));
        assert_eq!(redirect.total().unwrap().received, 1000);
    });
}

#[test]
fn errors_name_cause_of_failed_redirection() {
    on_a_testbed("errors_name_cause_of_failed_redirection", |bed| {
        let refused = |from: &'static str, to: &'static str| {
            Redirect::open(&[(bed.port(from), bed.port(to))]).unwrap_err().to_string()
        };
        for (from, to) in [("in0", "nosuch0"), ("nosuch0", "out0")] {
            let message = refused(from, to);
            assert!(message.contains("nosuch0: no such interface"), "{message}");
        }
        let held = Redirect::open(&[(bed.port("in0"), bed.port("out0"))]).unwrap();
        let message = refused("in0", "out0");
        assert!(message.contains("in0: ") && message.contains("another XDP program"), "{message}");
        drop(held);
    });
}
