//! the clock

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "clocksource",
    group: RuleGroup::Processor,
    title: "the clock",
    why: "Reading any other clock than the TSC takes a microsecond and more, and in a virtual machine an exit to the host.",
    effect: Some(
        "A reading and its loop: 36 ns with the TSC, 723 ns with acpi_pm on the same machine, an i7-860 (PostgreSQL documentation, pg_test_timing)",
    ),
    source: "timers/timekeeping.rst, docs.kernel.org",
    mitigation: "boot with tsc=reliable clocksource=tsc where the TSC is invariant",
    cost: "none where it is",
    reads: &[PATH, "/sys/devices/system/clocksource/clocksource0/available_clocksource"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(chosen) = view.text(PATH).map(str::trim) else { return view.missing(PATH) };
    let word = view.boot().word("clocksource").or(view.boot().word("tsc"));
    let asked = view.boot().value("clocksource");
    let judged = match chosen {
        _ if asked.is_some_and(|asked| asked != chosen) => {
            Judgement::ineffective("the kernel does not trust the clock that was asked for")
        }
        // Architectures' own counters, and the paravirtual clock, which reads the TSC.
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" => Judgement::good(),
        other => Judgement::harmful(format!("{other} is read through the chipset")),
    };
    judged.requested(word).effective(chosen)
}

const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
