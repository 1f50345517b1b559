//! Rule `smt`: no second hardware thread on the physical cores.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "smt",
    group: RuleGroup::Processor,
    title: "no second hardware thread on the physical cores",
    why: "The two hardware threads of a core share its execution units and caches. Work on one thread slows packet processing on the other by up to a half.",
    effect: None,
    source: "admin-guide/hw-vuln, docs.kernel.org; Gallenmueller et al., JNSM 31, 2023",
    mitigation: "boot with nosmt, or keep the siblings of these cores idle (isolate them as well)",
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
        return Judgement::unseen("the kernel does not report which threads share a physical core")
            .requested(word);
    }
    let active = view.text("/sys/devices/system/cpu/smt/active").map(str::trim);
    let judged = match shared.is_empty() {
        true if view.processor_flag("hypervisor") => Judgement::unseen(
            "the hypervisor shows one thread per core; only the host knows whether two of them share \
            a physical core",
        ),
        true => Judgement::good(),
        false if word.is_some() => Judgement::ineffective(format!(
            "threads share a core although nosmt was requested: {}",
            shared.join("; ")
        )),
        false => {
            Judgement::improvable(format!("hardware threads share a physical core: {}", shared.join("; ")))
        }
    };
    judged.requested(word).effective(match active {
        Some("1") => "on",
        Some(_) => "off",
        None => "not reported",
    })
}
