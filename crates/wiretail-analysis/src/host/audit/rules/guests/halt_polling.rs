//! Rule `halt-polling`: halt polling of idle vCPUs.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "halt-polling",
    group: RuleGroup::Guests,
    title: "halt polling of idle vCPUs",
    why: "The host takes an idle vCPU off its core. When a packet arrives, the host needs a wakeup and a context switch to resume the vCPU. With halt polling, the host first polls briefly for the vCPU's next interrupt.",
    effect: Some(
        "No effect was measured with guest threads that wake each other: a switch took 2.30 to 2.60 us with 10 to 500 us of polling, and 2.49 us without polling (linux-kernel, August 2017: lkml.iu.edu/hypermail/linux/kernel/1708.3/03774.html)",
    ),
    source: "virt/kvm/halt-polling.rst, docs.kernel.org",
    mitigation: "echo 200000 > /sys/module/kvm/parameters/halt_poll_ns; guests with idle=poll do not need it",
    cost: "higher power consumption of the guests' cores",
    reads: &[HALT],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("not a host of virtual machines");
    }
    let Some(value) = view.number(HALT) else { return view.missing(HALT) };
    let judged = match value {
        0 => Judgement::improvable("an idle vCPU is taken off its core immediately"),
        _ => Judgement::good(),
    };
    judged.effective(format!("{value} ns"))
}

const HALT: &str = "/sys/module/kvm/parameters/halt_poll_ns";
