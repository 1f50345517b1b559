//! Reads host records: of this host, from a recording, or from a tree.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use wiretail_analysis::host::audit::Question;
use wiretail_host::CoreSet;
use wiretail_schema::host::record::HostRecord;

use crate::cli::host::RoleChoice;
use crate::run::testbed::profile::read;

/// Returns the question for the requested cores and role.
pub(super) fn asked(cores: &Option<CoreSet>, role: Option<RoleChoice>) -> Question {
    Question { cores: cores.clone(), role: role.map(Into::into) }
}

/// Reads a recorded host, from a text file or a tree.
///
/// # Errors
/// Returns an error with the path, and the expected content.
pub(super) fn recorded(path: &Path, files: &[&str]) -> Result<HostRecord> {
    if path.is_dir() {
        let record = read(path, files, Duration::ZERO);
        if !record.readings.contains_key("/proc/cmdline") {
            bail!(
                "{}: has no proc/cmdline; expected a directory with a machine's proc and sys",
                path.display()
            );
        }
        return Ok(record);
    }
    let text = fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; expected a file written by --save", path.display()))?;
    HostRecord::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}
