//! `wiretail host revert`: restores what was applied.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use wiretail_host::{LeftoverState, clean, leftovers, privileges};

use super::applied;
use crate::cli::host::RevertArgs;

/// Runs `wiretail host revert`.
///
/// # Errors
/// Returns an error without privileges, if an `apply` is still running, or if a value can't be restored. The
/// journal is then kept.
pub fn run(arguments: &RevertArgs) -> Result<ExitCode> {
    let root = arguments.root.as_path();
    let folder = applied::folder(root);
    let found = leftovers(&folder)?;
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        for applied in &found {
            writeln!(out, "  {} changes would be undone, in reverse order", applied.steps.len())?;
            applied.steps.iter().rev().try_for_each(|step| writeln!(out, "    {step}"))?;
        }
    } else if !found.is_empty() {
        if root == Path::new("/") && !privileges(root)?.root {
            bail!("reverting a profile needs root; run with sudo");
        }
        for applied in &found {
            applied::refuse_runs(root, &applied.steps)?;
        }
        let report = clean(&folder, false)?;
        if let Some(fault) = report.faults.first() {
            bail!("not everything could be restored: {fault}");
        }
        if !report.living.is_empty() {
            bail!("wiretail host apply is still running; wait for it or stop it");
        }
        for (applied, undone) in &report.cleaned {
            let count = undone.steps;
            match applied.state {
                LeftoverState::BeforeReboot => writeln!(
                    out,
                    "  the machine was rebooted: {count} files restored; the reboot reverted all other changes. \
                     Run update-grub and reboot to restore the boot command line, too"
                )?,
                _ => writeln!(out, "  {count} changes undone")?,
            }
            undone.remarks.iter().try_for_each(|remark| writeln!(out, "    {remark}"))?;
            if applied.steps.iter().any(|step| step.object().contains("/grub.d/")) {
                writeln!(out, "  run update-grub to remove the words from the boot command line")?;
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
