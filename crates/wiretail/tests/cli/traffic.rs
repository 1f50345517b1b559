//! Tests of `generate`, `forward` and `capture` in separate namespaces. They need root, and print `SKIPPED`
//! without it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use wiretail_capture::write::{PcapngWriter, TapCounts, TapInterface};
use wiretail_capture::{CaptureReader, Frame, OpenOptions};

use crate::run::can_run;
use crate::support::{WIRETAIL, analyze, fail, folder, synth, wiretail};

/// Two veth pairs: `gen/out` to `dut/in`, and `dut/out` to `sink/in`.
pub struct Bed {
    prefix: String,
}

impl Bed {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The names differ from those of `wiretail run`, because its tests search for leftovers by name.
        let prefix = format!("wtt-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let bed = Self { prefix };
        let script = r#"set -e
            for role in gen dut sink; do
                ip netns add $P-$role
                ip netns exec $P-$role sysctl -qw net.ipv6.conf.default.disable_ipv6=1
            done
            ip link add out netns $P-gen type veth peer name in netns $P-dut
            ip link add out netns $P-dut type veth peer name in netns $P-sink
            ip -n $P-gen link set out up; ip -n $P-dut link set in up
            ip -n $P-dut link set out up; ip -n $P-sink link set in up
            sleep 0.3"#;
        let made = Command::new("bash").args(["-c", script]).env("P", &bed.prefix).status();
        assert!(made.expect("bash").success(), "the testbed");
        bed
    }

    /// Lets the outer ends accept frames that XDP redirects to them.
    pub fn take_redirected(&self) {
        for (role, link) in [("gen", "out"), ("sink", "in")] {
            let mut ethtool = Command::new("ip");
            ethtool.args(["netns", "exec", &self.place(role), "ethtool", "-K", link, "gro", "on"]);
            assert!(ethtool.status().expect("ip").success(), "ethtool");
        }
    }

    pub fn place(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for role in ["gen", "dut", "sink"] {
            let _ = Command::new("ip").args(["netns", "del", &self.place(role)]).status();
        }
    }
}

/// A running command; killed if the test fails before its end.
pub struct Running {
    pub child: Option<Child>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(WIRETAIL);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: Some(command.spawn().expect("wiretail starts")) }
    }

    /// Waits for the command to end by itself; returns its output.
    pub fn end(mut self) -> Output {
        self.child.take().expect("running").wait_with_output().expect("its end")
    }

    pub fn interrupt(self) -> Output {
        self.signal("-INT");
        self.end()
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("running").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a capture and waits until it records: its file is created after its taps.
pub fn capture(file: &Path, arguments: &[&str]) -> Running {
    let running =
        Running::start(&[&["capture", "--json", "--write", file.to_str().unwrap()], arguments].concat());
    await_file(file);
    running
}

fn await_file(file: &Path) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no capture");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn json(output: &Output) -> Value {
    let error = || String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {}", error()))
}

