//! `wiretail predict queueing` with run directories: a device with 10 us of service time and 1 us of other
//! delay per packet is calibrated with one run and validated with another. The directories are synthetic, so
//! the true values are known exactly.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use wiretail_schema::experiment::Experiment;

use crate::support::{fail, folder, succeed, wiretail};

const SERVICE_NS: i64 = 10_000;
const TRANSFER_NS: i64 = 1_000;
const SPACING_NS: i64 = 1_000;
/// Arrival of the first packet, in ns since 1970.
const START_NS: i64 = 1_700_000_000_000_000_000;

/// Returns the arrivals and departures of twice 100 ms of traffic, as an experiment defines it.
fn packets(rate: i64, burst: i64, service_ns: i64) -> Vec<(i64, i64)> {
    let mut free = 0;
    let crossed = |number: i64| {
        let at = number / burst * (burst * 1_000_000_000 / rate) + number % burst * SPACING_NS;
        free = free.max(at) + service_ns;
        (at, free + TRANSFER_NS)
    };
    (0..rate / 5).map(crossed).collect()
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = (padded + 12) as u32;
    let mut block = [kind.to_le_bytes(), len.to_le_bytes()].concat();
    block.extend_from_slice(body);
    block.resize(8 + padded, 0);
    block.extend_from_slice(&len.to_le_bytes());
    block
}

/// Writes a capture with the interfaces pre and post, as trials do (pcapng, draft-ietf-opsawg-pcapng).
fn capture(packets: &[(i64, i64)]) -> Vec<u8> {
    let mut file =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    for name in [b"pre\0", b"post"] {
        let len = if name[3] == 0 { 3u16 } else { 4 };
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        body.extend_from_slice(&len.to_le_bytes());
        body.extend_from_slice(name);
        // Timestamp resolution in nanoseconds, and the end of the options.
        body.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(block(1, &body));
    }
    let mut timestamps: Vec<(i64, u32, u32)> = Vec::new();
    for (&(at, left), number) in packets.iter().zip(0..) {
        timestamps.extend([(at, 0, number), (left, 1, number)]);
    }
    timestamps.sort_unstable();
    for (at, interface, number) in timestamps {
        let frame = frame(number);
        let at = (START_NS + at) as u64;
        let mut body = interface.to_le_bytes().to_vec();
        for word in [(at >> 32) as u32, at as u32, frame.len() as u32, frame.len() as u32] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&frame);
        file.extend(block(6, &body));
    }
    file
}

/// UDP over IPv4, identified by a number in the first bytes of the payload.
fn frame(number: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    frame[34..42].copy_from_slice(&[0x30, 0x39, 0, 53, 0, 26, 0, 0]);
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame[46..].fill(0x55);
    frame
}

/// Creates a run of the skeleton at these rates and bursts.
fn run(path: &Path, loads: &str, work: &str, service_ns: i64) {
    let text = format!(
        "title = \"t\"\nseed = 1\n[dut]\nkind = \"skeleton\"\nwork = \"{work}\"\n[traffic]\n{loads}\n[trial]\n\
         duration = \"200 ms\"\nwarm-up = \"20 ms\"\n"
    );
    let experiment = Experiment::parse(&text).expect("an experiment");
    fs::create_dir_all(path).expect("a folder");
    fs::write(path.join("experiment.resolved.toml"), experiment.to_toml()).expect("written");
    let mut trials = Vec::new();
    for trial in experiment.trials() {
        let packets = packets(trial.traffic.rate.pps as i64, trial.traffic.burst.into(), service_ns);
        let directory = format!("trials/{:04}", trial.number);
        fs::create_dir_all(path.join(&directory)).expect("a folder");
        fs::write(path.join(&directory).join("capture.pcapng.zst"), capture(&packets)).expect("written");
        trials.push(json!({
            "number": trial.number, "repeat": 1, "name": format!("<b>trial {}", trial.number), "directory": directory,
            "state": "valid", "reasons": [], "notes": [], "retries": 0, "settings": trial.records(),
            "generator": null, "dut": null, "taps": [],
            "segments": [{"name": "forward", "pre": "pre", "post": "post", "directory": directory, "analysed": true}],
            "stalls": {"threshold_ns": 5000, "causes": [], "longest": []}, "calibration": null, "accounting": null,
        }));
    }
    let host = json!({"realtime_kernel": false, "hypervisor": false, "mitigations": []});
    let manifest = json!({
        "schema": "wiretail.run/1", "wiretail_version": "0", "title": "t", "seed": 1, "started_s": 0,
        "trials_planned": trials.len(), "factors": [], "host": host, "trials": trials,
    });
    fs::write(path.join("manifest.json"), manifest.to_string()).expect("written");
}

