//! `wiretail setup`, without changing the system. Tests of the devices check the installed parts.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{succeed, wiretail};

#[test]
fn table_and_json_have_same_parts() {
    let json: Value = serde_json::from_str(&succeed(["setup", "--json"])).expect("JSON");
    let parts = json.as_array().expect("a list");
    let table = succeed(["setup"]);
    assert!(parts.len() >= 8);
    for part in parts {
        let name = part["part"].as_str().expect("a name");
        assert!(
            table.lines().any(|line| line.split_ascii_whitespace().next() == Some(name)),
            "{name}\n{table}"
        );
        let installed = part["installed"].as_bool().expect("yes or no");
        assert_eq!(installed, part["missing"].as_array().expect("a list").is_empty(), "{part}");
        let command = format!("sudo wiretail setup {name}");
        assert_eq!(!installed, table.lines().any(|line| line.trim().split("   #").next() == Some(&command)));
    }
    let one: Value = serde_json::from_str(&succeed(["setup", "--json", "vm", "dpdk"])).expect("JSON");
    assert_eq!((&one[0]["part"], &one[1]["part"]), (&"dpdk".into(), &"vm".into()));
}

#[test]
fn dry_run_shows_plan_and_changes_nothing() {
    if !Path::new("/etc/apt").is_dir() {
        println!("SKIPPED: apt is not installed");
        return;
    }
    let before = wiretail(["setup", "--json"]).stdout;
    let plan =
        succeed(["setup", "--dry-run", "suricata", "suricata-rules", "ovs", "container", "vm", "dpdk"]);
    for part in ["suricata: ", "suricata-rules: ", "ovs: ", "container: ", "vm: ", "dpdk: "] {
        let line =
            plan.lines().find(|line| line.starts_with(part)).unwrap_or_else(|| panic!("{part}\n{plan}"));
        assert!(line.ends_with("nothing to do") || plan.contains("  packages  "), "{plan}");
    }
    assert_eq!(wiretail(["setup", "--json"]).stdout, before);
}

#[test]
fn suggests_part_for_unknown_name() {
    let output = wiretail(["setup", "suricatta"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("'suricata'") && message.contains("container"), "{message}");
}

#[test]
fn part_without_package_names_next_step() {
    let json: Value = serde_json::from_str(&succeed(["setup", "--json", "snort"])).expect("JSON");
    let output = wiretail(["setup", "snort", "--yes"]);
    let text = String::from_utf8_lossy(&output.stdout);
    if json[0]["installed"] == true {
        assert!(output.status.success() && text.contains("nothing to do"), "{text}");
    } else {
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("no package") && text.contains("snort --daq-list"), "{text}");
    }
}

#[test]
fn install_needs_root() {
    let json: Value = serde_json::from_str(&succeed(["setup", "--json"])).expect("JSON");
    let parts = json.as_array().expect("a list");
    let Some(part) = parts.iter().find(|part| part["installed"] == false && !part["command"].is_null())
    else {
        println!("SKIPPED: all parts are installed here");
        return;
    };
    let name = part["part"].as_str().expect("a name");
    // Runs as the user nobody if root runs the test, and as the current user otherwise.
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let folder = crate::support::folder();
    let program = folder.path().join("wiretail");
    std::fs::copy(crate::support::WIRETAIL, &program).expect("copied to where nobody can read it");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).expect("allowed");
    let Ok(output) = command.arg(&program).args(["setup", name, "--yes"]).output() else {
        println!("SKIPPED: setpriv is not installed");
        return;
    };
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("needs root; run: sudo wiretail setup {name}")), "{message}");
}
