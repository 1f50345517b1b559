//! Traces with known spans, and a simulated server.

mod gaps;
mod naive;

use proptest::prelude::*;
use wiretail_schema::causes::trace::{
    ClockOffset, Event, Gap, Kind, Spin, TraceInfo, TraceNames, TraceRoles,
};
use wiretail_schema::causes::{CauseKind, Certainty, TrialExplanation};

use super::{Builder, Inputs, PacketTime, explain};

/// The device's core and thread.
const CORE: u16 = 1;
const DEVICE: i32 = 100;
const TEXTS: [&str; 6] = ["", "local_timer", "call_function_single", "NET_RX", "reschedule", "eth0"];
const FLUSH: u64 = 0x1000;
const BARRIER: u64 = 0x2000;

struct Names;

impl TraceNames for Names {
    fn name(&self, number: u32) -> Option<&str> {
        TEXTS.get(number as usize).copied().filter(|text| !text.is_empty())
    }

    fn stack(&self, number: u32) -> Option<&[u64]> {
        (number == 1).then_some(&[0x10, 0x20])
    }

    fn task(&self, pid: i32) -> Option<&str> {
        [(100, "device"), (7, "hog"), (8, "bash"), (9, "unmapper")]
            .iter()
            .find(|(p, _)| *p == pid)
            .map(|(_, n)| *n)
    }

    fn function(&self, address: u64) -> Option<&str> {
        [(FLUSH, "flush_tlb_func"), (BARRIER, "ipi_mb"), (0x20, "__x64_sys_munmap"), (0x10, "on_each_cpu")]
            .iter()
            .find(|(at, _)| *at == address)
            .map(|(_, name)| *name)
    }
}

fn event(ts_ns: u64, kind: Kind, name: u32, args: [u64; 3]) -> Event {
    Event { ts_ns, args, pid: DEVICE, name, stack: 0, cpu: CORE, kind }
}

fn timer(from_ns: u64, to_ns: u64) -> [Event; 2] {
    [event(from_ns, Kind::VectorEntry, 1, [0; 3]), event(to_ns, Kind::VectorExit, 1, [0; 3])]
}

/// A function that thread 9 on core 0 runs on the device's core, within an interrupt.
fn call(at_ns: u64, function: u64) -> [Event; 5] {
    let send = Event { pid: 9, cpu: 0, stack: 1, ..event(at_ns, Kind::CsdQueue, 0, [1, function, 0x30]) };
    [
        send,
        event(at_ns + 2_000, Kind::VectorEntry, 2, [0; 3]),
        event(at_ns + 2_300, Kind::CsdEntry, 0, [function, 0, 0]),
        event(at_ns + 4_300, Kind::CsdExit, 0, [function, 0, 0]),
        event(at_ns + 4_500, Kind::VectorExit, 2, [0; 3]),
    ]
}

fn switch(at_ns: u64, from: i32, to: i32, state: u64, prio: u64) -> Event {
    Event { pid: from, ..event(at_ns, Kind::Switch, 0, [to as u64, state, prio]) }
}

fn roles() -> TraceRoles {
    TraceRoles {
        core: CORE.into(),
        threads: vec![DEVICE],
        fifo: true,
        polls: true,
        batch: 1,
        logs_stalls: true,
        ..TraceRoles::default()
    }
}

/// Explains packets `(in, delay)`. The clocks differ by a million seconds, as on real hosts.
fn explained(roles: &TraceRoles, events: &[Event], packets: &[(u64, u64)], lost: &[Gap]) -> TrialExplanation {
    const OFFSET_NS: i64 = 1_000_000_000_000_000;
    let offset = ClockOffset { at_ns: 0, offset_ns: OFFSET_NS, uncertainty_ns: 20 };
    let info = TraceInfo {
        schema: String::new(),
        wiretail_version: String::new(),
        kernel: String::new(),
        machine: String::new(),
        clock: "mono".to_owned(),
        start_ns: 0,
        end_ns: 1_000_000_000,
        clock_before: offset,
        clock_after: offset,
        clock_stepped: false,
        watched: vec![CORE.into()],
        stacks: true,
        page_bytes: 4096,
        header_page: String::new(),
        events: Vec::new(),
        remarks: Vec::new(),
        streams: Vec::new(),
        tasks: Vec::new(),
        symbols: Vec::new(),
    };
    let packets: Vec<PacketTime> = (0..)
        .zip(packets)
        .map(|(index, (in_ns, delay_ns))| PacketTime {
            index,
            in_ns: *in_ns as i64 + OFFSET_NS,
            delay_ns: *delay_ns as i64,
        })
        .collect();
    let mut builder = Builder::new(roles);
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.ts_ns);
    events.iter().for_each(|event| builder.take(event));
    let inputs = Inputs {
        trial: "t",
        segment: "forward",
        version: "0",
        roles,
        info: &info,
        names: &Names,
        lost,
        packets: &packets,
        first_ns: packets[0].in_ns,
        evenly: false,
        worst: 1000,
        timelines: 3,
    };
    explain(builder.finish(&Names), &inputs)
}

