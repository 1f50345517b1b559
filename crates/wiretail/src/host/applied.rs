//! What `wiretail host apply` leaves on disk: the journal, and the plan that was carried out.
//!
//! Both are in [`KEPT_FOLDER`], away from the journals of runs: `wiretail clean` is for what dead runs left, and this is to stay.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::testbed::profile::below;
use anyhow::{Context, Result, bail};
use wiretail_host::{JOURNAL_FOLDER, KEPT_FOLDER, LeftoverState, Step, leftovers};
use wiretail_schema::host::plan::TuningPlan;

use crate::analyze::outputs::write_file;

/// Name of the journal.
pub(super) const JOURNAL: &str = "applied";
/// What is said of a setting that the kernel did not take.
pub(super) const REFUSED: &str = "the kernel refused it";

/// The folder of what is applied.
pub(super) fn folder(root: &Path) -> PathBuf {
    below(root, KEPT_FOLDER)
}

fn plan_file(root: &Path) -> PathBuf {
    folder(root).join("plan.json")
}

/// The plan that was applied last, and is not reverted.
///
/// # Errors
/// A file that is none.
pub(super) fn plan(root: &Path) -> Result<Option<TuningPlan>> {
    let path = plan_file(root);
    let Ok(text) = fs::read(&path) else { return Ok(None) };
    let plan = serde_json::from_slice(&text);
    plan.map(Some).with_context(|| format!("{}: is no plan of this version of Wiretail", path.display()))
}

/// Writes the plan down.
///
/// # Errors
/// Names the file and the system's reason.
pub(super) fn save(root: &Path, plan: &TuningPlan) -> Result<()> {
    write_file(&plan_file(root), &serde_json::to_vec(plan)?)
}

/// Removes the plan, also one that was not written to its end, and the folders that are empty then. A journal that is still there keeps all
/// of it.
pub(super) fn forget(root: &Path) {
    let folder = folder(root);
    if leftovers(&folder).is_ok_and(|journals| journals.is_empty()) {
        let _ = fs::remove_dir_all(&folder);
    }
    if let Some(parent) = folder.parent() {
        // Fails while something else is in it.
        let _ = fs::remove_dir(parent);
    }
}

/// Refuses while a run has set the same files: what it puts back at its end would be wrong.
///
/// # Errors
/// Names the run and the file.
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
            LeftoverState::Living => ("is running and has", "wait for its end"),
            _ => ("was killed and had", "put back what it left with `wiretail clean`"),
        };
        bail!("{}: {what} changed {}; {next}", run.run, path.display());
    }
    Ok(())
}
