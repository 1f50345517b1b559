//! Drop-in that keeps a running irqbalance off the packet cores (irqbalance(1), IRQBALANCE_BANNED_CPULIST).

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, heading};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    if plan.profile == Profile::Regular {
        return Vec::new();
    }
    let text = format!(
        "# {}.\n\
         # /etc/default/irqbalance takes precedence over this file.\n\
         [Service]\n\
         Environment=IRQBALANCE_BANNED_CPULIST={}\n",
        heading(plan),
        plan.cores
    );
    let use_it = "irqbalance, if it runs: systemctl restart irqbalance keeps it off the packet cores";
    vec![Output::new("etc/systemd/system/irqbalance.service.d/99-wiretail.conf", text, use_it).installed()]
}
