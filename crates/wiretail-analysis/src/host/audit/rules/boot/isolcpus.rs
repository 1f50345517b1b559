//! Rule `isolcpus`: cores excluded from the scheduler's load balancing.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "isolcpus",
    group: RuleGroup::Boot,
    title: "cores excluded from the scheduler's load balancing",
    why: "The scheduler may move other threads to a core that is not isolated. Packets then wait during the time slices of these threads.",
    effect: Some(
        "isolcpus alone was not measured. Snort in a guest at 10 kpps: p99.99 is 66.8 us with DPDK and all of the papers' settings, but 1.67 ms with AF_PACKET and without these settings (computed from the published captures of gallenmu/low-latency: motivation, and snort-fwd in a VM)",
    ),
    source: "kernel-parameters (isolcpus=), docs.kernel.org",
    mitigation: "boot with isolcpus=managed_irq,domain,{cores}",
    cost: "these cores stay idle unless threads are pinned to them",
    reads: &["/proc/cmdline", ISOLATED, "/sys/devices/system/cpu/online"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("isolcpus");
    let effective = match view.text(ISOLATED) {
        Some(text) => text.trim(),
        None => return view.missing(ISOLATED).requested(word),
    };
    let isolated = CoreSet::parse(effective).unwrap_or_default();
    let shown = if effective.is_empty() { "none" } else { effective };
    let judged = match view.boot().cores("isolcpus") {
        Some(Err(fault)) => Judgement::ineffective(fault),
        Some(Ok(asked)) if !asked.without(&isolated).is_empty() => Judgement::ineffective(format!(
            "isolcpus lists cores {}, but they are not isolated",
            asked.without(&isolated)
        )),
        _ if !view.cores().without(&isolated).is_empty() => {
            Judgement::improvable(format!("cores {} are not isolated", view.cores().without(&isolated)))
        }
        _ => Judgement::good(),
    };
    judged.requested(word).effective(shown)
}

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
