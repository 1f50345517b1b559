//! The profile of a trial: settings of the running kernel that are as it wants them while the trial lasts, for the cores that the
//! trial leaves alone. They are steps of the trial's own journal, and go with its testbed.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use wiretail_analysis::audit;
use wiretail_host::Step;
use wiretail_schema::experiment::Trial;
use wiretail_schema::host::plan::{Profile, Rules};

use super::places::Places;
use crate::host;

/// The profile that a trial sets, if any.
pub fn of(trial: &Trial) -> Option<Profile> {
    let name = &trial.get("host", "profile").text;
    [Profile::Regular, Profile::EnergySaving, Profile::Optimized].into_iter().find(|p| p.name() == name)
}

/// Refuses settings that no rule asks for.
///
/// # Errors
/// Names the rule and where they are listed.
pub fn refuse(trial: &Trial) -> Result<()> {
    if of(trial).is_none() {
        return Ok(());
    }
    let rules = Rules::from(trial.get("host", "settings").text.as_str());
    match rules.names().iter().find(|name| audit::ALL.iter().all(|rule| rule.id != **name)) {
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
pub fn steps(trial: &Trial, places: &Places) -> Result<Vec<Step>> {
    let Some(profile) = of(trial) else { return Ok(Vec::new()) };
    if places.quiet.is_empty() {
        return Err(anyhow!(
            "host.profile leaves cores alone; expected a second core beside {}",
            places.housekeeping
        ));
    }
    let plan = host::here(profile, &places.quiet)?;
    let rules = Rules::from(trial.get("host", "settings").text.as_str());
    Ok(host::writes(Path::new("/"), &plan, &rules))
}
