//! no second thread on the physical cores

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "smt",
    group: RuleGroup::Processor,
    title: "no second thread on the physical cores",
    why: "Two hardware threads share a core's units and caches: what the other one runs slows the packets by up to a half.",
    effect: None,
    source: "admin-guide/hw-vuln, docs.kernel.org; Gallenmueller et al., JNSM 31, 2023",
    mitigation: "boot with nosmt, or leave the siblings of these cores idle (isolate them, too)",
    cost: "half of the hardware threads",
    reads: &[
        "/sys/devices/system/cpu/smt/active",
        "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("nosmt");
    let mut shared = Vec::new();
    let mut seen = false;
    for core in view.cores().cores() {
        let Some(siblings) =
            view.core_list(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"))
        else {
            continue;
        };
        seen = true;
        let others = siblings.without(view.cores()).and(&view.online());
        if !others.is_empty() {
            shared.push(format!("{core} with {others}"));
        }
        let inside = siblings.and(view.cores());
        if inside.cores().len() > 1 && inside.cores()[0] == *core {
            shared.push(format!("{inside} with each other"));
        }
    }
    if !seen {
        return Judgement::unseen("the kernel does not say which cores share a physical one").requested(word);
    }
    let active = view.text("/sys/devices/system/cpu/smt/active").map(str::trim);
    let judged = match shared.is_empty() {
        true if view.processor_flag("hypervisor") => Judgement::unseen(
            "the hypervisor shows a core for each; whether two of them are threads of one, its host knows",
        ),
        true => Judgement::good(),
        false if word.is_some() => Judgement::ineffective(format!(
            "threads share a core although nosmt was asked for: {}",
            shared.join("; ")
        )),
        false => Judgement::improvable(format!("these share a physical core: {}", shared.join("; "))),
    };
    judged.requested(word).effective(match active {
        Some("1") => "on",
        Some(_) => "off",
        None => "not said",
    })
}
