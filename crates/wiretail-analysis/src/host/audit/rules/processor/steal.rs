//! the hypervisor takes no time

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "steal",
    group: RuleGroup::Processor,
    title: "the hypervisor takes no time",
    why: "What a hypervisor gives to others is missing on the packets' core, whatever the guest does.",
    effect: None,
    source: "proc_stat(5)",
    mitigation: "pin the virtual processors on cores of the host that nobody else has",
    cost: "cores of the host",
    reads: &["/proc/stat"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if !view.processor_flag("hypervisor") {
        return Judgement::not_here("no hypervisor");
    }
    let Some((before, after)) = view.both("/proc/stat") else {
        return Judgement::unseen("the times of the cores were read once only");
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
        (0, 0) => Judgement::unseen(
            "none since the machine started: nothing was taken, or this hypervisor does not tell",
        ),
        (0, _) => Judgement::good(),
        _ => Judgement::harmful(format!("{} ms were taken while they were watched", ticks * 10)),
    };
    judged.effective(format!("{} ms since the machine started", ever * 10))
}
