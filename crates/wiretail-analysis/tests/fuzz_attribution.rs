//! Fuzzing of attribution: it must terminate for any damaged trace and for inconsistent roles and clocks, and
//! its results must add up.

use wiretail_analysis::causes::attribution::{Builder, Inputs, PacketTime, explain, explain_gaps};
use wiretail_schema::causes::trace::{
    ClockOffset, Event, Gap, Kind, Spin, TraceInfo, TraceNames, TraceRoles,
};
use wiretail_schema::random::Random;

#[path = "../../../tests/fuzz.rs"]
mod fuzz;

use fuzz::fuzz;

/// Most times are close to each other, in any order; some are absurd.
fn time(random: &mut Random, near: u64) -> u64 {
    match random.below(40) {
        0 => u64::MAX - random.below(3),
        1 => random.below(3),
        2 => i64::MAX as u64 - 1 + random.below(3),
        3 => random.bits(),
        _ => near.saturating_add(random.below(30_000)),
    }
}

fn gap(random: &mut Random, near: u64) -> Gap {
    Gap { from_ns: time(random, near), to_ns: time(random, near) }
}

fn gaps(random: &mut Random, count: u64) -> Vec<Gap> {
    (0..random.below(count)).map(|place| gap(random, place * 20_000)).collect()
}

struct Names;

impl TraceNames for Names {
    fn name(&self, number: u32) -> Option<&str> {
        ["local_timer", "reschedule", "NET_RX", "call_function"].get(number as usize).copied()
    }

    fn stack(&self, number: u32) -> Option<&[u64]> {
        (number == 1).then_some(&[0, 2])
    }

    fn task(&self, pid: i32) -> Option<&str> {
        (pid == 1).then_some("device")
    }

    fn function(&self, address: u64) -> Option<&str> {
        ["ipi_mb", "flush_tlb_func", "__x64_sys_munmap"].get(address as usize).copied()
    }
}

const KINDS: [Kind; 16] = [
    Kind::VectorEntry,
    Kind::VectorExit,
    Kind::IrqEntry,
    Kind::IrqExit,
    Kind::SoftirqEntry,
    Kind::SoftirqExit,
    Kind::Switch,
    Kind::CsdQueue,
    Kind::CsdEntry,
    Kind::CsdExit,
    Kind::IpiSend,
    Kind::IpiSendMask,
    Kind::TlbFlush,
    Kind::Nmi,
    Kind::PageFaultUser,
    Kind::PageFaultKernel,
];

fn event(random: &mut Random, near: u64) -> Event {
    let mut arg = || if random.below(20) == 0 { random.bits() } else { random.below(4) };
    let args = [arg(), arg(), arg()];
    Event {
        ts_ns: time(random, near),
        args,
        pid: random.below(4) as i32 - i32::from(random.below(30) == 0) * i32::MAX,
        name: random.below(5) as u32,
        stack: random.below(3) as u32,
        cpu: random.below(3) as u16,
        kind: KINDS[random.below(16) as usize],
    }
}

fn roles(random: &mut Random) -> TraceRoles {
    let spin = Spin {
        core: 1,
        thread: 2,
        span: gap(random, 0),
        gaps: gaps(random, 20),
        page_fault_ns: Some(time(random, 0)),
        ..Spin::default()
    };
    TraceRoles {
        core: if random.below(10) == 0 { u32::MAX } else { 1 },
        threads: vec![1],
        fifo: random.below(2) == 0,
        polls: random.below(2) == 0,
        batch: random.below(3),
        feeding: (random.below(3) > 0).then_some(0),
        stalls: gaps(random, 5),
        logs_stalls: random.below(2) == 0,
        spin: (random.below(3) > 0).then_some(spin),
        ..TraceRoles::default()
    }
}

fn info(random: &mut Random) -> TraceInfo {
    let offset_ns = if random.below(10) == 0 { random.bits() as i64 } else { 0 };
    let offset = ClockOffset { at_ns: 0, offset_ns, uncertainty_ns: time(random, 0) };
    TraceInfo {
        schema: String::new(),
        wiretail_version: String::new(),
        kernel: String::new(),
        machine: String::new(),
        clock: String::new(),
        start_ns: time(random, 0),
        end_ns: time(random, 0),
        clock_before: offset,
        clock_after: offset,
        clock_stepped: false,
        watched: Vec::new(),
        stacks: true,
        page_bytes: 4096,
        header_page: String::new(),
        events: Vec::new(),
        remarks: Vec::new(),
        streams: Vec::new(),
        tasks: Vec::new(),
        symbols: Vec::new(),
    }
}

fn round(random: &mut Random) {
    let (roles, info) = (roles(random), info(random));
    let mut builder = Builder::new(&roles);
    for place in 0..random.below(200) {
        builder.take(&event(random, place * 3_000));
    }
    let packet = |index| {
        let (in_ns, delay_ns) = (time(random, index * 10_000) as i64, time(random, 0) as i64);
        PacketTime { index, in_ns, delay_ns }
    };
    let mut packets: Vec<PacketTime> = (0..100).map(packet).collect();
    packets.truncate(random.below(101) as usize);
    // The times must be in order, as a matcher returns them.
    packets.sort_unstable_by_key(|packet| packet.in_ns);
    let lost = gaps(random, 3);
    let inputs = Inputs {
        trial: "",
        segment: "",
        version: "",
        roles: &roles,
        info: &info,
        names: &Names,
        lost: &lost,
        packets: &packets,
        first_ns: time(random, 0) as i64,
        evenly: random.below(2) == 0,
        paused_ns: random.below(1 << 20),
        worst: random.below(150) as usize,
        timelines: 10,
    };
    let found = explain(builder.finish(&Names), &inputs);
    assert_eq!(found.packets, packets.len() as u64);
    for packet in &found.worst {
        let known_ns: u64 = packet.parts.iter().map(|part| part.ns).sum();
        assert_eq!(known_ns + packet.unknown_ns, packet.lost_ns, "{packet:?}");
        assert!(packet.parts.iter().all(|part| part.cause < found.causes.len()), "{packet:?}");
    }
}

/// A core that is observed without packets: every gap must be counted once.
fn round_of_gaps(random: &mut Random) {
    let mut roles = roles(random);
    roles.stalls = gaps(random, 30);
    let mut builder = Builder::new(&roles);
    for place in 0..random.below(200) {
        builder.take(&event(random, place * 3_000));
    }
    let lost = gaps(random, 3);
    let wanted: Vec<usize> = (0..random.below(40) as usize).collect();
    let found = explain_gaps(builder.finish(&Names), &roles, &Names, &lost, &wanted);
    let causes = &found.causes;
    let named: u64 = causes.causes.iter().map(|cause| cause.gaps).sum();
    assert_eq!(named + causes.gaps_missing + causes.gaps_unnamed, roles.stalls.len() as u64);
    assert_eq!(found.parts.len(), wanted.len());
    assert!(found.parts.iter().flatten().all(|part| part.cause < causes.causes.len()));
    for cause in &causes.causes {
        assert!(cause.senders.iter().map(|sender| sender.gaps).sum::<u64>() <= cause.gaps, "{cause:?}");
    }
}

#[test]
fn attribution() {
    fuzz("attribution", |random| {
        round(random);
        round_of_gaps(random);
    });
}
