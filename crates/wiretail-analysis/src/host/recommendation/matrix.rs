//! Latency, security and resources of each deployment.
//!
//! Facts and numbers side by side; what to give up for what is the reader's.

use wiretail_schema::host::audit::Verdict;
use wiretail_schema::host::recommendation::{
    Deployment, Evidence, Latency, Matrix, MatrixRow, NextStep, Origin,
};
use wiretail_schema::run::energy::EnergyState;

use super::device::{Waits, emulated, isolation_boundary, waits};
use super::pooled::{self, MAXIMUM};
use super::virtualisation::by_isolation_boundary;
use super::{Known, counted, of_trials, step};
use crate::host::recommendation::sample::{Condition, ISOLATION_BOUNDARY, SameHost, Seen, grouped};

/// Columns of the latency.
const SHOWN: [f64; 3] = [99.9, 99.99, MAXIMUM];
/// Rules of the audit that tell a fact of security, and which: the audit judges them by what they cost in time.
const SECURITY: [(&str, &str); 3] = [
    ("mitigations", "mitigations against attacks through the processor in effect"),
    ("smt", "second hardware threads on the cores, which share caches with the first"),
    ("iommu", "devices that reach memory through translation only"),
];
/// And of resources.
const RESOURCES: [(&str, &str); 5] = [
    ("isolcpus", "cores without the scheduler's load balancing, taken from everything else"),
    ("hugepages", "huge pages, taken from all other memory"),
    ("idle-states", "how deep cores sleep while nobody wants them"),
    ("governor", "frequency governor"),
    ("cfs-quota", "quota of processor time"),
];

pub(super) fn matrix(known: &Known<'_>) -> Matrix {
    let seen = by_isolation_boundary(known);
    // A load that many rows have says the most.
    let common = |load: &Condition| {
        let has = |group: &[&Seen<'_>]| {
            group.iter().any(|one| one.condition(&ISOLATION_BOUNDARY, SameHost::Whole) == *load)
        };
        seen.iter().filter(|(_, group)| has(group)).count()
    };
    let mut rows: Vec<MatrixRow> = seen
        .iter()
        .map(|((deployment, profile), group)| MatrixRow {
            deployment: *deployment,
            profile: profile.clone(),
            trials: group.len(),
            latency: latency(group, &common),
            security: vec![apart(*deployment)],
            resources: [taken(*deployment)].into_iter().chain(resources(group)).collect(),
            next: None,
        })
        .collect();
    rows.sort_by(|a, b| (a.deployment, &a.profile).cmp(&(b.deployment, &b.profile)));
    for (deployment, profile) in [
        (Deployment::Bare, ""),
        (Deployment::Container, ""),
        (Deployment::Vm, "plain boot"),
        (Deployment::Vm, "tuned boot"),
    ] {
        let is_there =
            |row: &MatrixRow| row.deployment == deployment && (profile.is_empty() || row.profile == profile);
        if !rows.iter().any(is_there) {
            rows.push(unseen(deployment, profile));
        }
    }
    Matrix { rows, host_security: facts(known, &SECURITY), host_resources: facts(known, &RESOURCES) }
}

/// What rules of the audit tell, without what they make of it.
fn facts(known: &Known<'_>, rules: &[(&str, &str)]) -> Vec<Evidence> {
    let fact = |(rule, what): &(&str, &str)| {
        let finding = known.finding(rule)?;
        let told = match (&finding.effective, finding.verdict) {
            (Some(effective), Verdict::Unseen) => format!("{effective}; {}", finding.detail),
            (Some(effective), _) => effective.clone(),
            (None, _) if finding.detail.is_empty() => return None,
            (None, _) => finding.detail.clone(),
        };
        let from = Origin::Rule { rule: finding.rule.clone(), verdict: finding.verdict };
        Some(Evidence { says: format!("{what}: {told}"), from, delays: Vec::new(), rates: Vec::new() })
    };
    rules.iter().filter_map(fact).collect()
}

/// A deployment of which nothing was measured.
fn unseen(deployment: Deployment, profile: &str) -> MatrixRow {
    let command = match deployment {
        Deployment::Bare => "sudo wiretail run experiments/quickstart.toml --allow-system-changes",
        Deployment::Container | Deployment::Vm => {
            "sudo wiretail run experiments/deployments/deployments.toml --allow-system-changes"
        }
    };
    MatrixRow {
        deployment,
        profile: profile.to_owned(),
        trials: 0,
        latency: Vec::new(),
        security: vec![apart(deployment)],
        resources: vec![taken(deployment)],
        next: Some(measure(command)),
    }
}

fn measure(command: &str) -> NextStep {
    step("measure it", command)
}

