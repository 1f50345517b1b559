//! Judges attribution against ground truth: injected interference compared with the causes reported for
//! packets.
//!
//! It uses only the list of injected interference, the packets' timestamps and the reported causes, and no
//! other results of the attribution. A packet *belongs* to an interference event if it was in the device at
//! any time from [`BEFORE_NS`] before the event's start until the event's end. If several events match, the
//! one with the longest overlap is used. A packet that arrives while such a packet is still in the device has
//! to wait and also belongs to the event, until [`DRAIN_NS`] after the event's end. A packet that arrives
//! later finds the device free again and is delayed by something else.
//!
//! Two kinds of packets are not judged: packets whose overlap with the event is less than half of their
//! excess delay, and packets that arrived so soon after others that they had to wait anyway.

use std::collections::BTreeMap;

use wiretail_schema::causes::CauseKind;
use wiretail_schema::run::interference::{Confused, GroundTruthReport, Interference, InterferenceKind};

/// Excess delay in ns above which packets are judged.
pub const LATE_NS: u64 = 20_000;
/// Interference may reach the device up to this many ns before the injector reads the clock.
pub const BEFORE_NS: i64 = 5_000;
/// Time after an interference event during which packets may still wait for delayed ones, in ns.
pub const DRAIN_NS: i64 = 300_000;
/// An interference event is not a packet's main cause if it overlaps the packet's stay by less than 1 /
/// `SHARE` of the packet's excess delay.
const SHARE: u64 = 2;

/// The reported cause of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// When the packet entered the device, in ns since 1970.
    pub in_ns: i64,
    /// When the packet left the device, in ns since 1970.
    pub out_ns: i64,
    /// Delay minus the baseline delay, in ns.
    pub lost_ns: u64,
    /// The first reported cause: its kind, and its name if the kind has one. `None` if no cause was reported.
    pub cause: Option<(CauseKind, String)>,
    /// The task reported as the cause's sender, if any.
    pub sender: Option<String>,
}

/// Judges the reported causes of packets, in any order. Pass all packets of the trial: those with an excess
/// delay of up to [`LATE_NS`] are not judged, but are needed to find packets that waited for others.
pub fn judge(injected: &[Interference], packets: &[Judged]) -> GroundTruthReport {
    let mut report = GroundTruthReport::default();
    let mut confused: BTreeMap<(InterferenceKind, String), u64> = BTreeMap::new();
    for interference in injected {
        let kind = report.kinds.entry(interference.kind).or_default();
        kind.injected += 1;
        if has_sender(interference.kind) {
            kind.injectors.insert(interference.task.clone());
        }
    }
    let mut injected: Vec<&Interference> = injected.iter().collect();
    injected.sort_by_key(|interference| interference.start_ns);
    let longest = injected.iter().map(|one| one.end_ns - one.start_ns).max().unwrap_or(0);
    let mut packets: Vec<&Judged> = packets.iter().collect();
    packets.sort_by_key(|packet| packet.in_ns);
    // The previous packet, if it belongs to an interference event: its departure and the event.
    let mut before: Option<(i64, &Interference)> = None;
    // Time at which a device that always takes the baseline time would be free.
    let mut free_ns = i64::MIN;
    for packet in packets {
        let anyway_ns = free_ns.saturating_sub(packet.in_ns).max(0);
        free_ns = free_ns.max(packet.in_ns) + (packet.out_ns - packet.in_ns - packet.lost_ns as i64).max(0);
        let waited =
            before.filter(|(out_ns, one)| packet.in_ns < *out_ns && packet.in_ns <= one.end_ns + DRAIN_NS);
        let owner = meets(&injected, longest, packet).or(waited.map(|(_, one)| one));
        before = owner.map(|owner| (packet.out_ns, owner));
        if packet.lost_ns <= LATE_NS {
            continue;
        }
        if anyway_ns as u64 * 2 > packet.lost_ns {
            report.crowded += 1;
            continue;
        }
        let Some(owner) = owner else {
            report.not_injected += 1;
            continue;
        };
        let overlap_ns = overlap(owner, packet);
        if overlap_ns > 0 && overlap_ns < (packet.lost_ns / SHARE) as i64 {
            report.doubtful += 1;
            continue;
        }
        let said = packet.cause.as_ref().and_then(|(kind, name)| kind_of(*kind, name));
        let ground_truth = report.kinds.entry(owner.kind).or_default();
        ground_truth.packets += 1;
        if said == Some(owner.kind) {
            ground_truth.found += 1;
            // The thread that ran instead of the device is the sender.
            let ran = packet.cause.as_ref().filter(|(kind, _)| *kind == CauseKind::Task);
            ground_truth.senders.extend(ran.map(|(_, name)| name.clone()).or_else(|| packet.sender.clone()));
        } else {
            let words = packet.cause.as_ref().map_or_else(String::new, |(kind, name)| words(*kind, name));
            *confused.entry((owner.kind, words)).or_default() += 1;
        }
        if let Some(said) = said {
            report.kinds.entry(said).or_default().said += 1;
        }
    }
    let told = confused.into_iter().map(|((injected, said), packets)| Confused { injected, said, packets });
    report.confused = told.collect();
    report
}

