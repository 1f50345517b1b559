//! Open vSwitch as a device and between devices, if it is installed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::bed::{Bed, experiment, live};
use crate::run::host;
use crate::support::{succeed, wiretail};

const WITH_DPDK: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Whether the switch can run here; prints a message if not.
fn installed() -> bool {
    let is = ["/usr/sbin/ovs-vswitchd", "/usr/bin/ovs-vsctl", WITH_DPDK]
        .iter()
        .all(|path| Path::new(path).exists());
    if !is {
        println!("SKIPPED: Open vSwitch is not installed; run: sudo wiretail setup ovs");
    }
    is
}

/// Whether virtual machines can run here; prints a message if not.
fn has_machines() -> bool {
    let has = |programs: &[&str]| programs.iter().any(|path| Path::new(path).exists());
    let is = has(&["/usr/bin/qemu-system-x86_64"]) && has(&["/usr/bin/busybox", "/bin/busybox"]);
    if !is {
        println!("SKIPPED: QEMU or busybox is not installed; run: sudo wiretail setup vm");
    }
    is
}

/// Checks that every packet of each segment arrived, once and in order.
fn assert_arrived(bed: &Bed, trial: &Value, packets: u64) {
    let name = trial["name"].as_str().unwrap();
    assert_eq!((&trial["state"], &trial["reasons"]), (&"valid".into(), &Value::Array(vec![])), "{name}");
    for (place, segment) in trial["segments"].as_array().unwrap().iter().enumerate() {
        let summary = bed.summary(trial, place);
        let matching = &summary["matching"];
        assert_eq!(matching["matched"], packets, "{name} {segment}");
        assert_eq!((&matching["lost"], &matching["extra"]), (&0.into(), &0.into()), "{name} {segment}");
        assert_eq!(summary["reordering"]["reordered"], 0, "{name} {segment}");
    }
}

