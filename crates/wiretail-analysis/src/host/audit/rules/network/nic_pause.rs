//! Rule `nic-pause`: no Ethernet pause frames.

use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-pause",
    group: RuleGroup::Network,
    title: "no Ethernet pause frames",
    why: "A pause frame makes the link partner stop sending for up to 65535 times 512 bit times. An overload by one flow therefore delays all others.",
    effect: None,
    source: "IEEE 802.3 annex 31B; ethtool(8) (-A)",
    mitigation: "ethtool -A NAME autoneg off rx off tx off",
    cost: "packets are dropped instead of waiting at the sender",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let (rx, tx) = match (settings(view, "rx-pause"), settings(view, "tx-pause")) {
        (Ok(rx), Ok(tx)) => (rx, tx),
        (Err(judged), _) | (_, Err(judged)) => return judged,
    };
    let on: Vec<(&str, &str)> = rx.iter().chain(&tx).filter(|(_, value)| *value == "on").copied().collect();
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable("pause frames may stop all packets in either direction"),
    };
    judged.effective(format!("rx {}; tx {}", shown(&rx), shown(&tx)))
}
