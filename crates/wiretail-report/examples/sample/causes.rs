//! A synthetic explanation: causes of every kind, packets with parts and timelines that add up.

use wiretail_schema::causes::mitigation::{Mitigation, Source};
use wiretail_schema::causes::*;
use wiretail_schema::run::overhead::{Overhead, OverheadAt, OverheadVerdict};
use wiretail_schema::run::scenario::{RATE, Scenario};

use super::run::Sample;

/// The causes. The fields are the kind, the name, the number of events in the trial, the length of an event
/// in ns, and the number of packets in the tail that the events delay.
const CAUSES: [(CauseKind, &str, u64, u64, u64); 19] = [
    (CauseKind::TlbShootdown, "", 480, 310_000, 31),
    (CauseKind::Timer, "", 7_530, 11_900, 60),
    (CauseKind::FairServer, "bash", 2, 1_400_000, 2),
    (CauseKind::FunctionCall, "ipi_mb", 611, 14_000, 14),
    (CauseKind::Task, "wt-hog", 30, 204_000, 6),
    (CauseKind::Softirq, "NET_RX", 3_012, 21_000, 20),
    (CauseKind::Softirq, "RCU", 1_210, 9_000, 11),
    (CauseKind::PageFault, "", 512, 2_100, 17),
    (CauseKind::Paused, "", 3, 420_000, 2),
    (CauseKind::Device, "", 41, 33_000, 9),
    (CauseKind::Burst, "", 90, 12_000, 12),
    (CauseKind::Batch, "", 70, 8_000, 10),
    (CauseKind::Feeding, "local timer", 44, 12_500, 4),
    (CauseKind::Reschedule, "", 120, 4_200, 5),
    (CauseKind::Irq, "virtio0-input.0", 88, 7_300, 4),
    (CauseKind::Vector, "irq_work", 19, 3_800, 2),
    (CauseKind::Nmi, "", 4, 2_900, 1),
    (CauseKind::Asleep, "", 14, 51_000, 2),
    (CauseKind::FunctionCall, "rps_trigger_softirq", 12, 2_600, 1),
];
/// The median delay, in ns.
const BASELINE: i64 = 9_600;

/// Adds an explanation to each of the first trials of a run, and a comparison with untraced controls to its
/// first scenarios.
pub fn trace(sample: &mut Sample, trials: usize, hostile: bool) {
    let traced: Vec<_> = sample.run.trials.iter().take(trials).collect();
    for (place, trial) in traced.iter().enumerate() {
        let mut explanation = explanation(&trial.name, hostile);
        // Every other trial lacks a cause, so that the explanations differ.
        if place % 2 == 1 {
            explanation.tail_lost_ns -= explanation.causes[2].tail_ns.iter().sum::<u64>();
            explanation.causes[2].tail_ns = [0; 3];
        }
        sample.explanations.push(ExplainedTrial { trial: trial.number, explanation });
    }
    let verdicts = [OverheadVerdict::Within, OverheadVerdict::Beyond, OverheadVerdict::Unknown];
    for ((trial, verdict), half_range) in traced.iter().zip(verdicts).zip([300, 10, 0]) {
        let at = |percentile, untraced_ns, difference_ns| OverheadAt {
            percentile,
            traced_ns: untraced_ns + difference_ns,
            untraced_ns,
            difference_ns,
            lowest_ns: untraced_ns - half_range,
            highest_ns: untraced_ns + half_range,
            supported: percentile < 99.0,
            verdict,
        };
        sample.overheads.push(Overhead {
            scenario: Scenario::of(&sample.run, trial, &[RATE]),
            traced: vec![1, 3, 5],
            untraced: vec![2, 4, 6],
            percentiles: vec![at(50.0, 1_902, 31), at(99.9, 24_310, -420)],
        });
    }
}

