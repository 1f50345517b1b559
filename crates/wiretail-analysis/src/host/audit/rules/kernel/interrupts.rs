//! Rule `interrupts`: device interrupts on these cores (measured).

use crate::host::audit::rules::counters::Counters;
use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "interrupts",
    group: RuleGroup::Kernel,
    title: "device interrupts on these cores (measured)",
    why: "Packets wait while their core handles an interrupt. Affinity settings do not apply to every interrupt: for the managed interrupts of a NIC's queues, the driver chooses the cores. Only counts show where interrupts go.",
    effect: None,
    source: "core-api/irq/irq-affinity.rst, docs.kernel.org",
    mitigation: "boot with isolcpus=managed_irq,domain,{cores}; use fewer queues (ethtool -L NAME combined N); apply rule irq-affinity",
    cost: "same as irq-affinity",
    reads: &["/proc/interrupts"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let counters = match Counters::of(view) {
        Ok(counters) => counters,
        Err(judged) => return judged,
    };
    let mut on: Vec<String> = Vec::new();
    for name in counters.names() {
        // The tick has its own rule.
        let Some(rates) = (name != "LOC").then(|| counters.per_second(&name)).flatten() else {
            continue;
        };
        let rate: f64 =
            rates.iter().filter(|(core, _)| view.cores().contains(**core)).map(|(_, rate)| rate).sum();
        if rate > 0.0 {
            on.push(format!("{name} {rate:.1}"));
        }
    }
    let judged = match (on.is_empty(), view.boot().word("isolcpus").is_some()) {
        (true, _) => Judgement::good(),
        (false, true) => {
            Judgement::ineffective(format!("interrupts per second on isolated cores: {}", listed(&on)))
        }
        (false, false) => {
            Judgement::improvable(format!("interrupts per second on these cores: {}", listed(&on)))
        }
    };
    judged.effective(format!("{} kinds of interrupts in {:.1} s", on.len(), counters.seconds))
}
