//! Trials with injected interference: the list of injected events, and their trace.

use std::fs;

use wiretail_capture::trace::{Event, Trace};
use wiretail_schema::causes::trace::TraceNames;
use wiretail_schema::run::interference::{
    GroundTruthReport, INTERFERENCE_FILE, Interference, InterferenceKind, KindGroundTruth,
};

use crate::run::bed::{Bed, experiment};
use crate::support::succeed;
use crate::trace::can_trace;

#[test]
fn interference_is_listed_and_traced() {
    let Some(_turn) = can_trace() else { return };
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return println!("SKIPPED: only one core: none to inject interference from");
    }
    let device =
        "kind = \"skeleton\"\nwork = \"50 us\"\ninterference = \"all\"\ninterference-every = \"5 ms\"";
    let text = experiment(device, "rate = \"1 kpps\"\npacing = \"sleep\"", "duration = \"1 s\"");
    let bed = Bed::new(&format!("{text}[trace]\nrecord = true\ncontrol = false\npage-faults = true\n"));
    bed.run().with_code(0);
    let trial = &bed.trials()[0];
    let folder = bed.out().join(trial["directory"].as_str().expect("a directory"));

    let list = fs::read_to_string(folder.join(INTERFERENCE_FILE)).expect("a list");
    let list = Interference::parse(&list).expect("injected events");
    for kind in InterferenceKind::ALL {
        let count = list.iter().filter(|one| one.kind == kind).count();
        assert!(count >= 20, "{count} of {}", kind.name());
    }
    assert!(list.is_sorted_by_key(|one| one.start_ns));
    assert!(list.iter().all(|one| one.start_ns < one.end_ns && one.pid > 0 && !one.task.is_empty()));
    let pause = list.iter().find(|one| one.kind == InterferenceKind::Pause).expect("one");
    assert!(pause.end_ns - pause.start_ns >= 300_000);

    // The kernel has recorded the senders, at the listed times.
    let mut trace = Trace::open(&folder.join("trace")).expect("a trace");
    let mut events: Vec<Event> = Vec::new();
    trace.read(|event| events.push(*event)).expect("whole");
    for kind in [InterferenceKind::Shootdown, InterferenceKind::Ipi, InterferenceKind::Hog] {
        let injected: Vec<&Interference> = list.iter().filter(|one| one.kind == kind).collect();
        let seen = injected.iter().filter(|one| {
            // A hog enters the kernel only when it leaves the core.
            let time = one.start_monotonic_ns..one.end_monotonic_ns + 500_000;
            events.iter().any(|event| event.pid == one.pid && time.contains(&event.ts_ns))
        });
        // While another task runs on the device's core, no interrupt is needed there.
        let seen = seen.count();
        assert!(seen > 0, "{}: none of {} were seen", kind.name(), injected.len());
        assert_eq!(trace.task(injected[0].pid), Some(injected[0].task.as_str()));
    }

    // The explanation of the delayed packets agrees with the list.
    let out = bed.out().display().to_string();
    let told = succeed(["explain", &out, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let ground_truth: GroundTruthReport =
        serde_json::from_value(told["trials"][0]["ground_truth"].clone()).expect("a truth");
    let sum = |count: fn(&KindGroundTruth) -> u64| ground_truth.kinds.values().map(count).sum::<u64>();
    let (packets, found, said) = (sum(|kind| kind.packets), sum(|kind| kind.found), sum(|kind| kind.said));
    // No core is isolated here. Other tasks may delay some of these packets even more, and are then reported.
    let others =
        |said: &str| ["Task ", "FairServer ", "Paused", "Burst "].iter().any(|kind| said.starts_with(kind));
    let by_others: u64 =
        ground_truth.confused.iter().filter(|one| others(&one.said)).map(|one| one.packets).sum();
    if packets - by_others < 20 {
        return println!(
            "SKIPPED in part: other tasks had the device's core most of the time: {ground_truth:?}"
        );
    }
    assert!(
        found * 10 >= (packets - by_others) * 8 && found * 10 >= said * 8,
        "{found} of {packets}: {ground_truth:?}"
    );
    for (kind, one) in ground_truth.kinds.iter().filter(|(_, one)| one.found >= 5) {
        assert!(one.is_every_sender_named(), "{}: {one:?}", kind.name());
    }
}

#[test]
fn rejects_interference_in_container() {
    let device = "kind = \"skeleton\"\ndeployment = \"container\"\ninterference = \"hog\"";
    let bed = Bed::new(&experiment(device, "rate = \"1 kpps\"", "duration = \"1 s\""));
    let finished = bed.run();
    assert!(finished.stderr.contains("set dut.deployment = \"bare\""), "{}", finished.stderr);
}
