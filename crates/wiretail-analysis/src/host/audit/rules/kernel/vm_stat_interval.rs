//! how often memory statistics are gathered

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "vm-stat-interval",
    group: RuleGroup::Kernel,
    title: "how often memory statistics are gathered",
    why: "Every stat_interval seconds a kernel worker runs on every core that has counted anything.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    mitigation: "sysctl vm.stat_interval=120",
    cost: "numbers in /proc/vmstat are older",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        10.. => Judgement::good(),
        _ => Judgement::improvable("a worker runs on every core each second or so"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/vm/stat_interval";
