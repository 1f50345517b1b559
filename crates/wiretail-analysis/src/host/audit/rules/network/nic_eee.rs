//! Rule `nic-eee`: no Energy-Efficient Ethernet.

use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-eee",
    group: RuleGroup::Network,
    title: "no Energy-Efficient Ethernet",
    why: "Energy-Efficient Ethernet lets a link sleep between packets. The next packet waits some us until both ends are awake.",
    effect: None,
    source: "IEEE 802.3az; ethtool(8) (--set-eee)",
    mitigation: "ethtool --set-eee NAME eee off",
    cost: "higher power consumption of the link",
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