/// A thousand packets, 100 us apart. Each stays in the device for 2 us; packets at the given positions stay
/// longer by the given time.
fn traffic(later: &[(usize, u64)]) -> Vec<(u64, u64)> {
    let mut packets: Vec<(u64, u64)> = (1..=1000).map(|number| (number * 100_000, 2_000)).collect();
    later.iter().for_each(|(place, ns)| packets[*place].1 += ns);
    packets
}

/// Parts of the worst packet: kind, name, ns, certainty.
fn worst(found: &TrialExplanation) -> Vec<(CauseKind, &str, u64, Certainty)> {
    let row = |cause: usize| (found.causes[cause].kind, found.causes[cause].name.as_str());
    let parts = found.worst[0].parts.iter();
    parts.map(|part| (row(part.cause).0, row(part.cause).1, part.ns, part.certainty)).collect()
}

#[test]
fn attributes_shootdown_to_its_sender() {
    // The packet arrives at 50.1 ms. The interrupt's head is as long as in the calibration, 8 us.
    let mut roles = roles();
    let mut events = Vec::new();
    let mut spin = Spin { core: 1, thread: DEVICE, threshold_ns: 1000, ..Spin::default() };
    for round in 0..10 {
        let at = 1_050_000 + round * 200_000;
        events.extend(call(at, FLUSH));
        spin.gaps.push(Gap { from_ns: at + 2_000 - 8_000, to_ns: at + 4_500 + 500 });
    }
    roles.spin = Some(spin);
    events.extend(call(50_107_500, FLUSH));
    let found = explained(&roles, &events, &traffic(&[(500, 11_000)]), &[]);
    assert_eq!(found.worst[0].index, 500);
    assert_eq!((found.worst[0].lost_ns, found.worst[0].unknown_ns), (11_000, 0));
    let expected = [
        (CauseKind::TlbShootdown, "", 8_500, Certainty::Modelled),
        (CauseKind::TlbShootdown, "", 2_500, Certainty::Observed),
    ];
    assert_eq!(worst(&found), expected);
    let sender = &found.senders[found.worst[0].parts[0].sender.expect("a sender")];
    assert_eq!((sender.pid, sender.task.as_str(), sender.cpu, sender.sends), (9, "unmapper", 0, 11));
    assert_eq!(sender.system_call.as_deref(), Some("munmap"));
    assert_eq!((sender.tail_packets, sender.tail_ns), (1, 11_000));
    let overheads = &found.evidence.calibration[0];
    assert_eq!(
        (overheads.event.as_str(), overheads.head_ns[0], overheads.tail_ns[0]),
        ("call_function_single", 8_000, 500)
    );
    // The packet's own timeline also shows the head, the interrupt and the tail.
    assert_eq!(found.worst[0].timeline.len(), 3);
    assert_eq!((found.worst[0].timeline[0].from_ns, found.worst[0].timeline[2].to_ns), (1_500, 12_500));
    assert_eq!(found.causes[0].without_ns.last(), Some(&2_000));
}

