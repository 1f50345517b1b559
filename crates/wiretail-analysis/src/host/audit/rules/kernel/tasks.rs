//! Rule `tasks`: no other thread runs on these cores (measured).

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "tasks",
    group: RuleGroup::Kernel,
    title: "no other thread runs on these cores (measured)",
    why: "Packets wait while another thread runs on their core, in the worst case for a time slice of milliseconds.",
    effect: None,
    source: "admin-guide/kernel-per-CPU-kthreads.rst, docs.kernel.org",
    mitigation: "isolate these cores (rule isolcpus); pin the other threads to other cores (taskset, cpuset)",
    cost: "the other cores run these threads",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.seconds().is_none() || view.tasks().is_empty() {
        return Judgement::unseen("the threads were recorded only once");
    }
    let ran = view.ran_on(view.cores());
    let (kernel, user): (Vec<_>, Vec<_>) = ran.iter().partition(|(task, _)| task.is_kernel);
    let busy = user.iter().filter(|(task, _)| !task.allowed.without(view.cores()).is_empty());
    let movable: Vec<String> =
        busy.map(|(task, ran_s)| format!("{} ({}) {:.0} ms", task.name, task.tid, ran_s * 1e3)).collect();
    let own: Vec<String> =
        kernel.iter().map(|(task, ran_s)| format!("{} {:.0} ms", task.name, ran_s * 1e3)).collect();
    let judged = match (movable.is_empty(), own.is_empty()) {
        (true, true) => Judgement::good(),
        (true, false) => {
            Judgement::improvable(format!("kernel threads ran on these cores: {}", listed(&own)))
        }
        (false, _) if view.boot().word("isolcpus").is_some() => Judgement::ineffective(format!(
            "threads that may run elsewhere ran on these cores: {}",
            listed(&movable)
        )),
        (false, _) => Judgement::improvable(format!(
            "threads that may run elsewhere ran on these cores: {}",
            listed(&movable)
        )),
    };
    judged.effective(format!("{} threads, {} of them not pinned to these cores", ran.len(), movable.len()))
}
