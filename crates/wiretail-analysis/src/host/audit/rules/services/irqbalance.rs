//! Rule `irqbalance`: irqbalance does not run.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "irqbalance",
    group: RuleGroup::Services,
    title: "irqbalance does not run",
    why: "Every ten seconds, irqbalance moves interrupts between cores, possibly to the packet cores, and overrides manual settings. It skips isolated cores and the cores in IRQBALANCE_BANNED_CPULIST.",
    effect: None,
    source: "irqbalance(1)",
    mitigation: "systemctl disable --now irqbalance",
    cost: "interrupts stay on their assigned cores",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not recorded");
    }
    let runs = view.tasks().iter().find(|task| task.name == "irqbalance" && !task.is_kernel);
    match runs {
        Some(task) => Judgement::harmful("irqbalance may move interrupts to these cores")
            .effective(format!("runs as process {}", task.pid)),
        None => Judgement::good().effective("does not run"),
    }
}
