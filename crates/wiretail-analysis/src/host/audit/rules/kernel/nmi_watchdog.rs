//! Rule `nmi-watchdog`: the NMI watchdog.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nmi-watchdog",
    group: RuleGroup::Kernel,
    title: "the NMI watchdog",
    why: "The watchdog sends non-maskable interrupts to every core, including tickless ones. These interrupts delay packets. The watchdog also occupies a performance counter.",
    effect: None,
    source: "admin-guide/sysctl/kernel.rst, docs.kernel.org",
    mitigation: "sysctl kernel.nmi_watchdog=0",
    cost: "hard lockups are not reported",
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
            Judgement::ineffective("the watchdog was disabled at boot, but has been enabled since")
        }
        _ => Judgement::improvable("the watchdog interrupts every core every few seconds"),
    };
    judged.requested(word).effective(shown(view, value))
}

/// Whether the watchdogs exclude all of these cores.
pub(super) fn spared(view: &View<'_>) -> bool {
    view.core_list(WATCHED).is_some_and(|watched| watched.and(view.cores()).is_empty())
}

/// The watchdog's value and its cores, for example "1, on cores 0".
pub(super) fn shown(view: &View<'_>, value: i64) -> String {
    match view.text(WATCHED) {
        Some(watched) if value != 0 => format!("{value}, on cores {}", watched.trim()),
        _ => value.to_string(),
    }
}

const PATH: &str = "/proc/sys/kernel/nmi_watchdog";
/// Cores that both watchdogs monitor.
pub(super) const WATCHED: &str = "/proc/sys/kernel/watchdog_cpumask";
