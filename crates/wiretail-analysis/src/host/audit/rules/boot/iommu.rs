//! cards write to memory without translation

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "iommu",
    group: RuleGroup::Boot,
    title: "cards write to memory without translation",
    why: "With translation each buffer is mapped for its card and unmapped again, and the translations that the card has cached are thrown away.",
    effect: None,
    source: "kernel-parameters (iommu=pt), docs.kernel.org",
    mitigation: "boot with iommu=pt (and intel_iommu=on where guests get devices)",
    cost: "a card that is broken may write anywhere",
    reads: &["/sys/kernel/iommu_groups/*/type"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let words: Vec<&str> =
        ["intel_iommu", "amd_iommu", "iommu"].iter().filter_map(|name| view.boot().word(name)).collect();
    let word = (!words.is_empty()).then(|| words.join(" "));
    let types: Vec<&str> =
        view.each("/sys/kernel/iommu_groups/", "/type").map(|(_, kind)| kind.trim()).collect();
    if types.is_empty() {
        let judged = match view.boot().value("intel_iommu").or(view.boot().value("amd_iommu")) {
            Some("on") => Judgement::ineffective(
                "it was asked for, and no device is behind one: the firmware has it off",
            ),
            _ => Judgement::not_here("no device is behind an IOMMU"),
        };
        return judged.requested(word);
    }
    let translated = types.iter().filter(|kind| kind.starts_with("DMA")).count();
    let judged = match translated {
        0 => Judgement::good(),
        _ if view.boot().value("iommu") == Some("pt") => Judgement::ineffective(format!(
            "{translated} groups of devices are translated although iommu=pt was asked for"
        )),
        _ => Judgement::improvable(format!("{translated} groups of devices are translated")),
    };
    judged.requested(word).effective(format!("{translated} of {} groups", types.len()))
}