/// Like [`assert_arrived`]; also checks that the devices' counters match the taps.
fn assert_all_crossed(bed: &Bed, trial: &Value, packets: u64, devices: &[&str]) {
    assert_arrived(bed, trial, packets);
    let name = trial["name"].as_str().unwrap();
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
fn open_vswitch_forwards_and_counts_every_packet() {
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
fn two_devices_behind_switch_get_every_packet_in_both_directions() {
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

/// A bridge in a virtual machine. It does not poll, so that software emulation leaves the core to the switch.
fn machine(network: &str, switch: &str, more: &str) -> String {
    let dut = format!(
        "kind = \"bridge\"\ndeployment = \"vm\"\nboot = \"plain\"\nready-timeout = \"30 s\"\nnetwork = \"{network}\"\n\
         switch = {switch}\n{more}"
    );
    let traffic = "rate = \"500 pps\"\ndirections = \"both\"\npacing = \"sleep\"";
    experiment(&dut, traffic, "duration = \"1 s\"")
}

#[test]
fn machine_with_shared_memory_gets_every_packet() {
    let Some(_alone) = live().filter(|_| installed() && has_machines()) else { return };
    let bed = Bed::new(&machine("vhost-user", "\"ovs-dpdk\"", ""));
    bed.run().with_code(0);
    let trials = bed.trials();
    let [trial] = &trials[..] else { panic!("one trial") };
    assert_arrived(&bed, trial, 500);
    let names = |list: &str| -> Vec<&str> {
        trial[list].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names("taps"), ["pre", "post", "back-pre", "back-post"]);
    assert_eq!(names("segments"), ["forward", "back"]);
    assert_eq!(
        trial["breakdown"],
        Value::Array(vec![]),
        "nothing is between the machine and its switch that could be tapped"
    );
    // No tap sees packets in shared memory. Each side has counters; the counters of the switch include two crossings.
    let counted: Vec<_> = trial["devices"].as_array().unwrap().iter().collect();
    let [machine, switch] = &counted[..] else { panic!("{counted:?}") };
    assert_eq!((&machine["device"], &switch["device"]), (&"dut1".into(), &"switch".into()));
    for (counts, packets) in [(machine, 1000), (switch, 2000)] {
        assert_eq!((&counts["received"], &counts["sent"]), (&packets.into(), &packets.into()), "{counts}");
        assert_eq!((&counts["dropped"], &counts["failed"]), (&0.into(), &0.into()), "{counts}");
        assert_eq!((&counts["tapped_in"], &counts["tapped_out"]), (&Value::Null, &Value::Null), "{counts}");
    }
}

#[test]
fn machine_behind_switch_gets_every_packet_through_taps() {
    let Some(_alone) = live().filter(|_| installed() && has_machines()) else { return };
    let bed = Bed::new(&machine("tap", "[\"ovs\", \"ovs-dpdk\"]", ""));
    bed.run().with_code(0);
    let trials = bed.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_all_crossed(&bed, trial, 500, &["dut1", "switch"]);
    }
}

#[test]
fn names_dead_switch_while_its_machine_waits() {
    let Some(_alone) = live().filter(|_| installed() && has_machines()) else { return };
    let bed = Bed::new(&machine("vhost-user", "\"ovs-dpdk\"", ""));
    let mut run = bed.start();
    let log = |bed: &Bed| std::fs::read_to_string(bed.out().join("trials/0001-bridge/switch.log"));
    run.until("the switch is ready", |bed| log(bed).is_ok_and(|log| log.contains("(Open vSwitch)")));
    let is_switch = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(WITH_DPDK.as_bytes())
    };
    let switches: Vec<u32> = host::children(run.pid).into_iter().filter(is_switch).collect();
    let [switch] = switches[..] else { panic!("{switches:?}") };
    assert!(Command::new("kill").args(["-KILL", &switch.to_string()]).status().expect("kill").success());
    run.end().with_code(1);
    let said = bed.trials()[0]["reasons"].to_string();
    assert!(
        said.contains("the program ended unexpectedly (signal: 9") && said.contains("switch.log"),
        "{said}"
    );
}

#[test]
fn rejects_vhost_user_machine_without_switch_before_changes() {
    let bed = Bed::new(&machine("vhost-user", "[\"ovs\", \"ovs-dpdk\"]", "hops = 2"));
    let file = bed.path("test.toml").display().to_string();
    let plan = succeed(["run", &file, "--dry-run"]);
    let folder = "make folder /run/wiretail/wt-RUN-sockets";
    assert_eq!(plan.matches(folder).count(), 1, "{plan}");
    assert_eq!(plan.matches("add veth").count(), 2, "the load generator's and the sink's: {plan}");
    assert!(!plan.contains("add tap"), "{plan}");
    let refused = "fails, dut.network = \"vhost-user\" requires dut.switch = \"ovs-dpdk\"";
    assert!(plan.contains(refused) && plan.contains("set dut.switch = \"ovs-dpdk\""), "{plan}");
    let checked = wiretail(["check", &file]);
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.code() == Some(1) && text.matches(refused).count() == 1, "{text}");
}

#[test]
fn rejects_router_in_container() {
    let Some(_alone) = live() else { return };
    let router = "kind = \"linux-router\"\ndeployment = \"container\"";
    let bed = Bed::new(&experiment(router, "rate = \"1 kpps\"", "duration = \"300 ms\""));
    bed.run().with_code(1);
    let trial = &bed.trials()[0];
    assert_eq!(trial["state"], "failed");
    let said = trial["reasons"][0].as_str().unwrap();
    assert!(said.contains("linux-router") && said.contains("set dut.deployment = \"bare\""), "{said}");
}

#[test]
fn killed_switch_ends_its_trial_and_leaves_nothing() {
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
        said.contains("the program ended unexpectedly (signal: 9") && said.contains("its last lines"),
        "{said}"
    );
    let line = std::fs::read(format!("/proc/{}/cmdline", servers[0])).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&line).contains("ovsdb-server"), "its database ended with it");
}
