//! Recommendation for virtualisation: use it for isolation, on dedicated cores.

use wiretail_schema::host::recommendation::{Advice, Deployment, Evidence, Recommendation, Stand};
use wiretail_schema::run::StallCause;

use super::contrast::{Contrast, Question, contrasts};
use super::device::{deployment, isolation_boundary};
use super::kernel::{is_pause, share};
use super::pooled::Told;
use super::{JNSM, Known, counted, of_trials, step};
use crate::host::recommendation::sample::{ISOLATION_BOUNDARY, SameHost, Seen, grouped};
use crate::summary::verdict::percent;

const RULES: [&str; 8] = [
    "steal",
    "cpu-model",
    "vcpu-pinning",
    "guest-memory",
    "halt-polling",
    "sriov",
    "cfs-quota",
    "cpuset-partition",
];

pub(super) fn recommendation(known: &Known<'_>) -> Recommendation {
    let question = Question {
        without: &ISOLATION_BOUNDARY,
        host: SameHost::Whole,
        name: &isolation_boundary,
        // The baseline is bare if there is such a trial, otherwise a container.
        rank: &|one| match deployment(one)? {
            Deployment::Bare => Some(0),
            Deployment::Container => Some(1),
            Deployment::Vm => None,
        },
    };
    let pairs = contrasts(known.seen.iter().filter(|one| deployment(one).is_some()), &question);
    let (stand, says) = stand(known, &pairs);
    let mut evidence: Vec<Evidence> = pairs.iter().map(Contrast::evidence).collect();
    evidence.extend(paused(known));
    evidence.extend(known.seen.iter().filter_map(explained));
    evidence.extend(known.rules(&RULES));
    let told = pairs.iter().any(|pair| pair.told().is_some());
    let next = match told {
        true => Vec::new(),
        false => vec![
            step(
                "measure the same forwarder bare, in containers and in virtual machines",
                "sudo wiretail run experiments/deployments/deployments.toml --allow-system-changes",
            ),
            step(
                "measure network functions, bare and in a virtual machine",
                "sudo wiretail run experiments/deployments/virtual-machines.toml --allow-system-changes",
            ),
        ],
    };
    Recommendation {
        kind: Advice::Virtualisation,
        title: "virtualisation".to_owned(),
        advice: "To isolate functions from each other, use a virtual machine with dedicated cores, memory and \
            virtual functions of a NIC, and an isolating boot line in the guest. With these measures, the tail need \
            not suffer much; without them, it does."
            .to_owned(),
        stand,
        says,
        evidence,
        next,
        source: format!(
            "{JNSM}; containers: Wiedner, Helm, Daichendt, Andre, Carle, Containing Low Tail-Latencies in Packet Processing Using \
             Lightweight Virtualization, ITC 35, 2023"
        ),
    }
}

fn stand(known: &Known<'_>, pairs: &[Contrast<'_, '_>]) -> (Stand, String) {
    // Grouped by isolation boundary, over all loads.
    let named = |pair: &Contrast<'_, '_>| (pair.baseline.0.clone(), pair.other.0.clone());
    let mut names: Vec<(String, String)> = Vec::new();
    pairs.iter().filter(|pair| pair.told().is_some()).map(named).for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    if names.is_empty() {
        let says = match (known.seen.is_empty(), pairs.is_empty()) {
            (true, _) => "Nothing was measured.",
            (_, true) => "No two deployments were measured under the same load.",
            (_, false) if pairs.iter().all(|pair| pair.emulated) => {
                "Only emulated virtual machines were compared. They do not represent hardware: measure on a host with KVM."
            }
            _ => "Too few packets to distinguish deployments.",
        };
        return (Stand::NoEvidenceYet, says.to_owned());
    }
    let mut free = false;
    let mut says = Vec::new();
    for name in names {
        let of = pairs.iter().filter(|pair| named(pair) == name);
        let told: Vec<Told> = of.filter_map(Contrast::told).collect();
        let slower = told.iter().filter(|told| **told == Told::Higher).count();
        let (baseline, other) = name;
        free |= slower == 0;
        says.push(match slower {
            0 if told.iter().all(|told| *told == Told::Alike) => {
                format!("{other} is indistinguishable from {baseline}.")
            }
            0 => format!("{other} is not slower than {baseline} under any of {} loads.", told.len()),
            all if all == told.len() => {
                format!("{other} is slower than {baseline} under each of {all} loads.")
            }
            some => format!("{other} is slower than {baseline} under {some} of {} loads.", told.len()),
        });
    }
    says.push(match free {
        true => {
            "If isolation is needed, at least one of the measured isolation boundaries adds no measurable \
            delay."
                .to_owned()
        }
        false => "All measured isolation boundaries add delay: run bare if delay matters most.".to_owned(),
    });
    (if free { Stand::Follow } else { Stand::DoesNotApply }, capitalised(&says.join(" ")))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Pauses of all cores of this machine, caused by the hypervisor or firmware below it.
fn paused(known: &Known<'_>) -> Option<Evidence> {
    let cause = |one: &Seen<'_>| {
        let mut causes = one.trial.stalls.causes.iter();
        causes
            .find(|stall| stall.cause == StallCause::AllCoresPaused)
            .filter(|stall| stall.count > 0)
            .cloned()
    };
    let with: Vec<&Seen<'_>> = known.seen.iter().filter(|one| cause(one).is_some()).collect();
    let all: Vec<_> = with.iter().filter_map(|one| cause(one)).collect();
    let longest = all.iter().map(|stall| stall.longest_ns).max()?;
    let count: u64 = all.iter().map(|stall| stall.count).sum();
    let says = format!(
        "all busy cores stopped simultaneously {count} times in {}, for at most {} us: caused by the hypervisor or the firmware",
        counted(with.len()),
        longest / 1000,
    );
    Some(of_trials(says, &with))
}

/// Share of a traced trial's tail that its kernel has no record of.
fn explained(seen: &Seen<'_>) -> Option<Evidence> {
    let explanation = &seen.input.explanations.iter().find(|one| one.trial == seen.trial.number)?.explanation;
    let paused = share(explanation, is_pause).filter(|share| *share > 0.0)?;
    let says = format!(
        "{}: {} of the tail's excess delay passed while the core stopped without the kernel's knowledge",
        seen.words(&[]),
        percent(paused)
    );
    Some(of_trials(says, &[seen]))
}

/// Trials, grouped by the isolation boundary of their device.
pub(super) fn by_isolation_boundary<'s, 'a>(
    known: &'s Known<'a>,
) -> Vec<((Deployment, String), Vec<&'s Seen<'a>>)> {
    let with_device = known.seen.iter().filter(|one| deployment(one).is_some());
    grouped(with_device, |one| (deployment(one).unwrap_or(Deployment::Bare), profile(one)))
}

/// Boot configuration of the guest, or of the host if there is no guest.
fn profile(seen: &Seen<'_>) -> String {
    let isolated =
        seen.input.run.host.cores_isolated.as_deref().is_some_and(|cores| !cores.trim().is_empty());
    match deployment(seen) {
        Some(Deployment::Vm) => format!("{} boot", seen.text("dut.boot")),
        _ if isolated => "cores isolated".to_owned(),
        _ => "regular boot".to_owned(),
    }
}
