//! links stay awake

use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-eee",
    group: RuleGroup::Network,
    title: "links stay awake",
    why: "Energy-efficient Ethernet lets a link sleep between packets; the first one after that waits until both ends are awake, some us.",
    effect: None,
    source: "IEEE 802.3az; ethtool(8) (--set-eee)",
    mitigation: "ethtool --set-eee NAME eee off",
    cost: "power of the link",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let eee = match settings(view, "eee") {
        Ok(eee) => eee,
        Err(judged) => return judged,
    };
    let judged = match eee.iter().any(|(_, value)| *value == "on") {
        false => Judgement::good(),
        true => Judgement::improvable("the link may sleep between packets"),
    };
    judged.effective(shown(&eee))
}
