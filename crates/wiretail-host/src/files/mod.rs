//! Values in files of `/proc` and `/sys`; [`tracefs`], the tracing file system.

pub mod tracefs;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// One `write`, because /proc and /sys take each as a value of its own. Never creates a file.
pub(crate) fn write_value(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(format!("{value}\n").as_bytes())
}
