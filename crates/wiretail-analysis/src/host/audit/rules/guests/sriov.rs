//! Rule `sriov`: guests use virtual functions of the NICs.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "sriov",
    group: RuleGroup::Guests,
    title: "guests use virtual functions of the NICs",
    why: "If a guest has no NIC of its own, host cores copy its packets and pass them through a software switch. These cores also do other work.",
    effect: Some(
        "DPDK forwarder at 10 kpps: p50 is 3.34 us and p99.9 is 14.7 us in a pinned guest with virtual functions; p50 is 3.14 us and p99.9 is 7.7 us on the host (computed from the published captures of gallenmu/low-latency, dpdk-l2fwd, vm and hw)",
    ),
    source: "PCI/pci-iov-howto.rst, docs.kernel.org; the papers' optimized mode gives guests virtual functions (latency-limbo, prepare_vmhost.sh)",
    mitigation: "echo 1 > /sys/class/net/NAME/device/sriov_numvfs, then pass the function to the guest (libvirt, hostdev); boot with intel_iommu=on iommu=pt",
    cost: "the guest cannot migrate to another host; no software switch sees its packets",
    reads: &["/sys/class/net/*/device/sriov_totalvfs", "/sys/class/net/*/device/sriov_numvfs"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::VmHost {
        return Judgement::not_here("not a host of virtual machines");
    }
    let able =
        view.each("/sys/class/net/", "/device/sriov_totalvfs").filter(|(_, count)| count.trim() != "0");
    let nics: Vec<(&str, i64)> = able
        .map(|(nic, _)| (nic, view.number(&format!("/sys/class/net/{nic}/device/sriov_numvfs")).unwrap_or(0)))
        .collect();
    if nics.is_empty() {
        return Judgement::not_here("no NIC supports virtual functions");
    }
    let shown: Vec<String> = nics.iter().map(|(nic, count)| format!("{nic} {count}")).collect();
    let judged = match nics.iter().any(|(_, count)| *count > 0) {
        true => Judgement::good(),
        false => Judgement::improvable(
            "no NIC has virtual functions enabled: the guests' packets pass through the host",
        ),
    };
    judged.effective(listed(&shown))
}
