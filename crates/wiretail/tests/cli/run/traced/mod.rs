//! Traced trials: their files, their controls, and no traces left in the kernel.

mod interfered;
mod untraceable;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wiretail_capture::trace::{Event, Kind, Trace};
use wiretail_host::{Journal, Step, name_prefix};
use wiretail_schema::causes::trace::{ROLES_FILE, TraceNames, TraceRoles};

use crate::run::bed::{Bed, experiment};
use crate::support::{folder, succeed};
use crate::trace::can_trace;

/// An experiment with a traced skeleton that polls.
fn traced(duration: &str) -> String {
    let traffic = "rate = \"5 kpps\"\npattern = \"poisson\"\npacing = \"sleep\"";
    let text = experiment("kind = \"skeleton\"", traffic, &format!("duration = \"{duration}\""));
    format!("{text}[trace]\nrecord = true\npage-faults = true\n")
}

/// Whether the tracing file system has no instance of a run of this process.
fn nothing_is_traced_by(pid: u32) -> bool {
    let folder = folder();
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let instance = |what: &str| Step::AddTraceInstance { name: format!("{}0-{what}", name_prefix(pid)) };
    let free = ["events", "sends"].map(|what| journal.apply(&instance(what)).is_ok());
    journal.undo_all().expect("undone");
    free == [true; 2]
}

/// Whether this directory has a recording of the trial.
fn has_pages(trial: &Path) -> bool {
    let files = fs::read_dir(trial.join("trace")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let is_raw = file.path().extension().is_some_and(|extension| extension == "raw");
        is_raw && file.metadata().is_ok_and(|file| file.len() > 0)
    })
}

fn trial(bed: &Bed, record: &Value) -> PathBuf {
    bed.out().join(record["directory"].as_str().expect("a directory"))
}

#[test]
fn traced_trial_has_trace_and_control() {
    let Some(_turn) = can_trace() else { return };
    let bed = Bed::new(&traced("1 s"));
    let run = bed.start();
    let pid = run.pid;
    run.end().with_code(0);
    assert!(nothing_is_traced_by(pid));
    let trials = bed.trials();
    assert_eq!(bed.manifest()["factors"], serde_json::json!(["dut.kind", "trace.record"]));
    let [first, control] = &trials[..] else { panic!("{} trials", trials.len()) };
    assert_eq!((&first["name"], &control["name"]), (&"skeleton".into(), &"skeleton-untraced".into()));
    // The number is determined by the seed. With another seed, it would differ by about seventy.
    assert_eq!(first["generator"]["sent"], control["generator"]["sent"]);
    assert!(!trial(&bed, control).join("trace").exists());

    let folder = trial(&bed, first).join("trace");
    let roles = fs::read(folder.join(ROLES_FILE)).expect("the roles");
    let roles: TraceRoles = serde_json::from_slice(&roles).expect("roles");
    assert_eq!((roles.polls, roles.fifo, roles.batch), (true, false, 1));
    let mut trace = Trace::open(&folder).expect("a trace");
    let mut events: Vec<Event> = Vec::new();
    trace.read(|event| events.push(*event)).expect("whole");
    let [thread] = &roles.threads[..] else { panic!("{:?}", roles.threads) };
    let on_core: Vec<&Event> = events.iter().filter(|event| u32::from(event.cpu) == roles.core).collect();
    assert!(on_core.iter().any(|event| event.pid == *thread), "the skeleton's thread is interrupted");
    assert_eq!(trace.task(*thread), Some("wiretail"));

    let (spin, info) = (roles.spin.expect("a spin"), trace.info());
    assert!(spin.core == roles.core && spin.thread != *thread);
    assert!(info.start_ns < spin.span.from_ns && spin.span.to_ns < info.end_ns);
    let within = |event: &Event| (spin.span.from_ns..spin.span.to_ns).contains(&event.ts_ns);
    let spun: Vec<&Event> = on_core.into_iter().filter(|event| within(event)).collect();
    assert!(spun.iter().any(|event| event.pid == spin.thread));
    for function in ["flush_tlb_func", "ipi_mb"] {
        let is_call = |event: &&&Event| event.kind == Kind::CsdEntry;
        let mut called = spun.iter().filter(is_call).filter_map(|event| trace.function(event.args[0]));
        assert!(called.any(|name| name == function), "{function} was provoked");
    }
    assert!(spin.page_fault_ns.is_some_and(|ns| ns > 0) && !spin.gaps.is_empty());

    for record in &trials {
        let rose = record["interrupts"].as_array().expect("a list");
        let timer = rose.iter().find(|delta| {
            delta["cpu"] == roles.core && delta["name"].as_str().is_some_and(|name| name.contains("(LOC)"))
        });
        assert!(timer.is_some_and(|delta| delta["count"].as_u64() > Some(0)), "{rose:?}");
    }
}

#[test]
fn interrupted_trial_leaves_no_tracing() {
    let Some(_turn) = can_trace() else { return };
    let bed = Bed::new(&traced("20 s"));
    let mut run = bed.start();
    let pid = run.pid;
    run.until("it is traced", |bed| has_pages(&bed.out().join("trials/0001-skeleton")));
    assert!(!nothing_is_traced_by(pid), "the checked names are correct");
    run.signal("-INT");
    run.end().with_code(130);
    assert!(nothing_is_traced_by(pid));
}

#[test]
fn plan_shows_tracing() {
    let bed = Bed::new(&traced("1 s"));
    let file = bed.path("test.toml").display().to_string();
    let plan = succeed(["run", &file, "--dry-run"]);
    assert!(plan.contains("2 trials") && plan.contains("add trace instance wt-RUN-events"), "{plan}");
    fs::write(&file, traced("1 s").replace("[trial]", "[trial]\ncapture = \"none\""))
        .expect("the experiment");
    let plan = succeed(["run", &file, "--dry-run"]);
    assert!(plan.contains("fails, trace.record = true requires the packets of the trial"), "{plan}");
}
