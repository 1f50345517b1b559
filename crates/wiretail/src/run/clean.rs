//! Implements `wiretail clean`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_host::{JOURNAL_FOLDER, KEPT_FOLDER, clean as clean_leftovers, leftovers};

use crate::cli::CleanArgs;

/// Runs `wiretail clean`: reverts the host changes left by runs that ended early.
///
/// # Errors
/// Returns an error if a change could not be reverted.
pub fn clean(arguments: &CleanArgs) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let report = clean_leftovers(Path::new(JOURNAL_FOLDER), arguments.dry_run)?;
    for (leftover, undone) in &report.cleaned {
        if arguments.dry_run {
            writeln!(out, "{}: {} changes would be undone", leftover.run, leftover.steps.len())?;
            leftover.steps.iter().try_for_each(|step| writeln!(out, "  {step}"))?;
        } else {
            writeln!(out, "{}: {} changes undone", leftover.run, undone.steps)?;
        }
        undone.remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
        undone.failures.iter().try_for_each(|failure| writeln!(out, "  {failure}"))?;
    }
    for living in &report.living {
        writeln!(out, "{}: still running, not changed", living.run)?;
    }
    if report.cleaned.is_empty() && report.living.is_empty() && report.faults.is_empty() {
        writeln!(out, "earlier runs left no changes")?;
    }
    if leftovers(Path::new(KEPT_FOLDER)).is_ok_and(|applied| !applied.is_empty()) {
        writeln!(out, "a profile remains applied to this host; `wiretail host revert` reverts it")?;
    }
    let failed: usize = report.cleaned.iter().map(|(_, undone)| undone.failures.len()).sum();
    match report.faults.first() {
        None if failed > 0 => {
            bail!("{failed} commands failed and are not run again; undo by hand what they should have undone")
        }
        Some(fault) => bail!("{} changes could not be undone: {fault}", report.faults.len()),
        None => Ok(ExitCode::SUCCESS),
    }
}
