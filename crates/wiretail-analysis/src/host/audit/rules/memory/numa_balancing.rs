//! Rule `numa-balancing`: automatic NUMA balancing.

use crate::host::audit::rules::{Rule, RuleGroup, TLB_SHOOTDOWN};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "numa-balancing",
    group: RuleGroup::Memory,
    title: "automatic NUMA balancing",
    why: "The kernel unmaps pages to see which cores use them. The next access to each page faults, and moving a page causes TLB shootdowns on all cores.",
    effect: Some(TLB_SHOOTDOWN),
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    mitigation: "sysctl kernel.numa_balancing=0",
    cost: "memory stays on the node that first used it",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0 => Judgement::good(),
        _ => Judgement::harmful("the kernel unmaps and moves pages while packets are processed"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/kernel/numa_balancing";
