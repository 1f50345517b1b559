//! cards have all of their lanes

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, nics, no_nic};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-pcie",
    group: RuleGroup::Network,
    title: "cards have all of their lanes",
    why: "A card in a slot with fewer or slower lanes than it has takes longer for each packet, and loses them at a high rate.",
    effect: None,
    source: "Documentation/ABI/testing/sysfs-bus-pci (current_link_speed, current_link_width) of the kernel",
    mitigation: "put the card into a slot with as many lanes as it has",
    cost: "a slot",
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
            fewer.push(format!("{nic} has x{width} at {speed} of x{width_max} at {speed_max}"));
        }
    }
    if links.is_empty() {
        return Judgement::not_here("no card on PCI Express");
    }
    let judged = match fewer.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&fewer)),
    };
    judged.effective(listed(&links))
}

/// By the numbers in front: "2.5 GT/s PCIe" of "8.0 GT/s PCIe". What is no number ("Unknown") is not less.
fn slower(is: &str, may: &str) -> bool {
    let number = |text: &str| text.split(' ').next()?.parse::<f64>().ok();
    number(is).zip(number(may)).is_some_and(|(is, may)| is < may)
}
