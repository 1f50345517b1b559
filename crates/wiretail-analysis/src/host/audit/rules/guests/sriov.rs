//! guests have functions of the cards

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "sriov",
    group: RuleGroup::Guests,
    title: "guests have functions of the cards",
    why: "A packet to a guest without a card of its own goes through a switch and a copy on cores of the host, which have other work, too.",
    effect: Some(
        "A DPDK forwarder in a pinned guest with functions of the card, beside the same on the host, at 10 kpps: p50 3.34 us and 3.14, p99.9 14.7 and 7.7 (computed from the published captures of gallenmu/low-latency, dpdk-l2fwd, vm and hw)",
    ),
    source: "PCI/pci-iov-howto.rst, docs.kernel.org; the papers' optimized mode gives guests functions (latency-limbo, prepare_vmhost.sh)",
    mitigation: "echo 1 > /sys/class/net/NAME/device/sriov_numvfs, and give the guest the function (libvirt, hostdev); boot with intel_iommu=on iommu=pt",
    cost: "the guest does not move to another host; no switch sees its packets",
    reads: &["/sys/class/net/*/device/sriov_totalvfs", "/sys/class/net/*/device/sriov_numvfs"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("no host of virtual machines");
    }
    let able =
        view.each("/sys/class/net/", "/device/sriov_totalvfs").filter(|(_, count)| count.trim() != "0");
    let nics: Vec<(&str, i64)> = able
        .map(|(nic, _)| (nic, view.number(&format!("/sys/class/net/{nic}/device/sriov_numvfs")).unwrap_or(0)))
        .collect();
    if nics.is_empty() {
        return Judgement::not_here("no card has functions to give away");
    }
    let shown: Vec<String> = nics.iter().map(|(nic, count)| format!("{nic} {count}")).collect();
    let judged = match nics.iter().any(|(_, count)| *count > 0) {
        true => Judgement::good(),
        false => Judgement::improvable("no card has given any away: guests' packets go through the host"),
    };
    judged.effective(listed(&shown))
}
