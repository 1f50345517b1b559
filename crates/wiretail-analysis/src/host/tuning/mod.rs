//! The plan of a host: what its boot line, its kernel and its services must say for cores to be left alone.
//!
//! ```text
//! HostRecord, profile, role, cores ─► Ask ─► boot_words, files, cards, services ─► TuningPlan ─► outputs
//! ```
//!
//! Pure: the same record gives the same plan, also another machine's. What a setting is for and what it costs is said by the audit's rule
//! that asks for it. Whether a plan is in effect is asked by planning anew from a later record: then nothing is left to change.

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

/// Files that a plan reads besides those of the audit; `*` stands for anything in a part of a path.
const OWN_FILES: &[&str] = &[
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity_list",
    "/proc/meminfo",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/name",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
];

/// All files that a plan reads, each once, for the recording of a host.
pub fn files() -> Vec<&'static str> {
    let mut files = audit::files();
    files.extend(OWN_FILES);
    files.sort_unstable();
    files.dedup();
    files
}

/// A host and what is wanted of it.
struct Ask<'a> {
    view: View<'a>,
    profile: Profile,
    housekeeping: CoreSet,
}

impl Ask<'_> {
    fn cores(&self) -> &CoreSet {
        self.view.cores()
    }

    /// Whether cores are isolated at all.
    fn isolates(&self) -> bool {
        self.profile != Profile::Regular
    }

    /// How much memory there is.
    fn memory_kib(&self) -> Option<u64> {
        let mut lines = self.view.text("/proc/meminfo")?.lines();
        lines.find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
    }

    fn is_vm(&self) -> bool {
        self.view.role() == HostRole::Vm
    }
}

/// Plans a host. `version` is that of Wiretail.
///
/// # Errors
/// Which of the cores can't be had, and what was expected.
pub fn plan(
    record: &HostRecord,
    profile: Profile,
    question: &Question,
    version: &str,
) -> Result<TuningPlan, String> {
    let view = View::new(record, question);
    let online = view.online();
    if online.is_empty() {
        return Err("the host does not say which cores it has: /sys/devices/system/cpu/online".to_owned());
    }
    let absent = view.cores().without(&online);
    if !absent.is_empty() {
        return Err(format!("cores {absent} are not online; expected some of {online}"));
    }
    let housekeeping = view.housekeeping();
    if housekeeping.is_empty() {
        let all = "no core is left for everything else; leave at least one of";
        return Err(format!("{all} {online} out of --cores"));
    }
    if view.cores().is_empty() {
        return Err("there is one core only, and that does everything; expected a second one".to_owned());
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

/// What a rule of the audit says of a setting: what for, and what it costs.
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
            "tuned runs, and may set other values again: tuned-adm off, or give it the profile that --out writes",
        );
    }
    if ask.isolates()
        && ask.view.core_list("/sys/devices/system/cpu/isolated").is_none_or(|set| set.is_empty())
    {
        note(
            "until the machine has started with isolcpus, ordinary threads still run on the cores; host.isolate of an experiment moves them away for each trial",
        );
    }
    let second = |core: &u32| {
        let siblings =
            ask.view.core_list(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"));
        siblings.is_some_and(|set| set.cores().first().is_some_and(|first| first < core))
    };
    if ask.isolates() && ask.cores().cores().iter().any(second) {
        note(
            "some of these cores are second threads of physical cores: nosmt switches them off; choose first ones",
        );
    }
    if ask.view.role() == HostRole::Container {
        note(
            "the kernel is the machine's: plan and apply on the machine that runs the container, not inside of it",
        );
    }
    notes
}
