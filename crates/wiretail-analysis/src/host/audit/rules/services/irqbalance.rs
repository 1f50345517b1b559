//! irqbalance does not run

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "irqbalance",
    group: RuleGroup::Services,
    title: "irqbalance does not run",
    why: "It moves interrupts between cores every ten seconds, and undoes what was set by hand unless it is told to keep off (IRQBALANCE_BANNED_CPULIST; by itself it keeps off isolated cores).",
    effect: None,
    source: "irqbalance(1)",
    mitigation: "systemctl disable --now irqbalance",
    cost: "interrupts stay where they are put",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not read");
    }
    let runs = view.tasks().iter().find(|task| task.name == "irqbalance" && !task.is_kernel);
    match runs {
        Some(task) => Judgement::harmful("it may move interrupts to these cores")
            .effective(format!("runs as process {}", task.pid)),
        None => Judgement::good().effective("does not run"),
    }
}
