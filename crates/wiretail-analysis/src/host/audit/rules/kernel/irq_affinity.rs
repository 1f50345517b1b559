//! Rule `irq-affinity`: no interrupts routed to these cores.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "irq-affinity",
    group: RuleGroup::Kernel,
    title: "no interrupts routed to these cores",
    why: "A device interrupt occupies a core for 2 to 20 us, and its softirq for longer. Packets wait during that time.",
    effect: None,
    source: "core-api/irq/irq-affinity.rst, docs.kernel.org",
    mitigation: "boot with irqaffinity=OTHERS, where OTHERS lists the other cores; for each interrupt: echo OTHERS > /proc/irq/N/smp_affinity_list; stop irqbalance",
    cost: "the other cores handle the interrupts of all devices",
    reads: &[
        "/proc/cmdline",
        "/proc/irq/*/smp_affinity_list",
        "/proc/irq/*/effective_affinity_list",
        "/proc/irq/*/actions",
        "/proc/interrupts",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let mut on: Vec<String> = Vec::new();
    let mut seen = 0;
    for (number, list) in view.each("/proc/irq/", "/effective_affinity_list") {
        seen += 1;
        let cores = CoreSet::parse(list.trim()).unwrap_or_default();
        if !cores.and(view.cores()).is_empty() && view.is_interrupt_used(number).unwrap_or(true) {
            on.push(number.to_owned());
        }
    }
    let word = view.boot().word("irqaffinity");
    if seen == 0 {
        return Judgement::unseen("no /proc/irq/N/effective_affinity_list could be read").requested(word);
    }
    let judged = match on.len() {
        0 => Judgement::good(),
        count if word.is_some() || view.boot().word("isolcpus").is_some() => {
            Judgement::ineffective(format!("{count} interrupts still go to these cores: {}", listed(&on)))
        }
        count => Judgement::improvable(format!("{count} interrupts go to these cores: {}", listed(&on))),
    };
    judged.requested(word).effective(format!("{} of {seen} interrupts", on.len()))
}
