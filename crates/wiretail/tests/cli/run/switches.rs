//! Open vSwitch as a device and between devices. Skipped where it is not installed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::bed::{Bed, experiment, live};
use super::host;

const WITH_DPDK: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Whether the switch can run here; if not, says so.
fn installed() -> bool {
    let is = ["/usr/sbin/ovs-vswitchd", "/usr/bin/ovs-vsctl", WITH_DPDK]
        .iter()
        .all(|path| Path::new(path).exists());
    if !is {
        println!("SKIPPED: Open vSwitch is not installed; run: sudo wiretail setup ovs");
    }
    is
}

/// Everything arrived, once and in order, in each segment; who counts has counted what the taps saw.
fn assert_all_crossed(bed: &Bed, trial: &Value, packets: u64, devices: &[&str]) {
    let name = trial["name"].as_str().unwrap();
    assert_eq!((&trial["state"], &trial["reasons"]), (&"valid".into(), &Value::Array(vec![])), "{name}");
    for (place, segment) in trial["segments"].as_array().unwrap().iter().enumerate() {
        let summary = bed.summary(trial, place);
        let matching = &summary["matching"];
        assert_eq!(matching["matched"], packets, "{name} {segment}");
        assert_eq!((&matching["lost"], &matching["extra"]), (&0.into(), &0.into()), "{name} {segment}");
        assert_eq!(summary["reordering"]["reordered"], 0, "{name} {segment}");
    }
    let counted = trial["devices"].as_array().unwrap();
    let names: Vec<_> = counted.iter().map(|counts| counts["device"].as_str().unwrap()).collect();
    assert_eq!(names, devices, "{name}");
    for counts in counted {
        assert!(counts["received"].as_u64().unwrap() >= 2 * packets, "{name}: {counts}");
        assert_eq!(counts["received"], counts["tapped_in"], "{name}: {counts}");
        assert_eq!(counts["sent"], counts["tapped_out"], "{name}: {counts}");
    }
}

#[test]
fn open_vswitch_forwards_everything_and_counts_it() {
    let Some(_alone) = live().filter(|_| installed()) else { return };
    let bed = Bed::new(&experiment(
        "kind = \"ovs\"\ndatapath = [\"userspace\", \"dpdk\"]",
        "rate = \"1 kpps\"\ndirections = \"both\"",
        "duration = \"400 ms\"",
    ));
    bed.run().with_code(0);
    let trials = bed.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_all_crossed(&bed, trial, 400, &["dut1"]);
    }
}

#[test]
fn two_devices_behind_a_switch_get_everything_both_ways() {
    let Some(_alone) = live().filter(|_| installed()) else { return };
    let bed = Bed::new(&experiment(
        "kind = \"skeleton\"\nhops = 2\nwait = \"block\"\nswitch = [\"bridge\", \"ovs\", \"ovs-dpdk\"]",
        "rate = \"1 kpps\"\ndirections = \"both\"\npacing = \"sleep\"",
        "duration = \"400 ms\"",
    ));
    bed.run().with_code(0);
    let trials = bed.trials();
    let [bridge, ovs, dpdk] = &trials[..] else { panic!("three trials") };
    assert_all_crossed(&bed, bridge, 400, &["dut1 to dut2"]);
    assert_all_crossed(&bed, ovs, 400, &["dut1 to dut2", "switch"]);
    assert_all_crossed(&bed, dpdk, 400, &["dut1 to dut2", "switch"]);
}

#[test]
fn a_switch_that_is_killed_ends_its_trial_and_leaves_nothing() {
    let Some(_alone) = live().filter(|_| installed()) else { return };
    let bed = Bed::new(&experiment("kind = \"ovs\"", "rate = \"1 kpps\"", "duration = \"4 s\""));
    let mut run = bed.start();
    let log =
        |bed: &Bed| std::fs::read_to_string(bed.out().join("trials/0001-ovs/dut.log")).unwrap_or_default();
    run.until("the switch is ready", |bed| log(bed).contains("(Open vSwitch)"));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let children = host::children(run.pid);
    assert_eq!(children.len(), 1, "the switch");
    let servers = host::children(children[0]);
    assert_eq!(servers.len(), 1, "its database");
    let killed = Command::new("kill").args(["-KILL", &children[0].to_string()]).status();
    assert!(killed.expect("kill").success());
    run.end().with_code(1);
    let trial = &bed.trials()[0];
    let said = trial["reasons"][0].as_str().unwrap_or_default();
    assert_eq!(trial["state"], "failed", "{said}");
    assert!(
        said.contains("the program ended by itself (signal: 9") && said.contains("its last lines"),
        "{said}"
    );
    let line = std::fs::read(format!("/proc/{}/cmdline", servers[0])).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&line).contains("ovsdb-server"), "its database ended with it");
}
