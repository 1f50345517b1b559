//! Tuning plan of a host: the boot line, kernel settings and services that keep the packet cores undisturbed.
//!
//! ```text
//! HostRecord, profile, role, cores ─► Ask ─► boot_words, files, nics, services ─► TuningPlan ─► outputs
//! ```
//!
//! A plan is a pure function of the record, so it can be made for another machine. The purpose and the
//! drawback of a setting come from the audit rule that checks it. To check whether a plan is in effect, make
//! it again from a later record: it then has nothing left to change.

mod boot_words;
mod files;
mod nics;
pub mod outputs;
mod services;

use wiretail_schema::host::audit::HostRole;
use wiretail_schema::host::plan::{
    PLAN_SCHEMA, Profile, Setting, SettingState, TakesEffect, Target, TuningPlan,
};
use wiretail_schema::host::record::HostRecord;
use wiretail_schema::units::cores::CoreSet;

use crate::host::audit::{self, Question, View};

/// Files that a plan reads, but the audit does not; `*` matches anything within one path component.
const OWN_FILES: &[&str] = &[
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity_list",
    "/proc/meminfo",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/name",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
];

/// All files that a plan reads, without duplicates. They are read when a host is recorded.
pub fn files() -> Vec<&'static str> {
    let mut files = audit::files();
    files.extend(OWN_FILES);
    files.sort_unstable();
    files.dedup();
    files
}

/// Host, profile, and the cores for all other work.
struct Ask<'a> {
    view: View<'a>,
    profile: Profile,
    housekeeping: CoreSet,
}

impl Ask<'_> {
    fn cores(&self) -> &CoreSet {
        self.view.cores()
    }

    /// Whether the profile isolates cores.
    fn isolates(&self) -> bool {
        self.profile != Profile::Regular
    }

    fn memory_kib(&self) -> Option<u64> {
        let mut lines = self.view.text("/proc/meminfo")?.lines();
        lines.find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
    }

    fn is_vm(&self) -> bool {
        self.view.role() == HostRole::Vm
    }
}

/// Makes the plan of a host. `version` is the version of Wiretail.
///
/// # Errors
///
/// Returns an error if the cores are not online, or if no core is left for other work.
pub fn plan(
    record: &HostRecord,
    profile: Profile,
    question: &Question,
    version: &str,
) -> Result<TuningPlan, String> {
    let view = View::new(record, question);
    let online = view.online();
    if online.is_empty() {
        return Err("the record does not list the online cores: /sys/devices/system/cpu/online".to_owned());
    }
    let absent = view.cores().without(&online);
    if !absent.is_empty() {
        return Err(format!("cores {absent} are not online; expected some of {online}"));
    }
    let housekeeping = view.housekeeping();
    if housekeeping.is_empty() {
        let all = "no core is left for other work; leave at least one of";
        return Err(format!("{all} {online} out of --cores"));
    }
    if view.cores().is_empty() {
        return Err("the host has only one core; expected at least two".to_owned());
    }
    let ask = Ask { view, profile, housekeeping };
    let mut settings = boot_words::settings(&ask);
    settings.extend(files::settings(&ask));
    settings.extend(nics::settings(&ask));
    settings.extend(services::settings(&ask));
    Ok(TuningPlan {
        schema: PLAN_SCHEMA.to_owned(),
        wiretail_version: version.to_owned(),
        profile,
        role: ask.view.role(),
        cores: ask.cores().to_string(),
        housekeeping: ask.housekeeping.to_string(),
        settings,
        notes: notes(&ask),
    })
}

/// Setting with the title and the cost of an audit rule.
fn setting(target: Target, rule: &str, takes_effect: TakesEffect) -> Setting {
    let of_rule = audit::ALL.iter().find(|one| one.id == rule);
    Setting {
        target,
        title: of_rule.map_or("", |rule| rule.title).to_owned(),
        rule: of_rule.map(|rule| rule.id.to_owned()),
        now: None,
        wanted: None,
        state: SettingState::InEffect,
        detail: String::new(),
        takes_effect,
        cost: of_rule.map_or("", |rule| rule.cost).to_owned(),
    }
}

fn notes(ask: &Ask<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let runs = |name: &str| ask.view.tasks().iter().any(|task| !task.is_kernel && task.name == name);
    if runs("tuned") {
        note(
            "tuned runs and may override these values: run tuned-adm off, or activate the profile that --out writes",
        );
    }
    if ask.isolates()
        && ask.view.core_list("/sys/devices/system/cpu/isolated").is_none_or(|set| set.is_empty())
    {
        note(
            "until the machine is booted with isolcpus, ordinary threads still run on these cores; host.isolate of an experiment moves them away for each trial",
        );
    }
    let second = |core: &u32| {
        let siblings =
            ask.view.core_list(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"));
        siblings.is_some_and(|set| set.cores().first().is_some_and(|first| first < core))
    };
    if ask.isolates() && ask.cores().cores().iter().any(second) {
        note("some of these cores are second hardware threads, which nosmt disables: choose first threads");
    }
    if ask.view.role() == HostRole::Container {
        note(
            "the container shares the kernel of its host: run plan and apply on the host, not inside the container",
        );
    }
    notes
}
