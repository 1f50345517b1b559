//! Late departures, with a clock that follows a script: it loses the core at known times.

use std::cell::{Cell, RefCell};

use wiretail_schema::random::Random;

use super::*;
use crate::clock::Clock;
use crate::generator::missed::LateLimit;
use crate::generator::plan::LatePolicy;
use crate::generator::schedule::Schedule;

/// Time that a reading of the clock takes, in ns.
const READING_NS: u64 = 30;
/// Time that the port takes for a packet, in ns.
const PACKET_NS: u64 = 1_000;
const START_NS: u64 = 1_000_000;
/// Gap at 100,000 packets per second.
const GAP_NS: u64 = 10_000;

/// A core: time passes only if its thread does something, or if the core is taken away.
#[derive(Default)]
struct Core {
    now_ns: Cell<u64>,
    /// When and for how long the core is taken away, in ns, in descending order of time.
    stalls: RefCell<Vec<(u64, u64)>>,
    readings: RefCell<Vec<u64>>,
}

impl Core {
    fn stalled(mut stalls: Vec<(u64, u64)>) -> Self {
        stalls.sort_unstable_by(|a, b| b.cmp(a));
        Self { stalls: RefCell::new(stalls), ..Self::default() }
    }

    fn pass(&self, ns: u64) {
        let mut now = self.now_ns.get() + ns;
        let mut stalls = self.stalls.borrow_mut();
        while let Some((_, length)) = stalls.pop_if(|(start, _)| *start <= now) {
            now += length;
        }
        self.now_ns.set(now);
    }
}

impl Clock for &Core {
    fn now_ns(&mut self) -> u64 {
        self.pass(READING_NS);
        self.readings.borrow_mut().push(self.now_ns.get());
        self.now_ns.get()
    }

    fn sleep_until(&mut self, time_ns: u64) {
        self.pass(time_ns.saturating_sub(self.now_ns.get()));
    }
}

/// A packet on the wire: its number, its intended departure, and the time at which the port got its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OnWire {
    number: u64,
    due_ns: u64,
    batch_ns: u64,
}

/// A port that takes time, and rejects the rest of a batch with a probability of 1 in `refuse`.
struct Wire<'a> {
    core: &'a Core,
    packets: &'a RefCell<Vec<OnWire>>,
    refuse: Option<(Random, u64)>,
}

impl TxPort for Wire<'_> {
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        let batch_ns = self.core.now_ns.get();
        for (at, frame) in frames.iter().enumerate() {
            self.core.pass(PACKET_NS);
            if self.refuse.as_mut().is_some_and(|(random, every)| random.below(*every) == 0) {
                return at;
            }
            let signature = read_signature(frame, frame.len() as u32).unwrap();
            let due_ns = signature.long.unwrap().departure_ns;
            self.packets.borrow_mut().push(OnWire {
                number: u64::from(signature.id) - 100,
                due_ns,
                batch_ns,
            });
        }
        frames.len()
    }
}

fn policy_plan(policy: LatePolicy, pattern: Pattern, packets: u64) -> GeneratorPlan {
    let streams = vec![stream(0, Sizes::Fixed(100)), stream(1, Sizes::Fixed(200))];
    GeneratorPlan { start_ns: Some(START_NS), late_policy: policy, ..plan(streams, pattern, packets) }
}

fn send(plan: &GeneratorPlan, core: &Core, refuse: Option<(Random, u64)>) -> (GeneratorReport, Vec<OnWire>) {
    let packets = RefCell::new(Vec::new());
    let port = Wire { core, packets: &packets, refuse };
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let mut clock = core;
    let report = Generator::new(vec![port], plan.clone()).unwrap().run_by(&mut clock, &stop, &counters);
    assert_eq!((counters.read().sent, counters.read().skipped), (report.sent, report.skipped));
    (report, packets.into_inner())
}

fn planned(plan: &GeneratorPlan) -> Vec<u64> {
    Schedule::of(plan).map(|after| START_NS + after).collect()
}

/// Sends 100 packets at a constant rate. The core is taken away just before packet 20 is due, until just after
/// packet 30 is due.
fn stalled_for_ten_gaps(policy: LatePolicy) -> (GeneratorReport, Vec<OnWire>) {
    let plan = policy_plan(policy, Pattern::Constant { rate_pps: 100_000 }, 100);
    let core = Core::stalled(vec![(START_NS + 20 * GAP_NS - 50, 10 * GAP_NS + 100)]);
    let (report, packets) = send(&plan, &core, None);
    assert!(report.complete);
    assert_eq!((report.stalls.count(), report.failed), (1, 0));
    (report, packets)
}

