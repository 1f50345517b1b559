//! no audit trail of system calls

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "audit-trail",
    group: RuleGroup::Services,
    title: "no audit trail of system calls",
    why: "With rules of auditd every thread enters and leaves the kernel by the slow path, and what they name is written down meanwhile.",
    effect: None,
    source: "kernel-parameters (audit=), docs.kernel.org; auditd(8)",
    mitigation: "boot with audit=0, or systemctl disable --now auditd",
    cost: "nobody sees afterwards who did what",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("audit");
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not read").requested(word);
    }
    let kernel = view.tasks().iter().any(|task| task.is_kernel && task.name == "kauditd");
    let service = view.tasks().iter().any(|task| !task.is_kernel && task.name == "auditd");
    let judged = match (view.boot().value("audit"), kernel, service) {
        (Some("0" | "off"), true, _) => {
            Judgement::ineffective("it was to be off, and the kernel's thread for it is there")
        }
        (_, _, true) => Judgement::improvable("auditd runs"),
        _ => Judgement::good(),
    };
    judged.requested(word).effective(match (kernel, service) {
        (_, true) => "auditd runs",
        (true, false) => "the kernel is ready for it, nobody asks for it",
        (false, false) => "off",
    })
}
