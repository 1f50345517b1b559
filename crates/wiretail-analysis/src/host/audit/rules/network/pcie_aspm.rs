//! Rule `pcie-aspm`: no PCI Express power saving.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "pcie-aspm",
    group: RuleGroup::Network,
    title: "no PCI Express power saving",
    why: "A PCI Express lane that sleeps between packets takes a few us to wake for the next one.",
    effect: None,
    source: "kernel-parameters (pcie_aspm=, pcie_aspm.policy=), docs.kernel.org; PCI Express Base Specification, 5.4",
    mitigation: "echo performance > /sys/module/pcie_aspm/parameters/policy, or boot with pcie_aspm.policy=performance",
    cost: "higher power consumption of the lanes",
    reads: &[POLICY, "/sys/class/net/*/device/link/l1_aspm"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("pcie_aspm.policy").or(view.boot().word("pcie_aspm"));
    let asleep: Vec<String> = view
        .each("/sys/class/net/", "/device/link/l1_aspm")
        .filter(|(_, on)| on.trim() == "1")
        .map(|(nic, _)| nic.to_owned())
        .collect();
    let Some(policy) = view.choice(POLICY) else { return view.missing(POLICY).requested(word) };
    let asked = view.boot().value("pcie_aspm.policy");
    let judged = match policy {
        _ if asked.is_some_and(|asked| asked != policy) => {
            Judgement::ineffective("the setting has changed since boot")
        }
        "performance" => Judgement::good(),
        _ if !asleep.is_empty() => Judgement::improvable(format!(
            "the lanes of {} may sleep",
            crate::host::audit::rules::listed(&asleep)
        )),
        "powersave" | "powersupersave" => Judgement::improvable("lanes sleep whenever they can"),
        // The firmware controls power saving, and it does not put the lanes of any NIC to sleep.
        _ => Judgement::good(),
    };
    judged.requested(word).effective(policy)
}

const POLICY: &str = "/sys/module/pcie_aspm/parameters/policy";
