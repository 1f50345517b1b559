//! the watchdog by non-maskable interrupts

use super::{Rule, RuleGroup};
use crate::audit::{Judgement, View};

pub(super) const RULE: Rule = Rule {
    id: "nmi-watchdog",
    group: RuleGroup::Kernel,
    title: "the watchdog by non-maskable interrupts",
    why: "It interrupts every core, also those without a tick, and takes a performance counter.",
    effect: None,
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    remedy: "sysctl kernel.nmi_watchdog=0",
    cost: "a core that hangs for ever is not reported",
    reads: &["/proc/sys/kernel/nmi_watchdog"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        0 => Judgement::good(),
        _ => Judgement::improvable("every core is interrupted every few seconds"),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/kernel/nmi_watchdog";
