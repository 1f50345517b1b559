//! `wiretail host plan`: prints required settings and their costs, and writes configuration files for other
//! tools.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use wiretail_analysis::host::audit::Question;
use wiretail_analysis::host::tuning::{files, outputs};
use wiretail_schema::host::plan::{Setting, SettingState, TakesEffect, Target, TuningPlan};
use wiretail_schema::host::record::HostRecord;

use super::read::{asked, recorded};
use super::text::wrapped;
use crate::analyze::outputs::{print, write_file};
use crate::cli::host::{PlanArgs, WantedArgs};
use crate::run::testbed::profile::{planned, read};

/// Runs `wiretail host plan`.
///
/// # Errors
/// Returns an error if a record can't be read, if the cores are not available, or if a directory can't be
/// written.
pub fn run(arguments: &PlanArgs) -> Result<ExitCode> {
    let record = match &arguments.from {
        Some(path) => recorded(path, &files())?,
        None => read(Path::new("/"), &files(), Duration::ZERO),
    };
    let plan = planned(&record, arguments.wanted.profile.into(), &question(&arguments.wanted))?;
    let written = match &arguments.out {
        Some(folder) => write_outputs(folder, &plan, &record)?,
        None => Vec::new(),
    };
    print(&plan, arguments.json, |out| {
        table(out, &plan, arguments.all)?;
        for file in &written {
            writeln!(out, "  wrote {:<62} {}", file.path, file.use_it)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the question that the command line asks.
pub(super) fn question(wanted: &WantedArgs) -> Question {
    asked(&wanted.cores, wanted.role)
}

/// Returns the properties of the host that the output files depend on.
pub(super) fn place(record: &HostRecord) -> outputs::Place {
    outputs::Place { has_cgroup2: record.readings.contains_key("/sys/fs/cgroup/cgroup.controllers") }
}

fn write_outputs(folder: &Path, plan: &TuningPlan, record: &HostRecord) -> Result<Vec<outputs::Output>> {
    let mut files = outputs::all(plan, place(record));
    for file in &mut files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("{}: cannot be created", parent.display()))?;
        write_file(&path, file.text.as_bytes())?;
        file.path = path.display().to_string();
    }
    Ok(files)
}

/// Writes the plan as a table; with `all`, also settings that need no change.
pub(super) fn table(out: &mut impl Write, plan: &TuningPlan, all: bool) -> io::Result<()> {
    writeln!(
        out,
        "  profile {}, role {}: cores {} isolated, {} for everything else",
        plan.profile.name(),
        plan.role.name(),
        plan.cores,
        plan.housekeeping
    )?;
    for (when, title) in [
        (TakesEffect::Reboot, "BOOT COMMAND LINE: TAKES EFFECT AT THE NEXT BOOT"),
        (TakesEffect::Now, "NOW: CAN BE CHANGED AT RUNTIME"),
    ] {
        let is_shown = |setting: &&Setting| setting.takes_effect == when && (all || needs_change(setting));
        let shown: Vec<&Setting> = plan.settings.iter().filter(is_shown).collect();
        if shown.is_empty() {
            continue;
        }
        writeln!(out, "\n  {title}")?;
        // Settings of one rule are grouped, and their purpose and cost are printed only once.
        for group in shown.chunk_by(|a, b| a.title == b.title && a.cost == b.cost) {
            group.iter().try_for_each(|setting| row(out, setting))?;
            wrapped(out, "for", &group[0].title)?;
            wrapped(out, "cost", &group[0].cost)?;
        }
    }
    writeln!(out)?;
    plan.notes.iter().try_for_each(|note| wrapped(out, "note", note))?;
    let count = |state| plan.settings.iter().filter(|setting| setting.state == state).count();
    writeln!(
        out,
        "  {} settings: {} to change, {} ineffective, {} in effect, {} not here, {} not seen",
        plan.settings.len(),
        count(SettingState::Change),
        count(SettingState::Ineffective),
        count(SettingState::InEffect),
        count(SettingState::NotHere),
        count(SettingState::Unseen)
    )
}

/// Whether a setting must be changed, or its state is unknown.
pub(super) fn needs_change(setting: &Setting) -> bool {
    matches!(setting.state, SettingState::Change | SettingState::Ineffective | SettingState::Unseen)
}

/// Writes one setting, with its current and required value.
pub(super) fn row(out: &mut impl Write, setting: &Setting) -> io::Result<()> {
    let value = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or("not there");
        // For a boot command-line parameter, only the value is shown.
        match &setting.target {
            Target::BootWord { name } => match text.strip_prefix(name.as_str()) {
                Some("") => "there".to_owned(),
                Some(value) => value.trim_start_matches('=').to_owned(),
                None => text.to_owned(),
            },
            _ => text.to_owned(),
        }
    };
    let (now, wanted) = (value(&setting.now), value(&setting.wanted));
    let name = setting.target.name();
    let change = match setting.state {
        SettingState::Change => format!("{now} -> {wanted}"),
        SettingState::InEffect => now,
        SettingState::Ineffective => format!("{now}, requested but not in effect"),
        SettingState::NotHere | SettingState::Unseen => String::new(),
    };
    writeln!(out, "    {:<11} {name:<52} {change}", setting.state.name())?;
    if setting.detail.is_empty() { Ok(()) } else { wrapped(out, "", &setting.detail) }
}
