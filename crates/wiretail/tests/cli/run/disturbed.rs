//! Trials that are disturbed on purpose: the list of what was done, and the trace of it.

use std::fs;

use wiretail_capture::trace::{Event, Trace};
use wiretail_schema::disturbance::{DISTURBANCES_FILE, Disturbance, DisturbanceKind, KindTruth, TruthReport};
use wiretail_schema::trace::TraceNames;

use super::bed::{Bed, experiment};
use crate::support::succeed;
use crate::trace::can_trace;

#[test]
fn what_disturbs_the_device_is_listed_and_seen_by_the_kernel() {
    let Some(_turn) = can_trace() else { return };
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return println!("SKIPPED: only one core: none to disturb the device's from");
    }
    let device = "kind = \"skeleton\"\nwork = \"50 us\"\ndisturb = \"all\"\ndisturb-every = \"5 ms\"";
    let text = experiment(device, "rate = \"1 kpps\"\npacing = \"sleep\"", "duration = \"1 s\"");
    let bed = Bed::new(&format!("{text}[trace]\nrecord = \"yes\"\ntwin = \"no\"\npage-faults = \"yes\"\n"));
    bed.run().with_code(0);
    let trial = &bed.trials()[0];
    let folder = bed.out().join(trial["directory"].as_str().expect("a directory"));

    let list = fs::read_to_string(folder.join(DISTURBANCES_FILE)).expect("a list");
    let list = Disturbance::parse(&list).expect("disturbances");
    for kind in DisturbanceKind::ALL {
        let count = list.iter().filter(|one| one.kind == kind).count();
        assert!(count >= 20, "{count} of {}", kind.name());
    }
    assert!(list.is_sorted_by_key(|one| one.start_ns));
    assert!(list.iter().all(|one| one.start_ns < one.end_ns && one.pid > 0 && !one.task.is_empty()));
    let pause = list.iter().find(|one| one.kind == DisturbanceKind::Pause).expect("one");
    assert!(pause.end_ns - pause.start_ns >= 300_000);

    // The kernel has written down those who interrupt, at the time that they say.
    let mut trace = Trace::open(&folder.join("trace")).expect("a trace");
    let mut events: Vec<Event> = Vec::new();
    trace.read(|event| events.push(*event)).expect("whole");
    for kind in [DisturbanceKind::Shootdown, DisturbanceKind::Ipi, DisturbanceKind::Hog] {
        let planted: Vec<&Disturbance> = list.iter().filter(|one| one.kind == kind).collect();
        let seen = planted.iter().filter(|one| {
            // A hog has nothing to do with the kernel before it leaves.
            let time = one.start_monotonic_ns..one.end_monotonic_ns + 500_000;
            events.iter().any(|event| event.pid == one.pid && time.contains(&event.ts_ns))
        });
        // While somebody else runs on the device's core, nobody there has to be interrupted.
        let seen = seen.count();
        assert!(seen > 0, "{}: none of {} were seen", kind.name(), planted.len());
        assert_eq!(trace.task(planted[0].pid), Some(planted[0].task.as_str()));
    }

    // And what is told of the packets that it delayed is so.
    let out = bed.out().display().to_string();
    let told = succeed(["explain", &out, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let truth: TruthReport = serde_json::from_value(told["trials"][0]["truth"].clone()).expect("a truth");
    let sum = |count: fn(&KindTruth) -> u64| truth.kinds.values().map(count).sum::<u64>();
    let (packets, found, said) = (sum(|kind| kind.packets), sum(|kind| kind.found), sum(|kind| kind.said));
    // Nobody is kept off the cores here: others delay some of these packets even more, and are named.
    let others =
        |said: &str| ["Task ", "FairServer ", "Paused", "Burst "].iter().any(|kind| said.starts_with(kind));
    let by_others: u64 = truth.confused.iter().filter(|one| others(&one.said)).map(|one| one.packets).sum();
    if packets - by_others < 20 {
        return println!("SKIPPED in part: others had the device's core most of the time: {truth:?}");
    }
    assert!(
        found * 10 >= (packets - by_others) * 8 && found * 10 >= said * 8,
        "{found} of {packets}: {truth:?}"
    );
    for (kind, one) in truth.kinds.iter().filter(|(_, one)| one.found >= 5) {
        assert!(one.is_every_sender_named(), "{}: {one:?}", kind.name());
    }
}

#[test]
fn what_can_not_be_disturbed_is_refused() {
    let device = "kind = \"skeleton\"\ndeployment = \"container\"\ndisturb = \"hog\"";
    let bed = Bed::new(&experiment(device, "rate = \"1 kpps\"", "duration = \"1 s\""));
    let finished = bed.run();
    assert!(finished.stderr.contains("set dut.deployment = \"bare\""), "{}", finished.stderr);
}
