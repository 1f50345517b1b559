//! Rule `audit-trail`: no auditing of system calls.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "audit-trail",
    group: RuleGroup::Services,
    title: "no auditing of system calls",
    why: "If the kernel's audit system has rules, every thread enters and leaves the kernel on the slow path. Every system call then takes longer, and matching calls are also logged.",
    effect: None,
    source: "kernel-parameters (audit=), docs.kernel.org; auditd(8)",
    mitigation: "boot with audit=0, or systemctl disable --now auditd",
    cost: "no record of past system calls",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("audit");
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not recorded").requested(word);
    }
    let kernel = view.tasks().iter().any(|task| task.is_kernel && task.name == "kauditd");
    let service = view.tasks().iter().any(|task| !task.is_kernel && task.name == "auditd");
    let judged = match (view.boot().value("audit"), kernel, service) {
        (Some("0" | "off"), true, _) => {
            Judgement::ineffective("audit=0 was requested, but the kernel's audit thread runs")
        }
        (_, _, true) => Judgement::improvable("auditd runs"),
        _ => Judgement::good(),
    };
    judged.requested(word).effective(match (kernel, service) {
        (_, true) => "auditd runs",
        (true, false) => "kernel support is active, but auditd does not run",
        (false, false) => "off",
    })
}
