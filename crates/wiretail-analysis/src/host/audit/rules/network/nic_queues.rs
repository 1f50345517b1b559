//! Rule `nic-queues`: no more NIC queues than housekeeping cores.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-queues",
    group: RuleGroup::Network,
    title: "no more NIC queues than housekeeping cores",
    why: "Each NIC queue has its own interrupt, and drivers assign each queue to a different core. With more queues than housekeeping cores, some queues interrupt the packet cores.",
    effect: None,
    source: "networking/scaling.rst (RSS, RSS IRQ Configuration), docs.kernel.org; ethtool(8) (-L)",
    mitigation: "ethtool -L NAME combined N, where N is at most the number of other cores",
    cost: "fewer cores share the packets that the kernel handles",
    reads: &[DRIVER, "/proc/interrupts", "/proc/irq/*/effective_affinity_list"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let mut queues = match settings(view, "combined-channels") {
        Ok(queues) => queues,
        Err(judged) => match settings(view, "rx-channels") {
            Ok(queues) => queues,
            Err(_) => return judged,
        },
    };
    // A driver with separate rings for each direction reports 0 combined channels.
    let separate = settings(view, "rx-channels").unwrap_or_default();
    for (nic, count) in &mut queues {
        if *count == "0"
            && let Some((_, own)) = separate.iter().find(|(one, _)| one == nic)
        {
            *count = own;
        }
    }
    let others = view.housekeeping().cores().len();
    let mut wrong = Vec::new();
    for (nic, count) in &queues {
        if others > 0 && count.parse::<usize>().is_ok_and(|count| count > others) {
            wrong.push(format!("{nic} has {count} queues, but there are only {others} other cores"));
        }
        let here = on_the_cores(view, nic);
        if !here.is_empty() {
            wrong.push(format!(
                "{nic} sends {} of its interrupts to these cores: {}",
                here.len(),
                listed(&here)
            ));
        }
    }
    let judged = match wrong.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&wrong)),
    };
    judged.effective(shown(&queues))
}

/// Names of a NIC's interrupts that go to these cores, for example "eth0-TxRx-3".
fn on_the_cores(view: &View<'_>, nic: &str) -> Vec<String> {
    let table = view.text("/proc/interrupts").unwrap_or("");
    let of_nic = |name: &&str| {
        let rest = name.strip_prefix(nic).unwrap_or(name);
        rest.len() < name.len() && rest.starts_with(['-', '@', ':'])
    };
    let mut found = Vec::new();
    for line in table.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Some(name) = rest.split_whitespace().last().filter(of_nic) else { continue };
        let place = format!("/proc/irq/{}/effective_affinity_list", number.trim());
        let cores = view.text(&place).and_then(|list| CoreSet::parse(list.trim()).ok()).unwrap_or_default();
        if !cores.and(view.cores()).is_empty() {
            found.push(name.to_owned());
        }
    }
    found
}
