//! kernel workers keep off these cores

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "workqueue",
    group: RuleGroup::Kernel,
    title: "kernel workers keep off these cores",
    why: "Work that is bound to no core is done on any that the mask has.",
    effect: None,
    source: "core-api/workqueue.rst, docs.kernel.org",
    mitigation: "echo the other cores' mask > /sys/devices/virtual/workqueue/cpumask",
    cost: "the other cores do that work",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(text) = view.text(PATH) else { return view.missing(PATH) };
    let Ok(mask) = CoreSet::parse_mask(text.trim()) else {
        return Judgement::unseen(format!("{PATH}: \"{text}\" is no mask of cores"));
    };
    let mask = mask.and(&view.online());
    let on = mask.and(view.cores());
    let judged = match (on.is_empty(), view.boot().word("isolcpus").is_some()) {
        (true, _) => Judgement::good(),
        (false, true) => Judgement::ineffective(format!("workers may run on cores {on}, which are isolated")),
        (false, false) => Judgement::improvable(format!("workers may run on cores {on}")),
    };
    judged.effective(mask.to_string())
}

const PATH: &str = "/sys/devices/virtual/workqueue/cpumask";
