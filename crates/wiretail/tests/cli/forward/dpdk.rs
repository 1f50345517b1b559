//! DPDK's ports, over devices that need no network card: `cargo test -p wiretail --features dpdk --test cli dpdk`.

use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use super::{Forwarder, answers, counts};
use crate::run::can_run;
use crate::support::{fail, folder};
use crate::traffic::{Bed, capture, frames, generate, json};

const RATE: &str = "5kpps";

/// Runs one test at a time. Each test spins on a separate core, and the rings of DPDK would overflow during
/// long pauses.
static CORE: Mutex<()> = Mutex::new(());

fn turn() -> Option<MutexGuard<'static, ()>> {
    can_run().then(|| CORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn forwarder(bed: &Bed, more: &[&str]) -> Forwarder {
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    Forwarder::start(&[&[&*input, &*output, "--socket", "dpdk", "--json"], more].concat())
}

fn end(forwarder: Forwarder) -> Value {
    serde_json::from_str(&forwarder.end()).expect("the document of the end")
}

/// Returns the numbers of the load generator's packets in a capture.
fn numbers(file: &Path) -> Vec<u32> {
    let number = |frame: &[u8]| u32::from_le_bytes(frame[42..46].try_into().unwrap());
    frames(file).iter().map(|(_, frame)| number(frame)).collect()
}

/// Sends from one end through the forwarder, and returns the packets that arrived at the other.
fn crossed(bed: &Bed, from: &str, to: &str, arguments: &[&str]) -> Vec<u32> {
    let folder = folder();
    let file = folder.path().join("out.pcapng");
    let capture = capture(&file, &[&bed.place(to), "--stream"]);
    generate(&bed.place(from), &[&["--rate", RATE], arguments].concat());
    std::thread::sleep(Duration::from_millis(200));
    let captured = json(&capture.interrupt());
    assert_eq!((&captured["taps"][0]["drops"], &captured["taps"][0]["missing"]), (&0.into(), &0.into()));
    numbers(&file)
}

#[test]
fn dpdk_prints_counters_on_request() {
    let Some(_turn) = turn() else { return };
    let bed = Bed::new();
    for pmd in ["af_packet", "af_xdp"] {
        answers(&bed, &["--socket", "dpdk", "--pmd", pmd]);
    }
}

#[test]
fn dpdk_forwards_all_in_order_in_both_directions() {
    let Some(_turn) = turn() else { return };
    let bed = Bed::new();
    for (pmd, batch) in [("af_packet", "1"), ("af_packet", "64"), ("af_xdp", "32")] {
        let forwarder = forwarder(&bed, &["--pmd", pmd, "--batch", batch, "--both-directions"]);
        let forth = crossed(&bed, "gen/out", "sink/in", &["--packets", "2000", "--size", "imix-csit"]);
        assert_eq!(forth, (0..2000).collect::<Vec<_>>(), "{pmd}");
        let back = crossed(&bed, "sink/in", "gen/out", &["--packets", "1000", "--first-id", "5000"]);
        assert_eq!(back, (5000..6000).collect::<Vec<_>>(), "{pmd}");
        let end = end(forwarder);
        assert_eq!(counts(&end), [3000, 3000, 0, 0], "{pmd}: {end}");
        assert!(end["burst_max"].as_u64() <= batch.parse().ok(), "{end}");
    }
}

#[test]
fn dpdk_takes_at_most_one_batch() {
    let Some(_turn) = turn() else { return };
    let bed = Bed::new();
    for batch in [1, 4, 32] {
        let forwarder = forwarder(&bed, &["--batch", &batch.to_string()]);
        // All packets are queued when the forwarder continues.
        forwarder.running.signal("-STOP");
        generate(&bed.place("gen/out"), &["--rate", "1Mpps", "--packets", "64", "--burst", "64"]);
        forwarder.running.signal("-CONT");
        std::thread::sleep(Duration::from_millis(200));
        let end = end(forwarder);
        assert_eq!(counts(&end), [64, 64, 0, 0], "{end}");
        assert_eq!([&end["burst_max"], &end["bursts"]], [batch, 64 / batch], "{end}");
    }
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    let message = fail(["forward", &input, &output, "--socket", "dpdk", "--batch", "65"]);
    assert!(message.contains("batch is 65") && message.contains("1 to 64"), "{message}");
}

#[test]
fn dpdk_sends_generated_packets() {
    let Some(_turn) = turn() else { return };
    let bed = Bed::new();
    for pmd in ["af_packet", "af_xdp"] {
        for more in
            [&["--packets", "1000", "--size", "imix-csit"][..], &["--packets", "960", "--burst", "96"]]
        {
            let arrived =
                crossed(&bed, "gen/out", "dut/in", &[&["--socket", "dpdk", "--pmd", pmd], more].concat());
            assert_eq!(arrived, (0..more[1].parse().unwrap()).collect::<Vec<_>>(), "{pmd} {more:?}");
        }
    }
}

#[test]
fn dpdk_records_arriving_packets() {
    let Some(_turn) = turn() else { return };
    let (bed, folder) = (Bed::new(), folder());
    let tap = format!("post={}", bed.place("dut/in"));
    for packets in ["800", "500"] {
        let file = folder.path().join(format!("{packets}.pcapng"));
        let capture = capture(&file, &[&tap, "--socket", "dpdk", "--packets", packets]);
        generate(&bed.place("gen/out"), &["--rate", RATE, "--packets", "800", "--size", "imix-csit"]);
        let captured = capture.end();
        assert_eq!(captured.status.code(), Some(0), "{}", String::from_utf8_lossy(&captured.stderr));
        let tap = json(&captured)["taps"][0].clone();
        assert_eq!((&tap["timestamp_source"], &tap["drops"]), (&"poll software".into(), &0.into()), "{tap}");
        assert_eq!(numbers(&file), (0..packets.parse().unwrap()).collect::<Vec<_>>());
        assert!(frames(&file).is_sorted_by_key(|(timestamp, _)| *timestamp));
    }
    let file = folder.path().join("hardware.pcapng");
    let arguments = ["capture", &tap, "--socket", "dpdk", "--timestamps", "hardware", "--write"];
    let message = fail([&arguments[..], &[file.to_str().unwrap()]].concat());
    assert!(
        message.contains("hardware timestamps were requested") && message.contains("net_af_packet"),
        "{message}"
    );
    let message = fail(["capture", "lo:out", "--socket", "dpdk", "--write", file.to_str().unwrap()]);
    assert!(message.contains("records only packets that it receives"), "{message}");
}

#[test]
fn dpdk_names_missing_devices() {
    let Some(_turn) = turn() else { return };
    let message = fail(["forward", "nosuch0", "nosuch1", "--socket", "dpdk"]);
    assert!(
        message.contains("iface=nosuch1") && message.contains("probing the device failed: No such device"),
        "{message}"
    );
    let message = fail(["forward", "dpdk:net_null0", "dpdk:net_nosuch0", "--socket", "dpdk"]);
    assert!(message.contains("net_nosuch0: probing the device failed"), "{message}");
    let message = fail(["forward", "lo", "lo", "--socket", "dpdk", "--eal", "--nosuch"]);
    assert!(message.contains("DPDK failed to start") && message.contains("--nosuch"), "{message}");
}
