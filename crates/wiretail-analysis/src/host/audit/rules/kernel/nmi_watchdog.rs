//! the watchdog by non-maskable interrupts

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nmi-watchdog",
    group: RuleGroup::Kernel,
    title: "the watchdog by non-maskable interrupts",
    why: "It interrupts every core, also those without a tick, and takes a performance counter.",
    effect: None,
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    mitigation: "sysctl kernel.nmi_watchdog=0",
    cost: "a core that hangs for ever is not reported",
    reads: &[PATH, WATCHED],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("nmi_watchdog").or(view.boot().word("nowatchdog"));
    let Some(value) = view.number(PATH) else { return view.missing(PATH).requested(word) };
    let judged = match value {
        0 => Judgement::good(),
        _ if spared(view) => Judgement::good(),
        _ if view.boot().value("nmi_watchdog") == Some("0") => {
            Judgement::ineffective("somebody has switched it on since the machine started")
        }
        _ => Judgement::improvable("every core is interrupted every few seconds"),
    };
    judged.requested(word).effective(shown(view, value))
}

/// Whether the watchdogs leave these cores out.
pub(super) fn spared(view: &View<'_>) -> bool {
    view.core_list(WATCHED).is_some_and(|watched| watched.and(view.cores()).is_empty())
}

/// "1, on cores 0".
pub(super) fn shown(view: &View<'_>, value: i64) -> String {
    match view.text(WATCHED) {
        Some(watched) if value != 0 => format!("{value}, on cores {}", watched.trim()),
        _ => value.to_string(),
    }
}

const PATH: &str = "/proc/sys/kernel/nmi_watchdog";
/// The cores that both watchdogs look at.
pub(super) const WATCHED: &str = "/proc/sys/kernel/watchdog_cpumask";
