//! `wiretail explain RUN` and `wiretail report RUN` with damaged run directories: one clear line, and never a
//! panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wiretail_schema::random::Random;

use crate::run::bed::{Bed, experiment};
use crate::support::{WIRETAIL, fail, folder, succeed, synth};
use crate::trace::can_trace;

/// A program that takes longer is considered hung.
const SECONDS: &str = "60";

/// A traced run, and damaged copies of it.
struct Original {
    bed: Bed,
    copies: tempfile::TempDir,
}

impl Original {
    fn new() -> Self {
        let traffic = "rate = \"2 kpps\"\npacing = \"sleep\"";
        let text = experiment("kind = \"skeleton\"", traffic, "duration = \"500 ms\"");
        let bed = Bed::new(&format!("{text}[trace]\nrecord = true\ncontrol = false\n"));
        bed.run().with_code(0);
        Self { bed, copies: folder() }
    }

    /// Copies the run; returns the directories of the copy and of its only trial.
    fn copy(&self, name: &str) -> (PathBuf, PathBuf) {
        let run = self.copies.path().join(name);
        let status = Command::new("cp").arg("-r").arg(self.bed.out()).arg(&run).status();
        assert!(status.expect("cp").success());
        let trials = fs::read_dir(run.join("trials")).expect("trials");
        let trial = trials.map(|entry| entry.expect("a trial").path()).next().expect("a trial");
        (run, trial)
    }
}

fn explain(run: &Path) -> String {
    fail(["explain".as_ref(), "-q".as_ref(), run.as_os_str()])
}

/// Checks that the message is one line that names this file.
fn assert_clear(message: &str, file: &Path, expected: &str) {
    assert!(message.starts_with("wiretail: ") && message.contains(&file.display().to_string()), "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(message.trim_end().lines().count() == 1 && !message.contains("panicked"), "{message}");
}

#[test]
fn rejects_damaged_traced_run_in_one_line() {
    let Some(_turn) = can_trace() else { return };
    let original = Original::new();
    let (run, _) = original.copy("whole");
    succeed(["explain".as_ref(), run.as_os_str()]);

    let damaged = |name: &str, file: &str, damage: &dyn Fn(&Path), expected: &str| {
        let (run, trial) = original.copy(name);
        let file = trial.join(file);
        damage(&file);
        assert_clear(&explain(&run), &file, expected);
    };
    let remove = |file: &Path| fs::remove_file(file).expect("removed");
    let write = |text: &'static str| move |file: &Path| fs::write(file, text).expect("written");
    let change = |from: &'static str, to: &'static str| {
        move |file: &Path| {
            let text = fs::read_to_string(file).expect("a document");
            assert!(text.contains(from), "{text}");
            fs::write(file, text.replacen(from, to, 1)).expect("written");
        }
    };
    let roles = "trace/roles.json";
    damaged("no-roles", roles, &remove, "cannot be read; expected the roles");
    damaged("roles-text", roles, &write("not JSON"), "not a file with the roles");
    damaged(
        "roles-schema",
        roles,
        &change("trace-roles/1", "trace-roles/9"),
        "expected wiretail.trace-roles/1",
    );
    let document = "trace/trace.json";
    damaged("document-text", document, &write("{}"), "is this the folder that `wiretail trace --out` wrote?");
    damaged("document-schema", document, &change("wiretail.trace/1", "wiretail.trace/9"), "wiretail.trace/1");
    let (run, trial) = original.copy("clock");
    change("\"clock_stepped\": false", "\"clock_stepped\": true")(&trial.join(document));
    assert_clear(&explain(&run), &trial.join("trace"), "and repeat the measurement");

    // The trace of another trial, which is intact but was recorded at another time.
    let (run, trial) = original.copy("foreign");
    let text = fs::read_to_string(trial.join(document)).expect("a document");
    let mut foreign: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for clock in ["clock_before", "clock_after"] {
        let offset_ns = foreign[clock]["offset_ns"].as_i64().expect("an offset");
        foreign[clock]["offset_ns"] = (offset_ns - 60_000_000_000).into();
    }
    fs::write(trial.join(document), foreign.to_string()).expect("written");
    assert_clear(&explain(&run), &trial.join("trace"), "this trace belongs to another trial");
    let message = fail(["explain".as_ref(), run.as_os_str(), "--trial".as_ref(), "99".as_ref()]);
    assert_clear(&message, &run, "no analyzed packets of trial 99 of this run");

    // A trace file that is truncated, missing, or of another kind.
    let (run, trial) = original.copy("cut");
    let raw = largest_raw(&trial.join("trace"));
    let pages = fs::read(&raw).expect("pages");
    fs::write(&raw, &pages[..pages.len() - 100]).expect("written");
    assert_clear(&explain(&run), &raw, "copy or record the trace again");
    fs::write(&raw, vec![0xff; pages.len()]).expect("written");
    assert_clear(&explain(&run), &raw, "copy or record the trace again");
    fs::remove_file(&raw).expect("removed");
    assert_clear(&explain(&run), &raw, "check the path");

    // Captures that are missing or invalid.
    let (run, trial) = original.copy("captures");
    let captures: Vec<PathBuf> = fs::read_dir(&trial)
        .expect("the trial")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".pcap")))
        .collect();
    assert!(!captures.is_empty());
    captures.iter().for_each(|capture| fs::remove_file(capture).expect("removed"));
    let message = explain(&run);
    assert!(captures.iter().any(|capture| message.contains(&capture.display().to_string())), "{message}");

    // The report reads the explanation.
    let (run, trial) = original.copy("explanation");
    let file = trial.join("explanation.json");
    fs::write(&file, "{\"schema\": 1}").expect("written");
    assert_clear(&fail(["report".as_ref(), run.as_os_str()]), &file, "not an explanation");
}

