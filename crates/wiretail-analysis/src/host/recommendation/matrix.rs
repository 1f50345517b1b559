//! Matrix of deployments: latency, security and resources.
//!
//! The matrix lists facts and numbers; it does not weigh them against each other.

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

/// Percentiles of the latency columns.
const SHOWN: [f64; 3] = [99.9, 99.99, MAXIMUM];
/// Audit rules that report facts about security, with descriptions. The audit judges these facts only by
/// their effect on time.
const SECURITY: [(&str, &str); 3] = [
    ("mitigations", "active mitigations of processor vulnerabilities"),
    ("smt", "second hardware threads, which share the caches of the packet cores"),
    ("iommu", "devices that access memory only through translation"),
];
/// Audit rules that report facts about resources.
const RESOURCES: [(&str, &str); 5] = [
    ("isolcpus", "cores excluded from load balancing, not available to other work"),
    ("hugepages", "huge pages, not available as ordinary memory"),
    ("idle-states", "depth of sleep of idle cores"),
    ("governor", "frequency governor"),
    ("cfs-quota", "CPU quota"),
];

pub(super) fn matrix(known: &Known<'_>) -> Matrix {
    let seen = by_isolation_boundary(known);
    // Loads that many rows share come first.
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

/// Facts from audit rules, without their verdicts.
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

/// Row of a deployment without measurements.
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

/// Isolation of the device from other programs, by deployment.
fn apart(deployment: Deployment) -> Evidence {
    by_deployment(match deployment {
        Deployment::Bare => {
            "shares kernel, files, processes and memory with everything else on the host; only its network namespace is separate"
        }
        Deployment::Container => {
            "shares the host's kernel, where a single vulnerability breaks the isolation; files, processes and network are in separate namespaces"
        }
        Deployment::Vm => {
            "has its own kernel and memory: an escape also needs a vulnerability of the hypervisor (QEMU, KVM); \
            caches and cores are shared as reported by the audit"
        }
    })
}

/// Resources that a deployment needs.
fn taken(deployment: Deployment) -> Evidence {
    by_deployment(match deployment {
        Deployment::Bare => "nothing but the device itself",
        Deployment::Container => "the device, and a runtime that is idle while packets are forwarded",
        Deployment::Vm => {
            "a second kernel with its memory, a core for each vCPU, and host cores for the other threads of QEMU"
        }
    })
}

fn by_deployment(says: &str) -> Evidence {
    Evidence { says: says.to_owned(), from: Origin::Deployment, delays: Vec::new(), rates: Vec::new() }
}

/// Resources that the trials used.
fn resources(group: &[&Seen<'_>]) -> Vec<Evidence> {
    let mut all = Vec::new();
    let by_waiting = grouped(group.iter().copied(), |one| (one.text("dut.kind").to_owned(), waits(one)));
    for ((kind, waiting), seen) in by_waiting {
        let power = match waiting {
            Some(Waits::Polls) => "polls: occupies a full core, even without packets",
            Some(Waits::Sleeps) => "sleeps: its core is free when there are no packets",
            Some(Waits::InKernel) => "is run by interrupts: its core is free when there are no packets",
            Some(Waits::Unknown) | None => continue,
        };
        all.push(of_trials(format!("{kind} {power}"), &seen));
    }
    let alone: Vec<&Seen<'_>> =
        group.iter().copied().filter(|one| one.text("host.isolate") == "true").collect();
    if !alone.is_empty() {
        all.push(of_trials("had exclusive packet cores during the trial (host.isolate)", &alone));
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

/// Power of the host while packets crossed the device, per load.
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
            "{load}: the whole host drew {mean:.1} W while packets crossed the device{each}; mean of {}",
            counted(seen.len())
        );
        of_trials(of, &seen)
    };
    loads.into_iter().map(says).collect()
}
