//! Rule `nic-pcie`: full PCI Express bandwidth for NICs.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, nics, no_nic};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-pcie",
    group: RuleGroup::Network,
    title: "full PCI Express bandwidth for NICs",
    why: "A NIC in a slot with fewer or slower lanes than it supports takes longer for each packet and drops packets at high rates.",
    effect: None,
    source: "Documentation/ABI/testing/sysfs-bus-pci (current_link_speed, current_link_width) of the kernel",
    mitigation: "move the NIC to a slot with as many lanes as it supports",
    cost: "the NIC occupies a slot with more lanes",
    reads: &[
        DRIVER,
        "/sys/class/net/*/device/current_link_speed",
        "/sys/class/net/*/device/max_link_speed",
        "/sys/class/net/*/device/current_link_width",
        "/sys/class/net/*/device/max_link_width",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if nics(view).is_empty() {
        return no_nic();
    }
    let mut fewer = Vec::new();
    let mut links = Vec::new();
    for (nic, width) in view.each("/sys/class/net/", "/device/current_link_width") {
        let of = |name: &str| view.text(&format!("/sys/class/net/{nic}/device/{name}")).map(str::trim);
        let (Some(speed), Some(speed_max), Some(width_max)) =
            (of("current_link_speed"), of("max_link_speed"), of("max_link_width"))
        else {
            continue;
        };
        let width = width.trim();
        links.push(format!("{nic} x{width} at {speed}"));
        if slower(width, width_max) || slower(speed, speed_max) {
            fewer.push(format!("{nic} runs x{width} at {speed} instead of x{width_max} at {speed_max}"));
        }
    }
    if links.is_empty() {
        return Judgement::not_here("no NIC on PCI Express");
    }
    let judged = match fewer.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&fewer)),
    };
    judged.effective(listed(&links))
}

/// Compares the leading numbers, as in "2.5 GT/s PCIe" and "8.0 GT/s PCIe". A value without a number
/// ("Unknown") is not slower.
fn slower(is: &str, may: &str) -> bool {
    let number = |text: &str| text.split(' ').next()?.parse::<f64>().ok();
    number(is).zip(number(may)).is_some_and(|(is, may)| is < may)
}
