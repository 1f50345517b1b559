use std::net::Ipv4Addr;
use std::sync::Arc;

use wiretail_schema::run::pauses::Pauses;

use super::*;
use crate::clock::monotonic_ns;
use crate::generator::frame::PORT_FIRST;
use crate::generator::frame::{Addresses, read_signature};
use crate::generator::marks::Marks;
use crate::generator::plan::{End, LatePolicy, Pacing, Pattern, Sizes, Stream};
use crate::generator::recording::Recording;

mod policies;

/// A port that stores sent frames and rejects every frame with a number that is a multiple of `refuse`.
#[derive(Debug, Default)]
struct Keeping {
    frames: Vec<Vec<u8>>,
    offered: u64,
    refuse: Option<u64>,
}

impl TxPort for &mut Keeping {
    fn send(&mut self, frames: &[&[u8]]) -> usize {
        for (at, frame) in frames.iter().enumerate() {
            self.offered += 1;
            if self.refuse.is_some_and(|every| self.offered.is_multiple_of(every)) {
                return at;
            }
            self.frames.push(frame.to_vec());
        }
        frames.len()
    }
}

fn stream(id: u16, sizes: Sizes) -> Stream {
    let addresses = Addresses {
        mac_from: [2, 0, 0, 0, 0, 1],
        mac_to: [2, 0, 0, 0, 0, 2],
        ip_from: Ipv4Addr::new(10, 0, 0, 1),
        ip_to: Ipv4Addr::new(10, 0, 0, 2),
        port_to: 53,
    };
    Stream { id, port: 0, addresses, flows: 2, sizes }
}

fn plan(streams: Vec<Stream>, pattern: Pattern, packets: u64) -> GeneratorPlan {
    GeneratorPlan {
        streams,
        recording: None,
        marks: None,
        pattern,
        end: End::Packets(packets),
        seed: 1,
        start_ns: None,
        pacing: Pacing::default(),
        pauses: Pauses::default(),
        late_policy: LatePolicy::default(),
        late_limit_ns: 1_000_000_000,
        id_first: 100,
    }
}

fn run(plan: GeneratorPlan, port: &mut Keeping) -> GeneratorReport {
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let report = Generator::new(vec![port], plan).unwrap().run(&stop, &counters);
    assert_eq!(counters.read().sent, report.sent);
    report
}

#[test]
fn packets_have_unique_signatures() {
    let mut port = Keeping::default();
    let streams = vec![stream(3, Sizes::Fixed(100)), stream(9, Sizes::Fixed(65))];
    let report = run(plan(streams, Pattern::Constant { rate_pps: 1_000_000 }, 1000), &mut port);
    assert_eq!((report.sent, report.failed, report.complete), (1000, 0, true));
    assert_eq!(report.sent_bytes, 500 * 165);
    assert_eq!(report.lateness.total(), 1000);
    for (at, frame) in port.frames.iter().enumerate() {
        let signature = read_signature(frame, frame.len() as u32).unwrap();
        assert_eq!(signature.id, 100 + at as u32);
        let long = signature.long.unwrap();
        assert_eq!(long.stream, [3, 9][at % 2]);
        assert_eq!(long.sequence, at as u64 / 2);
        assert_eq!(long.departure_ns, report.start_ns + at as u64 * 1000);
        assert_eq!(frame[34..36], (PORT_FIRST + (at as u16 / 2) % 2).to_be_bytes());
    }
}

#[test]
fn sleeping_generator_sends_same_packets() {
    let mut ports = [Keeping::default(), Keeping::default()];
    let planned = GeneratorPlan {
        start_ns: Some(monotonic_ns() + 10_000_000),
        ..plan(vec![stream(3, Sizes::Fixed(100))], Pattern::Constant { rate_pps: 5_000 }, 100)
    };
    let spun = run(planned.clone(), &mut ports[0]);
    let slept = run(GeneratorPlan { pacing: Pacing::Sleep, ..planned }, &mut ports[1]);
    assert_eq!((slept.sent, slept.failed, slept.complete), (100, 0, true));
    assert_eq!((slept.lateness.total(), slept.start_ns), (100, spun.start_ns));
    assert_eq!(ports[0].frames, ports[1].frames);
}