/// Gaps between batches that differ from the planned gap by more than the clock's resolution.
fn odd_gaps(packets: &[OnWire]) -> Vec<(u64, u64)> {
    let gaps = packets.windows(2).map(|pair| (pair[1].number, pair[1].batch_ns - pair[0].batch_ns));
    gaps.filter(|(_, gap_ns)| gap_ns.abs_diff(GAP_NS) > 4 * READING_NS).collect()
}

#[test]
fn catching_up_sends_missed_packets_at_once() {
    let (report, packets) = stalled_for_ten_gaps(LatePolicy::CatchUp);
    assert_eq!((report.sent, report.skipped, report.shifted_ns, report.tolerance_ns), (100, 0, 0, None));
    let resumed_ns = packets[20].batch_ns;
    // Packet 20 was ready before the stall. The other ten follow in one batch.
    let burst: Vec<_> =
        packets[20..31].iter().map(|packet| (packet.number, packet.batch_ns - resumed_ns)).collect();
    assert!(burst.iter().all(|(_, after_ns)| *after_ns <= PACKET_NS + 4 * READING_NS), "{burst:?}");
    assert!(packets[31].batch_ns >= START_NS + 31 * GAP_NS);
}

#[test]
fn skipping_sends_newest_packet_only() {
    let (report, packets) = stalled_for_ten_gaps(LatePolicy::Skip);
    assert_eq!((report.sent, report.skipped, report.shifted_ns), (90, 10, 0));
    assert_eq!(report.tolerance_ns, Some(GAP_NS / 2));
    let numbers: Vec<u64> = packets.iter().map(|packet| packet.number).collect();
    assert_eq!(numbers, (0..20).chain(30..100).collect::<Vec<_>>());
    let gaps = odd_gaps(&packets);
    assert!(matches!(gaps[..], [(30, gap_ns)] if gap_ns.abs_diff(11 * GAP_NS) < 100), "{gaps:?}");
    assert_eq!((report.late, report.overload_ratio()), (0, 0.0));
    // Skipped packets that would have left more than 25 us late.
    let plan = policy_plan(LatePolicy::Skip, Pattern::Constant { rate_pps: 100_000 }, 100);
    let core = Core::stalled(vec![(START_NS + 20 * GAP_NS - 50, 10 * GAP_NS + 100)]);
    assert_eq!(send(&GeneratorPlan { late_limit_ns: 25_000, ..plan }, &core, None).0.late, 8);
}

#[test]
fn shifting_keeps_gaps() {
    let (report, packets) = stalled_for_ten_gaps(LatePolicy::Shift);
    assert_eq!((report.sent, report.skipped), (100, 0));
    assert!(report.shifted_ns.abs_diff(10 * GAP_NS) < 100, "{}", report.shifted_ns);
    let gaps = odd_gaps(&packets);
    assert!(matches!(gaps[..], [(20, gap_ns)] if gap_ns.abs_diff(11 * GAP_NS) < 100), "{gaps:?}");
    // The packet that met the stall keeps its intended departure; those after it move.
    assert_eq!(packets[20].due_ns, START_NS + 20 * GAP_NS);
    assert_eq!(packets[21].due_ns, START_NS + 21 * GAP_NS + report.shifted_ns);
    assert!(report.overload_ratio() < 1e-3, "{}", report.overload_ratio());
    // It departs 100 us late, which is the only lateness.
    assert!(report.lateness.ns_max().unwrap() >= 10 * GAP_NS);
    assert!(report.lateness.percentile_ns(990_000_000).unwrap() <= 4 * READING_NS);
}

#[test]
fn skipping_keeps_half_gap_before_next_packet() {
    for (late_ns, skipped) in [(GAP_NS / 2 - 200, 2), (GAP_NS / 2 + 200, 3)] {
        let plan = policy_plan(LatePolicy::Skip, Pattern::Constant { rate_pps: 100_000 }, 50);
        let core = Core::stalled(vec![(START_NS + 10 * GAP_NS - 100, 100 + 2 * GAP_NS + late_ns)]);
        let (report, packets) = send(&plan, &core, None);
        assert_eq!((report.sent, report.skipped), (50 - skipped, skipped), "{late_ns}");
        let shortest = packets.windows(2).map(|pair| pair[1].batch_ns - pair[0].batch_ns).min();
        assert!(shortest >= Some(GAP_NS / 2), "{shortest:?}");
    }
}

