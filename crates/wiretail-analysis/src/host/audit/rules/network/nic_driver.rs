//! Rule `nic-driver`: no emulated NICs.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, no_nic};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "nic-driver",
    group: RuleGroup::Network,
    title: "no emulated NICs",
    why: "Each time a guest accesses a register of an emulated NIC, the guest exits to the host. virtio needs few exits, and a virtual function of a real NIC (SR-IOV) needs none.",
    effect: None,
    source: "virtio 1.2, 5.1 Network Device; the papers give guests virtual functions (latency-limbo, passthrough7.xml)",
    mitigation: "give the guest a NIC of model virtio, or a virtual function of the host's NIC",
    cost: "a guest with a virtual function cannot migrate to another host",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let drivers: Vec<(&str, &str)> = view
        .each("/sys/class/net/", "/device/driver")
        .map(|(nic, driver)| (nic, driver.trim().rsplit('/').next().unwrap_or_default()))
        .collect();
    if drivers.is_empty() {
        return no_nic();
    }
    let all: Vec<String> = drivers.iter().map(|(nic, driver)| format!("{nic} {driver}")).collect();
    let emulated: Vec<String> = drivers
        .iter()
        .filter(|(_, driver)| view.role() == HostRole::Vm && EMULATED.contains(driver))
        .map(|(nic, driver)| format!("{nic} is an emulated NIC (driver {driver})"))
        .collect();
    let judged = match emulated.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&emulated)),
    };
    judged.effective(listed(&all))
}

/// Drivers of the NICs that hypervisors emulate.
const EMULATED: [&str; 6] = ["e1000", "e1000e", "8139cp", "8139too", "pcnet32", "ne2k-pci"];