#[test]
fn generator_sends_all_packets_around_its_pauses() {
    for pacing in [Pacing::Spin, Pacing::Sleep] {
        let mut port = Keeping::default();
        let pauses = Pauses::plan(10_000_000, 3_000_000, 4_000_000);
        let paused = GeneratorPlan {
            pauses,
            pacing,
            end: End::DurationNs(10_000_000),
            ..plan(vec![stream(3, Sizes::Fixed(100))], Pattern::Constant { rate_pps: 20_000 }, 0)
        };
        let report = run(paused, &mut port);
        assert_eq!((report.sent, report.complete, pauses.count()), (200, true, 3));
        for (at, frame) in (0..).zip(&port.frames) {
            let signature = read_signature(frame, frame.len() as u32).unwrap();
            // Phases of 2.5 ms have 50 packets each.
            let due_ns = report.start_ns + at * 50_000 + at / 50 * 4_000_000;
            assert_eq!(signature.long.unwrap().departure_ns, due_ns);
        }
    }
}

#[test]
fn stop_flag_ends_sleeping_generator() {
    let mut port = Keeping::default();
    let (stop, counters) = (AtomicBool::new(true), SharedCounters::default());
    let plan = GeneratorPlan {
        pacing: Pacing::Sleep,
        start_ns: Some(monotonic_ns() + 3_600_000_000_000),
        ..plan(vec![stream(0, Sizes::Fixed(60))], Pattern::Constant { rate_pps: 1 }, 10)
    };
    let report = Generator::new(vec![&mut port], plan).unwrap().run(&stop, &counters);
    assert_eq!((report.sent, report.complete), (0, false));
}

#[test]
fn mix_is_exact_in_every_cycle() {
    let mut port = Keeping::default();
    run(
        plan(vec![stream(0, Sizes::imix_csit())], Pattern::Bursts { rate_pps: 1_000_000, burst: 100 }, 120),
        &mut port,
    );
    for cycle in port.frames.chunks(12) {
        let count = |len| cycle.iter().filter(|frame| frame.len() == len).count();
        assert_eq!((count(60), count(566), count(1514)), (7, 4, 1));
    }
}

#[test]
fn counts_packets_rejected_by_port() {
    let mut port = Keeping { refuse: Some(10), ..Keeping::default() };
    let report = run(
        plan(vec![stream(0, Sizes::Fixed(60))], Pattern::Poisson { rate_pps: 10_000_000 }, 1000),
        &mut port,
    );
    assert_eq!(report.sent + report.failed, 1000);
    assert_eq!(report.sent, port.frames.len() as u64);
    assert!(report.failed > 0);
}

#[test]
fn stop_flag_ends_generator() {
    let mut port = Keeping::default();
    let (stop, counters) = (AtomicBool::new(true), SharedCounters::default());
    let plan = plan(vec![stream(0, Sizes::Fixed(60))], Pattern::Constant { rate_pps: 1 }, 10);
    let report = Generator::new(vec![&mut port], plan).unwrap().run(&stop, &counters);
    assert_eq!((report.sent, report.complete, report.first_departure_ns), (0, false, None));
}

#[test]
fn rejects_plans_out_of_range() {
    let constant = Pattern::Constant { rate_pps: 1 };
    let refused = |plan: GeneratorPlan| plan.check().unwrap_err().to_string();
    let sized = |sizes| plan(vec![stream(0, sizes)], constant, 1);
    assert!(refused(sized(Sizes::Fixed(59))).contains("frame length is 59; expected 60 to 1514"));
    assert!(refused(sized(Sizes::Imix(vec![(60, 1), (1515, 1)]))).contains("1515"));
    assert!(refused(sized(Sizes::Imix(vec![]))).contains("cycle"));
    assert!(refused(plan(vec![], constant, 1)).contains("streams"));
    let ok = vec![stream(0, Sizes::Fixed(100))];
    assert!(refused(plan(ok.clone(), Pattern::Constant { rate_pps: 0 }, 1)).contains("rate"));
    assert!(refused(plan(ok.clone(), Pattern::Bursts { rate_pps: 1, burst: 0 }, 1)).contains("burst"));
    let short = Pattern::OnOff { rate_pps: 10, on_ns: 1, off_ns: 1 };
    assert!(refused(plan(ok, short, 1)).contains("on period"));
}

