//! Rule `vcpu-pinning`: a dedicated host core for each vCPU.

use std::collections::BTreeMap;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "vcpu-pinning",
    group: RuleGroup::Guests,
    title: "a dedicated host core for each vCPU",
    why: "A guest treats its vCPUs as real processors. If the host moves a vCPU, or runs another one on the same core, the vCPU stops in the middle of a packet.",
    effect: None,
    source: "libvirt, Domain XML format (cputune: vcpupin, emulatorpin); the papers pin 1:1 (latency-limbo, prepare_vmhost.sh)",
    mitigation: "virsh vcpupin GUEST N CORE for each vCPU N, and virsh emulatorpin GUEST with the other cores",
    cost: "these cores are not available for other work",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("not a host of virtual machines");
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
        return Judgement::unseen("no vCPU thread (\"CPU 0/KVM\") was recorded: QEMU needs debug-threads=on");
    }
    together.extend(owners.iter().filter(|(_, tasks)| tasks.len() > 1).map(|(core, _)| core.to_string()));
    for task in view.tasks().iter().filter(|task| !is_vcpu(&task.name)) {
        let same = virtual_ones.iter().any(|one| one.pid == task.pid);
        if same && task.allowed.cores().iter().any(|core| owners.contains_key(core)) {
            emulators.push(format!("{} of {}", task.name, task.pid));
        }
    }
    let judged = if !together.is_empty() {
        Judgement::harmful(format!("cores shared by several vCPUs: {}", listed(&together)))
    } else if !loose.is_empty() {
        Judgement::improvable(format!("vCPUs not pinned: {}", listed(&loose)))
    } else if !emulators.is_empty() {
        Judgement::improvable(format!("the emulator may run on the vCPUs' cores: {}", listed(&emulators)))
    } else {
        Judgement::good()
    };
    judged.effective(format!(
        "{} of {} vCPUs pinned to one core",
        virtual_ones.len() - loose.len(),
        virtual_ones.len()
    ))
}

fn is_vcpu(name: &str) -> bool {
    name.starts_with("CPU ") && (name.ends_with("/KVM") || name.ends_with("/TCG"))
}
