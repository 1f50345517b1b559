//! The profile of a trial: settings of the running kernel that are as it wants them while the trial lasts, for the cores that the
//! trial leaves alone. They are steps of the trial's own journal, and go with its testbed.

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

/// The profile that a trial sets, if any.
pub fn of(trial: &Trial) -> Option<Profile> {
    match trial.host.profile {
        ProfileChoice::None => None,
        ProfileChoice::Regular => Some(Profile::Regular),
        ProfileChoice::EnergySaving => Some(Profile::EnergySaving),
        ProfileChoice::Optimized => Some(Profile::Optimized),
    }
}

/// Refuses settings that no rule asks for.
///
/// # Errors
/// Names the rule and where they are listed.
pub fn refuse(trial: &Trial) -> Result<()> {
    if of(trial).is_none() {
        return Ok(());
    }
    match trial.host.settings.names().iter().find(|name| audit::ALL.iter().all(|rule| rule.id != **name)) {
        Some(name) => bail!(
            "host.settings names \"{name}\", which is no rule of the audit; expected all, names such as thp, or all but \
             such names: wiretail host audit --all lists them"
        ),
        None => Ok(()),
    }
}

/// What is to be written for a trial; nothing without a profile.
///
/// # Errors
/// A machine on which no core can be left alone.
pub fn steps(trial: &Trial, assignment: &CpuAssignment) -> Result<Vec<Step>> {
    let Some(profile) = of(trial) else { return Ok(Vec::new()) };
    if assignment.quiet.is_empty() {
        return Err(anyhow!(
            "host.profile leaves cores alone; expected a second core beside {}",
            assignment.housekeeping
        ));
    }
    let plan = here(profile, &assignment.quiet)?;
    Ok(writes(Path::new("/"), &plan, &trial.host.settings))
}

/// Reads a host under `root`, some files again after `interval`; zero for once only.
pub fn read(root: &Path, files: &[&str], interval: Duration) -> HostRecord {
    let plan = RecordPlan { files, twice: TWICE, registers: REGISTERS, options: CONFIG_OPTIONS, interval };
    record(root, &plan, std::thread::sleep)
}

/// The plan of a recorded host.
///
/// # Errors
/// Cores that can't be had.
pub fn planned(record: &HostRecord, profile: Profile, question: &Question) -> Result<TuningPlan> {
    plan(record, profile, question, env!("CARGO_PKG_VERSION")).map_err(|error| anyhow!(error))
}

/// The plan of this host for cores that a trial leaves alone.
///
/// # Errors
/// Cores that can't be had.
pub fn here(profile: Profile, cores: &CoreSet) -> Result<TuningPlan> {
    let record = read(Path::new("/"), &files(), Duration::ZERO);
    planned(&record, profile, &Question { cores: Some(cores.clone()), role: None })
}

/// What can be changed while the machine runs, of the rules that are meant, in the order of the plan. What the kernel refuses, as
/// interrupts that belong to a core, stays as it is.
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

/// A whole path of the machine below `root`.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
