//! Rule `nic-offloads`: NICs do not merge received packets.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-offloads",
    group: RuleGroup::Network,
    title: "NICs do not merge received packets",
    why: "Large receive offload holds packets back until more segments of the flow arrive, then delivers one large packet. A forwarder may be unable to send such a packet.",
    effect: None,
    source: "networking/segmentation-offloads.rst, docs.kernel.org; ethtool(8) (-K)",
    mitigation: "ethtool -K NAME lro off rx-gro-hw off",
    cost: "the kernel handles more packets for connections that end on this host",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let features = match settings(view, "features") {
        Ok(features) => features,
        Err(judged) => return judged,
    };
    let on: Vec<String> = features
        .iter()
        .flat_map(|(nic, names)| names.split(',').map(move |name| (nic, name)))
        .filter(|(_, name)| ["rx-lro", "rx-gro-hw"].contains(name))
        .map(|(nic, name)| format!("{nic} {name}"))
        .collect();
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!("received packets are merged: {}", listed(&on))),
    };
    judged.effective(if on.is_empty() { "off".to_owned() } else { listed(&on) })
}
