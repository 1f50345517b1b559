//! Rule `rt-throttling`: throttling of real-time threads.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "rt-throttling",
    group: RuleGroup::Kernel,
    title: "throttling of real-time threads",
    why: "If a real-time thread never sleeps, the kernel stops it for the rest of each period, by default for 50 ms of each second. Packets wait during that time.",
    effect: None,
    source: "scheduler/sched-rt-group.rst, docs.kernel.org",
    mitigation: "sysctl kernel.sched_rt_runtime_us=-1",
    cost: "a real-time thread that hangs blocks its core forever; on a shared core it may block the machine",
    reads: &[PATH],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(value) = view.number(PATH) else { return view.missing(PATH) };
    let judged = match value {
        -1 => Judgement::good(),
        _ => Judgement::improvable(format!(
            "a real-time thread that polls is stopped for {} ms of each second",
            (1_000_000 - value.clamp(0, 1_000_000)) / 1000
        )),
    };
    judged.effective(value.to_string())
}

const PATH: &str = "/proc/sys/kernel/sched_rt_runtime_us";
