//! What `wiretail forward` says while it runs, for each kind of socket.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout};

use serde_json::Value;

use crate::run::can_run;
use crate::traffic::{Bed, Running, generate};

/// A forwarder that is ready, and what it prints.
struct Forwarder {
    running: Running,
    lines: BufReader<ChildStdout>,
    _errors: BufReader<ChildStderr>,
}

impl Forwarder {
    /// Starts it and waits until it says that it is ready.
    fn start(arguments: &[&str]) -> Self {
        let mut running = Running::start(&[&["forward"], arguments].concat());
        let child = running.child.as_mut().expect("running");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error"));
        let lines = BufReader::new(child.stdout.take().expect("standard output"));
        let mut said = String::new();
        while !said.contains("forwarding from ") {
            assert!(errors.read_line(&mut said).expect("text") > 0, "it ended: {said}");
        }
        Self { running, lines, _errors: errors }
    }

    /// What it answers to SIGUSR1.
    fn ask(&mut self) -> Value {
        self.running.signal("-USR1");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no line of JSON: {line}"))
    }

    /// Ends it; returns what it still printed.
    fn end(mut self) -> String {
        let ended = self.running.interrupt();
        assert_eq!(ended.status.code(), Some(0));
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("text");
        rest
    }
}

/// received, sent, dropped, failed.
fn counts(document: &Value) -> [u64; 4] {
    let count = |key: &str| document[key].as_u64().unwrap_or_else(|| panic!("{key}: {document}"));
    ["received", "sent", "dropped", "failed"].map(count)
}

#[test]
fn counters_are_told_on_request() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    for socket in ["packet", "xdp"] {
        answers(&bed, &["--socket", socket]);
    }
}

fn answers(bed: &Bed, more: &[&str]) {
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    let arguments = [&[&*input, &*output], more].concat();
    let mut forwarder = Forwarder::start(&[&arguments[..], &["--json"]].concat());
    assert_eq!(counts(&forwarder.ask()), [0; 4], "{more:?}");
    for sent in [200, 400] {
        generate(&bed.place("gen/out"), &["--rate", "10kpps", "--packets", "200"]);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(counts(&forwarder.ask()), [sent, sent, 0, 0], "{more:?}");
    }
    let end: Value = serde_json::from_str(&forwarder.end()).expect("the document of the end");
    assert_eq!(counts(&end), [400, 400, 0, 0], "{more:?}");

    let mut forwarder = Forwarder::start(&arguments);
    assert_eq!(counts(&forwarder.ask()), [0; 4], "{more:?}");
    assert!(forwarder.end().contains("received 0, sent 0"), "{more:?}");
}
