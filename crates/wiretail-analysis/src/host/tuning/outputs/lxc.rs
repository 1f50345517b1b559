//! LXC container configuration (lxc.container.conf(5)).

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, Place, heading};

pub(super) fn files(plan: &TuningPlan, place: Place) -> Vec<Output> {
    let (group, quota) = match place.has_cgroup2 {
        true => ("lxc.cgroup2", "lxc.cgroup2.cpu.max = max"),
        false => ("lxc.cgroup", "lxc.cgroup.cpu.cfs_quota_us = -1"),
    };
    let text = format!(
        "# {}.\n\
         # Include in the configuration of the packet-processing container: lxc.include = FILE.\n\
         {group}.cpuset.cpus = {}\n\
         # No quota: a container that has used up its quota is stopped until the next period.\n\
         {quota}\n\
         # Huge pages for DPDK's packet buffers.\n\
         lxc.mount.entry = hugetlbfs dev/hugepages hugetlbfs rw,relatime,create=dir,optional 0 0\n",
        heading(plan),
        plan.cores
    );
    vec![Output::new("lxc/wiretail.conf", text, "LXC: lxc.include = FILE in the container's configuration")]
}
