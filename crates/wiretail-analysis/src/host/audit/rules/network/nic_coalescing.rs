//! Rule `nic-coalescing`: NICs interrupt immediately.

use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-coalescing",
    group: RuleGroup::Network,
    title: "NICs interrupt immediately",
    why: "A NIC that waits for more packets before it raises an interrupt delays the first packet by the waiting time. With adaptive coalescing, the delay varies. Polling cores are not affected.",
    effect: Some(
        "Reducing rx-usecs by 343 us shortened the round trip by 335 us (D. Drown, NIC interrupt coalesce impact on NTP, blog.dan.drown.org); an e1000 with 125 us between interrupts made each round trip at least 125 us long (E. Jones, evan-jones.appspot.com/ethernet-latency.html)",
    ),
    source: "networking/ethtool-netlink.rst (COALESCE_GET), docs.kernel.org; ethtool(8)",
    mitigation: "ethtool -C NAME adaptive-rx off rx-usecs 0",
    cost: "one interrupt per packet, which lowers the packet rate",
    reads: &[DRIVER],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let waits = match settings(view, "rx-usecs") {
        Ok(waits) => waits,
        Err(judged) => return judged,
    };
    let adaptive = settings(view, "adaptive-rx").unwrap_or_default();
    let mut late: Vec<String> = waits
        .iter()
        .filter(|(_, value)| *value != "0")
        .map(|(nic, value)| format!("{nic} waits {value} us"))
        .collect();
    late.extend(
        adaptive.iter().filter(|(_, value)| *value == "on").map(|(nic, _)| format!("{nic} adapts the delay")),
    );
    let judged = match late.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(crate::host::audit::rules::listed(&late)),
    };
    judged.effective(format!("rx-usecs {}", shown(&waits)))
}
