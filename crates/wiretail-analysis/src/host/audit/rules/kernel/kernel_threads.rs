//! the kernel's threads keep off these cores

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "kernel-threads",
    group: RuleGroup::Kernel,
    title: "the kernel's threads keep off these cores",
    why: "Some of the kernel's threads belong to a core; the others run on any that they may, also on these.",
    effect: None,
    source: "admin-guide/kernel-per-CPU-kthreads.rst, docs.kernel.org; the papers pin those of RCU by hand (latency-limbo, prepare_vmhost.sh)",
    mitigation: "isolcpus=domain,{cores} or nohz_full={cores} (which move those that are made later, too), or kthread_cpus=; for the rest taskset -pc",
    cost: "the other cores do their work",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not read");
    }
    let word = view.boot().word("kthread_cpus");
    let kernel = view.tasks().iter().filter(|task| task.is_kernel);
    let (all, may): (Vec<_>, Vec<_>) =
        (kernel.clone().collect(), kernel.filter(|task| free(view, task)).collect());
    let mut names: Vec<String> = may.iter().map(|task| task.name.clone()).collect();
    names.sort();
    names.dedup();
    let judged = match may.len() {
        0 => Judgement::good(),
        _ if word.is_some() => Judgement::ineffective(format!("may run on these cores: {}", listed(&names))),
        _ => Judgement::improvable(format!("may run on these cores: {}", listed(&names))),
    };
    judged.requested(word).effective(format!("{} of {}", may.len(), all.len()))
}

/// Whether it may run on these cores and on others: one that belongs to a core may not be moved. Unbound workers follow the mask of
/// rule `workqueue`; and who has never run (a queue's rescuer, for times without memory) is nobody's trouble.
fn free(view: &View<'_>, task: &crate::host::audit::Task) -> bool {
    !task.name.starts_with("kworker/u")
        && task.ran_s > 0.0
        && !task.allowed.and(view.cores()).is_empty()
        && !task.allowed.and(&view.housekeeping()).is_empty()
}
