//! The measurement counts faults injected by a device exactly.

use super::bed::{Bed, experiment, live};

#[test]
fn counts_injected_faults_exactly() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment(
        "kind = \"skeleton\"\ndrop-every = 100\nduplicate-every = 300\nswap-every = 200",
        "rate = \"50 kpps\"",
        "duration = \"2 s\"",
    ));
    bed.run().with_code(0);
    let trial = &bed.trials()[0];
    let summary = bed.summary(trial, 0);
    let injected = |name: &str| trial["dut"][name].as_u64().unwrap();
    let found = |part: &str, name: &str| summary[part][name].as_u64().unwrap();
    assert_eq!(trial["generator"]["sent"], 100_000);
    assert_eq!(found("loss", "sent"), 100_000);
    // On a busy machine, the device's ring may overflow. The device counts these packets as lost, too.
    for (name, of_hundred_thousand) in
        [("faults_dropped", 900), ("faults_duplicated", 300), ("faults_swapped", 450)]
    {
        let least = of_hundred_thousand * injected("received") / 100_000;
        assert!(injected(name) > least, "{}", trial["dut"]);
    }
    let lost = injected("faults_dropped") + injected("dropped") + injected("failed");
    assert_eq!(found("matching", "lost"), lost, "{}", trial["dut"]);
    assert_eq!(found("matching", "matched"), 100_000 - lost);
    assert_eq!(found("matching", "duplicates_post"), injected("faults_duplicated"));
    assert_eq!(found("reordering", "reordered"), injected("faults_swapped"));
    assert_eq!(found("reordering", "extent_max"), 1, "a swapped packet is one place late");
    for zero in ["extra", "duplicates_pre", "negative", "out_of_window", "reused", "evicted"] {
        assert_eq!(found("matching", zero), 0, "{zero}");
    }
}

/// A soak, which keeps no packets, counts the same faults exactly.
#[test]
fn soak_counts_same_faults() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&experiment(
        "kind = \"skeleton\"\ndrop-every = 100\nduplicate-every = 300\nswap-every = 200",
        "rate = \"5 kpps\"",
        "duration = \"2 s\"\ncapture = \"none\"",
    ));
    bed.run().with_code(0);
    let trial = &bed.trials()[0];
    let summary = bed.summary(trial, 0);
    let injected = |name: &str| trial["dut"][name].as_u64().unwrap();
    let found = |part: &str, name: &str| summary[part][name].as_u64().unwrap();
    let lost = injected("faults_dropped") + injected("dropped") + injected("failed");
    assert_eq!((found("loss", "sent"), found("matching", "lost")), (10_000, lost));
    assert_eq!(found("matching", "duplicates_post"), injected("faults_duplicated"));
    assert_eq!(found("reordering", "reordered"), injected("faults_swapped"));
    assert!(!bed.out().join(trial["directory"].as_str().unwrap()).join("capture.pcapng.zst").exists());
}
