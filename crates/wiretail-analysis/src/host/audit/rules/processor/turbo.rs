//! Rule `turbo`: no turbo frequencies.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "turbo",
    group: RuleGroup::Processor,
    title: "no turbo frequencies",
    why: "With turbo, the speed of a core depends on the load and temperature of the other cores, so the processing time of the same packet varies.",
    effect: None,
    source: "admin-guide/pm/intel_pstate.rst, admin-guide/pm/cpufreq.rst, docs.kernel.org",
    mitigation: "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost; the papers boot with intel_pstate=disable",
    cost: "lower speed of single cores",
    reads: &[NO_TURBO, BOOST, STATUS],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("intel_pstate");
    let status = view.text(STATUS).map(str::trim);
    if view.boot().value("intel_pstate") == Some("disable") && status.is_some_and(|status| status != "off") {
        let judged = Judgement::ineffective("intel_pstate=disable was requested, but the driver is not off");
        return judged.requested(word).effective(status.unwrap_or(""));
    }
    let (on, from) = match (view.number(NO_TURBO), view.number(BOOST)) {
        (Some(off), _) => (off == 0, "no_turbo"),
        (None, Some(on)) => (on != 0, "boost"),
        (None, None) if view.has(NO_TURBO) => return view.missing(NO_TURBO).requested(word),
        (None, None) => {
            let why = "the kernel does not control the frequency, or its driver has no turbo";
            return Judgement::not_here(why).requested(word);
        }
    };
    let judged = match on {
        true => Judgement::improvable("the frequency depends on the load of other cores"),
        false => Judgement::good(),
    };
    judged.requested(word).effective(format!("{} ({from})", if on { "on" } else { "off" }))
}

const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
const STATUS: &str = "/sys/devices/system/cpu/intel_pstate/status";
