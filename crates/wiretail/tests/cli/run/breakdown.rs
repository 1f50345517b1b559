//! Latency breakdown with devices behind a switch: a delay injected in a device is attributed to that device.

use serde_json::Value;

use super::bed::{Bed, experiment, forwarder, json, live};

/// Returns the breakdown of a trial's direction.
fn breakdown<'a>(trial: &'a Value, segment: &str) -> &'a Value {
    let list = trial["breakdown"].as_array().expect("a list");
    list.iter().find(|breakdown| breakdown["segment"] == segment).expect("the direction's shares")
}

fn counted(breakdown: &Value) -> u64 {
    ["packets", "left_out", "contradictory"]
        .iter()
        .map(|key| breakdown[key].as_u64().expect("a number"))
        .sum()
}

#[test]
fn attributes_device_delay_to_device() {
    let Some(_alone) = live() else { return };
    const INJECTED_NS: i64 = 2_000_000;
    let bed = Bed::new(&experiment(
        "kind = \"skeleton\"\nswitch = \"bridge\"\nhops = 2\ndelay = [\"1 ns\", \"2 ms\"]\ndelay-every = 1",
        "rate = \"200 pps\"\ndirections = \"both\"",
        "duration = \"500 ms\"",
    ));
    bed.run().with_code(0);
    let trials = bed.trials();
    let [without, with] = &trials[..] else { panic!("two trials: {trials:?}") };
    for trial in [without, with] {
        for segment in ["forward", "back"] {
            let breakdown = breakdown(trial, segment);
            assert_eq!((breakdown["devices"].as_u64(), counted(breakdown)), (Some(2), 100), "{breakdown}");
            assert_eq!(breakdown["packets"], 100, "{breakdown}");
            let mean = |part: &str| breakdown[part]["mean_ns"].as_f64().unwrap();
            let parts = mean("infrastructure") + mean("vnf");
            assert!((mean("whole") - parts).abs() < 1e-3, "means add up: {breakdown}");
        }
        let devices = trial["devices"].as_array().expect("a list");
        // One thread serves both devices in both directions.
        assert_eq!(devices[0]["received"], 400, "{devices:?}");
        assert_eq!((&devices[0]["tapped_in"], &devices[0]["tapped_out"]), (&400.into(), &400.into()));
        assert_eq!(trial["notes"].as_array().map(Vec::len), Some(0), "{}", trial["notes"]);
        let folder = bed.out().join(trial["directory"].as_str().unwrap());
        assert!(folder.join("breakdown.json").exists());
    }
    // Use the lowest percentile of the curves: it contains the injected delay, but not the delays of a busy
    // machine.
    let lowest = |trial: &Value, part: &str| {
        let folder = bed.out().join(trial["directory"].as_str().expect("a directory"));
        json(&folder.join("breakdown.json"))[0][part][0]["value_ns"].as_i64().expect("a percentile")
    };
    assert!(lowest(with, "vnf") >= INJECTED_NS, "{} ns", lowest(with, "vnf"));
    for (trial, part) in [(without, "vnf"), (without, "infrastructure"), (with, "infrastructure")] {
        assert!(lowest(trial, part) < INJECTED_NS / 2, "{part}: {} ns", lowest(trial, part));
    }
    let page = std::fs::read_to_string(bed.out().join("report.html")).expect("the page");
    assert!(page.contains("Infrastructure and devices") && page.contains("data-figure=\"shares-1\""));
}

#[test]
fn compares_program_with_skeleton_and_ranks_both() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment(
        &format!(
            "kind = [\"skeleton\", \"command\"]\nswitch = \"bridge\"\ncommand = \"{}\"",
            forwarder("--json")
        ),
        "rate = \"1 kpps\"",
        "duration = \"300 ms\"",
    ));
    let told = bed.run().with_code(0);
    let page = std::fs::read_to_string(bed.out().join("report.html")).expect("the page");
    assert!(
        page.contains("Delay that the VNF adds to the skeleton") && page.contains("data-figure=\"added-1\"")
    );
    assert!(page.contains("<section id=\"ranking\""));
    assert!(
        told.stdout.contains("by p99.9; devices with a range of ranks")
            && told.stdout.contains("forward: infrastructure p50")
    );
}
