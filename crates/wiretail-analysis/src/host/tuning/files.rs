//! Files of /proc and /sys that the profiles set: settings that can change at run time.

use wiretail_schema::host::plan::{Profile, Setting, SettingState, TakesEffect, Target};
use wiretail_schema::host::record::Reading;
use wiretail_schema::units::cores::CoreSet;

use super::{Ask, boot_words, setting};

/// File that gets the same value on every host. `None` keeps the current value.
struct Fixed {
    path: &'static str,
    rule: &'static str,
    regular: Option<&'static str>,
    isolated: &'static str,
}

const fn fixed(
    path: &'static str,
    rule: &'static str,
    regular: Option<&'static str>,
    isolated: &'static str,
) -> Fixed {
    Fixed { path, rule, regular, isolated }
}

/// Values of the regular profile are the kernel's defaults. Defaults that differ between machines are not
/// changed.
const FIXED: &[Fixed] = &[
    fixed("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling", Some("950000"), "-1"),
    fixed("/proc/sys/kernel/timer_migration", "timer-migration", Some("1"), "1"),
    fixed("/proc/sys/vm/stat_interval", "vm-stat-interval", Some("1"), "120"),
    fixed("/proc/sys/kernel/nmi_watchdog", "nmi-watchdog", None, "0"),
    fixed("/proc/sys/kernel/soft_watchdog", "soft-watchdog", Some("1"), "0"),
    fixed("/sys/kernel/mm/transparent_hugepage/enabled", "thp", None, "madvise"),
    fixed("/sys/kernel/mm/ksm/run", "ksm", None, "0"),
    fixed("/proc/sys/kernel/numa_balancing", "numa-balancing", None, "0"),
    fixed("/proc/sys/vm/compaction_proactiveness", "compaction", Some("20"), "0"),
    fixed("/proc/sys/vm/swappiness", "swappiness", Some("60"), "10"),
];

/// Exit latency, in us, above which the optimized profile disables an idle state.
const WAKE_US_MAX: u64 = 2;
/// Maximum number of 2 MiB huge pages. A second limit is one eighth of the memory.
const SMALL_PAGES_MAX: u64 = 1024;
const SMALL_PAGE_KIB: u64 = 2048;

/// Settings of the plan, one per file.
pub(super) fn settings(ask: &Ask<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    masks(ask, &mut settings);
    interrupts(ask, &mut settings);
    processors(ask, &mut settings);
    for file in FIXED {
        let wanted = if ask.isolates() { Some(file.isolated) } else { file.regular };
        if let Some(wanted) = wanted {
            settings.push(judged(ask, file.path, file.rule, wanted));
        }
    }
    hugepages(ask, &mut settings);
    settings
}

/// Cores for unbound kernel workers and for new interrupts.
fn masks(ask: &Ask<'_>, settings: &mut Vec<Setting>) {
    let cores = if ask.isolates() { ask.housekeeping.clone() } else { ask.view.online() };
    for (path, rule) in [
        ("/sys/devices/virtual/workqueue/cpumask", "workqueue"),
        ("/proc/irq/default_smp_affinity", "irq-affinity"),
    ] {
        settings.push(judged(ask, path, rule, &cores.mask()));
    }
}

/// Moves the interrupts in use off the packet cores. An interrupt that may already run on housekeeping cores
/// keeps those cores.
fn interrupts(ask: &Ask<'_>, settings: &mut Vec<Setting>) {
    if !ask.isolates() {
        return;
    }
    let mut found: Vec<(u32, CoreSet)> = ask
        .view
        .each("/proc/irq/", "/smp_affinity_list")
        .filter(|(number, _)| ask.view.is_interrupt_used(number) == Some(true))
        .filter_map(|(number, list)| Some((number.parse().ok()?, CoreSet::parse(list).ok()?)))
        .collect();
    found.sort_unstable();
    for (number, now) in found {
        let kept = now.and(&ask.view.online()).without(ask.cores());
        let wanted = if kept.is_empty() { &ask.housekeeping } else { &kept };
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        settings.push(judged(ask, &path, "irq-affinity", &wanted.to_string()));
    }
}

