//! irqbalance, where it is to go on: it keeps off the cores (irqbalance(1), IRQBALANCE_BANNED_CPULIST).

use wiretail_schema::host::plan::{Profile, TuningPlan};

use super::{Output, heading};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    if plan.profile == Profile::Regular {
        return Vec::new();
    }
    let text = format!(
        "# {}.\n\
         # What /etc/default/irqbalance says goes before this.\n\
         [Service]\n\
         Environment=IRQBALANCE_BANNED_CPULIST={}\n",
        heading(plan),
        plan.cores
    );
    let use_it = "irqbalance keeps off the cores, where it is not stopped: systemctl restart irqbalance";
    vec![Output::new("etc/systemd/system/irqbalance.service.d/99-wiretail.conf", text, use_it).installed()]
}
