//! Gaps with known causes.

use wiretail_schema::causes::CauseKind;
use wiretail_schema::causes::trace::{Event, Gap, Spin, TraceRoles};

use super::super::{Builder, ExplainedGaps, explain_gaps};
use super::{BARRIER, DEVICE, FLUSH, Names, call, roles, switch, timer};

fn gap(from_ns: u64, to_ns: u64) -> Gap {
    Gap { from_ns, to_ns }
}

fn explained(gaps: &[Gap], events: &[Event], lost: &[Gap], wanted: &[usize]) -> ExplainedGaps {
    let spin = Spin { core: 1, thread: DEVICE, gaps: gaps.to_vec(), ..Spin::default() };
    let roles = TraceRoles { stalls: gaps.to_vec(), spin: Some(spin), ..roles() };
    let mut builder = Builder::new(&roles);
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.ts_ns);
    events.iter().for_each(|event| builder.take(event));
    let lines = builder.finish(&Names);
    explain_gaps(lines, &roles, &Names, lost, wanted)
}

/// Twenty ticks with a head of 7 us, six shootdowns and one barrier by thread 9, a CPU hog, and a pause
/// without an event.
#[test]
fn attributes_each_gap_to_its_cause() {
    let (mut gaps, mut events) = (Vec::new(), Vec::new());
    for number in 1..=20 {
        let at = number * 4_000_000;
        events.extend(timer(at + 7_000, at + 9_000));
        gaps.push(gap(at, at + 9_400));
    }
    for number in 1..=6 {
        let at = number * 4_000_000 + 1_000_000;
        events.extend(call(at - 1_000, FLUSH));
        gaps.push(gap(at - 4_000, at + 4_000));
    }
    // This event is too rare to be calibrated, and its head is longer than the time between its tracepoints.
    let at = 41_500_000;
    events.extend(call(at, BARRIER));
    gaps.push(gap(at - 3_000, at + 5_000));
    let at = 50_000_000;
    events.extend([switch(at + 2_000, DEVICE, 7, 0, 39), switch(at + 1_000_000, 7, DEVICE, 1, 120)]);
    gaps.push(gap(at, at + 1_001_000));
    gaps.push(gap(70_000_000, 70_300_000));
    gaps.sort_by_key(|gap| gap.from_ns);
    let places: Vec<usize> =
        (0..gaps.len()).filter(|place| gaps[*place].to_ns - gaps[*place].from_ns > 100_000).collect();
    let found = explained(&gaps, &events, &[], &places);
    let rows: Vec<(CauseKind, &str, u64, u64)> =
        found.causes.causes.iter().map(|row| (row.kind, &*row.name, row.gaps, row.longest_ns)).collect();
    assert_eq!(
        rows,
        [
            (CauseKind::Task, "hog", 1, 1_001_000),
            (CauseKind::Paused, "", 1, 300_000),
            (CauseKind::Timer, "", 20, 9_400),
            (CauseKind::TlbShootdown, "", 6, 8_000),
            (CauseKind::FunctionCall, "ipi_mb", 1, 8_000),
        ]
    );
    let total: u64 = found.causes.causes.iter().map(|row| row.total_ns).sum();
    assert_eq!(total, gaps.iter().map(|gap| gap.to_ns - gap.from_ns).sum::<u64>());
    for row in &found.causes.causes[3..] {
        let [sender] = &row.senders[..] else { panic!("one sender of {row:?}") };
        let (task, call) = (&*sender.task, sender.system_call.as_deref());
        assert_eq!((task, sender.cpu, call, sender.gaps), ("unmapper", 0, Some("munmap"), row.gaps));
    }
    // The longest gaps are listed with all their parts.
    let parts: Vec<(usize, u64)> =
        found.parts.iter().map(|parts| (parts[0].cause, parts.iter().map(|part| part.ns).sum())).collect();
    assert_eq!(parts, [(0, 1_001_000), (1, 300_000)]);
    let head = found.causes.calibration.iter().find(|cost| cost.event == "local_timer").expect("calibrated");
    assert_eq!((head.gaps, head.head_ns[0], head.tail_ns[0]), (20, 7_000, 400));
}

#[test]
fn names_no_cause_if_events_are_missing() {
    let gaps = [gap(1_000_000, 1_010_000), gap(2_000_000, 2_010_000)];
    let found = explained(&gaps, &timer(2_002_000, 2_009_000), &[gap(900_000, 1_005_000)], &[0, 1]);
    assert_eq!((found.causes.gaps_missing, found.causes.causes.len()), (1, 1));
    assert_eq!((found.causes.causes[0].kind, found.causes.causes[0].gaps), (CauseKind::Timer, 1));
    assert!(found.parts[0].is_empty() && found.parts[1].len() == 1, "{:?}", found.parts);
    assert_eq!(explained(&[], &[], &[], &[]), ExplainedGaps::default());
}
