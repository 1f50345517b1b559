//! compaction of memory ahead of need

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "compaction",
    group: RuleGroup::Memory,
    title: "compaction of memory ahead of need",
    why: "Pages are moved in the background, which unmaps them on all cores.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    mitigation: "sysctl vm.compaction_proactiveness=0",
    cost: "large pages may be short later",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0 => Judgement::good(),
        _ => Judgement::improvable("pages are moved in the background"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/vm/compaction_proactiveness";
