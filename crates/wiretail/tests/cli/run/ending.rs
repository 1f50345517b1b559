//! Runs that are interrupted and resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::bed::{Bed, experiment, live};
use crate::support::fail;

/// Returns every file in a directory with its content and modification time.
fn files(folder: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
            files.insert(path.clone(), (changed, fs::read(&path).expect("a file")));
        }
    }
    files
}

/// Sends the signal to a run of three trials during the second one, and resumes the run.
fn interrupt_and_resume(signal: &str) {
    let devices = "kind = [\"wire\", \"bridge\", \"skeleton\"]";
    let bed = Bed::new(&experiment(devices, "rate = \"1 kpps\"", "duration = \"1500 ms\""));
    let mut run = bed.start();
    run.until_trials(1);
    std::thread::sleep(Duration::from_millis(1000));
    run.signal(signal);
    let interrupted = run.end().with_code(130);
    assert!(interrupted.stderr.contains("--resume"), "{}", interrupted.stderr);
    let trials = bed.trials();
    assert_eq!(trials[0]["state"], "valid");
    assert!(trials.iter().skip(1).all(|trial| trial["state"] != "valid"), "the others were not done");
    assert_eq!(bed.manifest()["trials_planned"], 3);
    assert!(bed.out().join("report.html").exists());
    let first = bed.out().join(trials[0]["directory"].as_str().unwrap());
    let before = files(&first);
    assert!(before.len() >= 3, "{:?}", before.keys());
    bed.resume().with_code(0);
    let resumed = bed.trials();
    assert_eq!(resumed.len(), 3);
    assert!(resumed.iter().all(|trial| trial["state"] == "valid" && trial["generator"]["sent"] == 1500));
    assert_eq!(resumed[0], trials[0]);
    assert!(files(&first) == before, "completed trials are not repeated");
    // No trials are left.
    bed.resume().with_code(0);
    assert_eq!(bed.trials(), resumed);
}

#[test]
fn run_resumes_after_sigint() {
    let Some(_alone) = live() else { return };
    interrupt_and_resume("-INT");
}

#[test]
fn run_resumes_after_sigterm() {
    let Some(_alone) = live() else { return };
    interrupt_and_resume("-TERM");
}

#[test]
fn directory_allows_one_run_at_a_time() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment("kind = \"wire\"", "rate = \"1 kpps\"", "duration = \"2 s\""));
    let mut run = bed.start();
    run.until("it has a manifest", |bed| bed.out().join("manifest.json").exists());
    let out = bed.out().display().to_string();
    let message = fail(["run", "--resume", &out, "--allow-system-changes"]);
    assert!(message.contains("another process is writing to this run"), "{message}");
    run.end().with_code(0);
    let file = bed.path("test.toml").display().to_string();
    let message = fail(["run", &file, "--out", &out, "--allow-system-changes"]);
    assert!(message.contains("holds a run already") && message.contains("--resume"), "{message}");
    let message = fail(["run", "--resume", bed.path("").to_str().unwrap(), "--allow-system-changes"]);
    assert!(message.contains("expected a run directory"), "{message}");
}
