//! Rule `vm-stat-interval`: interval of memory statistics.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "vm-stat-interval",
    group: RuleGroup::Kernel,
    title: "interval of memory statistics",
    why: "Every vm.stat_interval seconds, a kernel worker runs on each core whose counters have changed. Packets on that core wait.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    mitigation: "sysctl vm.stat_interval=120",
    cost: "/proc/vmstat is updated less often",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        10.. => Judgement::good(),
        _ => Judgement::improvable("a worker runs on every core about once per second"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/vm/stat_interval";
