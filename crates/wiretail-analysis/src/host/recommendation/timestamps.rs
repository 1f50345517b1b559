//! Recommendation to measure with hardware timestamps.

use wiretail_schema::host::audit::Verdict;
use wiretail_schema::host::recommendation::{Advice, Evidence, Recommendation, Stand};

use super::{JNSM, Known, counted, of_trials, step};
use crate::host::recommendation::sample::{Seen, grouped};
use crate::summary::verdict::packets;

const RULE: &str = "nic-timestamps";

pub(super) fn recommendation(known: &Known<'_>) -> Recommendation {
    let sources = grouped(&known.seen, |one| source(one));
    let software: usize =
        sources.iter().filter(|(source, _)| !is_hardware(source)).map(|(_, all)| all.len()).sum();
    let hardware = known.seen.len() - software;
    let able = known.finding(RULE).map(|finding| finding.verdict);
    let nic = match able {
        Some(Verdict::Good) => "a NIC of this host can timestamp packets",
        Some(Verdict::Improvable) => "no NIC of this host can timestamp packets",
        Some(Verdict::NotHere) => "this host has no NIC",
        _ => "it is unknown whether a NIC of this host can timestamp packets",
    };
    let (stand, says) = match (hardware, software, able) {
        (0, 0, Some(Verdict::Good)) => {
            (Stand::Follow, format!("Nothing was measured yet, and {nic}: measure with its timestamps."))
        }
        (0, 0, Some(Verdict::Improvable)) => {
            (Stand::Follow, format!("Nothing was measured yet, and {nic}: measure on a host that has one."))
        }
        (0, 0, _) => (Stand::NoEvidenceYet, format!("Nothing was measured, and {nic}.")),
        (_, 0, _) => (Stand::AlreadySo, format!("All {} have hardware timestamps.", counted(hardware))),
        (_, software, _) => (
            Stand::Follow,
            format!(
                "{} software timestamps, and {nic}: the delay includes whatever delays the timestamp, and the worst \
                packets are the most likely to get late timestamps. Do not rely on differences close to the \
                timestamp granularity.",
                if software == 1 { "1 trial has".to_owned() } else { format!("{software} trials have") },
            ),
        ),
    };
    let mut evidence: Vec<Evidence> = sources.iter().map(|(source, seen)| timestamps(source, seen)).collect();
    evidence.extend(known_delays(&known.seen));
    evidence.extend(known.rules(&[RULE]));
    Recommendation {
        kind: Advice::HardwareTimestamps,
        title: "hardware timestamps".to_owned(),
        advice: "Measure with a NIC that takes a timestamp of every packet on the wire. Software takes the timestamp \
            only when the CPU handles the packet, which distorts the rare late packets that matter."
            .to_owned(),
        stand,
        says,
        evidence,
        next: vec![
            step(
                "capture both wires on a separate machine, with a NIC that can timestamp packets",
                "wiretail capture pre=eth1 post=eth2 --timestamps hardware --write both.pcapng.zst",
            ),
            step(
                "analyze the capture",
                "wiretail analyze both.pcapng.zst --pre-interface eth1 --post-interface eth2 --out result",
            ),
        ],
        source: format!("{JNSM}; the same authors, Ducked Tails, CNSM 2021, doi 10.23919/CNSM52442.2021.9615532"),
    }
}

/// Timestamp sources of a trial's taps, without duplicates.
fn source(seen: &Seen<'_>) -> String {
    let mut names: Vec<&str> = seen.trial.taps.iter().map(|tap| tap.timestamp_source.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { seen.summary.pre.clock.source.clone() } else { names.join(" and ") }
}

fn is_hardware(source: &str) -> bool {
    source.contains("hardware") && !source.contains(" and ")
}

fn timestamps(source: &str, seen: &[&Seen<'_>]) -> Evidence {
    let clocks = || seen.iter().flat_map(|one| [&one.summary.pre.clock, &one.summary.post.clock]);
    let granularity = clocks().map(|clock| clock.granularity_ns).fold(0.0_f64, f64::max);
    let (same, back): (u64, u64) =
        (clocks().map(|clock| clock.identical).sum(), clocks().map(|clock| clock.backward).sum());
    let total: u64 = seen.iter().map(|one| one.summary.pre.packets + one.summary.post.packets).sum();
    let says = format!(
        "{} with timestamps from {source}, granularity at most {granularity} ns; of {}, {same} have the same timestamp as the previous packet, and {back} have an earlier one",
        counted(seen.len()),
        packets(total),
    );
    of_trials(says, seen)
}

/// Timestamp error, from trials with known delays.
fn known_delays(seen: &[Seen<'_>]) -> Option<Evidence> {
    let with: Vec<&Seen<'_>> = seen.iter().filter(|one| one.trial.calibration.is_some()).collect();
    let errors = with.iter().filter_map(|one| Some(one.trial.calibration.as_ref()?.error_ns()));
    let worst = errors.max_by_key(|error| error.unsigned_abs())?;
    Some(of_trials(
        format!(
            "known delays added by the device were measured with an error of at most {} ns (medians)",
            worst.unsigned_abs()
        ),
        &with,
    ))
}
