//! Rule `cfs-quota`: no CPU quota.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "cfs-quota",
    group: RuleGroup::Guests,
    title: "no CPU quota",
    why: "A process that has used up its quota is stopped until the next period starts, up to 100 ms later. Its packets wait during that time.",
    effect: None,
    source: "admin-guide/cgroup-v2.rst (cpu.max), docs.kernel.org",
    mitigation: "remove the CPU limit (cpu.max, --cpus, resources.limits.cpu without the static CPU manager policy)",
    cost: "the container may use more than its share",
    reads: &[
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    if let Some(text) = view.text("/sys/fs/cgroup/cpu.max") {
        let judged = match text.split(' ').next() {
            Some("max") => Judgement::good(),
            _ => Judgement::harmful("this process is stopped once it has used up its quota"),
        };
        return judged.effective(text.trim());
    }
    let paths = ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"];
    match paths.into_iter().find_map(|path| view.number(path)) {
        Some(quota @ 1..) => Judgement::harmful("this process is stopped once it has used up its quota")
            .effective(format!("{quota} us")),
        Some(_) => Judgement::good().effective("none"),
        None => Judgement::not_here("no control group with a CPU controller"),
    }
}
