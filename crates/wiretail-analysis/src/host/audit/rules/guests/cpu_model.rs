//! a guest knows the processor that it runs on

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "cpu-model",
    group: RuleGroup::Guests,
    title: "a guest knows the processor that it runs on",
    why: "A made-up processor has few of the real one's instructions and no clock that the kernel trusts: copies and checksums are slower, and so is the time.",
    effect: None,
    source: "QEMU, CPU model configuration for x86; libvirt, Domain XML format (cpu mode)",
    mitigation: "<cpu mode='host-passthrough' migratable='off'/>, with QEMU alone -cpu host,migratable=off",
    cost: "the guest moves to hosts with the same processor only",
    reads: &["/proc/cpuinfo"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::Vm {
        return Judgement::not_here("no virtual machine");
    }
    let Some(model) = view.processor_field("model name") else {
        return Judgement::unseen("/proc/cpuinfo has no name of a model");
    };
    let judged = match MADE_UP.iter().any(|name| model.starts_with(name)) {
        true => Judgement::improvable("a processor that there is not"),
        false => Judgement::good(),
    };
    judged.effective(model)
}

/// How the names of QEMU's own models begin.
const MADE_UP: [&str; 4] = ["QEMU", "Common KVM", "Common 32-bit KVM", "pc-"];