/// Sends packets and returns the summary. On a busy machine packets may be late, which gives exit code 1.
pub fn generate(port: &str, arguments: &[&str]) -> Value {
    let output = wiretail([&["generate", port, "--json"], arguments].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let sent = json(&output);
    assert_eq!((&sent["failed"], &sent["complete"]), (&Value::from(0), &Value::from(true)), "{sent}");
    sent
}

/// Returns the frames of a capture with their timestamps in ns; the file must be complete.
pub fn frames(file: &Path) -> Vec<(i64, Vec<u8>)> {
    let mut reader = CaptureReader::open(file, &OpenOptions::default()).expect("a capture");
    let mut frames = Vec::new();
    while reader
        .read(&mut |frame: &Frame<'_>| frames.push((frame.ts_ns, frame.data.to_vec())))
        .expect("frames")
    {}
    assert!(reader.truncation().is_none(), "{:?}", reader.truncation());
    frames
}

#[test]
fn generates_forwards_captures_and_matches() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let file = folder.path().join("both.pcapng");
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    let (pre, post) = (format!("pre={input}"), format!("post={}", bed.place("sink/in")));
    let capture = capture(&file, &[&pre, &post, "--packets", "2000", "--duration", "30s"]);
    let forward = Running::start(&["forward", &input, &output, "--json"]);
    await_forwarding(&bed);
    generate(&bed.place("gen/out"), &["--rate", "4kpps", "--packets", "2000", "--size", "imix-csit"]);
    let captured = capture.end();
    assert_eq!(captured.status.code(), Some(0), "{}", String::from_utf8_lossy(&captured.stderr));
    for tap in json(&captured)["taps"].as_array().expect("taps") {
        assert_eq!((&tap["packets"], &tap["drops"]), (&Value::from(2000), &Value::from(0)), "{tap}");
    }
    let forwarded = forward.interrupt();
    assert_eq!(forwarded.status.code(), Some(0));
    assert!(json(&forwarded)["sent"].as_u64().unwrap() >= 2000);
    let both = file.to_str().unwrap();
    let summary = analyze([both, "--pre-interface", "pre", "--post-interface", "post"]);
    assert_eq!(summary["matching"]["matched"], 2000, "{}", summary["matching"]);
    assert_eq!(summary["matching"]["lost"], 0);
    assert!(summary["delay"]["min_ns"].as_i64().unwrap() > 0);
}

#[test]
fn af_xdp_forwards_both_directions() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let (input, output) = (bed.place("dut/in"), bed.place("dut/out"));
    let forward =
        Running::start(&["forward", &input, &output, "--both-directions", "--socket", "xdp", "--json"]);
    await_forwarding(&bed);
    let (forth, back) = (format!("forth={}", bed.place("sink/in")), format!("back={}", bed.place("gen/out")));
    let file = folder.path().join("both.pcapng");
    let capture = capture(&file, &[&forth, &back, "--stream"]);
    generate(&bed.place("gen/out"), &["--rate", "4kpps", "--packets", "500"]);
    let more = ["--rate", "4kpps", "--packets", "300", "--first-id", "500", "--socket", "xdp"];
    generate(&bed.place("sink/in"), &more);
    std::thread::sleep(Duration::from_millis(300));
    let captured = json(&capture.interrupt());
    let forwarded = json(&forward.interrupt());
    assert_eq!(forwarded["sent"], 800, "{forwarded}");
    assert_eq!([&captured["taps"][0]["packets"], &captured["taps"][1]["packets"]], [500, 300], "{captured}");
}

/// Waits until a forwarder on `dut` has opened its interfaces, which puts them into promiscuous mode.
fn await_forwarding(bed: &Bed) {
    let script = "ip -n $N -d link show in | grep -q 'promiscuity [1-9]'";
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let seen = Command::new("bash").args(["-c", script]).env("N", bed.place("dut")).status();
        std::thread::sleep(Duration::from_millis(200));
        if seen.is_ok_and(|status| status.success()) {
            return;
        }
    }
    panic!("the forwarder did not start");
}

/// Captures, at the sender's peer, the packets sent with these arguments.
fn sent_and_seen(bed: &Bed, file: &Path, arguments: &[&str]) -> (Value, Vec<(i64, Vec<u8>)>) {
    let _ = std::fs::remove_file(file);
    let capture = capture(file, &[&bed.place("dut/in"), "--stream", "--snaplen", "2000"]);
    let sent = generate(&bed.place("gen/out"), arguments);
    let captured = capture.interrupt();
    assert_eq!(captured.status.code(), Some(0), "{}", String::from_utf8_lossy(&captured.stderr));
    let frames = frames(file);
    assert_eq!(sent["sent"], frames.len(), "{sent}");
    assert_eq!(json(&captured)["taps"][0]["packets"], frames.len());
    (sent, frames)
}

