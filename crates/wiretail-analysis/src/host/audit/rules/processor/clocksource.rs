//! Rule `clocksource`: clock source.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "clocksource",
    group: RuleGroup::Processor,
    title: "clock source",
    why: "Reading a clock other than the TSC takes a microsecond or more, and in a virtual machine it causes an exit to the host.",
    effect: Some(
        "One clock read, including its loop, takes 36 ns with the TSC and 723 ns with acpi_pm on the same machine, an i7-860 (PostgreSQL documentation, pg_test_timing)",
    ),
    source: "timers/timekeeping.rst, docs.kernel.org",
    mitigation: "boot with tsc=reliable clocksource=tsc if the TSC is invariant",
    cost: "none if the TSC is invariant",
    reads: &[PATH, "/sys/devices/system/clocksource/clocksource0/available_clocksource"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(chosen) = view.text(PATH).map(str::trim) else { return view.missing(PATH) };
    let word = view.boot().word("clocksource").or(view.boot().word("tsc"));
    let asked = view.boot().value("clocksource");
    let judged = match chosen {
        _ if asked.is_some_and(|asked| asked != chosen) => {
            Judgement::ineffective("the kernel does not trust the requested clock source")
        }
        // The TSC, its counterparts on other architectures, and the paravirtual clocks that read the TSC.
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" => Judgement::good(),
        other => Judgement::harmful(format!("{other} is read through the chipset")),
    };
    judged.requested(word).effective(chosen)
}

const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