#[test]
fn sends_streams_through_their_ports_in_runs() {
    let (mut forth, mut back) = (Keeping::default(), Keeping::default());
    let mut streams = vec![stream(1, Sizes::imix_csit()), stream(2, Sizes::Fixed(100))];
    streams[1].port = 1;
    let plan = plan(streams, Pattern::Bursts { rate_pps: 1_000_000, burst: 16 }, 240);
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let report = Generator::new(vec![&mut forth, &mut back], plan).unwrap().run(&stop, &counters);
    assert_eq!((report.sent, forth.frames.len(), back.frames.len()), (240, 120, 120));
    let mut ids: Vec<u32> = Vec::new();
    for (port, stream) in [(&forth, 1), (&back, 2)] {
        for (at, frame) in port.frames.iter().enumerate() {
            let signature = read_signature(frame, frame.len() as u32).unwrap();
            assert!(signature.long.is_none_or(|long| (long.stream, long.sequence) == (stream, at as u64)));
            // Readers of MoonSniff captures recognize packets by this byte after the id.
            assert_eq!(frame[46], 0x55);
            ids.push(signature.id);
        }
    }
    ids.sort_unstable();
    assert_eq!(ids, (100..340).collect::<Vec<u32>>());
}

#[test]
fn rejects_stream_of_missing_port() {
    let mut port = Keeping::default();
    let mut streams = vec![stream(1, Sizes::Fixed(100))];
    streams[0].port = 1;
    let plan = plan(streams, Pattern::Constant { rate_pps: 1 }, 1);
    let error = Generator::new(vec![&mut port], plan).unwrap_err().to_string();
    assert!(error.contains("port of a stream is 1"), "{error}");
}

#[test]
fn only_marked_packets_carry_text() {
    let marks = Marks { every: 7, text: b"WIRETAIL-MARK".to_vec(), seed: 5 };
    let streams = vec![stream(3, Sizes::Fixed(100)), stream(4, Sizes::imix_csit())];
    let plan = plan(streams, Pattern::Constant { rate_pps: 1_000_000 }, 700);
    // The shortest frames of the mix are too short for the text.
    let refused = GeneratorPlan { marks: Some(marks.clone()), ..plan.clone() }.check();
    assert!(refused.unwrap_err().to_string().contains("78 bytes"));
    let streams = vec![stream(3, Sizes::Fixed(100)), stream(4, Sizes::Imix(vec![(78, 2), (200, 1)]))];
    let mut port = Keeping::default();
    run(GeneratorPlan { marks: Some(marks.clone()), streams, ..plan }, &mut port);
    let holds = |frame: &Vec<u8>| frame.windows(13).any(|window| window == b"WIRETAIL-MARK");
    let found: Vec<u64> = (0..700).filter(|number| holds(&port.frames[*number as usize])).collect();
    assert_eq!(found, (0..700).filter(|number| marks.is_marked(*number)).collect::<Vec<_>>());
    assert_eq!(found.len(), 100);
}

fn recorded(end: End) -> GeneratorPlan {
    let mut recording = Recording::default();
    for (at, len) in [60, 1514, 14, 99].into_iter().enumerate() {
        recording.push(5_000 + 100_000 * at as i64, &vec![at as u8; len]).unwrap();
    }
    let plan = plan(Vec::new(), Pattern::Constant { rate_pps: 1 }, 0);
    GeneratorPlan { recording: Some(Arc::new(recording)), end, ..plan }
}

#[test]
fn sends_recording_unchanged() {
    let mut port = Keeping::default();
    let report = run(recorded(End::Packets(u64::MAX)), &mut port);
    assert_eq!((report.sent, report.sent_bytes, report.complete), (4, 1687, true));
    for (at, (frame, len)) in port.frames.iter().zip([60, 1514, 14, 99]).enumerate() {
        assert_eq!(*frame, vec![at as u8; len]);
    }
    let took_ns = report.last_departure_ns.unwrap() - report.first_departure_ns.unwrap();
    assert!(took_ns + report.lateness.ns_max().unwrap() >= 300_000, "{took_ns}");
    let mut port = Keeping::default();
    assert_eq!(run(recorded(End::Packets(2)), &mut port).sent, 2);
    let mut port = Keeping::default();
    assert_eq!(run(recorded(End::DurationNs(100_001)), &mut port).sent, 2);
}

#[test]
fn recording_excludes_streams() {
    let mut both = recorded(End::Packets(1));
    both.streams.push(stream(0, Sizes::Fixed(100)));
    assert!(both.check().unwrap_err().to_string().contains("with a recording"));
    let empty = GeneratorPlan { recording: Some(Arc::default()), ..recorded(End::Packets(1)) };
    assert!(empty.check().unwrap_err().to_string().contains("at least one"));
}
