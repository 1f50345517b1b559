//! Choose and set the network card.

use wiretail_schema::host::audit::Verdict;
use wiretail_schema::host::recommendation::{Advice, Evidence, Recommendation, Stand};

use super::device::links;
use super::{JNSM, Known, counted, of_trials, rule, step};
use crate::host::recommendation::sample::grouped;

/// Rules of the audit that are about a card, but for its stamps.
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
    // Whether there is a card is what the rule of drivers looks at first.
    let no_nic = known.finding("nic-driver").is_some_and(|finding| finding.verdict == Verdict::NotHere);
    let measured = match known.seen.is_empty() {
        true => "nothing was measured",
        false => "no card was measured: packets crossed links inside of the machine",
    };
    let (stand, says) = match (no_nic, bad, good) {
        (true, ..) => (Stand::DoesNotApply, format!("No link of this host has a card, and {measured}.")),
        (_, 0, 0) => (Stand::NoEvidenceYet, format!("The audit could not see the cards, and {measured}.")),
        (_, 0, _) => {
            (Stand::AlreadySo, format!("The audit finds nothing to change about the cards; {measured}."))
        }
        _ => (
            Stand::Follow,
            format!("{bad} of {} things about the cards could be better; {measured}.", bad + good + unseen),
        ),
    };
    let mut evidence: Vec<Evidence> =
        found.iter().filter(|one| one.verdict != Verdict::NotHere).map(|one| rule(one)).collect();
    let crossed = grouped(&known.seen, |one| links(one));
    evidence.extend(crossed.iter().map(|(links, seen)| {
        of_trials(
            format!("no card was measured: the packets of {} crossed {links}", counted(seen.len())),
            seen,
        )
    }));
    let cores = &known.audit.cores;
    let of_cores = if cores.is_empty() { String::new() } else { format!(" --cores {cores}") };
    let mitigations = found.iter().filter(|finding| finding.verdict.is_problem());
    let mut next: Vec<_> =
        mitigations.map(|finding| step(finding.title.clone(), finding.mitigation.clone())).collect();
    next.push(step(
        "see what the cards can do and are set to",
        format!("wiretail host audit --all{of_cores}"),
    ));
    Recommendation {
        kind: Advice::Nic,
        title: "the network card".to_owned(),
        advice: "Choose a card whose driver adds little and evenly, and that gives guests functions of its own (SR-IOV); keep \
                 it near the cores, and switch off what makes it wait for more packets."
            .to_owned(),
        stand,
        says,
        evidence,
        next,
        source: JNSM.to_owned(),
    }
}
