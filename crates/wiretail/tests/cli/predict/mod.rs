//! `wiretail predict` with the published example, synthetic numbers and a run directory; rejected inputs.

mod queueing;
mod queueing_runs;
mod tail;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{fail, folder, succeed, synth};

fn predict(arguments: &[&str]) -> Value {
    let all = ["predict"].iter().chain(arguments).chain(&["--json"]);
    serde_json::from_str(&succeed(all)).expect("JSON")
}

fn refused(arguments: &[&str]) -> String {
    fail(["predict"].iter().chain(arguments))
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kpi/capacity-snort.toml")
}

#[test]
fn reproduces_published_capacities_from_published_medians() {
    let file = example().display().to_string();
    let text = succeed(["predict", "capacity", "--from", &file]);
    println!("{text}");
    let found = predict(&["capacity", "--from", &file]);
    let deployments = found["deployments"].as_array().unwrap();
    // The published values: interrupt time in us per second, and R_max in kpps.
    let published = [(2949.9, 87.4), (8891.6, 78.7), (2949.9, 69.7), (8891.6, 65.6)];
    assert_eq!(deployments.len(), published.len());
    for (deployment, (interrupts_us, max_kpps)) in deployments.iter().zip(published) {
        let number = |name: &str| deployment["capacity"][name]["value"].as_f64().unwrap() / 1e3;
        assert!((number("interrupts_ns") - interrupts_us).abs() < 0.05, "{deployment}");
        assert!((number("max_pps") - max_kpps).abs() < 0.1, "{deployment}");
    }
    let judged: Vec<&str> =
        deployments.iter().map(|found| found["against"]["judgement"].as_str().unwrap()).collect();
    assert_eq!(judged, ["inside", "lower-bound", "inside", "inside"]);
    assert_eq!(text.matches("correct: overloaded between").count(), 3, "{text}");
    assert_eq!(text.matches("a lower bound: the device still carried 80 kpps").count(), 1, "{text}");
    assert!(text.contains("2949.9 µs/s") && text.contains("8891.6 µs/s"), "{text}");
    let folder = folder();
    let page = page(&["capacity", "--from", &file], folder.path());
    assert_eq!(page.matches("<strong>RIGHT</strong>").count(), 3);
    assert!(
        page.contains("<strong>LOWER BOUND</strong>") && page.contains("Error: \u{2212}1.7\u{a0}%."),
        "errors"
    );
}

/// Returns the page that a command writes.
fn page(arguments: &[&str], folder: &Path) -> String {
    let file = folder.join("page.html").display().to_string();
    let more = ["--report", file.as_str()];
    succeed(["predict"].iter().chain(arguments).chain(&more));
    std::fs::read_to_string(&file).expect("a page")
}

