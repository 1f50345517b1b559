//! `wiretail host verify`: makes a plan for the current state, and reports the settings that are not in
//! effect.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use wiretail_analysis::host::audit::Question;
use wiretail_analysis::host::tuning::files;
use wiretail_schema::host::plan::{Profile, Setting, SettingState, TakesEffect, TuningPlan};

use super::applied::{self, REFUSED};
use super::apply::same_question;
use super::plan::{needs_change, row};
use super::read::asked;
use crate::analyze::outputs;
use crate::cli::host::VerifyArgs;
use crate::run::testbed::profile::{planned, read};

/// Runs `wiretail host verify`.
///
/// # Errors
/// Returns an error if no profile is applied and none was named, or if the cores are not available.
pub fn run(arguments: &VerifyArgs) -> Result<ExitCode> {
    let root = arguments.root.as_path();
    let applied = applied::plan(root)?;
    let (profile, question): (Profile, Question) = match arguments.profile {
        Some(profile) => (profile.into(), asked(&arguments.cores, arguments.role)),
        None => {
            let plan = applied
                .as_ref()
                .context("no profile is applied; name one: --profile optimized --cores 1-3")?;
            (plan.profile, same_question(plan))
        }
    };
    let mut plan = planned(&read(root, &files(), Duration::ZERO), profile, &question)?;
    if arguments.now {
        plan.settings.retain(|setting| setting.takes_effect == TakesEffect::Now);
    }
    if let Some(applied) = applied.filter(|applied| applied.profile == profile && applied.cores == plan.cores)
    {
        say_refused(&mut plan, &applied);
    }
    let is_open = |setting: &Setting| needs_change(setting) && setting.detail != REFUSED;
    let open = plan.settings.iter().filter(|setting| is_open(setting)).count();
    outputs::print(&plan, arguments.json, |out| {
        writeln!(out, "  profile {}, cores to isolate: {}", plan.profile.name(), plan.cores)?;
        plan.settings.iter().try_for_each(|setting| row(out, setting))?;
        let count = |state| plan.settings.iter().filter(|setting| setting.state == state).count();
        writeln!(
            out,
            "\n  {} settings: {} in effect, {open} not, {} not here",
            plan.settings.len(),
            count(SettingState::InEffect),
            count(SettingState::NotHere)
        )
    })?;
    Ok(if open == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Marks the settings that the kernel refused when the plan was applied.
fn say_refused(plan: &mut TuningPlan, applied: &TuningPlan) {
    for setting in plan.settings.iter_mut().filter(|setting| setting.state == SettingState::Change) {
        let before = applied.settings.iter().find(|before| before.target == setting.target);
        if before.is_some_and(|before| before.detail == REFUSED) {
            REFUSED.clone_into(&mut setting.detail);
        }
    }
}
