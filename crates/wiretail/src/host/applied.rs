//! The files that `wiretail host apply` leaves on disk: the journal, and the applied plan.
//!
//! Both are in [`KEPT_FOLDER`], separate from the journals of runs: `wiretail clean` reverts what killed runs
//! left behind, but an applied profile is meant to stay.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::testbed::profile::below;
use anyhow::{Context, Result, bail};
use wiretail_host::{JOURNAL_FOLDER, KEPT_FOLDER, LeftoverState, Step, leftovers};
use wiretail_schema::host::plan::TuningPlan;

use crate::analyze::outputs::write_file;

/// Name of the journal.
pub(super) const JOURNAL: &str = "applied";
/// Detail of a setting that the kernel did not accept.
pub(super) const REFUSED: &str = "the kernel refused it";

/// Returns the directory of the journal and the plan.
pub(super) fn folder(root: &Path) -> PathBuf {
    below(root, KEPT_FOLDER)
}

fn plan_file(root: &Path) -> PathBuf {
    folder(root).join("plan.json")
}

/// Reads the applied plan, if there is one.
///
/// # Errors
/// Returns an error if the file is not a valid plan.
pub(super) fn plan(root: &Path) -> Result<Option<TuningPlan>> {
    let path = plan_file(root);
    let Ok(text) = fs::read(&path) else { return Ok(None) };
    let plan = serde_json::from_slice(&text);
    plan.map(Some).with_context(|| format!("{}: is not a plan of this version of Wiretail", path.display()))
}

/// Saves the plan.
///
/// # Errors
/// Returns an error with the path and the system's reason if the file can't be written.
pub(super) fn save(root: &Path, plan: &TuningPlan) -> Result<()> {
    write_file(&plan_file(root), &serde_json::to_vec(plan)?)
}

/// Removes the plan, even if it is incomplete, and directories that are then empty. Keeps everything if the
/// journal still exists.
pub(super) fn forget(root: &Path) {
    let folder = folder(root);
    if leftovers(&folder).is_ok_and(|journals| journals.is_empty()) {
        let _ = fs::remove_dir_all(&folder);
    }
    if let Some(parent) = folder.parent() {
        // Fails if the directory is not empty.
        let _ = fs::remove_dir(parent);
    }
}

/// Fails if a run has changed the same files, because restoring them would write wrong values in that case.
///
/// # Errors
/// Returns an error with the run and the file.
pub(super) fn refuse_runs(root: &Path, steps: &[Step]) -> Result<()> {
    let written = |step: &Step| match step {
        Step::WriteFile { path, .. } => Some(path.clone()),
        _ => None,
    };
    let ours: Vec<PathBuf> = steps.iter().filter_map(written).collect();
    for run in leftovers(&below(root, JOURNAL_FOLDER))? {
        let Some(path) = run.steps.iter().filter_map(written).find(|path| ours.contains(path)) else {
            continue;
        };
        let (what, next) = match run.state {
            LeftoverState::Living => ("is running and has", "wait for it to end"),
            _ => ("was killed and had", "revert its changes with `wiretail clean`"),
        };
        bail!("{}: {what} changed {}; {next}", run.run, path.display());
    }
    Ok(())
}
