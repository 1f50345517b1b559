//! Hosts as records: this one, a recorded one, a tree.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use wiretail_analysis::host::audit::Question;
use wiretail_host::CoreSet;
use wiretail_schema::host::record::HostRecord;

use crate::cli::host::RoleChoice;
use crate::run::testbed::profile::read;

/// Cores and role as they were asked for.
pub(super) fn asked(cores: &Option<CoreSet>, role: Option<RoleChoice>) -> Question {
    Question { cores: cores.clone(), role: role.map(Into::into) }
}

/// Reads a host that was recorded, as a text or a tree.
///
/// # Errors
/// Names the path, and what was expected there.
pub(super) fn recorded(path: &Path, files: &[&str]) -> Result<HostRecord> {
    if path.is_dir() {
        let record = read(path, files, Duration::ZERO);
        if !record.readings.contains_key("/proc/cmdline") {
            bail!("{}: has no proc/cmdline; expected a folder with a machine's proc and sys", path.display());
        }
        return Ok(record);
    }
    let text = fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; expected what --save wrote", path.display()))?;
    HostRecord::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}