#[test]
fn skipping_keeps_intended_bursts() {
    // A burst takes longer than half a gap between packets, and two system calls.
    let pattern = Pattern::Bursts { rate_pps: 100_000, burst: 100 };
    let plan = policy_plan(LatePolicy::Skip, pattern, 1_000);
    let (report, packets) = send(&plan, &Core::default(), None);
    assert_eq!((report.sent, report.skipped, report.tolerance_ns), (1_000, 0, Some(50 * GAP_NS)));
    assert_eq!(packets.iter().map(|packet| packet.due_ns).collect::<Vec<_>>(), planned(&plan));
    // A stall within the third burst: the rest of it follows. The fourth one is late by less than half a gap
    // and leaves as a whole; the fifth one is missed as a whole.
    let burst_ns = |burst: u64| START_NS + burst * 100 * GAP_NS;
    let stalls =
        vec![(burst_ns(2) + 70_000, 700_000), (burst_ns(3) - 50, 400_000), (burst_ns(4) - 50, 600_000)];
    let (report, packets) = send(&plan, &Core::stalled(stalls), None);
    assert_eq!((report.sent, report.skipped), (900, 100));
    let numbers: Vec<u64> = packets.iter().map(|packet| packet.number).collect();
    assert_eq!(numbers, (0..400).chain(500..1_000).collect::<Vec<_>>());
    // Shifting does not count the time that a burst takes as a delay.
    let (report, _) = send(&policy_plan(LatePolicy::Shift, pattern, 1_000), &Core::default(), None);
    assert_eq!((report.sent, report.shifted_ns), (1_000, 0));
}

#[test]
fn skipping_keeps_close_packets() {
    // Packets are due closer together than the port can take them.
    let pattern = Pattern::Poisson { rate_pps: 500_000 };
    let plan = policy_plan(LatePolicy::Skip, pattern, 20_000);
    let due = planned(&plan);
    assert!(due.windows(2).filter(|pair| pair[1] - pair[0] < PACKET_NS).count() > 5_000);
    let (report, packets) = send(&plan, &Core::default(), None);
    assert_eq!((report.sent, report.skipped), (20_000, 0));
    assert!(report.lateness.ns_max().unwrap() > report.tolerance_ns.unwrap());
    assert_eq!(packets.iter().map(|packet| packet.due_ns).collect::<Vec<_>>(), due);
    let mut recording = Recording::default();
    for after_us in [0, 0, 0, 0, 0, 100, 101, 150, 150] {
        recording.push(after_us * 1_000, &[0; 60]).unwrap();
    }
    let replayed = GeneratorPlan { recording: Some(Arc::new(recording)), streams: Vec::new(), ..plan };
    let limit = LateLimit::new(&replayed).tolerance_ns();
    assert_eq!(limit, Some(24_500), "half of the median of 100, 1 and 49 us");
}

#[test]
fn skipping_reports_rate_out_of_reach() {
    // The port takes one packet per microsecond.
    let plan = policy_plan(LatePolicy::Skip, Pattern::Constant { rate_pps: 2_000_000 }, 100_000);
    let (report, _) = send(&plan, &Core::default(), None);
    let share = report.skipped as f64 / 100_000.0;
    assert!((0.45..0.6).contains(&share), "{share}");
    assert_eq!((report.overload_ratio() * 1e5).round(), report.skipped as f64);
    let shifted = send(&GeneratorPlan { late_policy: LatePolicy::Shift, ..plan }, &Core::default(), None).0;
    let share = shifted.shifted_ns as f64 / 50_000_000.0;
    assert!((0.9..1.2).contains(&share), "{share}");
    assert!(shifted.overload_ratio() > 0.45, "{}", shifted.overload_ratio());
}

#[test]
fn sleeping_generator_tolerates_time_to_wake() {
    let constant = Pattern::Constant { rate_pps: 100_000 };
    for policy in [LatePolicy::Skip, LatePolicy::Shift] {
        let plan = GeneratorPlan { pacing: Pacing::Sleep, ..policy_plan(policy, constant, 100) };
        let core = Core::stalled(vec![(START_NS + 20 * GAP_NS - 50, 60_000)]);
        let (report, _) = send(&plan, &core, None);
        assert_eq!((report.sent, report.skipped, report.shifted_ns), (100, 0, 0));
    }
}

/// Plans and stalls at random: stalls of 0.1 us to 1 ms, on average one in 200 us.
fn random_case(random: &mut Random, policy: LatePolicy) -> (GeneratorPlan, Vec<(u64, u64)>) {
    let rate_pps = 1_000 + random.below(700_000);
    let pattern = match random.below(4) {
        0 => Pattern::Constant { rate_pps },
        1 => Pattern::Poisson { rate_pps },
        2 => Pattern::Bursts { rate_pps, burst: 1 + random.below(150) as u32 },
        _ => Pattern::OnOff { rate_pps, on_ns: 2_000_000, off_ns: random.below(3_000_000) },
    };
    let plan = GeneratorPlan { seed: random.bits(), ..policy_plan(policy, pattern, 1 + random.below(2_000)) };
    let end_ns = planned(&plan).last().unwrap() + 1_000_000;
    let stalls = (0..(end_ns - START_NS) / 200_000)
        .map(|_| (START_NS + random.below(end_ns - START_NS), 100 << random.below(14)))
        .collect();
    (plan, stalls)
}

