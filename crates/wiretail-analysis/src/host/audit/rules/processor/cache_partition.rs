//! Rule `cache-partition`: a partition of the last-level cache for these cores.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "cache-partition",
    group: RuleGroup::Processor,
    title: "a partition of the last-level cache for these cores",
    why: "All cores share the last-level cache, so data of the other cores displaces the tables and packets of these cores.",
    effect: Some(
        "Tuning the part of the cache that NICs write to reduced the delay of network functions at 100 Gbit/s by up to 30 % (Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020, abstract)",
    ),
    source: "arch/x86/resctrl.rst, docs.kernel.org; the papers' optimized mode partitions it (latency-limbo, setup-cat.sh)",
    mitigation: "mount -t resctrl resctrl /sys/fs/resctrl; create a group with cpus_list {cores} and with cache ways that no other group has",
    cost: "the other cores have less cache",
    reads: &[
        "/sys/fs/resctrl/schemata",
        "/sys/fs/resctrl/cpus_list",
        "/sys/fs/resctrl/*/schemata",
        "/sys/fs/resctrl/*/cpus_list",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if !view.processor_flag("cat_l3") {
        return Judgement::not_here("this processor cannot partition its last-level cache");
    }
    let Some(root) = view.text(&format!("{ROOT}/schemata")) else {
        return match view.has(&format!("{ROOT}/schemata")) {
            true => view.missing(&format!("{ROOT}/schemata")),
            false => Judgement::improvable(
                "resctrl is not mounted: the cache is not partitioned, unless by pqos through registers",
            ),
        };
    };
    // All groups with their cores; cores without a group belong to the root group.
    let mut groups = vec![("", root, view.core_list(&format!("{ROOT}/cpus_list")).unwrap_or_default())];
    for (name, text) in view.each("/sys/fs/resctrl/", "/schemata") {
        let cores = view.core_list(&format!("{ROOT}/{name}/cpus_list")).unwrap_or_default();
        groups.push((name, text, cores));
    }
    let meets = |cores: &CoreSet| !cores.and(view.cores()).is_empty();
    let (own, others): (Vec<_>, Vec<_>) = groups.iter().partition(|(_, _, cores)| meets(cores));
    let covered = own.iter().fold(CoreSet::default(), |all, (_, _, cores)| all.or(cores));
    let strangers = covered.without(view.cores());
    let ways = |text: &str| masks(text).into_iter().fold(0, |all, mask| all | mask);
    let mine = own.iter().fold(0, |all, (_, text, _)| all | ways(text));
    let shared = others.iter().filter(|(_, text, _)| ways(text) & mine != 0).count();
    let judged = if others.is_empty() && groups.len() == 1 {
        Judgement::improvable("all cores are in one group")
    } else if !strangers.is_empty() {
        Judgement::improvable(format!("cores {strangers} share the partition of these cores"))
    } else if shared > 0 {
        Judgement::improvable(format!("{shared} other groups may use the same ways"))
    } else {
        Judgement::good()
    };
    judged.effective(format!("{} groups, ways {mine:x} for these cores", groups.len()))
}

/// Cache masks in a line such as `L3:0=ff0;1=ff0`.
fn masks(schemata: &str) -> Vec<u64> {
    let lines = schemata.lines().filter_map(|line| line.trim().strip_prefix("L3:"));
    let each = lines.flat_map(|line| line.split(';')).filter_map(|part| part.split_once('='));
    each.filter_map(|(_, mask)| u64::from_str_radix(mask.trim(), 16).ok()).collect()
}

const ROOT: &str = "/sys/fs/resctrl";
