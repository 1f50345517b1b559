//! Rule `workqueue`: unbound kernel workers kept off these cores.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "workqueue",
    group: RuleGroup::Kernel,
    title: "unbound kernel workers kept off these cores",
    why: "Unbound kernel work runs on any core in the workqueue mask and delays the packets there.",
    effect: None,
    source: "core-api/workqueue.rst, docs.kernel.org",
    mitigation: "echo MASK > /sys/devices/virtual/workqueue/cpumask, with the mask of the other cores",
    cost: "the other cores do this work",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(text) = view.text(PATH) else { return view.missing(PATH) };
    let Ok(mask) = CoreSet::parse_mask(text.trim()) else {
        return Judgement::unseen(format!("{PATH}: \"{text}\" is not a core mask"));
    };
    let mask = mask.and(&view.online());
    let on = mask.and(view.cores());
    let judged = match (on.is_empty(), view.boot().word("isolcpus").is_some()) {
        (true, _) => Judgement::good(),
        (false, true) => Judgement::ineffective(format!("workers may run on isolated cores {on}")),
        (false, false) => Judgement::improvable(format!("workers may run on cores {on}")),
    };
    judged.effective(mask.to_string())
}

const PATH: &str = "/sys/devices/virtual/workqueue/cpumask";
