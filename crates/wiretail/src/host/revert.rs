//! `wiretail host revert`: what was applied is put back.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_host::{LeftoverState, clean, leftovers, privileges};

use super::applied;
use crate::cli::host::RevertArgs;

/// Runs the command.
///
/// # Errors
/// Privileges; an `apply` that still runs; a value that can't be put back. The journal then stays.
pub fn run(arguments: &RevertArgs) -> Result<ExitCode> {
    let root = arguments.root.as_path();
    let folder = applied::folder(root);
    let found = leftovers(&folder)?;
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        for applied in &found {
            writeln!(out, "  {} changes would be undone, the last one first", applied.steps.len())?;
            applied.steps.iter().rev().try_for_each(|step| writeln!(out, "    {step}"))?;
        }
    } else if !found.is_empty() {
        if root == Path::new("/") && !privileges(root)?.root {
            bail!("putting back what was applied needs root; run with sudo");
        }
        for applied in &found {
            applied::refuse_runs(root, &applied.steps)?;
        }
        let report = clean(&folder, false)?;
        if let Some(fault) = report.faults.first() {
            bail!("not everything could be put back: {fault}");
        }
        if !report.living.is_empty() {
            bail!("wiretail host apply is still at it; wait for its end, or end it");
        }
        for (applied, undone) in &report.cleaned {
            let count = undone.steps;
            match applied.state {
                LeftoverState::BeforeReboot => writeln!(
                    out,
                    "  the machine was started again since: {count} files put back; what else was changed went with that start. \
                     After update-grub and another one the boot line is as it was, too"
                )?,
                _ => writeln!(out, "  {count} changes undone")?,
            }
            undone.remarks.iter().try_for_each(|remark| writeln!(out, "    {remark}"))?;
            if applied.steps.iter().any(|step| step.object().contains("/grub.d/")) {
                writeln!(out, "  run update-grub, so that the next start is without the words")?;
            }
        }
    }
    if found.is_empty() {
        writeln!(out, "  nothing is applied")?;
    }
    if !arguments.dry_run {
        applied::forget(root);
    }
    Ok(ExitCode::SUCCESS)
}
