//! each virtual processor has a core of its own

use std::collections::BTreeMap;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "vcpu-pinning",
    group: RuleGroup::Guests,
    title: "each virtual processor has a core of its own",
    why: "A guest takes its virtual processors for real ones: one that the host moves, or takes turns with another, stops in the middle of a packet.",
    effect: None,
    source: "libvirt, Domain XML format (cputune: vcpupin, emulatorpin); the papers pin 1:1 (latency-limbo, prepare_vmhost.sh)",
    mitigation: "virsh vcpupin GUEST N CORE for each, virsh emulatorpin GUEST the other cores",
    cost: "cores that nobody else has",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("no host of virtual machines");
    }
    let (mut loose, mut together, mut emulators) = (Vec::new(), Vec::new(), Vec::new());
    let mut owners: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let virtual_ones: Vec<_> = view.tasks().iter().filter(|task| is_vcpu(&task.name)).collect();
    for task in &virtual_ones {
        match task.allowed.cores() {
            [core] => owners.entry(*core).or_default().push(format!("{} of {}", task.name, task.pid)),
            _ => loose.push(format!("{} of {} on {}", task.name, task.pid, task.allowed)),
        }
    }
    if virtual_ones.is_empty() {
        return Judgement::unseen(
            "no thread of a virtual processor was read (\"CPU 0/KVM\"): QEMU needs debug-threads=on",
        );
    }
    together.extend(owners.iter().filter(|(_, tasks)| tasks.len() > 1).map(|(core, _)| core.to_string()));
    for task in view.tasks().iter().filter(|task| !is_vcpu(&task.name)) {
        let same = virtual_ones.iter().any(|one| one.pid == task.pid);
        if same && task.allowed.cores().iter().any(|core| owners.contains_key(core)) {
            emulators.push(format!("{} of {}", task.name, task.pid));
        }
    }
    let judged = if !together.is_empty() {
        Judgement::harmful(format!("several take turns on cores {}", listed(&together)))
    } else if !loose.is_empty() {
        Judgement::improvable(format!("not pinned: {}", listed(&loose)))
    } else if !emulators.is_empty() {
        Judgement::improvable(format!("the emulator may run on their cores: {}", listed(&emulators)))
    } else {
        Judgement::good()
    };
    judged.effective(format!(
        "{} of {} on a core of their own",
        virtual_ones.len() - loose.len(),
        virtual_ones.len()
    ))
}

fn is_vcpu(name: &str) -> bool {
    name.starts_with("CPU ") && (name.ends_with("/KVM") || name.ends_with("/TCG"))
}
