//! Last-level cache partition for the packet cores (Cache Allocation Technology; arch/x86/resctrl.rst,
//! docs.kernel.org; pqos(8)).
//!
//! The outputs are scripts, because the number of cache ways is known only on the target machine.

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, heading};

/// Assigns the upper half of the cache ways to the packet cores and the lower half to all other cores.
const HALVES: &str = r#"ways=0
rest=$((0x$(cat "$resctrl/info/L3/cbm_mask")))
while [ "$rest" -gt 0 ]; do rest=$((rest >> 1)); ways=$((ways + 1)); done
low=$((ways / 2))
theirs=$(printf '%x' $(((1 << low) - 1)))
ours=$(printf '%x' $((((1 << ways) - 1) ^ ((1 << low) - 1))))
"#;

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let heading = heading(plan);
    let begin = format!(
        "#!/bin/sh\n\
         # {heading}.\n\
         # Gives the packet cores half of the last-level cache. Cost: the other cores have only the other half.\n\
         set -eu\n\
         resctrl=${{RESCTRL:-/sys/fs/resctrl}}\n"
    );
    let kernel = format!(
        "{begin}[ -d \"$resctrl/info\" ] || mount -t resctrl resctrl \"$resctrl\"\n\
         {HALVES}\
         mkdir -p \"$resctrl/wiretail\"\n\
         domains=$(sed -n 's/^ *L3://p' \"$resctrl/schemata\" | tr ';' '\\n' | cut -d= -f1)\n\
         line() {{ for domain in $domains; do printf '%s=%s;' \"$domain\" \"$1\"; done | sed 's/;$//'; }}\n\
         echo \"L3:$(line \"$theirs\")\" > \"$resctrl/schemata\"\n\
         echo \"L3:$(line \"$ours\")\" > \"$resctrl/wiretail/schemata\"\n\
         echo {} > \"$resctrl/wiretail/cpus_list\"\n",
        plan.cores
    );
    let pqos = format!(
        "{begin}{HALVES}\
         pqos -e \"llc:0=0x$theirs;llc:1=0x$ours\"\n\
         pqos -a \"llc:0={};llc:1={}\"\n",
        plan.housekeeping, plan.cores
    );
    vec![
        Output::new(
            "resctrl/partition.sh",
            kernel,
            "resctrl: cache partition for the packet cores; undo with rmdir /sys/fs/resctrl/wiretail and umount",
        ),
        Output::new("resctrl/pqos.sh", pqos, "pqos (intel-cmt-cat): the same partition; undo with pqos -R"),
    ]
}
