//! `wiretail explain` on synthetic captures, and on the published ones if available.

use std::path::Path;

use crate::support::{fail, folder, shared_captures, succeed, synth};

fn explain(pair: &Path, options: &[&str]) -> serde_json::Value {
    let (pre, post, irq) = (pair.join("pre.pcap.zst"), pair.join("post.pcap.zst"), pair.join("irq.csv"));
    let mut arguments: Vec<String> = vec!["explain".to_owned(), "--json".to_owned(), "--quiet".to_owned()];
    arguments.extend([&pre, &post].map(|path| path.display().to_string()));
    arguments.extend(["--irq".to_owned(), irq.display().to_string()]);
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    serde_json::from_str(&succeed(arguments)).expect("JSON")
}

#[test]
fn finds_shootdowns_and_recurrence_by_packets() {
    let Some(captures) = shared_captures() else { return };
    let found = explain(&captures.join("snort-filter-nohz-tlbshootdown-vm"), &["--cpu", "1"]);
    let at_ms: Vec<i64> = found["stalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stall| stall["at_ns"].as_i64().unwrap() / 1_000_000)
        .collect();
    assert_eq!(at_ms, [1042, 11_283]);
    let best = &found["interrupts"]["alignments"][0];
    assert_eq!(best["name"], "TLB shootdowns (TLB)");
    assert_eq!((best["explained"].as_array().unwrap().len(), best["unmatched"].as_u64()), (2, Some(0)));
    let offset = |name: &str| best[name].as_f64().unwrap();
    assert!(offset("offset_low_s") > 39.9 && offset("offset_high_s") < 40.8, "{best}");
    assert!(best["exact"] == true && (0.02..0.2).contains(&offset("chance")), "{best}");

    // Snort does nothing at regular times here. In both of its captures, the period of every pattern is a
    // whole number of packets.
    let recurrences = found["periodicity"]["recurrences"].as_array().unwrap();
    assert!(recurrences.iter().all(|found| found["follows"] == "packets"), "{recurrences:?}");
    let weak = recurrences.iter().find(|found| found["period_packets"] == 128.0).expect("the weak one");
    let residues = weak["residues"].as_array().unwrap();
    let zero = |residue: &&serde_json::Value| residue["residue"] == 0;
    assert_eq!(residues.iter().filter(zero).count(), 2, "{residues:?}");
    assert!(weak["clock"].is_null());
}

#[test]
fn reports_core_without_interrupts() {
    let Some(captures) = shared_captures() else { return };
    let found = explain(&captures.join("dpdk-l2fwd-nohz-hw"), &[]);
    let cpus = found["interrupts"]["cpus"].as_array().unwrap();
    let silent: Vec<u64> = cpus
        .iter()
        .filter(|cpu| cpu["rising"].as_array().unwrap().is_empty())
        .map(|cpu| cpu["cpu"].as_u64().unwrap())
        .collect();
    assert_eq!(silent, [1]);
    assert!(found["stalls"].as_array().unwrap().is_empty());
    // The driver's batch of 32 descriptors. The only clock is the period of one second of the counter
    // readings.
    let recurrences = found["periodicity"]["recurrences"].as_array().unwrap();
    assert_eq!(
        (&recurrences[0]["period_packets"], &recurrences[0]["follows"]),
        (&32.0.into(), &"packets".into())
    );
    for clock in recurrences.iter().filter(|found| found["follows"] == "clock") {
        assert_eq!(clock["clock"], "the reading of the interrupt counters", "{clock}");
    }
}

#[test]
fn text_has_results_and_errors_have_next_step() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "20k", "--stall-share", "0"]);
    let irq = folder.path().join("irq.csv");
    std::fs::write(&irq, "timestamp_us;LOC_Local_timer_interrupts_CPU3\n0;5\n1000000;5\n2000000;5\n")
        .unwrap();
    let shown = |path: &Path| path.display().to_string();
    let with = |more: &[&str]| {
        let mut arguments = vec!["explain".to_owned(), "-q".to_owned(), shown(&pre), shown(&post)];
        arguments.extend(more.iter().map(|option| (*option).to_owned()));
        arguments
    };
    let text = succeed(with(&["--irq", &shown(&irq)]));
    assert!(text.contains("CPU 3: no interrupts"), "{text}");
    assert!(text.contains("REGULAR PATTERNS"), "{text}");
    let error = fail(with(&["--irq", &shown(&irq), "--cpu", "9"]));
    assert!(error.contains("no counter of CPU 9"), "{error}");
    std::fs::write(&irq, "a,b\n1,2\n").unwrap();
    let error = fail(with(&["--irq", &shown(&irq)]));
    assert!(error.contains("irq.csv") && error.contains("timestamp_us"), "{error}");
    let error = fail(with(&["--above", "0s"]));
    assert!(error.contains("--above"), "{error}");
}
