//! Rule `cpuset-partition`: an isolated cpuset partition for the container.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};
use wiretail_schema::host::audit::HostRole;

pub(crate) const RULE: Rule = Rule {
    id: "cpuset-partition",
    group: RuleGroup::Guests,
    title: "an isolated cpuset partition for the container",
    why: "A cpuset limits where a container runs, but does not keep other threads off its cores. An isolated partition excludes these cores from the load balancing of all other threads.",
    effect: None,
    source: "admin-guide/cgroup-v2.rst (cpuset.cpus.partition), docs.kernel.org",
    mitigation: "echo {cores} > cpuset.cpus.exclusive; echo isolated > cpuset.cpus.partition; or isolcpus={cores} on the host",
    cost: "these cores stay idle unless threads are pinned to them",
    reads: &[PARTITION, "/sys/fs/cgroup/cpuset.cpus.effective", "/sys/devices/system/cpu/isolated"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if view.role() != HostRole::Container {
        return Judgement::not_here("not a container");
    }
    let Some(kind) = view.text(PARTITION).map(str::trim) else { return view.missing(PARTITION) };
    let isolated = view.core_list("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let judged = match kind {
        "isolated" => Judgement::good(),
        // "isolated invalid (reason)"
        _ if kind.contains("invalid") => Judgement::ineffective("the kernel has invalidated the partition"),
        _ if view.cores().without(&isolated).is_empty() => Judgement::good(),
        _ => Judgement::improvable("other threads of the host may also run on these cores"),
    };
    let cores = view.text("/sys/fs/cgroup/cpuset.cpus.effective").unwrap_or("").trim();
    judged.effective(format!("{kind}, cores {cores}"))
}

const PARTITION: &str = "/sys/fs/cgroup/cpuset.cpus.partition";
