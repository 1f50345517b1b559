//! Rule `cpu-model`: the guest sees the host's processor model.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "cpu-model",
    group: RuleGroup::Guests,
    title: "the guest sees the host's processor model",
    why: "A generic processor model lacks many instructions of the real processor and has no clock that the kernel trusts, so copies, checksums and clock reads are slower.",
    effect: None,
    source: "QEMU, CPU model configuration for x86; libvirt, Domain XML format (cpu mode)",
    mitigation: "<cpu mode='host-passthrough' migratable='off'/>, or -cpu host,migratable=off on the QEMU command line",
    cost: "the guest migrates only to hosts with the same processor",
    reads: &["/proc/cpuinfo"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::Vm {
        return Judgement::not_here("not a virtual machine");
    }
    let Some(model) = view.processor_field("model name") else {
        return Judgement::unseen("/proc/cpuinfo has no model name");
    };
    let judged = match MADE_UP.iter().any(|name| model.starts_with(name)) {
        true => Judgement::improvable("the hypervisor presents a generic processor model"),
        false => Judgement::good(),
    };
    judged.effective(model)
}

/// Name prefixes of QEMU's generic models.
const MADE_UP: [&str; 4] = ["QEMU", "Common KVM", "Common 32-bit KVM", "pc-"];
