//! Values in files of `/proc` and `/sys`, and the tracing file system ([`tracefs`]).

pub mod tracefs;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a value with a single `write` call, because /proc and /sys treat each call as a separate value.
/// Never creates a file.
pub(crate) fn write_value(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(format!("{value}\n").as_bytes())
}