#[test]
fn predicts_capacity_from_options_and_rejects_invalid_inputs() {
    let medians = ["capacity", "--dut-median", "13us", "--forwarder-median", "3us"];
    let with = |more: &[&'static str]| -> Vec<&str> { medians.iter().chain(more).copied().collect() };
    let max = |found: &Value| found["deployments"][0]["capacity"]["max_pps"].clone();
    let found = predict(&with(&["--interrupt", "LOC 250/s 4us", "--interrupt", "IWI 100/s 10us"]));
    assert_eq!(max(&found)["value"], 99_800.0);
    assert_eq!((max(&predict(&medians))["value"].as_f64(), Some(1e5)), (Some(1e5), Some(1e5)));
    let counted = max(&predict(&with(&["--interrupt", "LOC 7500/30s 4us"])));
    assert_eq!(counted["value"], 99_900.0);
    assert!(counted["low"].as_f64() < Some(99_900.0) && counted["high"].as_f64() > Some(99_900.0));
    let text = succeed(["predict"].iter().chain(&with(&["--overload", "80kpps..90kpps"])));
    assert!(text.contains("off: the device was already overloaded at 90 kpps"), "{text}");

    assert!(refused(&["capacity"]).contains("no inputs"));
    let slower = refused(&["capacity", "--dut-median", "3us", "--forwarder-median", "3.2us"]);
    assert!(slower.contains("not below the device's (3 us)"), "{slower}");
    let all = refused(&with(&["--interrupt", "LOC 1000/s 1ms"]));
    assert!(all.contains("no time for packets"), "{all}");
}

/// Creates a run directory with an analyzed forwarder (trial 1) and an analyzed device (trial 2) with
/// interrupt counters.
fn run_directory(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    let trial = |number: u64, base: &str| {
        let directory = format!("trials/{number}");
        let (pre, post, _) = synth(folder, &["--packets", "20k", "--base", base, "--stall-share", "0"]);
        let out = run.join(&directory);
        succeed([Path::new("analyze"), Path::new("-q"), &pre, &post, Path::new("--out"), &out]);
        let interrupt = |cpu: u32, name: &str, count: u64| json!({"cpu": cpu, "name": name, "count": count});
        json!({
            "number": number, "repeat": 1, "name": format!("trial{number}"), "directory": directory, "state": "valid",
            "reasons": [], "notes": [], "retries": 0, "settings": [], "dut": null, "taps": [],
            "generator": {"offered_pps": 10_000, "sent": 20_000, "sent_bytes": 0, "failed": 0, "late": 0,
                          "late_limit_ns": 0, "lateness_ns": [0, 0, 0, 0]},
            "segments": [{"name": "forward", "pre": "a", "post": "b", "directory": directory, "analysed": true}],
            "stalls": {"threshold_ns": 0, "causes": [], "longest": []}, "calibration": null, "accounting": null,
            "interrupts": [interrupt(0, "Local timer interrupts (LOC)", 9),
                           interrupt(1, "Local timer interrupts (LOC)", 500),
                           interrupt(1, "TLB shootdowns (TLB)", 20)],
        })
    };
    std::fs::create_dir_all(&run).unwrap();
    let trials = [trial(1, "3us"), trial(2, "13us")];
    let host = json!({"realtime_kernel": false, "hypervisor": false, "mitigations": []});
    let manifest = json!({"schema": "wiretail.run/1", "wiretail_version": "0", "title": "t", "seed": 1, "started_s": 0,
                          "trials_planned": 2, "factors": [], "host": host, "trials": trials});
    std::fs::write(run.join("manifest.json"), manifest.to_string()).unwrap();
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/quickstart.toml"),
        run.join("experiment.resolved.toml"),
    )
    .unwrap();
    run
}

