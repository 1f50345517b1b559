//! Rule `tick`: tick rate of these cores (measured).

use crate::host::audit::rules::counters::Counters;
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "tick",
    group: RuleGroup::Kernel,
    title: "tick rate of these cores (measured)",
    why: "A second thread, a POSIX timer or kernel work brings the tick back, and every tick delays the packets. Only counting shows whether a core is tickless.",
    effect: Some(
        "Snort in a guest at 10 kpps: p99.9 is 15.4 us if host and guest are tickless, and 58.5 us if both have ticks and another kernel (computed from the published captures of the papers, snort-fwd in a VM: gallenmu/hipnet21 and gallenmu/low-latency)",
    ),
    source: "timers/no_hz.rst, docs.kernel.org",
    mitigation: "boot with nohz_full={cores}; run a single thread on each of these cores",
    cost: "same as nohz-full",
    reads: &["/proc/interrupts"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let counters = match Counters::of(view) {
        Ok(counters) => counters,
        Err(judged) => return judged,
    };
    let Some(rates) = counters.per_second("LOC") else {
        return Judgement::not_here("this kernel does not count local timer interrupts (LOC)");
    };
    let worst = view.cores().cores().iter().filter_map(|core| Some((*core, *rates.get(core)?)));
    let Some((core, rate)) = worst.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Judgement::unseen("none of these cores is online");
    };
    let asked = view.boot().word("nohz_full");
    let judged = match rate {
        rate if rate <= TICKS_MAX => Judgement::good(),
        _ if asked.is_some() => Judgement::ineffective(format!(
            "core {core} has {rate:.0} ticks per second although nohz_full was requested"
        )),
        _ => Judgement::improvable(format!("core {core} has {rate:.0} ticks per second")),
    };
    judged.requested(asked).effective(format!("{rate:.0} per second"))
}

/// The kernel keeps one tick per second for its accounting; a few more come from other timers.
const TICKS_MAX: f64 = 10.0;
