//! Rule `ksm`: merging of identical pages (KSM).

use crate::host::audit::rules::{Rule, RuleGroup, TLB_SHOOTDOWN};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "ksm",
    group: RuleGroup::Memory,
    title: "merging of identical pages (KSM)",
    why: "To merge pages, the kernel write-protects them on all cores, which causes TLB shootdowns. The next write to a merged page copies the page.",
    effect: Some(TLB_SHOOTDOWN),
    source: "admin-guide/mm/ksm.rst, docs.kernel.org",
    mitigation: "echo 0 > /sys/kernel/mm/ksm/run",
    cost: "virtual machines use more memory",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0 => Judgement::good(),
        _ => Judgement::harmful("the kernel merges identical pages and causes TLB shootdowns on all cores"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/sys/kernel/mm/ksm/run";