#[test]
fn attributes_waiting_after_a_stall_to_the_stall() {
    // A CPU hog starts at 50.1 ms and runs for 250 us. Two more packets arrive during that time. Each takes 2
    // us of service.
    let events = [
        switch(40_000_000, 8, DEVICE, 0, 40),
        switch(50_100_500, DEVICE, 7, 0, 30),
        switch(50_350_500, 7, DEVICE, 1, 40),
    ];
    let packets = traffic(&[(500, 250_000), (501, 152_000), (502, 54_000)]);
    let found = explained(&roles(), &events, &packets, &[]);
    assert_eq!(worst(&found), [(CauseKind::Task, "hog", 250_000, Certainty::Observed)]);
    for (packet, ahead) in found.worst.iter().zip([0, 1, 2]) {
        let known: u64 = packet.parts.iter().map(|part| part.ns).sum();
        assert_eq!((known, packet.unknown_ns, packet.ahead), (packet.lost_ns, 0, ahead), "{packet:?}");
        assert!(packet.parts.iter().all(|part| part.cause == 0), "{packet:?}");
    }
    // The second packet arrived at 50.2 ms. The hog ran for another 150.5 us. The packet then waited for 1.5
    // us in the queue that the hog had caused.
    let queued: Vec<u64> =
        found.worst[1].parts.iter().filter(|part| part.queued).map(|part| part.ns).collect();
    assert_eq!(queued, [1_500]);
    assert_eq!(found.causes[0].without_ns, [2_000; 5]);
}

#[test]
fn attributes_fair_server_separately_from_cpu_hog() {
    let events = [
        switch(40_000_000, 8, DEVICE, 0, 40),
        switch(50_100_500, DEVICE, 8, 0, 120),
        switch(50_150_500, 8, DEVICE, 0, 40),
    ];
    let found = explained(&roles(), &events, &traffic(&[(500, 50_000)]), &[]);
    assert_eq!(worst(&found), [(CauseKind::FairServer, "bash", 50_000, Certainty::Observed)]);
}

#[test]
fn separates_interrupt_from_enclosing_softirq() {
    let softirq = |at, kind| event(at, kind, 3, [3, 0, 0]);
    let mut events = vec![softirq(50_101_000, Kind::SoftirqEntry), softirq(50_141_000, Kind::SoftirqExit)];
    events.extend(timer(50_111_000, 50_121_000));
    let found = explained(&roles(), &events, &traffic(&[(500, 40_000)]), &[]);
    let expected = [
        (CauseKind::Softirq, "NET_RX", 30_000, Certainty::Observed),
        (CauseKind::Timer, "", 10_000, Certainty::Observed),
    ];
    assert_eq!(worst(&found), expected);
}

#[test]
fn counts_work_of_every_packet_as_baseline() {
    // Each packet is sent in a softirq of 1 us; the softirq of the worst packet takes 31 us.
    let packets = traffic(&[(500, 30_000)]);
    let mut events = Vec::new();
    for (in_ns, delay_ns) in &packets {
        events.push(event(in_ns + 500, Kind::SoftirqEntry, 3, [3, 0, 0]));
        events.push(event(in_ns + delay_ns - 500, Kind::SoftirqExit, 3, [3, 0, 0]));
    }
    let found = explained(&roles(), &events, &packets, &[]);
    assert_eq!(worst(&found), [(CauseKind::Softirq, "NET_RX", 30_000, Certainty::Observed)]);
    assert_eq!(found.worst[1].parts, []);
}

#[test]
fn attributes_time_without_events_by_logged_stalls() {
    let packets = traffic(&[(500, 300_000), (501, 202_000), (502, 104_000), (503, 6_000)]);
    // Without a logged stall, the loop was working. With a logged stall, the core was paused.
    let found = explained(&roles(), &[], &packets, &[]);
    assert_eq!(worst(&found)[0].0, CauseKind::Device);
    assert_eq!(found.tail_unknown_ns, 0);
    let gap = Gap { from_ns: 50_100_100, to_ns: 50_400_900 };
    let found = explained(&TraceRoles { stalls: vec![gap], ..roles() }, &[], &packets, &[]);
    assert_eq!(worst(&found)[0].0, CauseKind::Paused);
    assert_eq!(found.causes.len(), 1, "{:?}", found.causes);
    // If a loop polls without logging stalls, neither the long service nor the wait of the other packets has
    // a known cause.
    let found = explained(&TraceRoles { logs_stalls: false, ..roles() }, &[], &packets, &[]);
    assert_eq!((found.tail_unknown_ns, found.tail_lost_ns), (502_000, 502_000));
    assert!(found.causes.is_empty() && found.worst[1].unknown_ns == 202_000, "{:?}", found.worst[1]);
}

