//! Tests searches whose result is known.

use serde_json::Value;

use super::bed::{Bed, Running, experiment, json, live};

/// A forwarder with 100 us of work per packet carries less than 10 kpps, regardless of other tasks on its
/// core.
const INJECTED_PPS: u64 = 10_000;

fn bed(search: &str) -> Bed {
    let device = "kind = \"skeleton\"\nwork = \"100 us\"\nbatch = 32";
    let text = experiment(device, "rate = \"20 kpps\"", "duration = \"300 ms\"");
    Bed::new(&format!("{text}[search]\n{search}\n"))
}

fn found(bed: &Bed) -> Value {
    json(&bed.out().join("search.json"))["searches"][0].clone()
}

#[test]
fn finds_known_capacity_despite_interruption() {
    let Some(_alone) = live() else { return };
    // Other programs may take the device's core for some time. A trial may therefore be stretched by a fifth,
    // and is repeated.
    let bed = bed(
        "method = \"binary\"\nverify = 2\nstretch = \"20 %\"\ngoals = \"pdr 10%, 1s@90%\"\nlowest = \"500 pps\"\n\
         width = \"10 %\"",
    );
    let mut running = Running::start(&bed, bed.command_of("search"));
    running.until_trials(2);
    running.signal("-INT");
    let first = running.end();
    assert_eq!(first.code, Some(130), "{}", first.stderr);
    assert!(first.stderr.contains("wiretail search --resume"), "{}", first.stderr);
    let before = found(&bed);
    assert_eq!(before["complete"], false);
    let before = before["trials"].as_array().expect("trials").clone();

    bed.resume_of("search");
    let search = found(&bed);
    assert_eq!(search["complete"], true, "{search}");
    let trials = search["trials"].as_array().expect("trials");
    assert!(trials.len() > before.len() && trials[..before.len()] == before[..], "trials were repeated");
    // At twice the capacity, the ring of 8,192 slots does not fill up within 300 ms. The overload is visible
    // only because the departures take longer than the arrivals.
    assert_eq!(trials[0]["load"], 20_000, "{}", trials[0]);
    assert!(trials[0]["stretch"].as_f64().unwrap() > 0.5, "{}", trials[0]);
    let goal = &search["goals"][0];
    assert_eq!(goal["ending"], "found", "{goal}");
    let (lower, upper) = (goal["lower"].as_u64().unwrap(), goal["upper"].as_u64().unwrap());
    println!("between {lower} and {upper} pps after {} trials", trials.len());
    assert!(lower < upper && (upper - lower) * 10 <= upper, "{goal}");
    assert!(lower < INJECTED_PPS * 12 / 10, "{goal}");
    // If other programs run on the machine, the rate may be slightly lower.
    assert!(upper > INJECTED_PPS / 3, "{goal}");
    // Every trial is in the manifest, and the report shows where the device breaks.
    assert_eq!(bed.trials().len(), trials.len());
    let report = std::fs::read_to_string(bed.out().join("report.html")).expect("a report");
    assert!(report.contains("Highest load") && report.contains("1s@90%"));
}

#[test]
fn rejects_invalid_search_keys() {
    let Some(_alone) = live() else { return };
    for (search, expected) in [
        ("goals = \"ndr, fast\"", "test.toml: line "),
        ("goals = \"ndr, fast\"", "'fast' is not a goal"),
        ("lowest = \"20 kpps\"", "search.lowest = 20000 pps is not below traffic.rate"),
        ("width = \"0 %\"", "search.width: expected more than 0 %"),
        ("verify = 3", "search.verify has no effect: no trial has search.method = binary"),
    ] {
        let bed = bed(search);
        let ended = Running::start(&bed, bed.command_of("search")).end();
        assert_eq!(ended.code, Some(2), "{search}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{search}: {}", ended.stderr);
        assert!(!bed.out().exists(), "{search}: a directory was created");
    }
}