#[test]
fn patterns_and_mixes_send_requested_traffic() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let file = folder.path().join("one.pcapng.zst");
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        sent_and_seen(&bed, &file, &arguments)
    };
    let (_, on_off) = run("--rate 5kpps --pattern on-off --on 10ms --off 40ms --duration 200ms");
    assert_eq!(on_off.len(), 200);
    let (poisson, _) = run("--rate 5kpps --pattern poisson --duration 400ms --seed 7");
    assert!((1800..2200).contains(&poisson["sent"].as_u64().unwrap()), "{poisson}");
    let count =
        |frames: &[(i64, Vec<u8>)], len| frames.iter().filter(|(_, frame)| frame.len() == len).count();
    let (_, csit) = run("--rate 5kpps --packets 120 --size imix-csit");
    assert_eq!([60, 566, 1514].map(|len| count(&csit, len)), [70, 40, 10]);
    let (_, trex) = run("--rate 5kpps --packets 96 --size imix-trex --burst 8");
    assert_eq!([60, 590, 1514].map(|len| count(&trex, len)), [56, 32, 8]);
    let (_, own) =
        run("--rate 5kpps --packets 30 --size 2x80,1x200 --streams 2 --flows 3 --socket packet-ring");
    assert_eq!([80, 200].map(|len| count(&own, len)), [20, 10]);
    let number = |(_, frame): &(i64, Vec<u8>)| u32::from_le_bytes(frame[42..46].try_into().unwrap());
    assert_eq!(own.iter().map(number).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    assert!(own.iter().all(|(_, frame)| frame[46] == 0x55));
}

#[test]
fn replay_reproduces_frames_of_capture() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let (recorded, _, _) = synth(folder.path(), &["--packets", "300", "--rate", "10kpps", "--flows", "3"]);
    let file = folder.path().join("again.pcapng");
    let path = recorded.to_str().unwrap();
    let bytes = |frames: Vec<(i64, Vec<u8>)>| frames.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>();
    let wanted = bytes(frames(&recorded));
    let (_, seen) = sent_and_seen(&bed, &file, &["--replay", path]);
    assert_eq!(bytes(seen), wanted);
    let (_, seen) = sent_and_seen(&bed, &file, &["--replay", path, "--rate", "1kpps", "--packets", "100"]);
    assert_eq!(bytes(seen), wanted[..100]);
    // Truncated frames cannot be replayed.
    let capture = capture(&folder.path().join("cut.pcapng"), &[&bed.place("dut/in"), "--stream"]);
    generate(&bed.place("gen/out"), &["--rate", "1kpps", "--packets", "5"]);
    assert_eq!(capture.interrupt().status.code(), Some(0));
    let cut = folder.path().join("cut.pcapng");
    let message = fail(["generate", &bed.place("gen/out"), "--replay", cut.to_str().unwrap()]);
    assert!(message.contains("packet 1 was captured with 70 of its 100 bytes"), "{message}");
}

#[test]
fn capture_ends_intact_during_traffic() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let traffic =
        Running::start(&["generate", &bed.place("gen/out"), "--rate", "5kpps", "--duration", "60s"]);
    for (name, more) in
        [("stream.pcapng", &["--stream"][..]), ("memory.pcapng.zst", &["--packets", "1M", "--snaplen", "70"])]
    {
        let file = folder.path().join(name);
        let capture = capture(&file, &[&[&*bed.place("dut/in")], more].concat());
        std::thread::sleep(Duration::from_millis(500));
        let captured = capture.interrupt();
        assert_eq!(captured.status.code(), Some(0), "{}", String::from_utf8_lossy(&captured.stderr));
        let tap = json(&captured)["taps"][0].clone();
        assert_eq!((&tap["drops"], &tap["missing"]), (&Value::from(0), &Value::from(0)), "{tap}");
        assert!(tap["packets"].as_u64().unwrap() > 0, "{tap}");
        assert_eq!(tap["packets"], frames(&file).len());
    }
    let stopped = traffic.interrupt();
    assert!(String::from_utf8_lossy(&stopped.stdout).contains("(interrupted)"));
}

#[test]
fn names_missing_interfaces_and_namespaces() {
    let folder = folder();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let message = fail(["generate", "nosuch0", "--rate", "1kpps", "--packets", "1"]);
    assert!(message.contains("nosuch0: no such interface") && message.contains("ip link"), "{message}");
    let message = fail(["forward", "lo", "wtt-nosuch/eth0"]);
    assert!(message.contains("no network namespace wtt-nosuch") && message.contains("ip netns"), "{message}");
    let message = fail(["capture", "a=lo", "a=lo:out", "--write", &file("a.pcapng")]);
    assert!(message.contains("two taps have the name a"), "{message}");
    let message = fail(["generate", "lo", "--rate", "1kpps", "--packets", "1", "--pattern", "on-off"]);
    assert!(message.contains("--on 10ms --off 90ms"), "{message}");
    let message = fail(["generate", "lo", "--rate", "1kpps", "--packets", "1", "--size", "100"]);
    assert!(message.contains("imix-csit"), "{message}");
    let message = fail(["generate", "lo", "--packets", "1"]);
    assert!(message.contains("--rate"), "{message}");
    let message = fail(["generate", "lo", "--replay", &file("none.pcap")]);
    assert!(message.contains("none.pcap"), "{message}");
    assert!(!PathBuf::from(file("a.pcapng")).exists());
}

