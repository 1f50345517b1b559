//! cards hold no packets back to merge them

use super::cards::{DRIVER, settings};
use super::listed;
use super::{Rule, RuleGroup};
use crate::audit::{Judgement, View};

pub(super) const RULE: Rule = Rule {
    id: "nic-offloads",
    group: RuleGroup::Network,
    title: "cards hold no packets back to merge them",
    why: "Large receive offload waits for more segments of a flow and hands on one large packet, which a forwarder may not even send again.",
    effect: None,
    source: "networking/segmentation-offloads.rst, docs.kernel.org; ethtool(8) (-K)",
    remedy: "ethtool -K NAME lro off rx-gro-hw off",
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
        .flat_map(|(card, names)| names.split(',').map(move |name| (card, name)))
        .filter(|(_, name)| ["rx-lro", "rx-gro-hw"].contains(name))
        .map(|(card, name)| format!("{card} {name}"))
        .collect();
    let judged = match on.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!("merges what arrives: {}", listed(&on))),
    };
    judged.effective(if on.is_empty() { "off".to_owned() } else { listed(&on) })
}
