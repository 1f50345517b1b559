//! Rule `mitigations`: mitigations of processor vulnerabilities.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "mitigations",
    group: RuleGroup::Processor,
    title: "mitigations of processor vulnerabilities",
    why: "Some mitigations slow down every system call and every context switch; a loop that polls in user space is hardly affected.",
    effect: Some(
        "Page table isolation costs some hundred cycles per system call or interrupt: 5 % for typical loads, and 30 % for a loopback test with very many system calls (cover letter of the KAISER patches, linux-kernel, 2017)",
    ),
    source: "admin-guide/hw-vuln, docs.kernel.org",
    mitigation: "boot with mitigations=off, but only if no untrusted code runs on the machine",
    cost: "security: other code on the machine may read memory",
    reads: &["/sys/devices/system/cpu/vulnerabilities/*"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let on: Vec<String> = view
        .each("/sys/devices/system/cpu/vulnerabilities/", "")
        .filter(|(_, text)| text.trim().starts_with("Mitigation"))
        .map(|(name, _)| name.to_owned())
        .collect();
    let word = view.boot().word("mitigations");
    // Mitigations trade speed for security, so the rule only reports them and leaves the choice to the user.
    let judged = Judgement::good().requested(word);
    let microcode = view.processor_field("microcode").map(|version| format!(", microcode {version}"));
    let text = if on.is_empty() { "none".to_owned() } else { format!("{}: {}", on.len(), listed(&on)) };
    judged.effective(text + &microcode.unwrap_or_default())
}
