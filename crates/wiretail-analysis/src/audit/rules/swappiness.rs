//! swapping of pages

use super::{Rule, RuleGroup};
use crate::audit::{Judgement, View};

pub(super) const RULE: Rule = Rule {
    id: "swappiness",
    group: RuleGroup::Memory,
    title: "swapping of pages",
    why: "A page that was written to disk costs milliseconds when it is needed again.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    remedy: "sysctl vm.swappiness=10, or swapoff -a, or mlockall in the application",
    cost: "less room for the page cache",
    reads: &["/proc/sys/vm/swappiness"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0..=10 => Judgement::good(),
        _ => Judgement::improvable("pages of the application may be written to disk; locked ones are not"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/vm/swappiness";
