//! Rule `swappiness`: swapping of pages.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "swappiness",
    group: RuleGroup::Memory,
    title: "swapping of pages",
    why: "Reading back a page that was swapped to disk takes milliseconds.",
    effect: None,
    source: "admin-guide/sysctl/vm.rst, docs.kernel.org",
    mitigation: "sysctl vm.swappiness=10, or swapoff -a, or mlockall in the application",
    cost: "less memory for the page cache",
    reads: &[PATH, SWAPS],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    // After a heading line: name, type, size and used size, in KiB.
    let areas: Vec<u64> = view
        .text(SWAPS)
        .into_iter()
        .flat_map(|text| text.lines().skip(1))
        .filter_map(|line| line.split_whitespace().nth(3)?.parse().ok())
        .collect();
    if view.text(SWAPS).is_some() && areas.is_empty() {
        return Judgement::good().effective("no swap space");
    }
    let used_mib = areas.iter().sum::<u64>() >> 10;
    let judged = match (value, used_mib) {
        (0..=10, 0) => Judgement::good(),
        (_, 0) => Judgement::improvable("unlocked pages of the application may be swapped to disk"),
        _ => Judgement::improvable(format!("{used_mib} MiB are swapped to disk")),
    };
    judged.effective(format!("{value}, {used_mib} MiB swapped"))
}

const PATH: &str = "/proc/sys/vm/swappiness";
const SWAPS: &str = "/proc/swaps";