const BURSTS: &str = "rate = \"5 kpps\"\nburst = 20";
const OTHERS: &str = "rate = [\"20 kpps\", \"80 kpps\"]\nburst = [1, 8]";

#[test]
fn predicts_other_rates_from_one_measured_rate() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    run(&folder.path().join("calibration"), BURSTS, "9 us", SERVICE_NS);
    run(&folder.path().join("others"), OTHERS, "9 us", SERVICE_NS);
    let (model, page) = (at("model.json"), at("queueing.html"));
    let arguments = ["predict", "queueing", "--calibrate", &at("calibration"), "--save", &model, "--json"];
    let found: Value = serde_json::from_str(&succeed(arguments)).expect("JSON");
    assert_eq!(found["model"]["service"]["constant"], SERVICE_NS as f64, "{}", found["model"]);
    assert_eq!(found["model"]["transfer_ns"], TRANSFER_NS as f64);
    assert_eq!((&found["model"]["ring"], &found["model"]["interrupts"]), (&8192.into(), &json!([])));
    assert_eq!(found["calibration"]["spacing_ns"], SPACING_NS as f64);

    let arguments =
        ["predict", "queueing", "--model", &model, "--validate", &at("others"), "--report", &page, "--json"];
    let found: Value = serde_json::from_str(&succeed(arguments)).expect("JSON");
    let validations = found["validations"].as_array().expect("validations");
    assert_eq!(validations.len(), 4);
    for validation in validations {
        assert_eq!(validation["within"], true, "{validation}");
        for one in validation["percentiles"].as_array().expect("percentiles") {
            assert_eq!(one["predicted_ns"], one["measured_ns"], "{validation}");
        }
    }
    let text = fs::read_to_string(page).expect("a page");
    assert!(text.contains("&lt;b&gt;trial 4") && !text.contains("<b>trial"), "names are escaped");

    let shown = succeed(["predict", "queueing", "--model", &model, "--validate", &at("others")]);
    assert!(
        shown.contains("4 of 4 loads are within") && shown.contains("4 of 4 replays are within"),
        "{shown}"
    );
    let by_rate = succeed([
        "predict",
        "queueing",
        "--calibrate",
        &format!("{}:1", at("calibration")),
        "--rate",
        "50kpps",
    ]);
    assert!(by_rate.contains("11.00") && by_rate.contains("CALIBRATED"), "{by_rate}");
}

#[test]
fn lists_failed_validations_and_exits_with_1() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    run(&folder.path().join("calibration"), BURSTS, "9 us", SERVICE_NS);
    // The run records the same device, but the device takes 20 % longer.
    run(&folder.path().join("others"), OTHERS, "9 us", 12_000);
    let calibrated = ["predict", "queueing", "--calibrate", &at("calibration")];
    let output = wiretail(calibrated.iter().chain(&["--validate", &at("others")]));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("0 of 4 loads") && shown.contains("but 10 % are allowed"), "{shown}");

    run(&folder.path().join("other"), OTHERS, "8 us", SERVICE_NS);
    let message = wiretail(calibrated.iter().chain(&["--validate", &at("other")]));
    let message = String::from_utf8_lossy(&message.stderr).into_owned();
    assert!(message.contains("another device: dut.work is 8 us"), "{message}");
}

#[test]
fn rejects_insufficient_runs_and_names_sufficient_ones() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    run(&folder.path().join("lone"), "rate = \"5 kpps\"", "9 us", SERVICE_NS);
    run(&folder.path().join("idle"), "rate = \"5 kpps\"", "0 ns", 400);
    let message = fail(["predict", "queueing", "--calibrate", &at("lone")]);
    assert!(
        message.contains("experiments/prediction/queueing.toml") && message.contains("--baseline"),
        "{message}"
    );
    let weak = ["--baseline", &at("idle"), "--rate", "50kpps"];
    let shown = succeed(["predict", "queueing", "--calibrate", &at("lone")].iter().chain(&weak));
    assert!(shown.contains("weak evidence"), "{shown}");
    let message = fail(["predict", "queueing", "--calibrate", &format!("{}:7", at("lone"))]);
    assert!(message.contains("has no trial '7'"), "{message}");
    let message = fail(["predict", "queueing", "--model", &at("lone/manifest.json"), "--rate", "1kpps"]);
    assert!(message.contains("predict queueing --save"), "{message}");
    fail(["predict", "queueing", "--calibrate", &at("nowhere")]);
}
