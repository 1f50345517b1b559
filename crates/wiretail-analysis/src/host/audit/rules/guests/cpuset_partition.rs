//! a partition of cores for the container

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "cpuset-partition",
    group: RuleGroup::Guests,
    title: "a partition of cores for the container",
    why: "A set of cores says where a container may run, not that nobody else does; an isolated partition takes these cores out of the load balancing of all others.",
    effect: None,
    source: "admin-guide/cgroup-v2.rst (cpuset.cpus.partition), docs.kernel.org",
    mitigation: "echo {cores} > cpuset.cpus.exclusive; echo isolated > cpuset.cpus.partition; or isolcpus={cores} on the host",
    cost: "these cores are idle unless somebody pins a thread to them",
    reads: &[PARTITION, "/sys/fs/cgroup/cpuset.cpus.effective", "/sys/devices/system/cpu/isolated"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::Container {
        return Judgement::not_here("no container");
    }
    let Some(kind) = view.text(PARTITION).map(str::trim) else { return view.missing(PARTITION) };
    let isolated = view.core_list("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let judged = match kind {
        "isolated" => Judgement::good(),
        // "isolated invalid (reason)"
        _ if kind.contains("invalid") => Judgement::ineffective("the kernel has taken the partition back"),
        _ if view.cores().without(&isolated).is_empty() => Judgement::good(),
        _ => Judgement::improvable("other threads of the host may run on these cores, too"),
    };
    let cores = view.text("/sys/fs/cgroup/cpuset.cpus.effective").unwrap_or("").trim();
    judged.effective(format!("{kind}, cores {cores}"))
}

const PARTITION: &str = "/sys/fs/cgroup/cpuset.cpus.partition";
