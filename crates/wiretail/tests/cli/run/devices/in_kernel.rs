//! Devices in the kernel: XDP programs that redirect, and routers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::run::bed::{Bed, experiment, live};
use crate::run::devices::assert_whole;
use crate::support::analyze;
use crate::traffic::frames;

/// Runs both directions at 10 kpps for one second, checks that each segment has every packet, and returns the
/// trial.
fn whole(bed: &Bed) -> Value {
    bed.run().with_code(0);
    let [trial] = bed.trials().try_into().expect("one trial");
    assert_eq!(trial["generator"]["sent"], 20_000, "{trial}");
    for (place, segment) in trial["segments"].as_array().expect("segments").iter().enumerate() {
        assert_whole(&bed.summary(&trial, place), 10_000, &segment["name"].to_string());
    }
    trial
}

fn both_directions(dut: &str) -> Bed {
    let traffic = "rate = \"10 kpps\"\ndirections = \"both\"\nflows = 4";
    Bed::new(&experiment(dut, traffic, "duration = \"1 s\""))
}

#[test]
fn routers_forward_and_rewrite_every_packet() {
    let Some(_alone) = live() else { return };
    let bed = both_directions("kind = \"linux-router\"\nhops = 2");
    let trial = whole(&bed);
    let capture = bed.out().join(trial["directory"].as_str().expect("a directory"));
    // Ethernet addresses and time to live, each with the number of packets at all taps that have these
    // values.
    let mut seen = BTreeMap::new();
    for (_, frame) in frames(&capture.join("capture.pcapng.zst")) {
        assert_eq!(frame[12..14], [8, 0], "nothing but the traffic is on the wires");
        *seen.entry((frame[4..6].to_vec(), frame[10..12].to_vec(), frame[22])).or_insert(0) += 1;
    }
    // The last two bytes of the addresses: 3.1 is the load generator, 3.2 the sink, 1.n and 2.n are router n.
    let expected = [
        ([1, 1], [3, 1], 64),
        ([1, 2], [2, 1], 63),
        ([3, 2], [2, 2], 62),
        ([2, 2], [3, 2], 64),
        ([3, 1], [1, 1], 62),
    ];
    let expected =
        expected.map(|(to, from, ttl): ([u8; 2], [u8; 2], u8)| ((to.to_vec(), from.to_vec(), ttl), 10_000));
    assert_eq!(seen, BTreeMap::from(expected));
    assert_counted(&trial, 2);
    // The load generator's signature is not changed.
    let file = capture.join("capture.pcapng.zst");
    let file = file.to_str().expect("text");
    let taps = ["--pre-interface", "pre", "--post-interface", "post"];
    let summary = analyze([&[file, "--key", "signature"], &taps[..]].concat());
    assert_eq!((&summary["matching"]["matched"], &summary["matching"]["lost"]), (&10_000.into(), &0.into()));
}

#[test]
fn xdp_redirects_every_packet_in_both_directions_over_two_hops() {
    let Some(_alone) = live() else { return };
    let bed = both_directions("kind = \"xdp-redirect\"\nhops = 2");
    assert_counted(&whole(&bed), 2);
}

/// Checks that each device counted the packets of both directions once at its input and once at its output.
fn assert_counted(trial: &Value, devices: usize) {
    let counted = trial["devices"].as_array().expect("devices");
    assert_eq!(counted.len(), devices, "{trial}");
    for device in counted {
        let counts =
            ["received", "sent", "dropped", "failed"].map(|name| device[name].as_u64().expect("a count"));
        assert_eq!(counts, [20_000, 20_000, 0, 0], "{device}");
    }
}

#[test]
fn router_rejects_replay() {
    let Some(_alone) = live() else { return };
    let folder = crate::support::folder();
    let (recorded, _, _) = crate::support::synth(folder.path(), &["--packets", "10"]);
    let traffic = format!("rate = \"1 kpps\"\npattern = \"replay\"\nreplay = \"{}\"", recorded.display());
    let bed = Bed::new(&experiment("kind = \"linux-router\"", &traffic, "duration = \"100 ms\""));
    let finished = bed.run().with_code(1);
    let trials = bed.trials();
    let reasons = trials[0]["reasons"].to_string();
    assert!(reasons.contains("its own Ethernet address"), "{reasons} {}", finished.stderr);
}
