//! Rule `fair-server`: the fair server.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "fair-server",
    group: RuleGroup::Kernel,
    title: "the fair server",
    why: "Since Linux 6.12, a deadline server gives ordinary threads 50 ms of each second on a core that a real-time thread keeps busy. Packets wait during that time.",
    effect: None,
    source: "scheduler/sched-deadline.rst, docs.kernel.org; Linux 6.12 release notes (kernelnewbies.org)",
    mitigation: "echo 0 > /sys/kernel/debug/sched/fair_server/cpuN/runtime; or keep ordinary threads off the core",
    cost: "ordinary threads on the core starve",
    reads: &[
        "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
        "/sys/kernel/debug/sched",
        "/proc/sys/kernel/osrelease",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let each = view.each_core("/sys/kernel/debug/sched/fair_server/cpu", "/runtime");
    let values: Vec<(u32, i64)> =
        each.into_iter().filter_map(|(core, runtime_ns)| Some((core, runtime_ns.parse().ok()?))).collect();
    if values.is_empty() {
        if release(view).is_some_and(|release| release < (6, 12)) {
            return Judgement::not_here("this kernel has no fair server (before 6.12)");
        }
        let denied = !view.has("/sys/kernel/debug/sched") || view.text("/sys/kernel/debug/sched").is_none();
        return match denied {
            true => {
                Judgement::unseen("/sys/kernel/debug/sched cannot be read: mount debugfs and run as root")
            }
            false => Judgement::not_here("this kernel has no fair server"),
        };
    }
    let on: Vec<String> =
        values.iter().filter(|(_, runtime)| *runtime > 0).map(|(core, _)| core.to_string()).collect();
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!(
            "the fair server may preempt a real-time thread on cores {}",
            on.join(",")
        )),
    };
    judged
        .effective(format!("{} ms", values.iter().map(|(_, runtime)| runtime / 1_000_000).max().unwrap_or(0)))
}

/// Major and minor version: 6 and 1 of "6.1.0-18-amd64".
fn release(view: &View<'_>) -> Option<(u32, u32)> {
    let mut numbers =
        view.text("/proc/sys/kernel/osrelease")?.split(['.', '-']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
