//! Measure with stamps of the network card.

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
        Some(Verdict::Good) => "a card of this host can stamp packets",
        Some(Verdict::Improvable) => "no card of this host stamps packets",
        Some(Verdict::NotHere) => "this host has no card that could",
        _ => "whether a card of this host could was not seen",
    };
    let (stand, says) = match (hardware, software, able) {
        (0, 0, Some(Verdict::Good)) => {
            (Stand::Follow, format!("Nothing was measured yet, and {nic}: measure with its stamps."))
        }
        (0, 0, Some(Verdict::Improvable)) => {
            (Stand::Follow, format!("Nothing was measured yet, and {nic}: measure on a host that has one."))
        }
        (0, 0, _) => (Stand::NoEvidenceYet, format!("Nothing was measured, and {nic}.")),
        (_, 0, _) => (Stand::AlreadySo, format!("All {} have stamps of a network card.", counted(hardware))),
        (_, software, _) => (
            Stand::Follow,
            format!(
                "{} stamped by software, and {nic}: what delays the stamp is in the delay, and the worst packets are the \
                 likeliest to be stamped late. Differences that are not far above the grid are not to be built on.",
                if software == 1 { "1 trial was".to_owned() } else { format!("{software} trials were") },
            ),
        ),
    };
    let mut evidence: Vec<Evidence> = sources.iter().map(|(source, seen)| timestamps(source, seen)).collect();
    evidence.extend(known_delays(&known.seen));
    evidence.extend(known.rules(&[RULE]));
    Recommendation {
        kind: Advice::HardwareTimestamps,
        title: "hardware timestamps".to_owned(),
        advice: "Measure with stamps that a network card gives to every packet on the wire: software gives them when it gets \
                 to it, and rare late packets are what is sought."
            .to_owned(),
        stand,
        says,
        evidence,
        next: vec![
            step(
                "capture both wires on a machine of its own, with a card that stamps",
                "wiretail capture pre=eth1 post=eth2 --timestamps hardware --write both.pcapng.zst",
            ),
            step(
                "and evaluate them",
                "wiretail analyze both.pcapng.zst --pre-interface eth1 --post-interface eth2 --out result",
            ),
        ],
        source: format!("{JNSM}; the same authors, Ducked Tails, CNSM 2021, doi 10.23919/CNSM52442.2021.9615532"),
    }
}

/// Who stamped a trial's packets: its taps', each once.
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
        "{} stamped by {source}, on a grid of {granularity} ns at most; of {} {same} have the stamp of the one before, {back} an earlier one",
        counted(seen.len()),
        packets(total),
    );
    of_trials(says, seen)
}

/// What trials with known delays say of the stamps.
fn known_delays(seen: &[Seen<'_>]) -> Option<Evidence> {
    let with: Vec<&Seen<'_>> = seen.iter().filter(|one| one.trial.calibration.is_some()).collect();
    let errors = with.iter().filter_map(|one| Some(one.trial.calibration.as_ref()?.error_ns()));
    let worst = errors.max_by_key(|error| error.unsigned_abs())?;
    Some(of_trials(
        format!(
            "delays that the device added on purpose were measured to {} ns at worst (medians)",
            worst.unsigned_abs()
        ),
        &with,
    ))
}
