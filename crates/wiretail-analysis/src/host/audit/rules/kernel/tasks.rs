//! no other thread runs on these cores (measured)

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "tasks",
    group: RuleGroup::Kernel,
    title: "no other thread runs on these cores (measured)",
    why: "Each thread that runs on a core takes it from the packets for as long as it runs, a time slice of milliseconds at worst.",
    effect: None,
    source: "admin-guide/kernel-per-CPU-kthreads.rst, docs.kernel.org",
    mitigation: "isolcpus; pin the others elsewhere (taskset, cpuset)",
    cost: "the other cores do their work",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.seconds().is_none() || view.tasks().is_empty() {
        return Judgement::unseen("the threads were read once only");
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
        (true, false) => Judgement::improvable(format!("the kernel's own: {}", listed(&own))),
        (false, _) if view.boot().word("isolcpus").is_some() => {
            Judgement::ineffective(format!("they may run elsewhere and ran here: {}", listed(&movable)))
        }
        (false, _) => {
            Judgement::improvable(format!("they may run elsewhere and ran here: {}", listed(&movable)))
        }
    };
    judged.effective(format!("{} threads, of them {} not pinned to these cores", ran.len(), movable.len()))
}