fn latency(group: &[&Seen<'_>], common: &impl Fn(&Condition) -> usize) -> Vec<Latency> {
    let loads =
        grouped(group.iter().copied(), |one| (one.condition(&[], SameHost::Whole), isolation_boundary(one)));
    let mut loads: Vec<(usize, u64, Latency)> = loads
        .into_iter()
        .filter_map(|((_, isolation_boundary), seen)| {
            let first = seen.first()?;
            let delays = pooled::delays(&isolation_boundary, &SHOWN, &seen);
            let packets = delays.first().map_or(0, |delay| delay.packets);
            let load = Latency { load: first.words(&ISOLATION_BOUNDARY), delays, emulated: emulated(first) };
            Some((common(&first.condition(&ISOLATION_BOUNDARY, SameHost::Whole)), packets, load))
        })
        .collect();
    loads.sort_by_key(|(common, packets, _)| std::cmp::Reverse((*common, *packets)));
    loads.into_iter().map(|(_, _, load)| load).collect()
}

/// What is between the device and the others, by how it is deployed.
fn apart(deployment: Deployment) -> Evidence {
    by_deployment(match deployment {
        Deployment::Bare => {
            "shares kernel, files, processes and memory with all else on the host; a network namespace alone is its own"
        }
        Deployment::Container => {
            "shares the host's kernel: one fault in it opens all; files, processes and network are namespaces of its own"
        }
        Deployment::Vm => {
            "has a kernel and memory of its own: to get out, a fault in the hypervisor (QEMU, KVM) has to be found as well; \
             caches and cores are shared as the audit says"
        }
    })
}

/// What it takes, by how it is deployed.
fn taken(deployment: Deployment) -> Evidence {
    by_deployment(match deployment {
        Deployment::Bare => "nothing but the device itself",
        Deployment::Container => "the device, and a runtime that is idle while packets are forwarded",
        Deployment::Vm => {
            "a second kernel with its memory, a core for each virtual processor, and cores of the host for the rest of QEMU"
        }
    })
}

fn by_deployment(says: &str) -> Evidence {
    Evidence { says: says.to_owned(), from: Origin::Deployment, delays: Vec::new(), rates: Vec::new() }
}

/// What its trials took.
fn resources(group: &[&Seen<'_>]) -> Vec<Evidence> {
    let mut all = Vec::new();
    let by_waiting = grouped(group.iter().copied(), |one| (one.text("dut.kind").to_owned(), waits(one)));
    for ((kind, waiting), seen) in by_waiting {
        let power = match waiting {
            Some(Waits::Polls) => "polls: it takes all of a core, without packets, too",
            Some(Waits::Sleeps) => "sleeps: its core is free while there is no packet",
            Some(Waits::InKernel) => "is run by interrupts: its core is free while there is no packet",
            Some(Waits::Unknown) | None => continue,
        };
        all.push(of_trials(format!("{kind} {power}"), &seen));
    }
    let alone: Vec<&Seen<'_>> =
        group.iter().copied().filter(|one| one.text("host.isolate") == "true").collect();
    if !alone.is_empty() {
        all.push(of_trials("had the packets' cores for themselves during the trial (host.isolate)", &alone));
    }
    let pages: Vec<&Seen<'_>> = group
        .iter()
        .copied()
        .filter(|one| one.input.run.host.hugepages.is_some_and(|pages| pages > 0))
        .collect();
    if let Some(count) = pages.iter().filter_map(|one| one.input.run.host.hugepages).max() {
        all.push(of_trials(format!("{count} huge pages of 2 MiB were reserved on the host"), &pages));
    }
    all.extend(energy(group));
    all
}

/// What the host took while packets crossed, a load each.
fn energy(group: &[&Seen<'_>]) -> Vec<Evidence> {
    let watts = |one: &Seen<'_>| Some(one.trial.energy.as_ref()?.state(EnergyState::Processing)?.watts);
    let measured = group.iter().copied().filter(|one| watts(one).is_some());
    let loads = grouped(measured, |one| one.words(&ISOLATION_BOUNDARY));
    let says = |(load, seen): (String, Vec<&Seen<'_>>)| {
        let all: Vec<f64> = seen.iter().filter_map(|one| watts(one)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let joules: Vec<f64> = seen
            .iter()
            .filter_map(|one| Some(one.trial.energy.as_ref()?.per_million_packets?.joules))
            .collect();
        let each = match joules.len() {
            0 => String::new(),
            count => format!(", {:.1} J per million packets", joules.iter().sum::<f64>() / count as f64),
        };
        let of = format!(
            "{load}: the whole host took {mean:.1} W while packets crossed{each}; the mean of {}",
            counted(seen.len())
        );
        of_trials(of, &seen)
    };
    loads.into_iter().map(says).collect()
}
