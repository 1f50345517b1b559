//! Devices that are kept for several trials: each trial has separate packets and counts.

use std::fs;

use crate::run::bed::{Bed, experiment, live};
use crate::support::wiretail;

const SKELETON: &str = "kind = \"skeleton\"\nbatch = [1, 32]";
const TRAFFIC: &str = "pattern = [\"constant\", \"poisson\"]\nrate = [\"2 kpps\", \"5 kpps\"]";
const TRIAL: &str = "device = \"kept\"\nduration = \"200 ms\"\nrepeats = 2";

#[test]
fn trials_of_kept_device_have_separate_packets() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment(SKELETON, TRAFFIC, TRIAL));
    bed.run().with_code(0);
    let trials = bed.trials();
    assert_eq!(trials.len(), 16);
    let setting = |trial: &serde_json::Value, key: &str| {
        let settings = trial["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key);
        found.unwrap()["text"].as_str().unwrap().to_owned()
    };
    // Trials of one device are consecutive, regardless of the order of the keys.
    let batches: Vec<String> = trials.iter().map(|trial| setting(trial, "dut.batch")).collect();
    assert_eq!(batches, [["1"; 4], ["32"; 4], ["1"; 4], ["32"; 4]].concat());
    for trial in &trials {
        assert_eq!(trial["state"], "valid", "{trial}");
        let sent = trial["generator"]["sent"].as_u64().unwrap();
        if setting(trial, "traffic.pattern") == "constant" {
            let expected = if setting(trial, "traffic.rate") == "2 kpps" { 400 } else { 1000 };
            assert_eq!(sent, expected);
        }
        let summary = bed.summary(trial, 0);
        assert_eq!(
            (&summary["matching"]["matched"], &summary["matching"]["lost"]),
            (&sent.into(), &0.into())
        );
        // Packets that the device counted between two trials belong to neither.
        let device = &trial["devices"][0];
        assert_eq!((&device["received"], &device["sent"]), (&sent.into(), &sent.into()), "{device}");
        let stalls = bed.out().join(trial["directory"].as_str().unwrap()).join("stalls.csv");
        let [first, last] = ["first_ns", "last_ns"].map(|key| summary["pre"][key].as_i64().unwrap());
        for line in fs::read_to_string(stalls).unwrap().lines().filter(|line| line.starts_with("device")) {
            let at: i64 = line.split(',').nth(1).unwrap().parse().unwrap();
            assert!((first - 1_000_000_000..last + 1_000_000_000).contains(&at), "{line}: {first} to {last}");
        }
    }
}

#[test]
fn rejects_keys_of_single_trials_for_kept_device() {
    for (dut, trial, key) in [
        ("kind = \"skeleton\"\ndrop-every = 10", "device = \"kept\"", "dut.drop-every"),
        ("kind = \"skeleton\"\ninterference = \"timer\"", "device = \"kept\"", "dut.interference"),
        ("kind = \"skeleton\"", "device = \"kept\"\ncapture = \"none\"", "trial.capture"),
        ("kind = \"skeleton\"", "device = \"kept\"\n[trace]\nrecord = true", "trace.record"),
    ] {
        let bed = Bed::new(&experiment(dut, "rate = \"1 kpps\"", trial));
        let checked = wiretail(["check", &bed.path("test.toml").display().to_string()]);
        let told = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(1), "{told}");
        assert!(told.contains(key) && told.contains("\"fresh\""), "{told}");
    }
}
