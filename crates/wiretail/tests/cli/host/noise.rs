//! `wiretail host noise` on cores of this machine. The tests assert only facts that do not depend on how long
//! the gaps are.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{fail, folder, succeed};
use crate::trace::can_trace;
use crate::traffic::{Running, json};

fn noise(arguments: &[&str]) -> Value {
    let text = succeed([&["host", "noise", "--json"], arguments].concat());
    serde_json::from_str(&text).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Returns the causes `(kind, name, gaps)` of the first core, and the names of all senders.
fn causes(noise: &Value) -> (Vec<(String, String, u64)>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = noise["cores"][0]["causes"]["causes"].as_array().expect("causes");
    let named = rows.iter().map(|row| (text(&row["kind"]), text(&row["name"]), number(&row["gaps"])));
    let senders = rows.iter().flat_map(|row| row["senders"].as_array().expect("senders"));
    (named.collect(), senders.map(|sender| text(&sender["task"])).collect())
}

#[test]
fn measures_core_without_root_and_trace() {
    let folder = folder();
    let file = folder.path().join("noise.json").display().to_string();
    let found = noise(&["--cores", "0", "--duration", "300ms", "--out", &file]);
    assert_eq!(found["schema"], "wiretail.noise/1");
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).expect("written")).expect("JSON");
    assert_eq!(written, found);
    let core = &found["cores"][0];
    assert_eq!((number(&core["core"]), core["causes"].is_null()), (0, true));
    assert!(number(&core["watched_ns"]) > 0 && number(&core["total_ns"]) <= number(&core["watched_ns"]));
    let buckets = core["histogram"].as_array().expect("a histogram");
    let sum = |key: &str| buckets.iter().map(|bucket| number(&bucket[key])).sum::<u64>();
    assert_eq!((sum("gaps"), sum("total_ns")), (number(&core["gaps"]), number(&core["total_ns"])));
    let waits: Vec<u64> =
        core["floor"].as_array().expect("a floor").iter().map(|value| number(&value["wait_ns"])).collect();
    assert!(waits.is_sorted() && waits.last() == Some(&number(&core["longest_ns"])), "{waits:?}");
    // A busy core may not have had enough time to take the required number of work samples.
    let speed = &core["speed"];
    assert!(speed.is_null() || number(&speed["p10_ns"]) <= number(&speed["p90_ns"]), "{speed}");
}

#[test]
fn prints_human_readable_result() {
    let told = succeed(["host", "noise", "--cores", "0", "--duration", "200ms", "--threshold", "100ns"]);
    for part in
        ["CORE 0: measured for", "under the ordinary scheduler", "FLOOR  no forwarder on core 0", "--trace"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// Waits until a command handles SIGINT, which can take a long time on a busy machine.
fn await_handler(running: &Running) {
    let status = format!("/proc/{}/status", running.child.as_ref().expect("running").id());
    let handles = || {
        let text = std::fs::read_to_string(&status).ok()?;
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        // SIGINT is signal 2, the second bit.
        Some(u64::from_str_radix(mask.trim(), 16).ok()? & 2 != 0)
    };
    for _ in 0..600 {
        if handles() == Some(true) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("no handler for SIGINT within 30 s");
}

#[test]
fn early_end_prints_partial_result() {
    let running = Running::start(&["host", "noise", "--cores", "0", "--duration", "1h", "--json"]);
    await_handler(&running);
    thread::sleep(Duration::from_secs(1));
    let output = running.interrupt();
    assert!(output.status.success(), "{output:?}");
    assert!(number(&json(&output)["cores"][0]["watched_ns"]) > 0);
}

#[test]
fn rejects_invalid_measurements() {
    let refused = |arguments: &[&str]| fail([&["host", "noise"], arguments].concat());
    assert!(refused(&["--cores", "1000"]).contains("core 1000"));
    assert!(
        refused(&["--cores", "0", "--inject", "pause"]).contains("shootdown, timer, hog, softirq or ipi")
    );
    assert!(refused(&["--cores", "0", "--fifo", "0"]).contains("1..=99"));
    assert!(refused(&["--cores", "0", "--threshold", "1s"]).contains("1 to 1,000,000"));
    assert!(refused(&[]).contains("--cores"));
}

/// Injected interference appears among the causes, with its sender.
#[test]
fn identifies_injected_interference() {
    let Some(_turn) = can_trace() else { return };
    for (planted, kind, name, by) in [
        ("hog", "task", "wt-hog", None),
        ("ipi", "function-call", "ipi_mb", Some("wt-storm")),
        ("shootdown", "tlb-shootdown", "", Some("wt-unmap")),
        ("timer", "timer", "", None),
    ] {
        let found = noise(&[
            "--cores",
            "1",
            "--duration",
            "900ms",
            "--trace",
            // Otherwise, another task on that core would be interrupted in place of the loop.
            "--fifo",
            "50",
            "--inject",
            planted,
            "--inject-every",
            "10ms",
        ]);
        assert_eq!(found["injected"][0], planted);
        let (causes, senders) = causes(&found);
        let row = causes.iter().find(|(k, n, _)| k == kind && n == name);
        assert!(row.is_some_and(|(_, _, gaps)| *gaps >= 20), "{planted}: {causes:?}");
        assert!(by.is_none_or(|by| senders.iter().any(|sender| sender == by)), "{planted}: {senders:?}");
        let core = &found["cores"][0];
        let rows = core["causes"]["causes"].as_array().expect("causes");
        let named: u64 = rows.iter().map(|row| number(&row["total_ns"])).sum();
        // Parts shorter than half a microsecond have no cause, and some events may be missing.
        assert!(named <= number(&core["total_ns"]), "{planted}: {named}");
    }
}

#[test]
fn compares_with_cyclictest() {
    let is_there = Command::new("cyclictest").arg("--help").output().is_ok();
    let Some(_turn) = can_trace() else { return };
    let found = noise(&["--cores", "1", "--duration", "300ms", "--compare"]);
    if !is_there {
        println!("SKIPPED: no cyclictest (Debian: rt-tests)");
        let remarks = found["remarks"].as_array().expect("remarks");
        assert!(remarks.iter().any(|remark| remark.as_str().is_some_and(|text| text.contains("rt-tests"))));
        return;
    }
    let peer = &found["peers"][0];
    assert_eq!((&peer["program"], number(&peer["core"])), (&Value::from("cyclictest"), 1), "{found}");
    assert!(number(&peer["samples"]) > 1000 && number(&peer["longest_ns"]) > 0, "{peer}");
}
