//! a kernel by the application's architecture

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "realtime-kernel",
    group: RuleGroup::Boot,
    title: "a kernel by the application's architecture",
    why: "A preemptible (PREEMPT_RT) kernel bounds what other threads and interrupts cost a thread that sleeps; one that polls on an isolated core has no use for it and pays for it.",
    effect: Some(
        "The worst packet of a DPDK forwarder, which polls, at seven rates from 10 to 500 kpps: 5.3 to 6.0 us with the standard kernel, 5.5 to 9.3 with the rt kernel (read off the published figures of latency-limbo, dpdk-l2fwd/no-vm, runs 00 to 06)",
    ),
    source: "Gallenmueller et al., How low can you go?, JNSM 31, 2023",
    mitigation: "for applications that sleep for packets: apt install linux-image-rt-amd64; for those that poll: the standard kernel",
    cost: "throughput: locks become mutexes, interrupts threads",
    reads: &["/proc/sys/kernel/version", "/sys/kernel/realtime"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let version = view.text("/proc/sys/kernel/version");
    let realtime = view.text("/sys/kernel/realtime").map(str::trim) == Some("1")
        || version.is_some_and(|version| version.contains("PREEMPT_RT"));
    match (version, realtime) {
        (None, _) => view.missing("/proc/sys/kernel/version"),
        (Some(_), true) => Judgement::good().effective("PREEMPT_RT"),
        (Some(version), false) => Judgement::good().effective(match version.contains("PREEMPT") {
            true => "preemptible, not real-time",
            false => "not preemptible",
        }),
    }
}
