//! the frequency governor

use super::listed;
use super::{Rule, RuleGroup};
use crate::audit::{Judgement, View};

pub(super) const RULE: Rule = Rule {
    id: "governor",
    group: RuleGroup::Processor,
    title: "the frequency governor",
    why: "A core that has lowered its frequency takes longer for the next packet, and tens of us to rise again.",
    effect: None,
    source: "admin-guide/pm/cpufreq.rst, docs.kernel.org",
    remedy: "cpupower frequency-set -g performance",
    cost: "power: the cores never slow down",
    reads: &["/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let mut values: Vec<(u32, &str)> = view
        .each("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_governor")
        .filter_map(|(core, text)| Some((core.parse().ok()?, text.trim())))
        .filter(|(core, _)| view.cores().contains(*core))
        .collect();
    values.sort_unstable();
    if values.is_empty() {
        return Judgement::not_here(
            "the kernel does not set the frequency of these cores; whoever runs the machine does",
        );
    }
    let others: Vec<String> = values
        .iter()
        .filter(|(_, name)| *name != "performance")
        .map(|(core, name)| format!("{core}: {name}"))
        .collect();
    let judged = match others.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!("not performance on cores {}", listed(&others))),
    };
    let mut kinds: Vec<&str> = values.iter().map(|(_, name)| *name).collect();
    kinds.sort_unstable();
    kinds.dedup();
    judged.requested(view.boot().word("cpufreq.default_governor")).effective(kinds.join(", "))
}
