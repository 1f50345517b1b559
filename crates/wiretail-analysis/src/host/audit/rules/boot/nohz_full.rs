//! Rule `nohz-full`: cores without the timer tick.

use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nohz-full",
    group: RuleGroup::Boot,
    title: "cores without the timer tick",
    why: "The tick interrupts a busy core HZ times per second, for 1 to 20 us each time. With nohz_full, a core that runs a single thread has at most one tick per second.",
    effect: Some(
        "Highest delay of a DPDK forwarder at seven rates from 10 to 500 kpps: 4.1 to 4.2 us without the tick, 5.3 to 6.0 us with it (read from the published figures of latency-limbo: dpdk-l2fwd/no-vm, no-hz and vanilla, runs 00 to 06)",
    ),
    source: "timers/no_hz.rst, docs.kernel.org",
    mitigation: "boot with nohz_full={cores} on a kernel with CONFIG_NO_HZ_FULL=y",
    cost: "system calls and interrupts on these cores take slightly longer; the other cores keep their tick",
    reads: &["/proc/cmdline", NO_TICK],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("nohz_full");
    let support = view.config("CONFIG_NO_HZ_FULL");
    let text = view.text(NO_TICK).map(str::trim).filter(|text| *text != "(null)");
    let effective = text.and_then(|text| CoreSet::parse(text).ok()).unwrap_or_default();
    let shown = if effective.is_empty() { "none".to_owned() } else { effective.to_string() };
    let asked = match view.boot().cores("nohz_full") {
        Some(Err(fault)) => return Judgement::ineffective(fault).requested(word).effective(shown),
        Some(Ok(asked)) => asked,
        None => CoreSet::default(),
    };
    let without = asked.without(&effective);
    let judged = if !asked.is_empty() && support == Some("n") {
        Judgement::ineffective("this kernel is built without CONFIG_NO_HZ_FULL, so nohz_full has no effect")
    } else if !asked.is_empty() && text.is_none() {
        match view.has(NO_TICK) {
            true => Judgement::ineffective("requested, but the kernel reports no tickless core"),
            false => Judgement::ineffective("requested, but this kernel lacks CONFIG_NO_HZ_FULL"),
        }
    } else if !without.is_empty() {
        Judgement::ineffective(format!("nohz_full lists cores {without}, but they keep their tick"))
    } else if !view.cores().without(&effective).is_empty() {
        Judgement::improvable(format!("cores {} keep their tick", view.cores().without(&effective)))
    } else {
        Judgement::good()
    };
    judged.requested(word).effective(shown)
}

const NO_TICK: &str = "/sys/devices/system/cpu/nohz_full";
