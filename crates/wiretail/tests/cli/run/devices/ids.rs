//! Intrusion prevention systems as devices, if they are installed.

use std::process::Command;

use serde_json::Value;

use crate::run::bed::{Bed, experiment, live};
use crate::run::host;

/// Number of packets per direction. It is lower than the 8,192 packets that the program's rings hold, so that
/// no packet is lost on a busy machine.
const PATIENT: &str = "kind = \"suricata\"\nready-timeout = \"60 s\"";

/// Whether Suricata is installed; prints a message if not.
fn has_suricata() -> bool {
    let found = Command::new("suricata").arg("-V").output().is_ok_and(|told| told.status.success());
    if !found {
        println!("SKIPPED: suricata is not installed; run: sudo wiretail setup suricata");
    }
    found
}

/// Checks that the device's counters match the taps.
fn assert_agrees(trial: &Value, packets: u64, filtered: u64) {
    let device = &trial["devices"][0];
    let number = |name: &str| device[name].as_u64().unwrap_or(u64::MAX);
    assert_eq!((number("received"), number("tapped_in")), (packets, packets), "{device}");
    assert_eq!((number("sent"), number("tapped_out")), (packets - filtered, packets - filtered), "{device}");
    assert_eq!((number("filtered"), number("dropped"), number("failed")), (filtered, 0, 0), "{device}");
}

fn reasons(trial: &Value) -> String {
    trial["reasons"].to_string()
}

#[test]
fn suricata_forwards_and_counts_every_packet() {
    let Some(_alone) = live() else { return };
    if !has_suricata() {
        return;
    }
    let dut = format!("{PATIENT}\nrules = [\"none\", \"packaged\"]");
    let bed = Bed::new(&experiment(&dut, "rate = \"5 kpps\"\ndirections = \"both\"", "duration = \"1 s\""));
    bed.run().with_code(0);
    for trial in bed.trials() {
        for segment in [0, 1] {
            let summary = bed.summary(&trial, segment);
            let found = |name: &str| summary["matching"][name].as_u64().unwrap();
            assert_eq!((found("matched"), found("lost"), found("extra")), (5000, 0, 0), "{}", trial["name"]);
        }
        assert_agrees(&trial, 10_000, 0);
        assert_eq!(trial["filtering"], Value::Null);
        let notes = trial["notes"].to_string();
        assert_eq!(notes.contains("Suricata loaded"), trial["name"] == "suricata-packaged", "{notes}");
    }
}

#[test]
fn rule_drops_marked_packets_and_lists_them() {
    let Some(_alone) = live() else { return };
    if !has_suricata() {
        return;
    }
    let dut = format!("{PATIENT}\nrules = \"drop.rules\"");
    let traffic = "rate = \"8 kpps\"\nmark-every = 400\nmark = \"TAKE-ME\"\nstreams = 3";
    let bed = Bed::new(&experiment(&dut, traffic, "duration = \"1 s\""));
    let rule = "drop udp any any -> any any (msg:\"marked\"; content:\"TAKE-ME\"; sid:9000002; rev:1;)\n";
    std::fs::write(bed.path("drop.rules"), rule).unwrap();
    let finished = bed.run().with_code(0);
    let trial = &bed.trials()[0];
    assert_agrees(trial, 8000, 20);
    let expected = serde_json::json!({
        "every": 400, "packets": 8000, "marked": 20, "marked_lost": 20, "others_lost": 0
    });
    assert_eq!(trial["filtering"], expected);
    assert!(
        finished.stdout.contains("filter holds: 20 packets marked; 20 marked and 0 other packets lost"),
        "{}",
        finished.stdout
    );
    let directory = bed.out().join(trial["directory"].as_str().unwrap());
    let lost = std::fs::read_to_string(directory.join("lost.csv")).unwrap();
    let mut lines = lost.lines();
    assert_eq!(lines.next(), Some("index,packet,stream,pre_ns,marked"));
    let blocks: Vec<u64> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let packet: u64 = fields[1].parse().unwrap();
            assert_eq!((fields[0], fields[2]), (fields[1], (packet % 3).to_string().as_str()), "{line}");
            assert_eq!(fields[4], "yes", "{line}");
            packet / 400
        })
        .collect();
    assert_eq!(blocks, (0..20).collect::<Vec<_>>(), "one per block");
    let report = std::fs::read_to_string(bed.out().join("report.html")).unwrap();
    assert!(report.contains("listed in lost.csv"));
}

