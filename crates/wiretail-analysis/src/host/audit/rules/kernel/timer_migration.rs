//! Rule `timer-migration`: timers migrate to other cores.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "timer-migration",
    group: RuleGroup::Kernel,
    title: "timers migrate to other cores",
    why: "Without migration, a timer expires on the core where it was set and interrupts the thread that runs there.",
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
        _ => Judgement::improvable("timers expire on the core where they were set"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/kernel/timer_migration";
