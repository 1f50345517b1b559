//! systemd: CPU affinity of services, and a service that writes settings that are not sysctls.

use std::fmt::Write;

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, heading, values};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let heading = heading(plan);
    let mut files = vec![
        Output::new(
            "etc/systemd/system/wiretail-host.service",
            service(plan),
            "systemd: writes settings that are not sysctls at every boot",
        )
        .installed(),
        Output::new(
            "etc/systemd/system/multi-user.target.d/99-wiretail.conf",
            format!("# {heading}.\n[Unit]\nWants=wiretail-host.service\n"),
            "systemd: starts wiretail-host.service",
        )
        .installed(),
    ];
    if plan.profile == Profile::Regular {
        return files;
    }
    let housekeeping = plan.housekeeping.replace(',', " ");
    let manager = format!("# {heading}.\n[Manager]\nCPUAffinity={housekeeping}\n");
    let use_it = "systemd: keeps services off the packet cores from the next boot on";
    files.push(Output::new("etc/systemd/system.conf.d/99-wiretail.conf", manager, use_it).installed());
    let packets = format!(
        "# {heading}.\n\
         # For the packet-processing service: copy to /etc/systemd/system/NAME.service.d/.\n\
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
        "systemd: drop-in for the packet-processing service",
    ));
    files
}

/// Excludes existing interrupts, because their numbers change from boot to boot. `irqaffinity=` places them
/// instead.
fn service(plan: &TuningPlan) -> String {
    let mut text = format!(
        "# {}.\n\
         [Unit]\n\
         Description=Settings that keep the packet cores undisturbed\n\
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
        // With `-`, a rejected write does not stop the service. Writing to a String cannot fail.
        let _ = writeln!(text, "ExecStart=-/bin/sh -c 'echo {wanted} > {path}'");
    }
    if !text.contains("ExecStart") {
        text.push_str("ExecStart=/bin/true\n");
    }
    text
}