/// The interference event that occurred while the packet was in the device, if any.
fn meets<'a>(injected: &[&'a Interference], longest_ns: i64, packet: &Judged) -> Option<&'a Interference> {
    let behind = injected.partition_point(|one| one.start_ns - BEFORE_NS <= packet.out_ns);
    let candidates = injected[..behind].iter().rev();
    candidates
        .take_while(|one| one.start_ns + longest_ns >= packet.in_ns)
        .filter(|one| one.end_ns >= packet.in_ns)
        .max_by_key(|one| (overlap(one, packet), one.start_ns))
        .copied()
}

/// Overlap of an interference event with a packet's stay, in ns.
fn overlap(interference: &Interference, packet: &Judged) -> i64 {
    (interference.end_ns.min(packet.out_ns) - interference.start_ns.max(packet.in_ns)).max(0)
}

/// The kind of interference that corresponds to a reported cause.
fn kind_of(kind: CauseKind, name: &str) -> Option<InterferenceKind> {
    match kind {
        CauseKind::TlbShootdown => Some(InterferenceKind::Shootdown),
        CauseKind::Timer => Some(InterferenceKind::Timer),
        CauseKind::Task if name == "wt-hog" => Some(InterferenceKind::Hog),
        CauseKind::PageFault => Some(InterferenceKind::PageFaults),
        CauseKind::Softirq if name.starts_with("NET_RX") => Some(InterferenceKind::Softirq),
        CauseKind::FunctionCall if name.contains("rps_trigger_softirq") => Some(InterferenceKind::Softirq),
        CauseKind::FunctionCall if name.contains("ipi_mb") => Some(InterferenceKind::Ipi),
        CauseKind::Device => Some(InterferenceKind::Pause),
        _ => None,
    }
}

/// Whether the injector can be identified as a sender. Timers are armed long before they fire, and the device's
/// own activity has no sender.
fn has_sender(kind: InterferenceKind) -> bool {
    use InterferenceKind::{Hog, Ipi, Shootdown, Softirq};
    matches!(kind, Shootdown | Softirq | Ipi | Hog)
}

