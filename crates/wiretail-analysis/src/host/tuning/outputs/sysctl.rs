//! Kernel parameters at boot (sysctl.d(5)).

use std::fmt::Write;

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, heading, values};

const FOLDER: &str = "/proc/sys/";

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let mut text = format!(
        "# {}.\n# A leading - means that errors are ignored, for example if this machine lacks the parameter.\n",
        heading(plan)
    );
    for (path, wanted, setting) in values(plan, FOLDER) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n# {}; cost: {}", setting.title, setting.cost);
        let _ = writeln!(text, "-{} = {wanted}", name(path));
    }
    vec![
        Output::new("etc/sysctl.d/99-wiretail.conf", text, "sysctl: read at boot, or sysctl --system")
            .installed(),
    ]
}

/// Name of a sysctl: `kernel.timer_migration` for `/proc/sys/kernel/timer_migration`.
pub(super) fn name(path: &str) -> String {
    path.trim_start_matches(FOLDER).replace('/', ".")
}
