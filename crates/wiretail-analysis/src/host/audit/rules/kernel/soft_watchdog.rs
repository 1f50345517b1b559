//! Rule `soft-watchdog`: the soft lockup watchdog.

use crate::host::audit::rules::kernel::nmi_watchdog::{WATCHED, shown, spared};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "soft-watchdog",
    group: RuleGroup::Kernel,
    title: "the soft lockup watchdog",
    why: "Every few seconds, a timer on each core wakes a thread of the highest priority on that core. Packets wait while this thread runs.",
    effect: None,
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    mitigation: "sysctl kernel.soft_watchdog=0, or boot with nosoftlockup, or exclude these cores from kernel.watchdog_cpumask",
    cost: "soft lockups (threads that never yield their core) are not reported",
    reads: &[PATH, WATCHED],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("nosoftlockup").or(view.boot().word("nowatchdog"));
    let Some(value) = view.number(PATH) else { return view.missing(PATH).requested(word) };
    let judged = match value {
        0 => Judgement::good(),
        _ if spared(view) => Judgement::good(),
        _ if word.is_some() => {
            Judgement::ineffective("the watchdog was disabled at boot, but has been enabled since")
        }
        _ => Judgement::improvable(
            "the watchdog runs a thread of the highest priority on every core every few seconds",
        ),
    };
    judged.requested(word).effective(shown(view, value))
}

const PATH: &str = "/proc/sys/kernel/soft_watchdog";
