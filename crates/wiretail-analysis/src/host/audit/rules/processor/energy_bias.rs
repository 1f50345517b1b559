//! Rule `energy-bias`: energy-performance hint.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::rules::{kinds, listed};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "energy-bias",
    group: RuleGroup::Processor,
    title: "energy-performance hint",
    why: "The processor uses this hint to trade speed for energy when it chooses a frequency. A hint that favors energy saving lowers frequencies and makes them rise more slowly.",
    effect: None,
    source: "admin-guide/pm/intel_epb.rst, admin-guide/pm/intel_pstate.rst, docs.kernel.org",
    mitigation: "echo 0 > /sys/devices/system/cpu/cpuN/power/energy_perf_bias; echo performance > .../cpufreq/energy_performance_preference",
    cost: "higher power consumption",
    reads: &[
        "/sys/devices/system/cpu/cpu*/power/energy_perf_bias",
        "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let mut values = view.each_core(CPU, "/power/energy_perf_bias");
    values.extend(view.each_core(CPU, "/cpufreq/energy_performance_preference"));
    values.sort_unstable();
    if values.is_empty() {
        return Judgement::not_here("these cores have no energy-performance hint");
    }
    let others: Vec<String> = values
        .iter()
        .filter(|(_, value)| *value != "0" && *value != "performance")
        .map(|(core, value)| format!("{core}: {value}"))
        .collect();
    let judged = match others.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!("the hint favors energy saving on cores {}", listed(&others))),
    };
    judged.effective(kinds(&values))
}

const CPU: &str = "/sys/devices/system/cpu/cpu";