/// The explanation of a trial. With `hostile`, every external name contains markup.
pub fn explanation(trial: &str, hostile: bool) -> TrialExplanation {
    let mut all = TrialExplanation {
        schema: EXPLANATION_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        trial: trial.to_owned(),
        segment: "forward".to_owned(),
        packets: 100_000,
        baseline_ns: BASELINE,
        tail_packets: 100,
        ..TrialExplanation::default()
    };
    all.causes = CAUSES.map(|(kind, name, events, each_ns, _)| row(kind, name, events, each_ns)).to_vec();
    all.senders = senders();
    if hostile {
        all.causes[4].name = "<script>alert(1)</script>".to_owned();
        all.senders[0].task = "\"><img src=x>".to_owned();
        all.senders[0].system_call = Some("<i>munmap</i>".to_owned());
        all.trial = "<b>trial</b>".to_owned();
    }
    for number in 0..100 {
        let packet = packet(number);
        tally(&mut all, &packet);
        all.worst.push(packet);
    }
    all.worst.sort_by_key(|packet| std::cmp::Reverse(packet.delay_ns));
    // Only packets that are shown individually have a timeline.
    all.worst.iter_mut().skip(50).for_each(|packet| packet.timeline.clear());
    percentiles(&mut all);
    all.evidence = evidence(hostile);
    all
}

fn row(kind: CauseKind, name: &str, events: u64, each_ns: u64) -> CauseRow {
    CauseRow { events, total_ns: events * each_ns, ..CauseRow::blank(kind, name.to_owned()) }
}

fn senders() -> Vec<CauseSender> {
    let sender = |cause, pid, task: &str, function: &str, call: Option<&str>, sends| CauseSender {
        cause,
        pid,
        task: task.to_owned(),
        cpu: 0,
        function: Some(function.to_owned()),
        system_call: call.map(str::to_owned),
        sends,
        ..CauseSender::default()
    };
    vec![
        sender(0, 2411, "suricata-main", "flush_tlb_func", Some("munmap"), 471),
        sender(3, 2417, "FM#01", "ipi_mb", Some("membarrier"), 611),
        sender(0, 0, "swapper/0", "flush_tlb_func", None, 9),
    ]
}