#[test]
fn rejects_untraced_run() {
    let folder = folder();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    assert_clear(&explain(&empty), &empty, "expected a run directory");
    let (pre, _, _) = synth(folder.path(), &["--packets", "1000"]);
    assert!(explain(&pre).contains(&pre.display().to_string()));
    let missing = folder.path().join("missing");
    assert!(explain(&missing).contains(&missing.display().to_string()));
}

fn largest_raw(trace: &Path) -> PathBuf {
    let files = fs::read_dir(trace).expect("a trace").map(|entry| entry.expect("an entry").path());
    let raw = files.filter(|path| path.extension().is_some_and(|extension| extension == "raw"));
    raw.max_by_key(|path| fs::metadata(path).map_or(0, |data| data.len())).expect("pages")
}

/// Returns a number below `bound`; 0 if `bound` is 0.
fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

#[test]
fn damaged_traces_never_panic() {
    let Some(_turn) = can_trace() else { return };
    let original = Original::new();
    let (run, trial) = original.copy("damaged");
    let raw = largest_raw(&trial.join("trace"));
    let files =
        [trial.join("trace/trace.json"), trial.join("trace/roles.json"), trial.join("explanation.json"), raw];
    let mut random = Random::new(0x5eed);
    let mut refused = 0;
    for number in 0..100 {
        let file = &files[number % files.len()];
        let whole = fs::read(file).expect("a file");
        let mut bytes = whole.clone();
        for _ in 0..=below(&mut random, 3) {
            let at = below(&mut random, bytes.len());
            match below(&mut random, 4) {
                0 => bytes[at] ^= 1 << below(&mut random, 8),
                1 => bytes[at] = b"09-\"{}\xff\0"[below(&mut random, 8)],
                2 => drop(bytes.drain(at..(at + below(&mut random, 40)).min(bytes.len()))),
                // Repeats a digit, for absurdly large numbers.
                _ => drop(bytes.splice(at..at, *b"99999")),
            }
        }
        // The length of the pages is checked first; keep it valid to reach other checks.
        if number % files.len() == 3 {
            bytes.resize(whole.len(), 0);
        }
        fs::write(file, &bytes).expect("written");
        let command = if number % files.len() == 2 { "report" } else { "explain" };
        let output = Command::new("timeout")
            .args(["-k", "1", SECONDS, WIRETAIL, command])
            .arg(&run)
            .stdin(Stdio::null())
            .output()
            .expect("timeout starts");
        let message = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            Some(2) => {
                refused += 1;
                assert!(message.contains(&run.display().to_string()), "{number}: {message}");
            }
            code => panic!("{number}: {} ends with {code:?}: {message}", file.display()),
        }
        fs::write(file, &whole).expect("written");
    }
    assert!((20..100).contains(&refused), "{refused} refused");
}
