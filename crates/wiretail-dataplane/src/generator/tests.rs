use std::net::Ipv4Addr;

use super::*;
use crate::frame::{Addresses, read_signature};
use crate::plan::{End, Pattern, Sizes, Stream};

/// Keeps what is sent; refuses every frame whose number is a multiple of `refuse`.
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
    Stream { id, addresses, flows: 2, sizes }
}

fn plan(streams: Vec<Stream>, pattern: Pattern, packets: u64) -> GeneratorPlan {
    GeneratorPlan {
        streams,
        pattern,
        end: End::Packets(packets),
        seed: 1,
        start_ns: None,
        late_limit_ns: 1_000_000_000,
        id_first: 100,
    }
}

fn run(plan: GeneratorPlan, port: &mut Keeping) -> GeneratorReport {
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let report = Generator::new(port, plan).unwrap().run(&stop, &counters);
    assert_eq!(counters.read().sent, report.sent);
    report
}

#[test]
fn every_packet_has_its_own_signature() {
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
fn a_mix_is_exact_in_every_cycle() {
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
fn what_the_port_refuses_is_counted() {
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
fn a_set_flag_stops_it() {
    let mut port = Keeping::default();
    let (stop, counters) = (AtomicBool::new(true), SharedCounters::default());
    let plan = plan(vec![stream(0, Sizes::Fixed(60))], Pattern::Constant { rate_pps: 1 }, 10);
    let report = Generator::new(&mut port, plan).unwrap().run(&stop, &counters);
    assert_eq!((report.sent, report.complete, report.first_departure_ns), (0, false, None));
}

#[test]
fn plans_out_of_range_are_refused_by_name() {
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
    assert!(refused(plan(ok, short, 1)).contains("time on"));
}
