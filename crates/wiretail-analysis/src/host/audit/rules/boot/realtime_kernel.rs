//! Rule `realtime-kernel`: a kernel that fits the application.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "realtime-kernel",
    group: RuleGroup::Boot,
    title: "a kernel that fits the application",
    why: "A PREEMPT_RT kernel limits how long other threads and interrupts delay a thread that sleeps until a packet arrives. A thread that polls on an isolated core does not benefit, but still pays the overhead.",
    effect: Some(
        "Highest delay of a DPDK forwarder (a polling program) at seven rates from 10 to 500 kpps: 5.3 to 6.0 us with the standard kernel, 5.5 to 9.3 us with the rt kernel (read from the published figures of latency-limbo: dpdk-l2fwd/no-vm, runs 00 to 06)",
    ),
    source: "Gallenmueller et al., How low can you go?, JNSM 31, 2023",
    mitigation: "if the application sleeps until a packet arrives: apt install linux-image-rt-amd64; if it polls: use the standard kernel",
    cost: "lower throughput: locks become mutexes, and interrupt handlers become threads",
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
