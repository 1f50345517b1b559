//! Recommendation for the choice and the settings of the NIC.

use wiretail_schema::host::audit::Verdict;
use wiretail_schema::host::recommendation::{Advice, Evidence, Recommendation, Stand};

use super::device::links;
use super::{JNSM, Known, counted, of_trials, rule, step};
use crate::host::recommendation::sample::grouped;

/// Audit rules about NICs, without the rule for timestamps.
const RULES: [&str; 10] = [
    "nic-driver",
    "nic-node",
    "nic-pcie",
    "pcie-aspm",
    "nic-rings",
    "nic-coalescing",
    "nic-pause",
    "nic-offloads",
    "nic-eee",
    "sriov",
];

pub(super) fn recommendation(known: &Known<'_>) -> Recommendation {
    let found: Vec<_> = RULES.iter().filter_map(|name| known.finding(name)).collect();
    let with =
        |wanted: fn(Verdict) -> bool| found.iter().filter(move |finding| wanted(finding.verdict)).count();
    let (bad, good, unseen) = (
        with(Verdict::is_problem),
        with(|verdict| verdict == Verdict::Good),
        with(|verdict| verdict == Verdict::Unseen),
    );
    // The driver rule first checks whether there is a NIC.
    let no_nic = known.finding("nic-driver").is_some_and(|finding| finding.verdict == Verdict::NotHere);
    let measured = match known.seen.is_empty() {
        true => "nothing was measured",
        false => "no NIC was measured: packets crossed links inside the machine",
    };
    let (stand, says) = match (no_nic, bad, good) {
        (true, ..) => {
            (Stand::DoesNotApply, format!("No network interface of this host is a NIC, and {measured}."))
        }
        (_, 0, 0) => {
            (Stand::NoEvidenceYet, format!("The audit could not read the NICs' settings, and {measured}."))
        }
        (_, 0, _) => {
            (Stand::AlreadySo, format!("The audit found nothing to change about the NICs; {measured}."))
        }
        _ => (
            Stand::Follow,
            format!("{bad} of {} NIC rules found something to improve; {measured}.", bad + good + unseen),
        ),
    };
    let mut evidence: Vec<Evidence> =
        found.iter().filter(|one| one.verdict != Verdict::NotHere).map(|one| rule(one)).collect();
    let crossed = grouped(&known.seen, |one| links(one));
    evidence.extend(crossed.iter().map(|(links, seen)| {
        of_trials(
            format!("no NIC was measured: the packets of {} crossed {links}", counted(seen.len())),
            seen,
        )
    }));
    let cores = &known.audit.cores;
    let of_cores = if cores.is_empty() { String::new() } else { format!(" --cores {cores}") };
    let mitigations = found.iter().filter(|finding| finding.verdict.is_problem());
    let mut next: Vec<_> =
        mitigations.map(|finding| step(finding.title.clone(), finding.mitigation.clone())).collect();
    next.push(step(
        "show the capabilities and the settings of the NICs",
        format!("wiretail host audit --all{of_cores}"),
    ));
    Recommendation {
        kind: Advice::Nic,
        title: "NIC".to_owned(),
        advice: "Choose a NIC that provides virtual functions for guests (SR-IOV) and whose driver adds only a small, \
            constant delay. Place it near the cores, and disable everything that makes it wait for more packets."
            .to_owned(),
        stand,
        says,
        evidence,
        next,
        source: JNSM.to_owned(),
    }
}
