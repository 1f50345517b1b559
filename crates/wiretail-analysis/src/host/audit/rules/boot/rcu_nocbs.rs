//! Rule `rcu-nocbs`: RCU callbacks offloaded to other cores.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "rcu-nocbs",
    group: RuleGroup::Boot,
    title: "RCU callbacks offloaded to other cores",
    why: "RCU callbacks free memory. Each core runs its own callbacks in a softirq, and a long list of them occupies the core for tens of us.",
    effect: None,
    source: "kernel-parameters (rcu_nocbs=), docs.kernel.org; P. McKenney, RCU and CPU isolation",
    mitigation: "boot with rcu_nocbs={cores} rcu_nocb_poll; nohz_full implies rcu_nocbs",
    cost: "the housekeeping cores run the callbacks, and rcu_nocb_poll wakes these cores regularly",
    reads: &["/proc/cmdline"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("rcu_nocbs");
    let by_tick = view.boot().cores("nohz_full").and_then(Result::ok).unwrap_or_default();
    let all = view.boot().value("rcu_nocbs") == Some("all")
        || word.is_none() && view.config("CONFIG_RCU_NOCB_CPU_DEFAULT_ALL") == Some("y");
    let asked = match view.boot().cores("rcu_nocbs") {
        _ if all => view.online(),
        Some(Err(fault)) => return Judgement::ineffective(fault).requested(word),
        Some(Ok(asked)) => asked.or(&by_tick),
        None => by_tick,
    };
    if view.tasks().is_empty() {
        return Judgement::unseen("the kernel threads were not recorded").requested(word);
    }
    // Each offloaded core has a thread that runs its callbacks: rcuop/N, rcuos/N or rcuob/N. If a kernel can
    // switch offloading at run time, it starts such a thread for every core as soon as offloading is
    // requested for one of them.
    let effective = CoreSet::new(view.tasks().iter().filter_map(callback_thread)).and(&asked);
    let shown = if effective.is_empty() { "none".to_owned() } else { effective.to_string() };
    let judged = if asked.is_empty() {
        Judgement::improvable(format!("cores {} run their own RCU callbacks", view.cores()))
    } else if !asked.without(&effective).is_empty() {
        let why = match view.config("CONFIG_RCU_NOCB_CPU") {
            Some("n") => ": this kernel is built without CONFIG_RCU_NOCB_CPU",
            _ => "",
        };
        Judgement::ineffective(format!(
            "no thread runs the callbacks of cores {}{why}",
            asked.without(&effective)
        ))
    } else if !view.cores().without(&effective).is_empty() {
        Judgement::improvable(format!(
            "the callbacks of cores {} are not offloaded",
            view.cores().without(&effective)
        ))
    } else {
        Judgement::good()
    };
    judged.requested(word).effective(shown)
}

fn callback_thread(task: &crate::host::audit::Task) -> Option<u32> {
    let (kind, core) = task.name.split_once('/')?;
    (task.is_kernel && ["rcuop", "rcuos", "rcuob"].contains(&kind)).then(|| core.parse().ok())?
}
