//! Rule `governor`: frequency governor.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::rules::{kinds, listed};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "governor",
    group: RuleGroup::Processor,
    title: "frequency governor",
    why: "A core that has lowered its frequency takes longer for the next packet and needs tens of us to raise the frequency again.",
    effect: None,
    source: "admin-guide/pm/cpufreq.rst, docs.kernel.org",
    mitigation: "cpupower frequency-set -g performance",
    cost: "higher power consumption: the cores never slow down",
    reads: &["/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let values = view.each_core("/sys/devices/system/cpu/cpu", "/cpufreq/scaling_governor");
    if values.is_empty() {
        return Judgement::not_here(
            "the kernel does not set the frequency of these cores; the hypervisor or the firmware does",
        );
    }
    let others: Vec<String> = values
        .iter()
        .filter(|(_, name)| *name != "performance")
        .map(|(core, name)| format!("{core}: {name}"))
        .collect();
    let judged = match others.is_empty() {
        true => Judgement::good(),
        false => {
            Judgement::improvable(format!("the governor is not \"performance\" on cores {}", listed(&others)))
        }
    };
    judged.requested(view.boot().word("cpufreq.default_governor")).effective(kinds(&values))
}
