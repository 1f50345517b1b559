//! cards that stamp packets

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-timestamps",
    group: RuleGroup::Network,
    title: "cards that stamp packets",
    why: "A card stamps a packet when it passes the wire; software stamps it when it gets to it, and the worst packets are late for the stamp, too.",
    effect: None,
    source: "networking/timestamping.rst, docs.kernel.org; Gallenmueller et al., JNSM 31, 2023 (first recommendation)",
    mitigation: "measure with a card that stamps every received packet (ethtool -T NAME), or on another machine",
    cost: "a card",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let timestamps = match settings(view, "timestamping") {
        Ok(timestamps) => timestamps,
        Err(judged) => return judged,
    };
    let able: Vec<String> = timestamps
        .iter()
        .filter(|(_, names)| names.split(',').any(|name| name == "hardware-receive"))
        .map(|(nic, _)| (*nic).to_owned())
        .collect();
    match able.is_empty() {
        true => {
            Judgement::improvable("no card here stamps packets; software does, later").effective("software")
        }
        false => Judgement::good().effective(format!("hardware: {}", listed(&able))),
    }
}
