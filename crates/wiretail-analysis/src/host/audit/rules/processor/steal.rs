//! Rule `steal`: no time stolen by the hypervisor.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "steal",
    group: RuleGroup::Processor,
    title: "no time stolen by the hypervisor",
    why: "While the hypervisor runs other work on a core, the guest's packets wait, whatever the guest's own settings are.",
    effect: None,
    source: "proc_stat(5)",
    mitigation: "pin the vCPUs to dedicated cores of the host (rule vcpu-pinning)",
    cost: "these host cores are not available to other guests",
    reads: &["/proc/stat"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if !view.processor_flag("hypervisor") {
        return Judgement::not_here("no hypervisor");
    }
    let Some((before, after)) = view.both("/proc/stat") else {
        return Judgement::unseen("the CPU times were read only once");
    };
    let stolen = |text: &str, core: u32| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(&format!("cpu{core}")))?;
        line.split_whitespace().nth(8)?.parse::<u64>().ok()
    };
    let each = view
        .cores()
        .cores()
        .iter()
        .filter_map(|core| Some(stolen(after, *core)?.saturating_sub(stolen(before, *core)?)));
    let ticks: u64 = each.sum();
    let ever: u64 = view.cores().cores().iter().filter_map(|core| stolen(after, *core)).sum();
    let judged = match (ticks, ever) {
        (0, 0) => Judgement::unseen("no stolen time since boot, or this hypervisor does not report it"),
        (0, _) => Judgement::good(),
        _ => Judgement::harmful(format!("{} ms were stolen during the audit", ticks * 10)),
    };
    judged.effective(format!("{} ms since boot", ever * 10))
}
