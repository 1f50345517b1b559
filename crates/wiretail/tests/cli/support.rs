//! Runs the program, and provides captures for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const WIRETAIL: &str = env!("CARGO_BIN_EXE_wiretail");

/// Runs `wiretail` with these arguments.
pub fn wiretail<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    Command::new(WIRETAIL).args(arguments).stdin(Stdio::null()).output().expect("wiretail starts")
}

/// Runs `wiretail`, which must succeed; returns its output.
pub fn succeed<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> String {
    let output = wiretail(arguments);
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs `wiretail`, which must fail with exit code 2; returns the error message.
pub fn fail<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> String {
    let output = wiretail(arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty());
    message
}

/// Runs `wiretail analyze ... --json`.
pub fn analyze<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> serde_json::Value {
    let fixed = ["analyze", "--json"].map(|a| OsStr::new(a).to_owned());
    let text = succeed(fixed.into_iter().chain(arguments.into_iter().map(|a| a.as_ref().to_owned())));
    serde_json::from_str(&text).expect("JSON")
}

/// Creates a directory that is removed with the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a synthetic pair into `folder`; returns both paths and the ground truth.
pub fn synth(folder: &Path, options: &[&str]) -> (PathBuf, PathBuf, serde_json::Value) {
    let (pre, post) = (folder.join("pre.pcap"), folder.join("post.pcap"));
    let mut arguments = vec![OsStr::new("synth"), pre.as_os_str(), post.as_os_str()];
    arguments.extend(options.iter().map(OsStr::new));
    let ground_truth = serde_json::from_str(&succeed(arguments)).expect("JSON");
    (pre, post, ground_truth)
}

/// Returns the directory of the published captures, which are not part of the project; `None`, with a
/// message, if missing.
pub fn shared_captures() -> Option<PathBuf> {
    let root = std::env::var_os("WIRETAIL_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let captures = root.join("captures");
    if captures.is_dir() {
        return Some(captures);
    }
    println!("SKIPPED: no published captures at {} (set WIRETAIL_SHARED)", captures.display());
    None
}
