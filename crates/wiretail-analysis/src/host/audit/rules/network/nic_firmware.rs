//! driver and firmware of the cards are known, and the same

use std::collections::BTreeMap;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-firmware",
    group: RuleGroup::Network,
    title: "driver and firmware of the cards are known, and the same",
    why: "How a card fetches and stamps packets is its firmware's affair and differs from one to the next: what was measured with one holds for it alone.",
    effect: None,
    source: "ethtool(8) (-i); DPDK, Network Interface Controller Drivers (each driver lists the firmware that it was tested with)",
    mitigation: "the same firmware on all cards of a kind, one that the driver was tested with (ethtool -i NAME)",
    cost: "none",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let firmware = match settings(view, "firmware") {
        Ok(firmware) => firmware,
        // A record from before this was asked, or a driver that does not answer.
        Err(judged) if judged.detail.starts_with("no driver here") => {
            return Judgement::unseen("no card has told its firmware: ethtool -i NAME");
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
        numbers.iter().any(|one| one != first).then(|| format!("cards of {driver} have different firmware"))
    };
    let different: Vec<String> = kinds.iter().filter_map(differs).collect();
    let judged = match different.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&different)),
    };
    judged.effective(listed(&shown))
}
