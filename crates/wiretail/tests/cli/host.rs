//! `wiretail host`: this machine and recorded ones.

use std::fs;

use serde_json::Value;

use crate::support::{fail, folder, succeed, wiretail};

const OPTIMIZED: &str = include_str!("../../../wiretail-analysis/tests/hosts/optimized.txt");

#[test]
fn this_machine_is_audited_and_its_record_says_the_same_again() {
    let folder = folder();
    let saved = folder.path().join("host.txt").display().to_string();
    let here: Value =
        serde_json::from_str(&succeed(["host", "audit", "--watch", "50ms", "--save", &saved, "--json"]))
            .expect("JSON");
    assert_eq!(here["schema"], "wiretail.audit/1");
    let again: Value =
        serde_json::from_str(&succeed(["host", "audit", "--from", &saved, "--json"])).expect("JSON");
    assert_eq!(here, again);
    let shown = succeed(["host", "audit", "--from", &saved, "--cores", "0"]);
    assert!(shown.contains("cores to be left alone: 0 (asked for)"), "{shown}");
}

#[test]
fn a_recorded_host_is_audited() {
    let folder = folder();
    let path = folder.path().join("host.txt");
    fs::write(
        &path,
        OPTIMIZED.replace("[madvise]", "madvise").replace(
            "=== /sys/kernel/mm/transparent_hugepage/enabled\nalways",
            "=== /sys/kernel/mm/transparent_hugepage/enabled\n[always]",
        ),
    )
    .expect("written");
    let path = path.display().to_string();
    let shown = succeed(["host", "audit", "--from", &path]);
    assert!(
        shown.contains("BROKEN      thp") && shown.contains("1 broken, 0 harmful, 0 improvable"),
        "{shown}"
    );
    assert!(shown.contains("requested: transparent_hugepage=madvise; in effect: always"), "{shown}");
    let checked = wiretail(["host", "audit", "--from", &path, "--check"]);
    assert_eq!(checked.status.code(), Some(1));
    let all = succeed(["host", "audit", "--from", &path, "--all"]);
    assert!(all.contains("good        isolcpus") && all.contains("why: "), "{all}");
}

#[test]
fn what_is_no_host_is_refused() {
    let folder = folder();
    let path = folder.path().join("host.txt");
    fs::write(&path, "wiretail.host/1\ninterval_ns 0\nnonsense\n").expect("written");
    let message = fail(["host", "audit", "--from", &path.display().to_string()]);
    assert!(message.contains("host.txt") && message.contains("line 3"), "{message}");
    let message = fail(["host", "audit", "--from", &folder.path().display().to_string()]);
    assert!(message.contains("proc/cmdline"), "{message}");
    assert!(fail(["host", "audit", "--from", "/no/host"]).contains("--save"));
}
