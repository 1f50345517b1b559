//! If a device does not start, does not become ready, or dies, its trial fails and reports the reason. The
//! other trials continue.

use std::process::Command;

use crate::run::bed::{Bed, experiment, forwarder, live};
use crate::run::host;

fn reasons(trial: &serde_json::Value) -> String {
    let reasons = trial["reasons"].as_array().expect("reasons").iter();
    reasons.map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

#[test]
fn failing_programs_do_not_end_run() {
    let Some(_alone) = live() else { return };
    let dut = format!(
        "kind = \"command\"\nready = \"forwarding from\"\nready-timeout = \"2 s\"\n\
         command = [\"sh -c 'echo cannot find port 7; exit 3'\", \"sh -c 'echo starting; exec sleep 60'\",\n\
         \"/nonexistent/program\", \"{}\"]",
        forwarder("")
    );
    let bed = Bed::new(&experiment(&dut, "rate = \"1 kpps\"", "duration = \"200 ms\""));
    let finished = bed.run().with_code(1);
    let trials = bed.trials();
    let states: Vec<_> = trials.iter().map(|trial| trial["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "failed", "valid"]);
    let [exits, hangs, missing, works] = &trials[..] else { panic!("four trials") };
    let said = reasons(exits);
    assert!(said.contains("exit status: 3") && said.contains("cannot find port 7"), "{said}");
    let said = reasons(hangs);
    assert!(said.contains("did not print \"forwarding from\" within 2s"), "{said}");
    assert!(said.contains("\n    starting"), "its last lines: {said}");
    let said = reasons(missing);
    assert!(said.contains("exit status: 127") && said.contains("/nonexistent/program"), "{said}");
    assert_eq!(works["generator"]["sent"], 200);
    // The program's output is also on the terminal and in the report.
    assert!(finished.stderr.contains("cannot find port 7"), "{}", finished.stderr);
    let report = std::fs::read_to_string(bed.out().join("report.html")).unwrap();
    assert!(report.contains("cannot find port 7"));
}

#[test]
fn reports_program_that_forwards_nothing() {
    let Some(_alone) = live() else { return };
    let dut = "kind = \"command\"\ncommand = \"sleep 60\"\nready-timeout = \"500 ms\"";
    let text = experiment(dut, "rate = \"1 kpps\"", "duration = \"200 ms\"");
    let bed = Bed::new(&text.replace("retries = 0", "retries = 1"));
    bed.run().with_code(1);
    let trial = &bed.trials()[0];
    assert_eq!((&trial["state"], &trial["retries"]), (&"failed".into(), &1.into()));
    assert!(reasons(trial).contains("no probe crossed it"), "{}", reasons(trial));
    // The files of the first attempt are kept.
    let directory = trial["directory"].as_str().unwrap();
    assert!(bed.out().join(format!("{directory}.attempt1/dut.log")).exists());
}

#[test]
fn impossible_load_ends() {
    let Some(_alone) = live() else { return };
    let traffic = "rate = \"100 Mpps\"";
    let bed = Bed::new(&experiment("kind = \"wire\"", traffic, "duration = \"1 s\"\ncapture = \"none\""));
    bed.run().with_code(1);
    let trial = &bed.trials()[0];
    assert_eq!(trial["state"], "failed");
    assert!(reasons(trial).contains("the load generator did not keep up"), "{}", reasons(trial));
}

#[test]
fn killed_device_ends_only_its_trial() {
    let Some(_alone) = live() else { return };
    let dut = format!(
        "kind = [\"command\", \"bridge\"]\nready = \"forwarding from\"\ncommand = \"{}\"",
        forwarder("--batch 31")
    );
    let bed = Bed::new(&experiment(&dut, "rate = \"1 kpps\"", "duration = \"3 s\""));
    let mut run = bed.start();
    let is_ready = |bed: &Bed| {
        let log = std::fs::read_to_string(bed.out().join("trials/0001-command/dut.log"));
        log.is_ok_and(|log| log.contains("forwarding from"))
    };
    run.until("the program is ready", is_ready);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let children = host::children(run.pid);
    assert_eq!(children.len(), 1, "the program");
    let line = std::fs::read(format!("/proc/{}/cmdline", children[0])).expect("a process");
    assert!(String::from_utf8_lossy(&line).contains("--batch\x0031"));
    let killed = Command::new("kill").args(["-KILL", &children[0].to_string()]).status();
    assert!(killed.expect("kill").success());
    let begun = std::time::Instant::now();
    run.until_trials(1);
    assert!(begun.elapsed().as_secs() < 10, "the trial ends early");
    run.end().with_code(1);
    let trials = bed.trials();
    let said = reasons(&trials[0]);
    assert_eq!(trials[0]["state"], "failed", "{said}");
    assert!(said.contains("the program ended unexpectedly (signal: 9"), "{said}");
    assert!(said.contains("forwarding from in to out"), "its last lines: {said}");
    assert_eq!(trials[1]["state"], "valid", "{}", trials[1]["reasons"]);
}
