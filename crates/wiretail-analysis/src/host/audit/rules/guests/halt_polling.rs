//! the host waits a moment for a guest that sleeps

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "halt-polling",
    group: RuleGroup::Guests,
    title: "the host waits a moment for a guest that sleeps",
    why: "A virtual processor that sleeps is taken off its core; to bring it back takes a wakeup and a switch. With halt polling the host looks for its next interrupt for a while first.",
    effect: Some(
        "None seen where threads of a guest wake each other: 2.30 to 2.60 us a switch with 10 to 500 us of polling, 2.49 without (linux-kernel, August 2017: lkml.iu.edu/hypermail/linux/kernel/1708.3/03774.html)",
    ),
    source: "virt/kvm/halt-polling.rst, docs.kernel.org",
    mitigation: "echo 200000 > /sys/module/kvm/parameters/halt_poll_ns; a guest with idle=poll has no use for it",
    cost: "power of cores that guests have to themselves",
    reads: &[HALT],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("no host of virtual machines");
    }
    let Some(value) = view.number(HALT) else { return view.missing(HALT) };
    let judged = match value {
        0 => Judgement::improvable("a guest that sleeps is taken off its core at once"),
        _ => Judgement::good(),
    };
    judged.effective(format!("{value} ns"))
}

const HALT: &str = "/sys/module/kvm/parameters/halt_poll_ns";
