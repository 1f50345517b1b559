//! mitigations against attacks through the processor

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "mitigations",
    group: RuleGroup::Processor,
    title: "mitigations against attacks through the processor",
    why: "Some of them make each system call and each switch of threads slower; a loop that polls in user space pays little.",
    effect: Some(
        "Page table isolation: some hundred cycles a system call or interrupt, 5 % of typical loads, 30 % of a loopback test with very many system calls (cover letter of the KAISER patches, linux-kernel, 2017)",
    ),
    source: "admin-guide/hw-vuln, docs.kernel.org",
    mitigation: "boot with mitigations=off only where nobody else's code runs",
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
    // They are a choice between two goods; what they cost is for the reader to weigh.
    let judged = Judgement::good().requested(word);
    let microcode = view.processor_field("microcode").map(|version| format!(", microcode {version}"));
    let text = if on.is_empty() { "none".to_owned() } else { format!("{}: {}", on.len(), listed(&on)) };
    judged.effective(text + &microcode.unwrap_or_default())
}
