//! Rule `nic-node`: NICs on the memory node of these cores.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, nics, no_nic};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-node",
    group: RuleGroup::Network,
    title: "NICs on the memory node of these cores",
    why: "If NIC and core are on different nodes, a packet crosses between processors twice. Each crossing takes about 100 ns, and more under load.",
    effect: None,
    source: "DPDK Getting Started Guide for Linux, How to get best performance; admin-guide/mm/numaperf.rst, docs.kernel.org",
    mitigation: "choose cores of the NIC's node (cat /sys/class/net/NAME/device/numa_node), or move the NIC to a slot of the other node",
    cost: "none",
    reads: &[DRIVER, "/sys/class/net/*/device/numa_node", "/sys/devices/system/node/node*/cpulist"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if nics(view).is_empty() {
        return no_nic();
    }
    let nodes = view.each("/sys/devices/system/node/node", "/cpulist").count();
    if nodes < 2 {
        return Judgement::not_here("the host has one memory node, or reports none");
    }
    let mut away = Vec::new();
    let mut places = Vec::new();
    for (nic, node) in view.each("/sys/class/net/", "/device/numa_node") {
        let node = node.trim();
        places.push(format!("{nic} {node}"));
        let Some(near) = view.core_list(&format!("/sys/devices/system/node/node{node}/cpulist")) else {
            continue;
        };
        let far = view.cores().without(&near);
        if !far.is_empty() {
            away.push(format!("{nic} is on node {node}, but cores {far} are not"));
        }
    }
    let judged = match away.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&away)),
    };
    judged.effective(format!("{nodes} nodes: {}", listed(&places)))
}
