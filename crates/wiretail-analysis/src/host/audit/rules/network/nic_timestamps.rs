//! Rule `nic-timestamps`: hardware timestamps.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-timestamps",
    group: RuleGroup::Network,
    title: "hardware timestamps",
    why: "A NIC takes the timestamp when the packet is on the wire. Without it, the kernel takes the timestamp when the CPU handles the packet, so the packets with the highest delays get late timestamps, too.",
    effect: None,
    source: "networking/timestamping.rst, docs.kernel.org; Gallenmueller et al., JNSM 31, 2023 (first recommendation)",
    mitigation: "measure with a NIC that can timestamp every received packet (ethtool -T NAME), or on another machine",
    cost: "a NIC with hardware timestamps",
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
        true => Judgement::improvable("no NIC of this host can timestamp packets; software does so later")
            .effective("software"),
        false => Judgement::good().effective(format!("hardware: {}", listed(&able))),
    }
}