/// A packet with causes that depend on its number.
fn packet(number: u64) -> PacketExplanation {
    let mut parts = Vec::new();
    let mut timeline = vec![span(-4_000, 0, None, Certainty::Observed, None)];
    let mut at = 900;
    for (cause, (kind, _, _, each_ns, packets)) in CAUSES.iter().enumerate() {
        let every = 100 / packets;
        let rare = every > 40;
        if (rare && number != 3 * cause as u64) || (!rare && !(number + cause as u64).is_multiple_of(every)) {
            continue;
        }
        let sender = match kind {
            CauseKind::TlbShootdown => Some(if number % 7 == 6 { 2 } else { 0 }),
            CauseKind::FunctionCall => Some(1),
            _ => None,
        };
        let ns = each_ns + each_ns / 100 * ((number * 7919 + cause as u64 * 31) % 23);
        let queued = number % 9 == 4 && cause < 2;
        let breakdown: &[(u64, Certainty)] = match kind {
            CauseKind::Timer | CauseKind::TlbShootdown | CauseKind::FunctionCall => {
                &[(70, Certainty::Modelled), (30, Certainty::Observed)]
            }
            CauseKind::Paused | CauseKind::Device => &[(100, Certainty::Inferred)],
            _ => &[(100, Certainty::Observed)],
        };
        for (share, certainty) in breakdown {
            let ns = ns * share / 100;
            parts.push(Part { cause, ns, certainty: *certainty, sender, queued });
            timeline.push(span(at, at + ns as i64, Some(cause), *certainty, sender));
            at += ns as i64;
        }
        timeline.push(span(at, at + 1_100, None, Certainty::Observed, None));
        at += 1_100;
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    let unknown_ns = if number.is_multiple_of(4) { 2_000 + number * 120 } else { 0 };
    let lost_ns = parts.iter().map(|part| part.ns).sum::<u64>() + unknown_ns;
    let delay_ns = lost_ns as i64 + BASELINE;
    timeline.push(span(at, at + 1_800, None, Certainty::Observed, None));
    let mut packet = PacketExplanation {
        index: 1_000 + number * 977,
        at_ns: (number as i64 * 977 + 1_000) * 100_000,
        delay_ns,
        lost_ns,
        parts,
        unknown_ns,
        ahead: number % 5,
        incident: 1_000 + number * 977,
        events_missing: number == 13,
        timeline,
    };
    if packet.events_missing {
        packet.parts.clear();
        packet.timeline.clear();
        packet.unknown_ns = packet.lost_ns;
    }
    packet
}

fn span(
    from_ns: i64,
    to_ns: i64,
    cause: Option<usize>,
    certainty: Certainty,
    sender: Option<usize>,
) -> TimelineSpan {
    TimelineSpan { from_ns, to_ns, cause, certainty, sender }
}

/// Adds a packet to the sums of the tail.
fn tally(all: &mut TrialExplanation, packet: &PacketExplanation) {
    all.tail_lost_ns += packet.lost_ns;
    all.tail_unknown_ns += packet.unknown_ns;
    let mut of_cause = vec![0; all.causes.len()];
    for part in &packet.parts {
        let row = &mut all.causes[part.cause];
        let place = [Certainty::Observed, Certainty::Modelled, Certainty::Inferred];
        let place =
            place.iter().position(|certainty| *certainty == part.certainty).expect("one of the three");
        row.tail_ns[place] += part.ns;
        row.tail_queued_ns += if part.queued { part.ns } else { 0 };
        of_cause[part.cause] += part.ns;
        if let Some(sender) = part.sender {
            all.senders[sender].tail_ns += part.ns;
            // Each cause with senders has a modelled and an observed part.
            all.senders[sender].tail_packets += u64::from(part.certainty == Certainty::Observed);
        }
    }
    for (row, ns) in all.causes.iter_mut().zip(of_cause) {
        row.tail_packets += u64::from(ns > 0);
        row.longest_ns = row.longest_ns.max(ns);
    }
}

/// Percentiles as measured and without each cause, from the packets of the tail.
fn percentiles(all: &mut TrialExplanation) {
    let wanted = [50.0, 99.0, 99.9, 99.99, 99.999, 100.0];
    let at = |delays: &mut Vec<i64>, percentile: f64| {
        delays.sort_unstable();
        let beyond = (100_000.0 * (100.0 - percentile) / 100.0).round() as usize;
        if percentile < 99.9 { BASELINE + 10 * percentile as i64 } else { delays[99 - beyond.min(99)] }
    };
    let without = |cause: Option<usize>| -> Vec<i64> {
        let lost = |packet: &PacketExplanation| {
            packet
                .parts
                .iter()
                .filter(|part| Some(part.cause) == cause)
                .map(|part| part.ns as i64)
                .sum::<i64>()
        };
        let mut delays: Vec<i64> = all.worst.iter().map(|packet| packet.delay_ns - lost(packet)).collect();
        wanted.iter().map(|percentile| at(&mut delays, *percentile)).collect()
    };
    let measured = without(None);
    let rows: Vec<Vec<i64>> = (0..all.causes.len()).map(|cause| without(Some(cause))).collect();
    all.tail_above_ns = measured[2];
    all.percentiles = wanted
        .iter()
        .zip(measured)
        .map(|(&percentile, value_ns)| PercentileValue {
            percentile,
            value_ns,
            supported: percentile <= 99.99,
        })
        .collect();
    all.causes.iter_mut().zip(rows).for_each(|(row, without_ns)| row.without_ns = without_ns);
}

fn evidence(hostile: bool) -> Evidence {
    let cost =
        |event: &str, gaps, head_ns, tail_ns| EventCost { event: event.to_owned(), gaps, head_ns, tail_ns };
    let remark = if hostile { "<u>remark</u>" } else { "Softirqs were never seen alone in the calibration." };
    Evidence {
        core: 1,
        events: 214_318,
        duration_ns: 30_120_000_000,
        clock_uncertainty_ns: 62,
        windows_lost: 1,
        packets_in_lost: 1,
        stacks: true,
        calibration: vec![
            cost("local_timer", 488, [9_820, 14_010], [410, 790]),
            cost("call_function_single", 92, [10_240, 15_800], [390, 800]),
            cost("switch", 12, [900, 1_300], [700, 1_150]),
        ],
        logs_stalls: true,
        remarks: vec![remark.to_owned()],
    }
}

/// Mitigations for the sample; the real table is in the analysis crate.
pub fn mitigation(_: CauseKind, name: &str) -> Mitigation {
    Mitigation {
        what: "Something took the packet core from the device.",
        steps: vec![format!("Keep {name} off the core: boot with isolcpus=CORES [isolcpus]")],
        sources: &[Source { title: "Linux: NO_HZ", url: "https://docs.kernel.org/timers/no_hz.html" }],
    }
}
