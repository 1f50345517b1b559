//! Applies the host profile of a trial: kernel settings that are changed during the trial for the cores that
//! the trial isolates. The changes are steps in the trial's journal and are reverted when the testbed is
//! removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use wiretail_analysis::host::audit::{self, CONFIG_OPTIONS, Question, REGISTERS, TWICE};
use wiretail_analysis::host::tuning::{files, plan};
use wiretail_host::{CoreSet, RecordPlan, Step, record};
use wiretail_schema::experiment::{ProfileChoice, Trial};
use wiretail_schema::host::plan::{Profile, Rules, Setting, SettingState, Target, TuningPlan};
use wiretail_schema::host::record::HostRecord;

use crate::run::testbed::cpus::CpuAssignment;

/// Returns the profile that a trial applies, if any.
pub fn of(trial: &Trial) -> Option<Profile> {
    match trial.host.profile {
        ProfileChoice::None => None,
        ProfileChoice::Regular => Some(Profile::Regular),
        ProfileChoice::EnergySaving => Some(Profile::EnergySaving),
        ProfileChoice::Optimized => Some(Profile::Optimized),
    }
}

/// Refuses settings that are not the name of an audit rule.
///
/// # Errors
/// Returns an error if a setting is unknown; the message names it and the command that lists the rules.
pub fn refuse(trial: &Trial) -> Result<()> {
    if of(trial).is_none() {
        return Ok(());
    }
    match trial.host.settings.names().iter().find(|name| audit::ALL.iter().all(|rule| rule.id != **name)) {
        Some(name) => bail!(
            "host.settings names \"{name}\", which is not an audit rule; expected \"all\", names of rules such as \
             \"thp, workqueue\", or \"all but thp\"; wiretail host audit --all lists the rules"
        ),
        None => Ok(()),
    }
}

/// Returns the steps that apply a trial's profile; empty without a profile.
///
/// # Errors
/// Returns an error if no core of this machine can be isolated.
pub fn steps(trial: &Trial, assignment: &CpuAssignment) -> Result<Vec<Step>> {
    let Some(profile) = of(trial) else { return Ok(Vec::new()) };
    if assignment.quiet.is_empty() {
        return Err(anyhow!(
            "host.profile requires a core to isolate; expected a second core in addition to core {}",
            assignment.housekeeping
        ));
    }
    let plan = here(profile, &assignment.quiet)?;
    Ok(writes(Path::new("/"), &plan, &trial.host.settings))
}

/// Records the host below `root`. Some files are read twice with `interval` between the readings, or only
/// once if `interval` is zero.
pub fn read(root: &Path, files: &[&str], interval: Duration) -> HostRecord {
    let plan = RecordPlan { files, twice: TWICE, registers: REGISTERS, options: CONFIG_OPTIONS, interval };
    record(root, &plan, std::thread::sleep)
}

/// Returns the tuning plan for a recorded host.
///
/// # Errors
/// Returns an error if the requested cores are not available.
pub fn planned(record: &HostRecord, profile: Profile, question: &Question) -> Result<TuningPlan> {
    plan(record, profile, question, env!("CARGO_PKG_VERSION")).map_err(|error| anyhow!(error))
}

/// Returns the tuning plan for this host and the cores that a trial isolates.
///
/// # Errors
/// Returns an error if the requested cores are not available.
pub fn here(profile: Profile, cores: &CoreSet) -> Result<TuningPlan> {
    let record = read(Path::new("/"), &files(), Duration::ZERO);
    planned(&record, profile, &Question { cores: Some(cores.clone()), role: None })
}

/// Returns the steps for the selected settings that can be changed at run time, in the order of the plan. If
/// the kernel rejects a change, for example because an interrupt is bound to a core, the setting keeps its
/// value.
pub fn writes(root: &Path, plan: &TuningPlan, rules: &Rules) -> Vec<Step> {
    let is_meant = |setting: &&Setting| rules.has(setting.rule.as_deref().unwrap_or_default());
    let write = |setting: &Setting| match (&setting.target, setting.state, &setting.wanted) {
        (Target::File { path }, SettingState::Change, Some(value)) => {
            Some(Step::WriteFile { path: below(root, path), value: value.clone(), may_refuse: true })
        }
        _ => None,
    };
    plan.settings.iter().filter(is_meant).filter_map(write).collect()
}

/// Maps an absolute path of the machine to a path below `root`.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
