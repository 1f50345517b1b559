//! Rule `nic-firmware`: NIC driver and firmware are known and identical.

use std::collections::BTreeMap;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-firmware",
    group: RuleGroup::Network,
    title: "NIC driver and firmware are known and identical",
    why: "The firmware determines how a NIC fetches and timestamps packets. Versions differ, so a delay measured with one version holds only for that version.",
    effect: None,
    source: "ethtool(8) (-i); DPDK, Network Interface Controller Drivers (each driver lists the firmware that it was tested with)",
    mitigation: "install the same firmware version on all NICs of a model, and choose one that the driver was tested with (ethtool -i NAME shows the installed version)",
    cost: "none",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let firmware = match settings(view, "firmware") {
        Ok(firmware) => firmware,
        // Either the record was made before Wiretail read the firmware, or the driver does not report it.
        Err(judged) if judged.detail.starts_with("no NIC driver of this host") => {
            return Judgement::unseen("no NIC reported its firmware; check with ethtool -i NAME");
        }
        Err(judged) => return judged,
    };
    let known = |name: &str| settings(view, name).unwrap_or_default();
    let (drivers, versions) = (known("driver"), known("driver-version"));
    let of = |all: &[(&str, &str)], nic: &str| {
        all.iter().find(|(one, _)| *one == nic).map_or_else(String::new, |(_, value)| (*value).to_owned())
    };
    let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut shown = Vec::new();
    for (nic, number) in &firmware {
        let driver = of(&drivers, nic);
        shown.push(format!("{nic} {driver} {}, firmware {number}", of(&versions, nic)));
        kinds.entry(driver).or_default().push(number);
    }
    let differs = |(driver, numbers): (&String, &Vec<&str>)| {
        let first = numbers.first()?;
        numbers
            .iter()
            .any(|one| one != first)
            .then(|| format!("NICs with driver {driver} have different firmware versions"))
    };
    let different: Vec<String> = kinds.iter().filter_map(differs).collect();
    let judged = match different.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&different)),
    };
    judged.effective(listed(&shown))
}
