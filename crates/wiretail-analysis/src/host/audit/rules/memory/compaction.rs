//! Rule `compaction`: proactive memory compaction.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "compaction",
    group: RuleGroup::Memory,
    title: "proactive memory compaction",
    why: "The kernel moves pages in the background and unmaps them on all cores. A program that accesses such a page waits.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    mitigation: "sysctl vm.compaction_proactiveness=0",
    cost: "huge pages may become scarce over time",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0 => Judgement::good(),
        _ => Judgement::improvable("the kernel moves pages in the background"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/vm/compaction_proactiveness";
