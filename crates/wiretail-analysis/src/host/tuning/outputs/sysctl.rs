//! Kernel parameters at boot (sysctl.d(5)).

use std::fmt::Write;

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, heading, values};

const FOLDER: &str = "/proc/sys/";

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let mut text = format!(
        "# {}.\n# What the kernel refuses, as of parameters that a machine lacks, is passed over (-).\n",
        heading(plan)
    );
    for (path, wanted, setting) in values(plan, FOLDER) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "\n# {}; cost: {}", setting.title, setting.cost);
        let _ = writeln!(text, "-{} = {wanted}", name(path));
    }
    vec![
        Output::new("etc/sysctl.d/99-wiretail.conf", text, "sysctl: read at boot, or sysctl --system")
            .installed(),
    ]
}

/// `kernel.timer_migration` of `/proc/sys/kernel/timer_migration`.
pub(super) fn name(path: &str) -> String {
    path.trim_start_matches(FOLDER).replace('/', ".")
}
