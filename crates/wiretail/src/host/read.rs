//! Hosts as records: this one, a recorded one, a tree.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use wiretail_analysis::audit::{CONFIG_OPTIONS, REGISTERS, TWICE};
use wiretail_host::{RecordPlan, record};
use wiretail_schema::host::record::HostRecord;

/// Reads a host under `root`, some files again after `interval`; zero for once only.
pub(super) fn read(root: &Path, files: &[&str], interval: Duration) -> HostRecord {
    let plan = RecordPlan { files, twice: TWICE, registers: REGISTERS, options: CONFIG_OPTIONS, interval };
    let mut record = record(root, &plan, std::thread::sleep);
    if interval.is_zero() {
        // What is counted says also which interrupts there are.
        let once = RecordPlan { files: TWICE, twice: &[], registers: &[], options: &[], interval };
        let counted = wiretail_host::record(root, &once, std::thread::sleep).readings;
        record.readings.extend(counted.into_iter().filter(|(name, _)| TWICE.contains(&name.as_str())));
    }
    record
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