#[test]
fn attributes_rest_of_service_to_long_page_fault() {
    let spin = Spin { page_fault_ns: Some(1_000), ..Spin::default() };
    let roles = TraceRoles { spin: Some(spin), ..roles() };
    let faults = [50_101_000, 50_102_500].map(|at| event(at, Kind::PageFaultUser, 0, [0; 3]));
    let found = explained(&roles, &faults, &traffic(&[(500, 80_000)]), &[]);
    assert!(worst(&found).iter().all(|part| part.0 == CauseKind::PageFault), "{:?}", worst(&found));
    assert_eq!(found.worst[0].unknown_ns, 0);
}

#[test]
fn explains_nothing_if_events_are_missing() {
    let lost = [Gap { from_ns: 50_105_000, to_ns: 50_106_000 }];
    let found = explained(&roles(), &timer(50_103_000, 50_123_000), &traffic(&[(500, 20_000)]), &lost);
    assert!(found.worst[0].events_missing && found.worst[0].parts.is_empty());
    assert_eq!((found.evidence.packets_in_lost, found.evidence.windows_lost, found.tail_lost_ns), (1, 1, 0));
}

#[test]
fn packets_of_a_burst_wait_for_each_other() {
    // 100 bursts of ten packets, 1 ms apart. Each packet takes 3 us, including the first of a burst.
    let mut packets = Vec::new();
    for burst in 1..=100 {
        (1..=10).for_each(|place| packets.push((burst * 1_000_000, place * 3_000)));
    }
    let found = explained(&roles(), &[], &packets, &[]);
    let burst = worst(&found)[0];
    assert_eq!((burst.0, found.worst[0].unknown_ns), (CauseKind::Burst, 0));
    assert_eq!(found.worst[0].ahead, 9);
}

proptest! {
    /// A server that is sometimes interrupted by a timer or a CPU hog. The interruptions explain the excess
    /// delay of every late packet completely.
    #[test]
    fn explains_simulated_server_completely(
        gaps in prop::collection::vec(3_000..40_000u64, 200..300),
        interruptions in prop::collection::vec((0..4_000_000u64, 1_000..90_000u64, any::<bool>()), 0..20),
    ) {
        const SERVICE_NS: u64 = 2_000;
        let mut away: Vec<(u64, u64, bool)> = Vec::new();
        let mut sorted = interruptions;
        sorted.sort_unstable();
        for (from, length, is_timer) in sorted {
            // A real core does other work between two interruptions.
            if away.last().is_none_or(|(_, to, _)| from > to + 5_000) {
                away.push((from, from + length, is_timer));
            }
        }
        let mut events = vec![switch(0, 8, DEVICE, 0, 40)];
        for (from, to, is_timer) in &away {
            match is_timer {
                true => events.extend(timer(*from, *to)),
                false => events.extend([switch(*from, DEVICE, 7, 0, 30), switch(*to, 7, DEVICE, 1, 40)]),
            }
        }
        // Work continues whenever the core is available.
        let finish = |mut at: u64| {
            let mut left = SERVICE_NS;
            for (from, to, _) in &away {
                if *to <= at { continue }
                let free = from.saturating_sub(at).min(left);
                left -= free;
                at += free;
                if left == 0 { return at }
                at = *to;
            }
            at + left
        };
        let (mut now, mut left_ns, mut packets) = (10_000, 0, Vec::new());
        for gap in &gaps {
            now += gap;
            left_ns = finish(left_ns.max(now));
            packets.push((now, left_ns - now));
        }
        let found = explained(&roles(), &events, &packets, &[]);
        // The comparison needs a baseline, so most packets must be undisturbed.
        prop_assume!(found.baseline_ns as u64 == SERVICE_NS);
        let mut total = 0;
        for packet in &found.worst {
            let known: u64 = packet.parts.iter().map(|part| part.ns).sum();
            prop_assert_eq!(known + packet.unknown_ns, packet.lost_ns);
            prop_assert_eq!(packet.unknown_ns, 0, "{:?} {:?}", packet, found.causes);
            total += packet.lost_ns;
        }
        prop_assert!(total == 0 || found.causes.iter().all(|row| matches!(row.kind, CauseKind::Timer | CauseKind::Task)));
    }
}
