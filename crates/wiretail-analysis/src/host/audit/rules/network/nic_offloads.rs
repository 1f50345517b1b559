//! cards hold no packets back to merge them

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-offloads",
    group: RuleGroup::Network,
    title: "cards hold no packets back to merge them",
    why: "Large receive offload waits for more segments of a flow and hands on one large packet, which a forwarder may not even send again.",
    effect: None,
    source: "networking/segmentation-offloads.rst, docs.kernel.org; ethtool(8) (-K)",
    mitigation: "ethtool -K NAME lro off rx-gro-hw off",
    cost: "more packets for the kernel where connections end here",
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
        false => Judgement::improvable(format!("merges what arrives: {}", listed(&on))),
    };
    judged.effective(if on.is_empty() { "off".to_owned() } else { listed(&on) })
}