#[test]
fn analysis_reports_packets_lost_by_capture() {
    let folder = folder();
    let file = folder.path().join("both.pcapng");
    let tap = |name: &str| TapInterface { name: name.to_owned(), description: String::new(), snaplen: 0 };
    let out = std::fs::File::create(&file).unwrap();
    let mut writer = PcapngWriter::new(out, "test", &[tap("pre"), tap("post")]);
    let (pre, _, _) = synth(folder.path(), &["--packets", "100"]);
    for (ts_ns, frame) in frames(&pre) {
        writer.write(0, ts_ns, frame.len() as u32, &frame).unwrap();
        writer.write(1, ts_ns + 5_000, frame.len() as u32, &frame).unwrap();
    }
    let counts = [0, 7].map(|dropped| TapCounts { received: 100, dropped });
    writer.finish(&counts).unwrap();
    let both = file.to_str().unwrap();
    let summary = analyze([both, "--pre-interface", "pre", "--post-interface", "post"]);
    assert_eq!(
        (&summary["pre"]["packets_dropped"], &summary["post"]["packets_dropped"]),
        (&0.into(), &7.into())
    );
    let findings: Vec<_> = summary["findings"].as_array().expect("findings").iter().collect();
    let found = findings.iter().find(|finding| finding["code"] == "capture-dropped").expect("the finding");
    assert!(
        found["message"].as_str().unwrap().contains("egress capture reports that its tap lost 7 packets"),
        "{found}"
    );
}

#[test]
fn names_full_disk_and_unavailable_timestamps() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let tap = bed.place("dut/in");
    let message = fail(["capture", &tap, "--write", "/dev/full", "--duration", "1s"]);
    assert!(message.contains("/dev/full: cannot write the capture"), "{message}");
    let file = folder.path().join("hardware.pcapng");
    let message = fail(["capture", &tap, "--write", file.to_str().unwrap(), "--timestamps", "hardware"]);
    assert!(
        message.contains("hardware timestamps were requested") && message.contains("ethtool -T"),
        "{message}"
    );
    assert!(!file.exists(), "no capture without its timestamps");
    let message = fail([
        "capture",
        &format!("{tap}:out"),
        "--write",
        file.to_str().unwrap(),
        "--timestamps",
        "hardware",
    ]);
    assert!(message.contains("outgoing"), "{message}");
}

#[test]
fn full_disk_ends_capture() {
    if !can_run() {
        return;
    }
    let (bed, folder) = (Bed::new(), folder());
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no tmpfs can be mounted here");
        return;
    }
    let file = small.join("one.pcapng");
    let capture = capture(&file, &[&bed.place("dut/in"), "--stream", "--duration", "30s"]);
    let traffic =
        Running::start(&["generate", &bed.place("gen/out"), "--rate", "5kpps", "--duration", "60s"]);
    let captured = capture.end();
    drop(traffic);
    let unmounted = Command::new("umount").arg(&small).status();
    let message = String::from_utf8_lossy(&captured.stderr).into_owned();
    assert_eq!(captured.status.code(), Some(2), "{message}");
    assert!(message.contains("one.pcapng: cannot write the capture: No space left"), "{message}");
    assert!(unmounted.expect("umount").success());
}

#[test]
fn names_missing_capability() {
    if !can_run() {
        return;
    }
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", "--bounding-set", "-all", WIRETAIL]);
        command.args(arguments).current_dir("/").output()
    };
    if !nobody(&["--version"]).is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no setpriv here, or the program is out of reach of other users");
        return;
    }
    let output = nobody(&["generate", "lo", "--rate", "1kpps", "--packets", "1"]).expect("setpriv");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("lo: packet sockets need CAP_NET_RAW") && message.contains("setcap"),
        "{message}"
    );
}