#[test]
fn predicts_capacity_from_run_with_counters_or_trace() {
    let folder = folder();
    let run = run_directory(folder.path());
    let shown = run.display().to_string();
    let trials = ["capacity", "--run", &shown, "--dut", "2", "--forwarder", "1"];
    let with =
        |more: &[&'static str]| -> Vec<&str> { trials.iter().copied().chain(more.iter().copied()).collect() };

    let untraced = refused(&trials);
    assert!(untraced.contains("was not traced"), "{untraced}");
    assert!(refused(&with(&["--interrupt-cost", "LOC=4us"])).contains("cores 0, 1; select"));
    let missing = refused(&with(&["--interrupt-cost", "LOC=4us", "--cpu", "1"]));
    assert!(missing.contains("also interrupted by TLB shootdowns (TLB)"), "{missing}");
    assert!(
        refused(&["capacity", "--run", &shown, "--dut", "7", "--forwarder", "1"]).contains("has no trial 7")
    );

    let costs = ["--interrupt-cost", "LOC=4us", "--interrupt-cost", "TLB=100us", "--cpu", "1"];
    let found = &predict(&with(&costs))["deployments"][0];
    let capacity = &found["capacity"];
    // In 2 s, interrupts of 4 us occur at 250 per second, and interrupts of 100 us at 10 per second.
    assert_eq!(capacity["interrupts_ns"]["value"], 2_000_000.0);
    let cpu = &capacity["cpu_ns"];
    assert!((cpu["value"].as_f64().unwrap() - 10_000.0).abs() < 200.0, "{cpu}");
    assert!(cpu["low"].as_f64() < cpu["value"].as_f64() && cpu["high"].as_f64() > cpu["value"].as_f64());
    let max = &capacity["max_pps"];
    assert!(max["low"].as_f64() < max["value"].as_f64() && max["high"].as_f64() > max["value"].as_f64());

    let rests = &found["inputs"]["basis"]["dut"];
    assert!(rests["trial"] == "2 (trial2)" && rests["packets"].as_u64() > Some(19_000), "{rests}");
    assert_eq!(found["searched"], json!([]));

    // The device's trial belongs to a search: R_max, 99.8 kpps, is compared with its result.
    let goal = |kind: Value, lower: Value, upper: Value| json!({"goal": kind, "ending": "found", "lower": lower, "upper": upper, "forwarded_pps": null, "reason": ""});
    let loss = |ratio: f64| json!({"kind": "loss", "ratio": ratio});
    let search = |number: u64, trial: u64, goals: Vec<Value>| {
        json!({"number": number, "repeat": 1, "name": format!("search{number}"), "settings": [], "goals": goals,
               "effort": {"method": "binary", "over": "rate", "lowest": 1, "highest": 200_000, "width": 0.01, "full_ns": 1,
                          "first_ns": 1, "trials": 1, "exceed": 0.0, "verify": 0, "stretch": 0.0},
               "trials": [{"number": trial, "load": 1, "duration_ns": 1, "invalid": [], "sent": 1, "lost": 0,
                           "stretch": 0.0, "missed": [], "poor": []}],
               "sending_s": 1.0, "elapsed_s": 1.0, "complete": true})
    };
    let goals = vec![
        goal(loss(0.0), json!(125_000), json!(126_000)),
        goal(loss(0.005), json!(90_000), json!(110_000)),
        goal(loss(0.01), Value::Null, json!(80_000)),
        goal(loss(0.02), json!(80_000), Value::Null),
        // Delays increase before the device is overloaded, so this goal is not comparable with the capacity.
        goal(
            json!({"kind": "delay", "budget": "1us@9%", "limit_ns": 1, "percentile": 9.0}),
            json!(1),
            json!(2),
        ),
    ];
    let other = vec![goal(loss(0.0), json!(1), json!(2))];
    let searches = json!({"schema": "wiretail.search/1", "wiretail_version": "0", "title": "t", "seed": 1, "started_s": 0,
                          "factors": [], "searches_planned": 2,
                          "searches": [search(1, 1, other), search(2, 2, goals)]});
    std::fs::write(run.join("search.json"), searches.to_string()).unwrap();
    let document = predict(&with(&costs));
    let found = &document["deployments"][0];
    let max = found["capacity"]["max_pps"]["value"].as_f64().unwrap();
    let searched = found["searched"].as_array().unwrap();
    let judged: Vec<&Value> = searched.iter().map(|validation| &validation["judgement"]).collect();
    assert_eq!(judged, [&json!("lower-bound"), &json!("inside"), &json!("off"), &Value::Null]);
    for (validation, bound) in searched.iter().zip([Some(125_000.0), Some(max), Some(80_000.0), None]) {
        let expected = bound.map(|bound| max / bound - 1.0);
        let close = |error: f64| (error - expected.unwrap()).abs() < 1e-9;
        assert!(validation["error"].as_f64().map_or(expected.is_none(), close), "{validation}");
    }
    let text = succeed(["predict"].iter().chain(&with(&costs)));
    assert!(text.contains("COMPARISON WITH SEARCH RESULTS") && text.contains("met at 125"), "{text}");
    let page = page(&with(&costs), folder.path());
    assert!(page.contains("trial 2 (trial2)") && page.contains("<strong>OPEN</strong>"), "{page}");

    // The trial is traced, so only the causes that take the core from the device are included.
    let cause = |kind: &str, events: u64, total_ns: u64| {
        json!({"kind": kind, "name": "", "events": events, "total_ns": total_ns, "tail_packets": 0,
               "tail_ns": [0, 0, 0], "tail_queued_ns": 0, "longest_ns": 0, "without_ns": []})
    };
    let evidence = json!({"core": 1, "events": 1, "duration_ns": 2_000_000_000_u64, "clock_uncertainty_ns": 0,
                          "windows_lost": 0, "packets_in_lost": 0, "stacks": false, "calibration": [],
                          "logs_stalls": false, "remarks": []});
    let causes =
        [cause("timer", 500, 2_000_000), cause("device", 10, 900_000_000), cause("burst", 10, 900_000_000)];
    let explanation = json!({"schema": "wiretail.explanation/1", "wiretail_version": "0", "trial": "trial2", "segment": "forward",
                             "packets": 1, "baseline_ns": 1, "tail_packets": 0, "tail_above_ns": 0, "tail_lost_ns": 0,
                             "tail_unknown_ns": 0, "percentiles": [], "causes": causes, "senders": [], "worst": [],
                             "evidence": evidence});
    std::fs::write(run.join("trials/2/explanation.json"), explanation.to_string()).unwrap();
    let found = &predict(&trials)["deployments"][0];
    assert_eq!(found["capacity"]["interrupts_ns"]["value"], 1_000_000.0);
    assert_eq!(found["inputs"]["interrupts"].as_array().unwrap().len(), 1);
}

#[test]
fn simulates_interrupts_and_compares_with_measurement() {
    let folder = folder();
    let step = ["interrupts", "--rate", "10kpps", "--interrupt", "tick 250Hz 12us 97us", "--packets", "4000"];
    let found = predict(&step);
    assert_eq!((&found["outcome"]["late"], &found["outcome"]["max_wait_ns"]), (&json!(100), &json!(9000.0)));
    assert_eq!(found["outcome"]["beats"][0]["beat_hz"], 0.0);
    assert_eq!(found["sensitivity"].as_array().unwrap().len(), 6);

    let (pre, post, _) = synth(folder.path(), &["--packets", "20k"]);
    let (figure, pre, post) = (
        folder.path().join("waits.svg").display().to_string(),
        pre.display().to_string(),
        post.display().to_string(),
    );
    let drawn =
        ["interrupts", "--rate", "10052pps", "--interrupt", "250Hz 12us", "--interrupt", "0.1/s 600us"];
    let with = |more: &[&str]| -> Vec<String> {
        ["predict"].iter().chain(&drawn).chain(more).map(|word| (*word).to_owned()).collect()
    };
    let text = succeed(with(&["--figure", &figure, &pre, &post]));
    assert!(text.contains("52.0000 Hz") && text.contains("MEASURED: 20"), "{text}");
    let svg = std::fs::read_to_string(&figure).unwrap();
    assert!(svg.contains("<svg") && svg.contains("measured") && svg.contains("simulated"));
    let paged: Vec<&str> = drawn.iter().copied().chain([pre.as_str(), post.as_str()]).collect();
    let page = page(&paged, folder.path());
    assert!(page.contains("Predicted and measured") && page.contains("data-figure=\"interrupt-sampling\""));
    assert!(text.contains("longest wait") && text.contains("simulated"), "{text}");
    // The same seed gives the same result. Another seed gives other phases.
    let seeded = |seed: &str| succeed(with(&["--json", "--seed", seed]));
    assert_eq!(seeded("7"), seeded("7"));
    assert_ne!(seeded("7"), seeded("8"));

    let slow = ["interrupts", "--rate", "10kpps", "--interrupt", "250Hz 12us", "--service", "101us"];
    let text = succeed(["predict"].iter().chain(&slow));
    assert!(text.contains("OVERLOADED") && text.contains("it serves at most 9.871"), "{text}");
    let all = refused(&["interrupts", "--rate", "10kpps", "--interrupt", "250Hz 4ms"]);
    assert!(all.contains("leaves no time"), "{all}");
    let long = refused(&["interrupts", "--rate", "1pps", "--interrupt", "1000000Hz 0us"]);
    assert!(long.contains("reduce --packets"), "{long}");
}
