//! the tick as it comes (measured)

use crate::host::audit::rules::counters::Counters;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "tick",
    group: RuleGroup::Kernel,
    title: "the tick as it comes (measured)",
    why: "Whether the tick is gone is seen only by counting it: a second thread, a POSIX timer or the kernel's own work brings it back.",
    effect: Some(
        "p99.9 of Snort in a guest at 10 kpps: 15.4 us where host and guest had no tick, 58.5 where they had it, and another kernel (computed from the published captures of the papers, snort-fwd in a VM: gallenmu/hipnet21 and gallenmu/low-latency)",
    ),
    source: "timers/no_hz.rst, docs.kernel.org",
    mitigation: "boot with nohz_full={cores}; let one thread alone run on each of them",
    cost: "as nohz-full",
    reads: &["/proc/interrupts"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let counters = match Counters::of(view) {
        Ok(counters) => counters,
        Err(judged) => return judged,
    };
    let Some(rates) = counters.per_second("LOC") else {
        return Judgement::not_here("no local timer is counted (LOC)");
    };
    let worst = view.cores().cores().iter().filter_map(|core| Some((*core, *rates.get(core)?)));
    let Some((core, rate)) = worst.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Judgement::unseen("none of these cores is online");
    };
    let asked = view.boot().word("nohz_full");
    let judged = match rate {
        rate if rate <= TICKS_MAX => Judgement::good(),
        _ if asked.is_some() => {
            Judgement::ineffective(format!("core {core} has {rate:.0} ticks a second, and was to have none"))
        }
        _ => Judgement::improvable(format!("core {core} has {rate:.0} ticks a second")),
    };
    judged.requested(asked).effective(format!("{rate:.0} a second"))
}

/// One a second is what the kernel keeps for its own accounting; a few more are other timers.
const TICKS_MAX: f64 = 10.0;
