//! timers move to other cores

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "timer-migration",
    group: RuleGroup::Kernel,
    title: "timers move to other cores",
    why: "A timer that a thread set on a busy core expires there, and interrupts whoever runs by then.",
    effect: None,
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    mitigation: "sysctl kernel.timer_migration=1",
    cost: "none on isolated cores",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        1 => Judgement::good(),
        _ => Judgement::improvable("timers stay where they were set"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/kernel/timer_migration";