#[test]
fn every_packet_is_accounted_for_and_keeps_its_number() {
    let mut random = Random::new(20);
    let mut counted = [0; 3];
    for case in 0..300 {
        let policy = [LatePolicy::CatchUp, LatePolicy::Skip, LatePolicy::Shift][case % 3];
        let (plan, stalls) = random_case(&mut random, policy);
        let refuse = (case % 2 == 0).then(|| (Random::new(case as u64), 50));
        let (report, packets) = send(&plan, &Core::stalled(stalls), refuse);
        let due = planned(&plan);
        assert_eq!(report.sent + report.failed + report.skipped, due.len() as u64, "{plan:?}");
        assert_eq!(report.sent, packets.len() as u64);
        assert!(report.complete && packets.is_sorted_by_key(|packet| packet.number));
        assert!(packets.windows(2).all(|pair| pair[0].number < pair[1].number));
        let shifts = packets.iter().map(|packet| packet.due_ns - due[packet.number as usize]);
        match policy {
            LatePolicy::Shift => {
                assert_eq!(report.skipped, 0);
                assert!(shifts.clone().is_sorted() && shifts.clone().all(|shift| shift <= report.shifted_ns));
            }
            _ => assert!(report.shifted_ns == 0 && shifts.clone().all(|shift| shift == 0)),
        }
        assert!(packets.iter().all(|packet| packet.batch_ns >= packet.due_ns));
        counted[0] += report.failed;
        counted[1] += report.skipped;
        counted[2] += report.shifted_ns;
    }
    assert!(counted.iter().all(|count| *count > 1_000), "{counted:?}");
}

#[test]
fn packet_is_skipped_only_if_core_was_away_in_its_window() {
    let mut random = Random::new(21);
    let mut found = [0; 2];
    for _ in 0..100 {
        let (mut plan, stalls) = random_case(&mut random, LatePolicy::Skip);
        // At these gaps, a packet is sent before the next one is due.
        plan.pattern = Pattern::Constant { rate_pps: 10_000 + random.below(90_000) };
        let core = Core::stalled(stalls);
        let (report, packets) = send(&plan, &core, None);
        let tolerance_ns = report.tolerance_ns.unwrap();
        let readings = core.readings.borrow();
        let mut sent = packets.iter().map(|packet| packet.number).peekable();
        for (number, due_ns) in planned(&plan).into_iter().enumerate() {
            let before = |time_ns: u64| readings.partition_point(|reading| *reading < time_ns);
            let in_window = before(due_ns + tolerance_ns + 1) - before(due_ns);
            let was_sent = sent.next_if_eq(&(number as u64)).is_some();
            // The reading before the departure counts. One more is taken after the previous departure.
            let agrees = if was_sent { in_window >= 1 } else { in_window <= 1 };
            assert!(agrees, "packet {number} of {plan:?}: sent {was_sent}, {in_window} readings");
            found[usize::from(was_sent)] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 1_000), "{found:?}");
}

#[test]
fn marks_keep_their_numbers() {
    let marks = Marks { every: 7, text: b"WIRETAIL-MARK".to_vec(), seed: 5 };
    let mut plan = policy_plan(LatePolicy::Skip, Pattern::Constant { rate_pps: 100_000 }, 700);
    plan.marks = Some(marks.clone());
    let mut port = Keeping::default();
    let core = Core::stalled((0..30).map(|at| (START_NS + at * 200_000, 60_000)).collect());
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let mut clock = &core;
    let report = Generator::new(vec![&mut port], plan).unwrap().run_by(&mut clock, &stop, &counters);
    assert!((100..300).contains(&report.skipped), "{}", report.skipped);
    for frame in &port.frames {
        let signature = read_signature(frame, frame.len() as u32).unwrap();
        let (number, long) = (u64::from(signature.id - 100), signature.long.unwrap());
        let is_marked = frame.windows(13).any(|window| window == b"WIRETAIL-MARK");
        assert_eq!(is_marked, marks.is_marked(number));
        assert_eq!((u64::from(long.stream), long.sequence), (number % 2, number / 2));
        assert_eq!(frame.len() as u64, 100 + 100 * (number % 2));
    }
}
