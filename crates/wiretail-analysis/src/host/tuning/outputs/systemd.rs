//! systemd: where services run, and a service that writes what no sysctl is.

use std::fmt::Write;

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, heading, values};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let heading = heading(plan);
    let mut files = vec![
        Output::new(
            "etc/systemd/system/wiretail-host.service",
            service(plan),
            "systemd: writes what no sysctl is, at each start",
        )
        .installed(),
        Output::new(
            "etc/systemd/system/multi-user.target.d/99-wiretail.conf",
            format!("# {heading}.\n[Unit]\nWants=wiretail-host.service\n"),
            "systemd: starts that service",
        )
        .installed(),
    ];
    if plan.profile == Profile::Regular {
        return files;
    }
    let housekeeping = plan.housekeeping.replace(',', " ");
    let manager = format!("# {heading}.\n[Manager]\nCPUAffinity={housekeeping}\n");
    let use_it = "systemd: services keep off the cores, from the next start on";
    files.push(Output::new("etc/systemd/system.conf.d/99-wiretail.conf", manager, use_it).installed());
    let packets = format!(
        "# {heading}.\n\
         # For the service that processes packets: copy to /etc/systemd/system/NAME.service.d/.\n\
         [Service]\n\
         CPUAffinity={}\n\
         CPUSchedulingPolicy=fifo\n\
         CPUSchedulingPriority=50\n\
         LimitMEMLOCK=infinity\n\
         CPUQuota=\n",
        plan.cores.replace(',', " ")
    );
    files.push(Output::new(
        "systemd/packets.conf",
        packets,
        "systemd: drop-in for the service that processes packets",
    ));
    files
}

/// Interrupts that are there already are not in it: their numbers change from start to start, and irqaffinity= places them.
fn service(plan: &TuningPlan) -> String {
    let mut text = format!(
        "# {}.\n\
         [Unit]\n\
         Description=Settings that leave the cores of packets alone\n\
         DefaultDependencies=no\n\
         After=sysinit.target\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n",
        heading(plan)
    );
    let interrupts = |path: &str| path.ends_with("/smp_affinity_list");
    let files = values(plan, "/sys/").chain(values(plan, "/proc/irq/"));
    for (path, wanted, _) in files.filter(|(path, _, _)| !interrupts(path)) {
        // A refusal of one, `-`, does not keep the others from being written. Writing to a String does not fail.
        let _ = writeln!(text, "ExecStart=-/bin/sh -c 'echo {wanted} > {path}'");
    }
    if !text.contains("ExecStart") {
        text.push_str("ExecStart=/bin/true\n");
    }
    text
}
