//! Rule `kernel-threads`: kernel threads kept off these cores.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "kernel-threads",
    group: RuleGroup::Kernel,
    title: "kernel threads kept off these cores",
    why: "A kernel thread that is not bound to a core may run on any core that its affinity allows, including a packet core. Packets on that core then wait.",
    effect: None,
    source: "admin-guide/kernel-per-CPU-kthreads.rst, docs.kernel.org; the papers pin the RCU threads manually (latency-limbo, prepare_vmhost.sh)",
    mitigation: "boot with isolcpus=domain,{cores} or nohz_full={cores} (both also apply to threads that start later), or with kthread_cpus=; for all other threads, use taskset -pc",
    cost: "the other cores run these threads",
    reads: &[],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.tasks().is_empty() {
        return Judgement::unseen("the threads were not recorded");
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
        _ if word.is_some() => {
            Judgement::ineffective(format!("threads that may run on these cores: {}", listed(&names)))
        }
        _ => Judgement::improvable(format!("threads that may run on these cores: {}", listed(&names))),
    };
    judged.requested(word).effective(format!("{} of {}", may.len(), all.len()))
}

/// Whether a kernel thread can be moved off these cores: it may run on them, but also on others. Unbound
/// workers are excluded, because they follow the mask that rule `workqueue` checks. Threads that have never
/// run are also excluded, such as the rescuer of a queue, which runs only if memory is short.
fn free(view: &View<'_>, task: &crate::host::audit::Task) -> bool {
    !task.name.starts_with("kworker/u")
        && task.ran_s > 0.0
        && !task.allowed.and(view.cores()).is_empty()
        && !task.allowed.and(&view.housekeeping()).is_empty()
}
