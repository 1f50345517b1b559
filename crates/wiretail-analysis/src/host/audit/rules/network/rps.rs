//! the kernel steers no packets to these cores

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "rps",
    group: RuleGroup::Network,
    title: "the kernel steers no packets to these cores",
    why: "Receive packet steering hands a packet's work in the kernel to another core by an interrupt from there.",
    effect: None,
    source: "networking/scaling.rst (RPS), docs.kernel.org",
    mitigation: "echo 0 > /sys/class/net/NAME/queues/rx-N/rps_cpus",
    cost: "the core that took the interrupt does all of its packets' work",
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
        return Judgement::not_here("no queue of a link, or a kernel without RPS");
    }
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&on)),
    };
    judged.effective(format!("{} of {queues} queues", on.len()))
}
