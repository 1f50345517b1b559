//! Rule `iommu`: NICs access memory without address translation.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "iommu",
    group: RuleGroup::Boot,
    title: "NICs access memory without address translation",
    why: "With translation, the kernel maps and unmaps every buffer for the NIC, and invalidates the translations that the NIC has cached. This delays packets.",
    effect: None,
    source: "kernel-parameters (iommu=pt), docs.kernel.org",
    mitigation: "boot with iommu=pt (plus intel_iommu=on if guests use devices directly)",
    cost: "a faulty NIC can write to any part of memory",
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
                "requested, but no device is behind an IOMMU: enable the IOMMU in the firmware",
            ),
            _ => Judgement::not_here("no device is behind an IOMMU"),
        };
        return judged.requested(word);
    }
    let translated = types.iter().filter(|kind| kind.starts_with("DMA")).count();
    let judged = match translated {
        0 => Judgement::good(),
        _ if view.boot().value("iommu") == Some("pt") => Judgement::ineffective(format!(
            "{translated} device groups use translation although iommu=pt was requested"
        )),
        _ => Judgement::improvable(format!("{translated} device groups use translation")),
    };
    judged.requested(word).effective(format!("{translated} of {} groups", types.len()))
}