/// Per-core settings: frequency governor, idle states, fair server.
fn processors(ask: &Ask<'_>, settings: &mut Vec<Setting>) {
    for core in ask.cores().cores() {
        let folder = format!("/sys/devices/system/cpu/cpu{core}");
        let governor = format!("{folder}/cpufreq/scaling_governor");
        if ask.profile == Profile::Optimized && ask.view.has(&governor) {
            settings.push(judged(ask, &governor, "governor", "performance"));
        }
        let before = format!("{folder}/cpuidle/state");
        for (state, latency) in ask.view.each(&before, "/latency") {
            if state.parse::<u32>().is_err() {
                continue;
            }
            let deep = latency.trim().parse::<u64>().is_ok_and(|us| us > WAKE_US_MAX);
            let off = deep && ask.profile == Profile::Optimized;
            let path = format!("{before}{state}/disable");
            settings.push(judged(ask, &path, "idle-states", if off { "1" } else { "0" }));
        }
        let server = format!("/sys/kernel/debug/sched/fair_server/cpu{core}/runtime");
        if ask.view.has(&server) {
            let wanted = if ask.isolates() { "0" } else { "50000000" };
            settings.push(judged(ask, &server, "fair-server", wanted));
        }
    }
}

/// Huge pages of the default size, if the boot line cannot reserve 1 GiB pages.
fn hugepages(ask: &Ask<'_>, settings: &mut Vec<Setting>) {
    const PATH: &str = "/proc/sys/vm/nr_hugepages";
    let asked = ask.view.boot().word("hugepages").is_some();
    let (Some(memory), Some(now)) = (ask.memory_kib(), ask.view.number(PATH)) else { return };
    if !ask.isolates() || asked || boot_words::giant(ask) {
        return;
    }
    let pages = (memory / 8 / SMALL_PAGE_KIB).min(SMALL_PAGES_MAX);
    // A larger number of reserved pages is kept.
    let pages = pages.max(u64::try_from(now).unwrap_or(0));
    settings.push(judged(ask, PATH, "hugepages", &pages.to_string()));
}

fn judged(ask: &Ask<'_>, path: &str, rule: &str, wanted: &str) -> Setting {
    let mut found = setting(Target::File { path: path.to_owned() }, rule, TakesEffect::Now);
    found.wanted = Some(wanted.to_owned());
    match ask.view.reading(path) {
        Some(Reading::Text(text)) => {
            let now = present(ask, path, text);
            found.state = if same(path, now, wanted) { SettingState::InEffect } else { SettingState::Change };
            found.now = Some(now.to_owned());
        }
        Some(Reading::Unreadable(why)) => {
            found.state = SettingState::Unseen;
            found.detail.clone_from(why);
        }
        None => {
            found.state = SettingState::NotHere;
            "this kernel does not have this file".clone_into(&mut found.detail);
        }
    }
    found
}

/// Current value; for a choice such as `always [madvise] never`, the selected word.
fn present<'a>(ask: &Ask<'a>, path: &str, text: &'a str) -> &'a str {
    if text.contains('[') { ask.view.choice(path).unwrap_or(text) } else { text.trim() }
}

fn same(path: &str, now: &str, wanted: &str) -> bool {
    let sets = match path {
        _ if path.ends_with("_list") => [CoreSet::parse(now), CoreSet::parse(wanted)],
        _ if path.ends_with("cpumask") || path.ends_with("smp_affinity") => {
            [CoreSet::parse_mask(now), CoreSet::parse_mask(wanted)]
        }
        _ => return now.trim() == wanted,
    };
    matches!(sets, [Ok(now), Ok(wanted)] if now == wanted)
}