#[test]
fn invalid_rules_fail_only_their_trial() {
    let Some(_alone) = live() else { return };
    if !has_suricata() {
        return;
    }
    let dut = format!("{PATIENT}\nrules = [\"wrong.rules\", \"missing.rules\", \"none\"]");
    let bed = Bed::new(&experiment(&dut, "rate = \"1 kpps\"", "duration = \"200 ms\""));
    std::fs::write(bed.path("wrong.rules"), "drop udp any any -> any any (no-such-keyword; sid:1;)\n")
        .unwrap();
    bed.run().with_code(1);
    let [wrong, missing, none] = &bed.trials()[..] else { panic!("three trials") };
    assert!(
        reasons(wrong).contains("loaded 0 rules") && reasons(wrong).contains("no-such-keyword"),
        "{wrong}"
    );
    assert!(reasons(missing).contains("missing.rules does not exist"), "{missing}");
    assert_eq!(none["state"], "valid", "{none}");
}

#[test]
fn killed_suricata_ends_only_its_trial() {
    let Some(_alone) = live() else { return };
    if !has_suricata() {
        return;
    }
    let dut = "kind = [\"suricata\", \"bridge\"]\nready-timeout = \"60 s\"";
    let bed = Bed::new(&experiment(dut, "rate = \"1 kpps\"", "duration = \"4 s\""));
    let mut run = bed.start();
    run.until("Suricata is ready", |bed| {
        let log = std::fs::read_to_string(bed.out().join("trials/0001-suricata/dut.log"));
        log.is_ok_and(|log| log.contains("Engine started"))
    });
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let children = host::children(run.pid);
    assert_eq!(children.len(), 1, "Suricata");
    let line = std::fs::read(format!("/proc/{}/cmdline", children[0])).expect("a process");
    assert!(line.starts_with(b"suricata\0"));
    let killed = Command::new("kill").args(["-KILL", &children[0].to_string()]).status();
    assert!(killed.expect("kill").success());
    run.end().with_code(1);
    let [suricata, bridge] = &bed.trials()[..] else { panic!("two trials") };
    let said = reasons(suricata);
    assert_eq!(suricata["state"], "failed", "{said}");
    assert!(said.contains("the program ended unexpectedly (signal: 9"), "{said}");
    assert!(said.contains("Engine started"), "its last lines: {said}");
    assert_eq!(bridge["state"], "valid", "{}", reasons(bridge));
}

#[test]
fn missing_snort_does_not_end_run() {
    let Some(_alone) = live() else { return };
    if Command::new("snort").arg("-V").output().is_ok() {
        println!("SKIPPED: a snort is installed");
        return;
    }
    let bed = Bed::new(&experiment(
        "kind = [\"snort3\", \"bridge\"]",
        "rate = \"1 kpps\"",
        "duration = \"200 ms\"",
    ));
    bed.run().with_code(1);
    let [snort, bridge] = &bed.trials()[..] else { panic!("two trials") };
    let said = reasons(snort);
    assert!(said.contains("snort 3 is not installed") && said.contains("wiretail setup snort"), "{said}");
    assert_eq!((&snort["state"], &bridge["state"]), (&"failed".into(), &"valid".into()));
}

#[test]
fn rejects_frames_too_short_for_mark() {
    let Some(_alone) = live() else { return };
    let traffic = "rate = \"1 kpps\"\nsize = \"60 B\"\nmark-every = 10";
    let bed = Bed::new(&experiment("kind = \"wire\"", traffic, "duration = \"200 ms\""));
    bed.run().with_code(1);
    let said = reasons(&bed.trials()[0]);
    assert!(said.contains("WIRETAIL-MARK") && said.contains("78 bytes"), "{said}");
}