fn words(kind: CauseKind, name: &str) -> String {
    let text = format!("{kind:?} {name}");
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injected(kind: InterferenceKind, start_us: i64, end_us: i64, task: &str) -> Interference {
        Interference {
            kind,
            start_ns: start_us * 1000,
            end_ns: end_us * 1000,
            pid: 1,
            task: task.to_owned(),
            start_monotonic_ns: 0,
            end_monotonic_ns: 0,
        }
    }

    fn packet(in_us: i64, lost_us: i64, cause: Option<(CauseKind, &str)>) -> Judged {
        Judged {
            in_ns: in_us * 1000,
            out_ns: (in_us + 1 + lost_us) * 1000,
            lost_ns: lost_us as u64 * 1000,
            cause: cause.map(|(kind, name)| (kind, name.to_owned())),
            sender: None,
        }
    }

    const HOG: Option<(CauseKind, &str)> = Some((CauseKind::Task, "wt-hog"));
    const PAUSE: Option<(CauseKind, &str)> = Some((CauseKind::Device, ""));

    fn two() -> [Interference; 2] {
        use InterferenceKind::{Hog, Pause};
        [injected(Pause, 5000, 5300, "wiretail"), injected(Hog, 1000, 1200, "wt-hog")]
    }

    #[test]
    fn counts_correct_causes_as_found() {
        let packets = [packet(1050, 150, HOG), packet(1150, 60, HOG), packet(5100, 200, PAUSE)];
        let report = judge(&two(), &packets);
        let (hog, pause) = (&report.kinds[&InterferenceKind::Hog], &report.kinds[&InterferenceKind::Pause]);
        assert_eq!((hog.injected, hog.packets, hog.found, hog.said), (1, 2, 2, 2));
        assert_eq!((hog.precision(), hog.recall()), (Some(1.0), Some(1.0)));
        assert!(hog.is_every_sender_named() && pause.is_every_sender_named());
        assert_eq!((pause.recall(), report.not_injected, report.doubtful), (Some(1.0), 0, 0));
        assert!(report.confused.is_empty());
    }

    #[test]
    fn wrong_cause_counts_against_both_kinds() {
        let packets = [
            packet(1050, 150, PAUSE),
            packet(1100, 100, HOG),
            packet(1120, 80, None),
            packet(1130, 70, Some((CauseKind::Task, "kworker/1:1"))),
            packet(5100, 200, PAUSE),
        ];
        let report = judge(&two(), &packets);
        let (hog, pause) = (&report.kinds[&InterferenceKind::Hog], &report.kinds[&InterferenceKind::Pause]);
        assert_eq!((hog.recall(), hog.precision()), (Some(0.25), Some(1.0)));
        assert_eq!((pause.recall(), pause.precision()), (Some(1.0), Some(0.5)));
        let confused: Vec<_> = report.confused.iter().map(|one| (one.said.as_str(), one.packets)).collect();
        assert_eq!(confused, [("", 1), ("Device", 1), ("Task kworker/1:1", 1)]);
    }

    #[test]
    fn does_not_judge_packets_that_arrive_together() {
        // Each packet usually takes 1 us. If 200 arrive at once, the last ones wait for 199 us anyway.
        let together = (0..200).map(|place| packet(1000, place, HOG));
        let report = judge(&two(), &together.collect::<Vec<_>>());
        assert_eq!((report.crowded, report.kinds[&InterferenceKind::Hog].packets), (179, 0));
    }

    #[test]
    fn counts_only_late_packets_that_overlap_or_waited() {
        let packets = [
            // Long before all interference.
            packet(100, 500, None),
            // Left within the 5 us before the start.
            packet(960, 34, HOG),
            // Not late enough to be judged, but the next packet waited for it.
            packet(1190, 20, None),
            packet(1205, 60, HOG),
            packet(1260, 40, HOG),
            // Arrived when the device was free again.
            packet(1302, 30, HOG),
        ];
        let report = judge(&two(), &packets);
        let hog = &report.kinds[&InterferenceKind::Hog];
        assert_eq!((hog.packets, hog.found, report.not_injected), (3, 3, 2));
        // The three packets do not overlap the interference, but waited for packets that do.
        assert_eq!(report.doubtful, 0);
        let mut turned = packets.clone();
        turned.reverse();
        assert_eq!(judge(&two(), &turned), report);
    }

    #[test]
    fn assigns_packet_to_interference_with_longest_overlap() {
        use InterferenceKind::{Hog, Timer};
        let both = [injected(Timer, 1000, 1070, "wt-timer"), injected(Hog, 1060, 1260, "wt-hog")];
        let report = judge(&both, &[packet(1050, 200, HOG), packet(1001, 62, Some((CauseKind::Timer, "")))]);
        assert_eq!(report.kinds[&Hog].found, 1);
        assert_eq!((report.kinds[&Timer].packets, report.kinds[&Timer].found), (1, 1));
    }

    #[test]
    fn reports_missing_sender_names() {
        let list = [injected(InterferenceKind::Ipi, 1000, 1200, "wt-storm")];
        let said = packet(1050, 100, Some((CauseKind::FunctionCall, "ipi_mb")));
        let report = judge(&list, std::slice::from_ref(&said));
        assert!(!report.kinds[&InterferenceKind::Ipi].is_every_sender_named());
        let named = Judged { sender: Some("wt-storm".to_owned()), ..said };
        assert!(judge(&list, &[named]).kinds[&InterferenceKind::Ipi].is_every_sender_named());
    }

    #[test]
    fn treats_small_overlap_as_doubtful() {
        let list = [injected(InterferenceKind::Timer, 1000, 1070, "wt-timer")];
        let report = judge(&list, &[packet(1060, 4000, Some((CauseKind::Paused, "")))]);
        assert_eq!((report.doubtful, report.kinds[&InterferenceKind::Timer].recall()), (1, None));
        // The timers overlap 60 of 100 us.
        let report = judge(&list, &[packet(1010, 100, Some((CauseKind::Paused, "")))]);
        assert_eq!((report.doubtful, report.kinds[&InterferenceKind::Timer].recall()), (0, Some(0.0)));
    }
}
