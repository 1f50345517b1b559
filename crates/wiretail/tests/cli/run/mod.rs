//! Live runs in network namespaces: they need root, and skip visibly without.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::support::{WIRETAIL, fail, folder, succeed, wiretail};

const EXPERIMENT: &str = r#"
title = "A short run"
seed = 7
[dut]
kind = ["wire", "bridge", "skeleton"]
[traffic]
rate = "1 kpps"
[trial]
duration = "400 ms"
warm-up = "50 ms"
"#;

/// Both live tests look at what is left on the machine: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether namespaces can be made here; if not, says so.
pub fn can_run() -> bool {
    let probe = "ip netns add wt-probe-$$ && ip netns del wt-probe-$$";
    let works = Command::new("bash").args(["-c", probe]).stderr(Stdio::null()).status();
    if works.is_ok_and(|status| status.success()) {
        return true;
    }
    println!("SKIPPED: no root, or no network namespaces here");
    false
}

/// Namespaces and journals of Wiretail's that are there now.
fn traces() -> BTreeSet<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let all = names("/run/netns").into_iter().chain(names("/run/wiretail"));
    all.filter(|name| name.contains("/wt-")).collect()
}

fn experiment(folder: &Path) -> String {
    let path = folder.join("short.toml");
    fs::write(&path, EXPERIMENT).expect("the experiment");
    path.display().to_string()
}

#[test]
fn a_run_measures_every_device_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder();
    let file = experiment(folder.path());
    let before = traces();
    let out = folder.path().join("run");
    let arguments = ["run", &file, "--allow-system-changes", "--out", out.to_str().unwrap()];
    let output = wiretail(arguments);
    // 1: a trial is invalid, as on a machine that is too busy for the load generator.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let read =
        |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON") };
    let manifest = read(&out.join("manifest.json"));
    let trials = manifest["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 3);
    for trial in trials {
        assert_ne!(trial["state"], "failed", "{trial}");
        assert_eq!(trial["generator"]["sent"], 400, "{trial}");
        let name = trial["directory"].as_str().unwrap();
        let summary = read(&out.join(name).join("summary.json"));
        assert_eq!(
            summary["pre"]["packets"].as_u64().unwrap()
                - summary["pre"]["packets_without_key"].as_u64().unwrap(),
            400,
            "{name}"
        );
        assert_eq!(summary["matching"]["lost"], 0, "{name}");
        assert!(summary["delay"]["min_ns"].as_i64().unwrap() > 0, "{name}");
    }
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("<svg"));
    assert_eq!(traces().difference(&before).count(), 0, "{:?}", traces());
}

#[test]
fn what_a_killed_run_left_is_cleaned() {
    if !can_run() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder();
    let file = experiment(folder.path());
    let before = traces();
    for wait in [30, 300, 800] {
        let out = folder.path().join(format!("run-{wait}"));
        let mut child = Command::new(WIRETAIL)
            .args(["run", &file, "--allow-system-changes", "--out", out.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wiretail starts");
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        succeed(["clean"]);
        assert_eq!(traces().difference(&before).count(), 0, "after {wait} ms: {:?}", traces());
    }
}

#[test]
fn plans_and_mistakes_are_told() {
    let folder = folder();
    let file = experiment(folder.path());
    let plan = succeed(["run", &file, "--dry-run"]);
    assert!(plan.contains("3 trials") && plan.contains("add bridge"), "{plan}");
    assert!(fail(["run", &file]).contains("--allow-system-changes"));
    assert!(succeed(["check", &file]).contains("3 trials"));
    fs::write(&file, EXPERIMENT.replace("kind", "kinds")).expect("the experiment");
    let message = fail(["check", &file]);
    assert!(
        message.contains("short.toml: line 5: unknown key dut.kinds; did you mean dut.kind?"),
        "{message}"
    );
}
