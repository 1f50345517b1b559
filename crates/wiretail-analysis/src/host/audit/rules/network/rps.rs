//! Rule `rps`: no packets steered to these cores (RPS).

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "rps",
    group: RuleGroup::Network,
    title: "no packets steered to these cores (RPS)",
    why: "Receive packet steering interrupts another core and makes it process a packet in the kernel. Packets on that core wait.",
    effect: None,
    source: "networking/scaling.rst (RPS), docs.kernel.org",
    mitigation: "echo 0 > /sys/class/net/NAME/queues/rx-N/rps_cpus",
    cost: "the core that takes the interrupt of a queue processes all packets of that queue",
    reads: &["/sys/class/net/*/queues/rx-*/rps_cpus"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let mut queues = 0;
    let mut on = Vec::new();
    for (queue, mask) in view.each("/sys/class/net/", "/rps_cpus") {
        queues += 1;
        let cores = CoreSet::parse_mask(mask.trim()).unwrap_or_default();
        if !cores.and(view.cores()).is_empty() {
            on.push(format!("{} to {}", queue.replace("/queues", ""), cores.and(view.cores())));
        }
    }
    if queues == 0 {
        return Judgement::not_here("no network queues, or a kernel without RPS");
    }
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&on)),
    };
    judged.effective(format!("{} of {queues} queues", on.len()))
}
