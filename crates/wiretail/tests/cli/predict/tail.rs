//! `wiretail predict tail` on the published captures, and on captures that are insufficient.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::support::{fail, folder, shared_captures, synth, wiretail};

/// Returns the exit code and the document.
fn predict(pre: &Path, post: &Path, options: &[&str]) -> (i32, Value) {
    let mut arguments = vec![OsStr::new("predict"), OsStr::new("tail"), pre.as_os_str(), post.as_os_str()];
    arguments.extend(options.iter().map(OsStr::new));
    let output = wiretail(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.is_empty(), "{message}");
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code().expect("an exit code"), document)
}

#[test]
fn first_fifth_predicts_rest_of_quiet_captures() {
    let Some(captures) = shared_captures() else { return };
    for pair in ["dpdk-l2fwd-nohz-hw", "snort-fwd-nohz-vm"] {
        let pair = captures.join(pair);
        let (pre, post) = (pair.join("pre.pcap.zst"), pair.join("post.pcap.zst"));
        let (code, found) = predict(&pre, &post, &["--trim", "1s", "--calibrate", "20%", "--json", "-q"]);
        let forecast = &found["tail"]["forecast"];
        assert_eq!(forecast["holds"], true, "{}: {forecast}", pair.display());
        assert_eq!(code, 0);
        let levels = forecast["levels"].as_array().expect("levels");
        assert!(levels.iter().any(|level| level["seen"].as_u64() >= Some(100)), "{forecast}");
        assert!(levels.iter().any(|level| level["basis"] == "fitted"), "{forecast}");
        // The fit uses at least 100 exceedances, in one or two components.
        let fit = &found["tail"]["fit"];
        let fitted = if fit["thin"] == true { &fit["below"] } else { fit };
        assert!(fitted["exceedances"].as_u64() >= Some(100), "{fit}");
        assert!(fitted["events"].as_u64() >= Some(100), "{fit}");
        let quantiles = found["tail"]["fit"]["quantiles"].as_array().expect("events");
        let number = |at: &Value, name: &str| at[name].as_f64().expect("a number");
        let inside =
            |at: &&Value| (number(at, "low_ns")..=number(at, "high_ns")).contains(&number(at, "observed_ns"));
        assert!(quantiles.iter().filter(inside).count() * 10 > quantiles.len() * 8, "it fits");
    }
}

#[test]
fn refuses_capture_with_shootdowns() {
    let Some(captures) = shared_captures() else { return };
    let pair = captures.join("snort-filter-nohz-tlbshootdown-vm");
    let (pre, post) = (pair.join("pre.pcap.zst"), pair.join("post.pcap.zst"));
    for options in
        [&["--trim", "1s", "--calibrate", "20%", "--json", "-q"][..], &["--trim", "1s", "--json", "-q"]]
    {
        let (code, found) = predict(&pre, &post, options);
        assert_eq!(code, 1);
        let refused = &found["tail"]["refused"];
        let kind = refused["kind"].as_str().expect("a kind");
        assert!(["heavy-tailed", "non-stationary"].contains(&kind), "{refused}");
        assert!(found["tail"]["forecast"].is_null());
    }
}

#[test]
fn refuses_too_few_packets_and_rejects_invalid_options() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "200"]);
    let (code, found) = predict(&pre, &post, &["--json", "-q"]);
    assert_eq!((code, &found["tail"]["refused"]["kind"]), (1, &Value::from("too-few")));
    let page = folder.path().join("tail.html");
    let (code, _) = predict(&pre, &post, &["--json", "-q", "--report", page.to_str().expect("a path")]);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(code == 1 && page.contains("<strong>REFUSED</strong>"), "a refusal has its page");
    let with = |option: [&'static str; 2]| {
        fail([
            OsStr::new("predict"),
            "tail".as_ref(),
            pre.as_os_str(),
            post.as_os_str(),
            option[0].as_ref(),
            option[1].as_ref(),
        ])
    };
    assert!(with(["--calibrate", "100%"]).contains("above 0% and below 100%"));
    assert!(with(["--once-in", "0s"]).contains("more than 0s"));
    assert!(with(["--trim", "1h"]).contains("--trim"));
}
