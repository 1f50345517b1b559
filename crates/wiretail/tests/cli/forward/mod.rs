//! Output of `wiretail forward` while it runs, for each kind of socket.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, ChildStdout, Command};
use std::time::Duration;

use serde_json::Value;

use crate::run::can_run;
use crate::support::{analyze, fail, folder};
use crate::traffic::{Bed, Running, capture, generate, json};

#[cfg(feature = "dpdk")]
mod dpdk;

/// A running forwarder and its output.
struct Forwarder {
    running: Running,
    lines: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Forwarder {
    /// Starts a forwarder and waits until it is ready.
    fn start(arguments: &[&str]) -> Self {
        let mut running = Running::start(&[&["forward"], arguments].concat());
        let child = running.child.as_mut().expect("running");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error"));
        let lines = BufReader::new(child.stdout.take().expect("standard output"));
        let mut said = String::new();
        while !said.contains("forwarding from ") {
            assert!(errors.read_line(&mut said).expect("text") > 0, "it ended: {said}");
        }
        Self { running, lines, errors }
    }

    /// Returns the answer to SIGUSR1.
    fn ask(&mut self) -> Value {
        self.running.signal("-USR1");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no line of JSON: {line}"))
    }

    /// Returns the line on standard error that follows the one reporting that it is ready.
    fn hint(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).expect("text");
        line
    }

    /// Stops the forwarder and returns its remaining output.
    fn end(mut self) -> String {
        let ended = self.running.interrupt();
        assert_eq!(ended.status.code(), Some(0));
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("text");
        rest
    }
}

/// Returns the counts received, sent, dropped and failed.
fn counts(document: &Value) -> [u64; 4] {
    let count = |key: &str| document[key].as_u64().unwrap_or_else(|| panic!("{key}: {document}"));
    ["received", "sent", "dropped", "failed"].map(count)
}

#[test]
fn prints_counters_on_request() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    bed.take_redirected();
    for socket in ["packet", "xdp", "xdp-redirect"] {
        answers(&bed, &["--socket", socket]);
    }
}

#[test]
fn rejects_options_of_other_sockets() {
    let message = fail(["forward", "dpdk:net_null0", "lo"]);
    assert!(message.contains("dpdk:net_null0: a DPDK device requires --socket dpdk"), "{message}");
    let message = fail(["forward", "lo", "lo", "--socket", "dpdk", "--delay", "1us"]);
    assert!(message.contains("--delay requires --socket packet or xdp"), "{message}");
    let message =
        fail(["generate", "lo", "--socket", "dpdk", "--qdisc", "--rate", "1kpps", "--packets", "1"]);
    assert!(message.contains("qdisc_bypass=0"), "{message}");
}

#[cfg(not(feature = "dpdk"))]
#[test]
fn build_without_dpdk_names_next_step() {
    let message = fail(["forward", "lo", "lo", "--socket", "dpdk"]);
    assert!(message.contains("wiretail setup dpdk") && message.contains("--features dpdk"), "{message}");
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

/// Returns the XDP program that `ip` shows on a link of the device's node.
fn program_on(bed: &Bed, link: &str) -> bool {
    let shown = Command::new("ip").args(["-n", &bed.place("dut"), "-d", "link", "show", link]).output();
    String::from_utf8_lossy(&shown.expect("ip").stdout).contains("prog/xdp")
}

#[test]
fn kernel_redirects_all_packets_in_both_directions() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    bed.take_redirected();
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    for both in [false, true] {
        let more: &[&str] = if both { &["--both-directions"] } else { &[] };
        let forwarder =
            Forwarder::start(&[&[&*input, &*output, "--socket", "xdp-redirect", "--json"], more].concat());
        assert_eq!([program_on(&bed, "in"), program_on(&bed, "out")], [true, both]);
        let taps = ["sent=gen/out:out", "forth=sink/in", "back=gen/out"].map(|tap| {
            let (name, place) = tap.split_once('=').expect("a name");
            format!("{name}={}", bed.place(place))
        });
        let file = folder.path().join(format!("both-{both}.pcapng"));
        let capture = capture(&file, &[&taps[0], &taps[1], &taps[2], "--stream"]);
        generate(&bed.place("gen/out"), &["--rate", "20kpps", "--packets", "10000", "--qdisc"]);
        if both {
            let more = ["--rate", "20kpps", "--packets", "10000", "--first-id", "10000"];
            generate(&bed.place("sink/in"), &more);
        }
        std::thread::sleep(Duration::from_millis(300));
        let captured = json(&capture.interrupt());
        let seen = [0, 1, 2].map(|tap: usize| captured["taps"][tap]["packets"].as_u64().expect("a count"));
        let back = if both { 10_000 } else { 0 };
        assert_eq!(seen, [10_000, 10_000, back], "{captured}");
        let end: Value = serde_json::from_str(&forwarder.end()).expect("the document of the end");
        let total = 10_000 + back;
        assert_eq!(counts(&end), [total, total, 0, 0], "{end}");
        assert_eq!(end["xdp"][0]["mode"], "native XDP", "{end}");
        assert_eq!(end["xdp"][0]["received"], 10_000, "{end}");
        assert_eq!([program_on(&bed, "in"), program_on(&bed, "out")], [false; 2]);
        let both = file.to_str().expect("text");
        let summary = analyze([both, "--pre-interface", "sent", "--post-interface", "forth"]);
        assert_eq!(
            (&summary["matching"]["matched"], &summary["matching"]["lost"]),
            (&10_000.into(), &0.into())
        );
    }
}

#[test]
fn killed_redirection_leaves_no_program() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    let mut forwarder =
        Forwarder::start(&[&input, &output, "--socket", "xdp-redirect", "--both-directions", "--json"]);
    assert_eq!([program_on(&bed, "in"), program_on(&bed, "out")], [true; 2]);
    // GRO is off at the peers, and the programs on the two interfaces cannot replace it.
    for link in ["in", "out"] {
        assert!(forwarder.hint().contains(link));
        let warning = forwarder.hint();
        assert!(
            warning.contains("does not accept redirected frames") && warning.contains("gro on"),
            "{warning}"
        );
    }
    generate(&bed.place("gen/out"), &["--rate", "10kpps", "--packets", "100"]);
    std::thread::sleep(Duration::from_millis(100));
    let [received, sent, _, failed] = counts(&forwarder.ask());
    assert_eq!((received, sent + failed), (100, 100));
    let child = forwarder.running.child.as_mut().expect("running");
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!([program_on(&bed, "in"), program_on(&bed, "out")], [false; 2]);
    for option in [&["--delay", "1us"][..], &["--cpu", "0"]] {
        let message = fail([&["forward", &*input, &*output, "--socket", "xdp-redirect"], option].concat());
        assert!(message.contains(option[0]) && message.contains("xdp-redirect"), "{message}");
    }
}
