//! interrupts of devices as they come (measured)

use super::counters::{names, per_second};
use super::listed;
use super::{Rule, RuleGroup};
use crate::audit::{Judgement, View};

pub(super) const RULE: Rule = Rule {
    id: "interrupts",
    group: RuleGroup::Kernel,
    title: "interrupts of devices as they come (measured)",
    why: "Where interrupts may go and where they go are two things: managed ones of a card's queues follow the driver.",
    effect: None,
    source: "core-api/irq/irq-affinity.rst, docs.kernel.org",
    remedy: "isolcpus=managed_irq,...; fewer queues (ethtool -L); irq-affinity",
    cost: "as irq-affinity",
    reads: &["/proc/interrupts"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some((before, after)) = view.both("/proc/interrupts") else {
        return Judgement::unseen("the interrupts were read once only");
    };
    let Some(seconds) = view.seconds() else {
        return Judgement::unseen("it is not known how long was counted");
    };
    let mut on: Vec<String> = Vec::new();
    for name in names(after) {
        // The tick has a rule of its own.
        let Some(rates) = (name != "LOC").then(|| per_second(before, after, &name, seconds)).flatten() else {
            continue;
        };
        let rate: f64 =
            rates.iter().filter(|(core, _)| view.cores().contains(**core)).map(|(_, rate)| rate).sum();
        if rate > 0.0 {
            on.push(format!("{name} {rate:.1}"));
        }
    }
    let judged = match (on.is_empty(), view.boot().word("isolcpus").is_some()) {
        (true, _) => Judgement::good(),
        (false, true) => Judgement::broken(format!("a second, on isolated cores: {}", listed(&on))),
        (false, false) => Judgement::improvable(format!("a second, on these cores: {}", listed(&on))),
    };
    judged.effective(format!("{} kinds in {seconds:.1} s", on.len()))
}
