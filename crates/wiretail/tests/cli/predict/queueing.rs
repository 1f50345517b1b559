//! `wiretail predict queueing`: known results, and error messages for invalid inputs.

use serde_json::Value;

use crate::support::{fail, folder, succeed, wiretail};

fn queueing(options: &[&str]) -> Value {
    let fixed = ["predict", "queueing", "--json"];
    serde_json::from_str(&succeed(fixed.iter().chain(options))).expect("JSON")
}

/// Returns a delay percentile of the first load, in ns.
fn percentile(document: &Value, wanted: f64) -> i64 {
    let percentiles = document["loads"][0]["delay"]["percentiles"].as_array().expect("percentiles");
    let found = percentiles.iter().find(|at| at["percentile"] == wanted).expect("the percentile");
    found["value_ns"].as_i64().expect("a number")
}

#[test]
fn predicts_each_rate() {
    let rates = ["--rate", "10kpps,40kpps", "--service", "30us", "--packets", "50k", "--transfer", "1us"];
    let found = queueing(&rates);
    assert_eq!(found["schema"], "wiretail.queueing/1");
    let loads = found["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 2);
    assert_eq!((&loads[0]["overloaded"], &loads[0]["lost"]), (&false.into(), &0.into()));
    assert_eq!(
        (&loads[0]["delay"]["min_ns"], &loads[0]["delay"]["max_ns"]),
        (&31_000.into(), &31_000.into())
    );
    assert_eq!(loads[1]["overloaded"], true);
    assert!(loads[1]["lost"].as_u64().unwrap() > 0);
    assert_eq!(queueing(&rates), found);

    let shown = succeed(["predict", "queueing"].iter().chain(&rates));
    assert_eq!(shown.lines().filter(|line| line.ends_with("overloaded")).count(), 1, "{shown}");
    assert!(shown.contains("31.00"), "{shown}");
}

#[test]
fn predicts_steps_and_ramps() {
    let burst = |batch| {
        queueing(&[
            "--rate",
            "10kpps",
            "--service",
            "1us",
            "--burst",
            "64",
            "--release",
            "batch",
            "--packets",
            "64k",
            "--batch",
            batch,
        ])
    };
    let (steps, ramp) = (burst("32"), burst("4"));
    assert_eq!([50.0, 75.0, 99.0].map(|p| percentile(&steps, p)), [32_000, 64_000, 64_000]);
    assert_eq!([50.0, 75.0, 99.0].map(|p| percentile(&ramp, p)), [32_000, 48_000, 64_000]);
}

#[test]
fn rejects_invalid_models() {
    for (options, part) in [
        (&["--ring", "0"][..], "ring of 0"),
        (&["--batch", "0"], "batch of 0"),
        (&["--interrupt", "5000 Hz 300us"], "interrupts take 150 %"),
        (&["--burst", "64", "--spacing", "1ms"], "lasts longer"),
        (&["--burst", "64", "--arrivals", "poisson"], "expected --arrivals constant"),
        (&["--clock-offset", "NaN"], "--clock-offset"),
        (&["--transfer=-31us"], "the transfer"),
    ] {
        let fixed = ["predict", "queueing", "--rate", "10kpps", "--service", "30us"];
        let message = fail(fixed.iter().chain(options));
        assert!(message.contains(part) && message.contains("expected"), "{message}");
    }
    for options in [["--interrupt", "0 Hz 12us"], ["--rate", "10"], ["--packets", "0"]] {
        let fixed = ["predict", "queueing", "--rate", "10kpps", "--service", "30us"];
        assert_eq!(wiretail(fixed.iter().chain(&options)).status.code(), Some(2), "{options:?}");
    }
}

#[test]
fn reads_times_from_files_and_models_wakeups() {
    let folder = folder();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    };
    let services = path("services", "# measured\n1000\n1000.0\n\n");
    let arrivals = path("arrivals", "0\n500\n1e6\n");
    let found = queueing(&["--service-samples", &services, "--arrival-times", &arrivals, "--wake", "3us"]);
    // The device is asleep when the first and the last packet arrive. The second packet waits for the first.
    let delay = &found["loads"][0]["delay"];
    assert_eq!((&delay["min_ns"], &delay["max_ns"]), (&4000.into(), &4500.into()), "{delay}");
    let early = queueing(&["--service", "1us", "--rate", "1kpps", "--transfer=-400ns", "--packets", "10"]);
    assert_eq!(early["loads"][0]["delay"]["max_ns"], 600);
    let wrong = path("wrong", "1000\nsoon\n");
    let message = fail(["predict", "queueing", "--rate", "1kpps", "--service-samples", &wrong]);
    assert!(message.contains("wrong:2") && message.contains("soon"), "{message}");
    let back = path("back", "5\n4\n");
    let message = fail(["predict", "queueing", "--service", "1us", "--arrival-times", &back]);
    assert!(message.contains("back in time"), "{message}");
}
