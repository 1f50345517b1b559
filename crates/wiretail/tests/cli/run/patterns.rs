//! Every traffic pattern in a complete run: the requested traffic is sent and measured.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::bed::{Bed, experiment, live};
use crate::support::synth;

/// Runs one trial without loss; returns its record and summary.
fn one(bed: &Bed) -> (Value, Value) {
    bed.run().with_code(0);
    let trial = bed.trials()[0].clone();
    let summary = bed.summary(&trial, 0);
    assert_eq!(summary["matching"]["lost"], 0, "{}", summary["matching"]);
    assert_eq!(summary["matching"]["matched"], trial["generator"]["sent"], "{}", summary["matching"]);
    (trial, summary)
}

fn bridge(traffic: &str, duration: &str) -> (Value, Value) {
    one(&Bed::new(&experiment("kind = \"bridge\"", traffic, &format!("duration = \"{duration}\""))))
}

#[test]
fn patterns_send_requested_traffic() {
    let Some(_alone) = live() else { return };
    let (poisson, _) = bridge("rate = \"4 kpps\"\npattern = \"poisson\"", "300 ms");
    let sent = poisson["generator"]["sent"].as_u64().unwrap();
    // 1200 packets, with six standard deviations.
    assert!((992..=1408).contains(&sent), "{sent}");
    let (on_off, _) =
        bridge("rate = \"5 kpps\"\npattern = \"on-off\"\non = \"10 ms\"\noff = \"40 ms\"", "200 ms");
    assert_eq!(on_off["generator"]["sent"], 200);
    let (bursts, _) = bridge("rate = \"4 kpps\"\nburst = 8", "200 ms");
    assert_eq!(bursts["generator"]["sent"], 800);
}

#[test]
fn measures_size_mixes_and_flows() {
    let Some(_alone) = live() else { return };
    let (csit, summary) = bridge("rate = \"5 kpps\"\nsize = \"imix-csit\"", "24 ms");
    assert_eq!(csit["generator"]["sent"], 120);
    let bytes = 70 * 60 + 40 * 566 + 10 * 1514;
    assert_eq!(csit["generator"]["sent_bytes"], bytes);
    let probes_without = |summary: &Value| summary["pre"]["packets_without_key"].as_u64().unwrap();
    assert_eq!((&summary["pre"]["wire_bytes"], probes_without(&summary)), (&bytes.into(), 0));
    let (_, flows) = bridge("rate = \"5 kpps\"\nflows = 3", "30 ms");
    assert_eq!(flows["flows"]["count"], 3);
    let each = |summary: &Value| -> Vec<u64> {
        let flows = summary["flows"]["largest"].as_array().unwrap().iter();
        flows.map(|flow| flow["sent"].as_u64().unwrap()).collect()
    };
    assert_eq!(each(&flows), [50, 50, 50]);
    let (_, streams) = bridge("rate = \"5 kpps\"\nflows = 3\nstreams = 2", "24 ms");
    assert_eq!(each(&streams), [60, 60], "{}", streams["flows"]);
}

#[test]
fn replays_recording() {
    let Some(_alone) = live() else { return };
    // The path of the recording is relative to the experiment.
    let traffic = "rate = \"5 kpps\"\npattern = \"replay\"\nreplay = \"pre.pcap\"";
    let bed = Bed::new(&experiment("kind = \"bridge\"", traffic, "duration = \"40 ms\""));
    synth(&bed.path(""), &["--packets", "200", "--rate", "10kpps", "--flows", "3"]);
    let (trial, summary) = one(&bed);
    assert_eq!(trial["generator"]["sent"], 200);
    assert_eq!(summary["flows"]["count"], 3, "{}", summary["flows"]);
    assert_eq!(summary["delay"]["count"], 200);
    let both =
        experiment("kind = \"skeleton\"", &format!("{traffic}\ndirections = \"both\""), "duration = \"1 s\"");
    std::fs::write(bed.path("test.toml"), both).expect("the experiment");
    std::fs::rename(bed.out(), bed.path("earlier")).expect("a name");
    bed.run().with_code(1);
    let reasons = bed.trials()[0]["reasons"].to_string();
    assert!(reasons.contains("sends in one direction only"), "{reasons}");
}

/// Stops the process for 20 ms.
fn stall(pid: u32) {
    for signal in ["-STOP", "-CONT"] {
        let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
        assert!(sent.expect("kill").success());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn late_policies_skip_or_shift_after_stalls() {
    let Some(_alone) = live() else { return };
    let traffic = "rate = \"1 kpps\"\nlate-policy = [\"skip\", \"shift\", \"catch-up\"]";
    let bed = Bed::new(&experiment("kind = \"wire\"", traffic, "duration = \"1 s\""));
    let mut run = bed.start();
    let pid = run.pid;
    run.until("two trials were done", |bed| {
        stall(pid);
        let manifest = std::fs::read(bed.out().join("manifest.json")).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        manifest["trials"].as_array().is_some_and(|trials| trials.len() >= 2)
    });
    let finished = run.end().with_code(0);
    let trials = bed.trials();
    let of = |trial: usize, key: &str| trials[trial]["generator"][key].as_u64().unwrap();
    let [skip, shift, catch_up] = [0, 1, 2].map(|trial| bed.summary(&trials[trial], 0));
    // Each stall skips about 19 packets. They are not lost, because they never reach the device.
    assert!((19..1000).contains(&of(0, "skipped")), "{}", trials[0]["generator"]);
    assert_eq!(of(0, "sent") + of(0, "skipped"), 1000);
    assert_eq!(skip["matching"]["matched"], of(0, "sent"), "{}", skip["matching"]);
    let line = format!("the load generator skipped {} of ", of(0, "skipped"));
    assert!(finished.stdout.contains(&line), "{}", finished.stdout);
    assert!(of(1, "shifted_ns") >= 19_000_000, "{}", trials[1]["generator"]);
    assert!(finished.stdout.contains("the load generator shifted its schedule by"), "{}", finished.stdout);
    for (trial, summary) in [(1, shift), (2, catch_up)] {
        assert_eq!((of(trial, "sent"), of(trial, "skipped")), (1000, 0));
        assert_eq!(summary["matching"]["matched"], 1000, "{}", summary["matching"]);
    }
    // Both clocks agree. The first packets may have been skipped or late.
    let started_ns = trials[0]["generator"]["start_ns"].as_i64().unwrap();
    let first_ns = skip["pre"]["first_ns"].as_i64().unwrap();
    assert!((first_ns - started_ns).abs() < 1_000_000_000, "{started_ns} {first_ns}");
}
