//! Rule `idle-states`: depth of idle states.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "idle-states",
    group: RuleGroup::Processor,
    title: "depth of idle states",
    why: "Waking from a deep idle state takes up to about 100 us. This affects cores that sleep while they wait for packets, but not polling cores.",
    effect: Some(
        "Worst-case wakeup latency on Skylake servers: C1 2 us, C1E 10 us, C6 133 us (drivers/idle/intel_idle.c of the kernel, skx_cstates)",
    ),
    source: "admin-guide/pm/cpuidle.rst, docs.kernel.org",
    mitigation: "boot with processor.max_cstate=1 intel_idle.max_cstate=0, or idle=poll; or keep /dev/cpu_dma_latency open with the value 0",
    cost: "higher power consumption, and less turbo headroom for other cores",
    reads: &[
        "/proc/cmdline",
        "/sys/devices/system/cpu/cpuidle/current_driver",
        "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
        "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    ],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = ["idle", "intel_idle.max_cstate", "processor.max_cstate"]
        .into_iter()
        .find_map(|name| view.boot().word(name));
    let mut deepest: Option<(u32, i64)> = None;
    for (place, text) in view.each("/sys/devices/system/cpu/cpu", "/latency") {
        let Some((core, state)) = place.split_once("/cpuidle/") else { continue };
        let Ok(core) = core.parse::<u32>() else { continue };
        let off = view.text(&format!("/sys/devices/system/cpu/cpu{core}/cpuidle/{state}/disable"));
        let latency = text.trim().parse::<i64>().unwrap_or(0);
        if view.cores().contains(core)
            && off.map(str::trim) != Some("1")
            && deepest.is_none_or(|(_, most)| latency > most)
        {
            deepest = Some((core, latency));
        }
    }
    let Some((core, latency_us)) = deepest else {
        let judged = Judgement::not_here("the kernel has no idle states; a hypervisor may use some");
        return judged.requested(word);
    };
    let shallow = view.boot().value("idle") == Some("poll");
    let judged = match latency_us {
        _ if shallow && latency_us > 0 => {
            Judgement::ineffective("idle=poll was requested, but there are idle states")
        }
        0..=2 => Judgement::good(),
        _ => Judgement::improvable(format!(
            "core {core} may enter an idle state that takes {latency_us} us to leave"
        )),
    };
    judged.requested(word).effective(format!("at most {latency_us} us to wake"))
}
