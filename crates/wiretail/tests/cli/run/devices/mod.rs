//! With every device, every packet is measured, in one or both directions and over one or several hops.

mod failing;
mod ids;
mod in_kernel;
mod kept;
mod programs;
mod switches;

use serde_json::Value;

use crate::run::bed::{Bed, experiment, forwarder, json, live};
use crate::support::analyze;

/// Number of packets at the ingress tap with a key.
fn keyed(summary: &Value) -> u64 {
    let number = |name: &str| summary["pre"][name].as_u64().unwrap();
    number("packets") - number("packets_without_key")
}

/// Checks that every packet of a segment arrived, in order and once.
pub fn assert_whole(summary: &Value, packets: u64, name: &str) {
    assert_eq!(keyed(summary), packets, "{name}");
    let count = |part: &str, name: &str| summary[part][name].as_u64().unwrap();
    assert_eq!(count("matching", "matched"), packets, "{name}: {}", summary["matching"]);
    for zero in ["lost", "extra", "duplicates_pre", "duplicates_post", "negative", "out_of_window"] {
        assert_eq!(count("matching", zero), 0, "{name}: {zero}");
    }
    assert_eq!(count("reordering", "reordered"), 0, "{name}");
    assert!(summary["delay"]["min_ns"].as_i64().unwrap() > 0, "{name}");
}

#[test]
fn all_devices_measure_every_packet() {
    let Some(_alone) = live() else { return };
    let dut = format!(
        "kind = [\"wire\", \"bridge\", \"skeleton\", \"command\"]\nsocket = [\"packet\", \"xdp\"]\n\
         command = \"{}\"\nready = \"forwarding from in to out\"",
        forwarder("--batch 32")
    );
    let bed = Bed::new(&experiment(&dut, "rate = \"1 kpps\"", "duration = \"400 ms\""));
    let finished = bed.run().with_code(0);
    let trials = bed.trials();
    let names: Vec<_> = trials.iter().map(|trial| trial["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wire", "bridge", "skeleton-packet", "skeleton-xdp", "command"]);
    let report = std::fs::read_to_string(bed.out().join("report.html")).expect("a report");
    for trial in &trials {
        let name = trial["name"].as_str().unwrap();
        assert_eq!((&trial["state"], &trial["reasons"]), (&"valid".into(), &Value::Array(vec![])), "{trial}");
        assert_eq!((&trial["generator"]["sent"], &trial["generator"]["failed"]), (&400.into(), &0.into()));
        let summary = bed.summary(trial, 0);
        assert_whole(&summary, 400, name);
        for tap in trial["taps"].as_array().unwrap() {
            assert_eq!(tap["drops"], 0, "{name}");
        }
        // All three contain the same numbers, and so does the capture.
        assert!(finished.stdout.contains(name) && report.contains(name), "{name}");
        let directory = bed.out().join(trial["directory"].as_str().unwrap());
        assert!(std::fs::read_to_string(directory.join("report.html")).unwrap().contains("<svg"));
        let capture = directory.join("capture.pcapng.zst");
        let again =
            analyze([capture.to_str().unwrap(), "--pre-interface", "pre", "--post-interface", "post"]);
        assert_eq!(
            (&again["matching"], &again["delay"]),
            (&summary["matching"], &summary["delay"]),
            "{name}"
        );
        if name.starts_with("skeleton") {
            let dut = &trial["dut"];
            assert!(dut["received"].as_u64().unwrap() >= 400, "{dut}");
            assert_eq!([&dut["dropped"], &dut["failed"], &dut["faults_dropped"]], [0, 0, 0], "{dut}");
        } else {
            assert_eq!(trial["dut"], Value::Null, "{name}");
        }
    }
    assert!(report.contains("<svg") && finished.stdout.contains("report.html"), "{}", finished.stdout);
}

#[test]
fn measures_each_direction_and_hop() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment(
        "kind = [\"bridge\", \"skeleton\"]\nhops = 2",
        "rate = \"1 kpps\"\ndirections = \"both\"\nsize = \"200 B\"",
        "duration = \"400 ms\"",
    ));
    bed.run().with_code(0);
    let trials = bed.trials();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let name = trial["name"].as_str().unwrap();
        let names = |list: &str| -> Vec<String> {
            let list = trial[list].as_array().unwrap().iter();
            list.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("taps"), ["pre", "hop1", "post", "back-pre", "back-post"], "{name}");
        assert_eq!(names("segments"), ["forward", "back", "hop1", "hop2"], "{name}");
        assert_eq!(trial["generator"]["sent"], 800, "{name}");
        let summaries: Vec<Value> = (0..4).map(|segment| bed.summary(trial, segment)).collect();
        for (segment, summary) in trial["segments"].as_array().unwrap().iter().zip(&summaries) {
            assert_eq!(segment["analysed"], true, "{segment}");
            assert_whole(summary, 400, &format!("{name} {}", segment["name"]));
        }
        // The delay of a packet is the sum of the delays of both hops, which share a timestamp.
        let [whole, _, first, second] = &summaries[..] else { panic!("four segments") };
        let mean = |summary: &Value| summary["delay"]["mean_ns"].as_f64().unwrap();
        assert!((mean(whole) - mean(first) - mean(second)).abs() < 1e-3, "{name}");
        for at in ["min_ns", "max_ns"] {
            let [whole, first, second] =
                [whole, first, second].map(|summary| summary["delay"][at].as_i64().unwrap());
            assert!(whole >= first && whole >= second, "{name}: {at} {whole} {first} {second}");
        }
        // The capture contains the taps by name.
        let capture = bed.out().join(trial["directory"].as_str().unwrap()).join("capture.pcapng.zst");
        for (place, (pre, post)) in
            [("pre", "post"), ("back-pre", "back-post"), ("pre", "hop1"), ("hop1", "post")].iter().enumerate()
        {
            let again =
                analyze([capture.to_str().unwrap(), "--pre-interface", pre, "--post-interface", post]);
            assert_eq!(again["delay"], summaries[place]["delay"], "{name}: {pre} to {post}");
        }
    }
}

#[test]
fn prints_manifest() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment("kind = \"wire\"", "rate = \"1 kpps\"", "duration = \"200 ms\""));
    let mut command = bed.command();
    command.arg("--json");
    let finished = crate::run::bed::Running::start(&bed, command).end().with_code(0);
    let printed: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(printed, bed.manifest());
    assert_eq!(printed["schema"], "wiretail.run/1");
    assert_eq!(printed["trials_planned"], 1);
    let again = crate::support::succeed(["report", bed.out().to_str().unwrap(), "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&again).expect("JSON"), printed);
    assert_eq!(json(&bed.out().join("manifest.json")), printed, "a report changes no manifest");
}
