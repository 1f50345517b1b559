//! A testbed of two unnamed network namespaces that disappears when this process ends. Two child processes
//! hold the namespaces. They exit when their standard input is closed, which also happens if this process is
//! killed.
//!
//!     load: g0 ──► in0 :dut: out0 ──► s0 :load
//!                   └ pre tap           └ post tap

#![allow(dead_code)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wiretail_dataplane::generator::plan::{LatePolicy, Pacing};
use wiretail_dataplane::{
    Addresses, Direction, End, Fault, FaultPlan, FaultSchedule, Generator, GeneratorPlan, GeneratorReport,
    Pattern, PauseClock, Placement, PortKind, PortSpec, RingPlan, SharedCounters, Sizes, Skeleton,
    SkeletonPlan, SkeletonReport, Stream, TapReport, TapSpec, TimestampSource, Timestamper, TxPlan, TxPort,
    in_namespace, open_tx, read_signature, timestamper,
};
use wiretail_schema::run::pauses::Pauses;

struct Namespace {
    holder: Child,
    netns: File,
}

impl Namespace {
    fn new() -> Result<Self, String> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat >/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let out = holder.stdout.take().expect("a pipe");
        let read = BufReader::new(out).read_line(&mut line);
        let netns = File::open(format!("/proc/{}/ns/net", holder.id()));
        match (read, netns) {
            (Ok(1..), Ok(netns)) => Ok(Self { holder, netns }),
            _ => {
                let _ = holder.kill();
                let output = holder.wait_with_output().map_err(|error| error.to_string())?;
                Err(format!("unshare --net: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
        }
    }

    /// Runs a command and returns its output.
    fn run(&self, command: &str) -> Result<String, String> {
        let mut words = command.split_whitespace();
        let program = words.next().expect("a program");
        let arguments: Vec<&str> = words.collect();
        let run = || Command::new(program).args(&arguments).output();
        let output = in_namespace(Some(self.netns.as_fd()), run)
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("{command}: {error}"))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("{command}: {}", stderr.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

pub struct Testbed {
    load: Namespace,
    dut: Namespace,
}

impl Testbed {
    /// Returns the reason as an error if this machine cannot create the testbed.
    pub fn new() -> Result<Self, String> {
        let bed = Self { load: Namespace::new()?, dut: Namespace::new()? };
        for namespace in [&bed.load, &bed.dut] {
            // Only the load generator may send packets. Fails harmlessly if the kernel has no IPv6.
            let quiet = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = in_namespace(Some(namespace.netns.as_fd()), quiet).map_err(|error| error.to_string())?;
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), bed.dut.netns.as_raw_fd());
        for (here, there) in [("g0", "in0"), ("s0", "out0")] {
            bed.load.run(&format!("ip link add {here} type veth peer name {there} netns {path}"))?;
            bed.load.run(&format!("ip link set {here} up"))?;
            bed.dut.run(&format!("ip link set {there} up"))?;
        }
        Ok(bed)
    }

    pub fn port(&self, interface: &'static str) -> PortSpec<'_> {
        let namespace = if matches!(interface, "g0" | "s0") { &self.load } else { &self.dut };
        PortSpec { netns: Some(namespace.netns.as_fd()), interface }
    }

    pub fn tap(&self, interface: &'static str, direction: Direction, tap: u16) -> TapSpec<'_> {
        TapSpec { netns: self.port(interface).netns, interface, direction, tap }
    }

    pub fn dut(&self) -> BorrowedFd<'_> {
        self.dut.netns.as_fd()
    }

    /// Number of packets that an interface of the load side has received.
    pub fn received(&self, interface: &str) -> u64 {
        let path = "/proc/thread-self/net/dev";
        let read = || fs::read_to_string(path);
        let text = in_namespace(Some(self.load.netns.as_fd()), read).unwrap().unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")));
        // The columns are bytes, packets and others.
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).expect("an interface")
    }

    /// Runs a command in the namespace of the load generator and the sink, and returns its output.
    pub fn in_load(&self, command: &str) -> String {
        self.load.run(command).unwrap()
    }

    /// Runs a command in the namespace of the device under test, and returns its output.
    pub fn in_dut(&self, command: &str) -> String {
        self.dut.run(command).unwrap()
    }
}

/// Settings of a trial; see [`Trial::new`] for the defaults.
#[derive(Clone)]
pub struct Trial {
    pub pattern: Pattern,
    pub packets: u64,
    pub sizes: Sizes,
    pub generator_tx: TxPlan,
    /// Interface of the generator.
    pub generator_port: &'static str,
    /// Whether the generator sends with AF_XDP. It then ignores `generator_tx`.
    pub generator_xdp: bool,
    /// Whether the ingress tap is on the sender's end of the wire.
    pub tap_sender: bool,
    pub skeleton: SkeletonPlan,
    /// Pauses in which the skeleton sleeps.
    pub pauses: PauseClock,
    /// Whether DPDK's testpmd, on packet sockets, forwards instead of the skeleton.
    pub testpmd: bool,
    /// Directions of the forwarder, from interface to interface.
    pub ways: Vec<(&'static str, &'static str)>,
    pub generator_place: Placement,
    pub skeleton_place: Placement,
    pub source: TimestampSource,
}

impl Trial {
    pub fn new(pattern: Pattern, packets: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let place = |cpu| Placement { cpu: (cores > 1).then_some(cpu), fifo: None, lock_memory: false };
        Self {
            pattern,
            packets,
            sizes: Sizes::Fixed(100),
            generator_tx: TxPlan::default(),
            generator_port: "g0",
            generator_xdp: false,
            tap_sender: false,
            skeleton: SkeletonPlan::default(),
            pauses: PauseClock::default(),
            testpmd: false,
            ways: vec![("in0", "out0")],
            generator_place: place(0),
            skeleton_place: place(1),
            source: TimestampSource::KernelSoftware,
        }
    }

    pub fn plan(&self) -> GeneratorPlan {
        let addresses = Addresses {
            mac_from: [2, 0, 0, 0, 0, 1],
            mac_to: [2, 0, 0, 0, 0, 2],
            ip_from: Ipv4Addr::new(10, 0, 0, 1),
            ip_to: Ipv4Addr::new(10, 0, 0, 2),
            port_to: 53,
        };
        GeneratorPlan {
            streams: vec![Stream { id: 1, port: 0, addresses, flows: 4, sizes: self.sizes.clone() }],
            recording: None,
            marks: None,
            pattern: self.pattern,
            end: End::Packets(self.packets),
            seed: 1,
            start_ns: None,
            pacing: Pacing::default(),
            pauses: Pauses::default(),
            late_policy: LatePolicy::default(),
            late_limit_ns: 50_000,
            id_first: 0,
        }
    }

    /// Forwards with AF_XDP. The ingress tap is then on the sender's end, where frames must not bypass the
    /// queueing discipline.
    pub fn forward_by_xdp(&mut self) {
        self.skeleton.port = PortKind::Xdp;
        self.tap_the_sender();
    }

    pub fn tap_the_sender(&mut self) {
        self.tap_sender = true;
        self.generator_tx.qdisc_bypass = false;
    }

    fn source(&self, bed: &Testbed) -> Result<Box<dyn TxPort + Send>, String> {
        let kind = if self.generator_xdp { PortKind::Xdp } else { PortKind::Packet(self.generator_tx) };
        open_tx(&bed.port(self.generator_port), kind).map_err(|error| error.to_string())
    }

    fn ingress<'a>(&self, bed: &'a Testbed) -> TapSpec<'a> {
        if self.tap_sender { bed.tap("g0", Direction::Out, 0) } else { bed.tap("in0", Direction::In, 0) }
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.packets as f64 / self.pattern.rate_pps() as f64)
    }
}

pub struct Record {
    pub ts_ns: i64,
    pub wire_len: u32,
    pub frame: Vec<u8>,
}

pub struct Outcome {
    pub generator: GeneratorReport,
    pub skeleton: SkeletonReport,
    pub taps: Vec<TapReport>,
    pub pre: Vec<Record>,
    pub post: Vec<Record>,
}

/// Runs generator, skeleton and sink with taps on both wires. Ends at most a few seconds after the planned
/// time.
pub fn run(bed: &Testbed, trial: &Trial) -> Result<Outcome, String> {
    let text = |error: wiretail_dataplane::DataplaneError| error.to_string();
    let generator = Generator::new(vec![trial.source(bed)?], trial.plan()).map_err(text)?;
    let ring = RingPlan {
        packets: trial.packets * 2,
        duration_ns: trial.duration().as_nanos() as u64 + 10_000_000_000,
        snaplen: timestamper::SNAPLEN,
        source: trial.source,
        timeout_ms: timestamper::BLOCK_TIMEOUT_MS,
    };
    let taps = [trial.ingress(bed), bed.tap("s0", Direction::In, 1)];
    let taps = Timestamper::open(&taps, &ring).map_err(text)?;
    // The forwarder is opened after the taps. The kernel serves the most recently opened socket first, so the
    // overhead of the taps does not count as delay of the device.
    if trial.testpmd {
        return run_testpmd(bed, trial, generator, taps);
    }
    let ways: Vec<_> = trial.ways.iter().map(|(from, to)| (bed.port(from), bed.port(to))).collect();
    let skeleton = Skeleton::open(&ways, trial.skeleton.clone()).map_err(text)?.resting(trial.pauses.clone());
    // It takes a moment before the kernel timestamps packets on entry to the network stack.
    std::thread::sleep(Duration::from_millis(20));
    let (stop, stop_skeleton) = (AtomicBool::new(false), AtomicBool::new(false));
    let ready = AtomicBool::new(false);
    let (counters, skeleton_counters) = (SharedCounters::default(), SharedCounters::default());
    let (generator, skeleton) = std::thread::scope(|scope| {
        let skeleton = scope.spawn(|| {
            let placed = trial.skeleton_place.apply();
            ready.store(true, Ordering::Release);
            placed.map_err(text)?;
            Ok::<_, String>(skeleton.run(&stop_skeleton, &skeleton_counters))
        });
        // Locking the process's memory takes tens of milliseconds, during which packets would wait.
        while !ready.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let generator = scope.spawn(|| {
            trial.generator_place.apply().map_err(text)?;
            Ok::<_, String>(generator.run(&stop, &counters))
        });
        let end = Instant::now() + trial.duration() + Duration::from_secs(5);
        while !generator.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let generator = generator.join().expect("the generator does not panic");
        std::thread::sleep(Duration::from_millis(50));
        stop_skeleton.store(true, Ordering::Relaxed);
        (generator, skeleton.join().expect("the skeleton does not panic"))
    });
    let (taps, [pre, post]) = read(taps);
    Ok(Outcome { generator: generator?, skeleton: skeleton?, taps, pre, post })
}

/// Runs DPDK's testpmd instead of the skeleton, with the skeleton's core and priority.
fn run_testpmd(
    bed: &Testbed,
    trial: &Trial,
    generator: Generator<Box<dyn TxPort + Send>>,
    taps: Timestamper,
) -> Result<Outcome, String> {
    let cpu = trial.skeleton_place.cpu.unwrap_or(0);
    let words = format!(
        "dpdk-testpmd --no-shconf --no-pci --no-huge -m 256 --lcores=(0,1)@{cpu} --no-telemetry \
         --vdev=net_af_packet0,iface=in0 --vdev=net_af_packet1,iface=out0 \
         -- --forward-mode=io --auto-start --total-num-mbufs=8192 --stats-period=900 --no-mlockall"
    );
    let mut words = words.split_whitespace();
    // testpmd exits at the end of its input.
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = in_namespace(Some(bed.dut()), || command.spawn()).map_err(|error| error.to_string())?;
    let mut testpmd = started.map_err(|error| format!("dpdk-testpmd: {error}"))?;
    std::thread::sleep(Duration::from_secs(3));
    // Real-time priority is not set earlier, because the kernel takes the core away from a real-time thread
    // that runs for a second without a pause.
    if let Some(fifo) = trial.skeleton_place.fifo {
        bed.dut.run(&format!("chrt --all-tasks --fifo --pid {fifo} {}", testpmd.id()))?;
    }
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    let place = || trial.generator_place.apply().map_err(|error| error.to_string());
    let generator = std::thread::scope(|scope| {
        let generator = scope.spawn(|| place().map(|_| generator.run(&stop, &counters)));
        generator.join().expect("the generator does not panic")
    });
    std::thread::sleep(Duration::from_millis(50));
    let _ = testpmd.kill();
    let _ = testpmd.wait();
    let (taps, [pre, post]) = read(taps);
    Ok(Outcome { generator: generator?, skeleton: SkeletonReport::default(), taps, pre, post })
}

/// Reads the records of both taps.
fn read(mut taps: Timestamper) -> (Vec<TapReport>, [Vec<Record>; 2]) {
    let mut seen: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let taps = taps.drain(&mut |tap, ts_ns, wire_len, frame| {
        seen[usize::from(tap)].push(Record { ts_ns, wire_len, frame: frame.to_vec() });
    });
    (taps, seen)
}

/// Runs the generator alone. No program receives packets at the other end of the wire.
pub fn run_alone(bed: &Testbed, trial: &Trial) -> Result<GeneratorReport, String> {
    let text = |error: wiretail_dataplane::DataplaneError| error.to_string();
    let generator = Generator::new(vec![trial.source(bed)?], trial.plan()).map_err(text)?;
    let (stop, counters) = (AtomicBool::new(false), SharedCounters::default());
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| {
            trial.generator_place.apply().map_err(text)?;
            Ok::<_, String>(generator.run(&stop, &counters))
        });
        let end = Instant::now() + trial.duration() + Duration::from_secs(10);
        while !generator.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        generator.join().expect("the generator does not panic")
    })
}

/// Serializes the tests: each of them spins on two cores.
static CORES: Mutex<()> = Mutex::new(());

/// Runs `test` on a testbed, or prints why this machine cannot create one.
pub fn on_a_testbed(name: &str, test: impl FnOnce(&Testbed)) {
    let _cores = CORES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match Testbed::new() {
        Ok(bed) => test(&bed),
        Err(reason) => println!("SKIPPED: {name}: no testbed of network namespaces: {reason}"),
    }
}

pub fn ids(records: &[Record]) -> Vec<u32> {
    let id = |record: &Record| read_signature(&record.frame, record.wire_len).map(|read| read.id);
    records.iter().map(|record| id(record).expect("only signed packets")).collect()
}

pub fn assert_nothing_lost(outcome: &Outcome, packets: u64) {
    let all: Vec<u32> = (0..packets as u32).collect();
    assert_eq!((outcome.generator.sent, outcome.generator.failed), (packets, 0));
    assert!(outcome.generator.complete);
    for tap in &outcome.taps {
        assert_eq!(
            (tap.packets, tap.drops, tap.missing, tap.other_timestamps),
            (packets, 0, 0, 0),
            "{tap:?} {:?}",
            outcome.skeleton.counts
        );
    }
    assert_eq!((outcome.skeleton.received, outcome.skeleton.dropped), (packets, 0));
    assert_eq!(ids(&outcome.pre), all);
    let mut post = ids(&outcome.post);
    post.sort_unstable();
    assert_eq!(post, all);
}

/// Checks that the wire shows exactly the injected faults.
pub fn injected_faults(bed: &Testbed, mut trial: Trial) {
    let packets = trial.packets;
    let plan = FaultPlan { packets, drop_every: 100, duplicate_every: 150, swap_every: 70, seed: 5 };
    let faults = FaultSchedule::seeded(&plan);
    trial.skeleton.faults = faults.clone();
    let outcome = run(bed, &trial).unwrap();
    let mut expected = Vec::new();
    let by_packet: HashMap<u64, Fault> = faults.faults().iter().copied().collect();
    let mut late = None;
    for packet in 0..packets {
        match by_packet.get(&packet) {
            Some(Fault::Drop) => {}
            Some(Fault::Duplicate) => expected.extend([packet as u32; 2]),
            Some(Fault::Swap) => {
                late = Some(packet as u32);
                continue;
            }
            None => expected.push(packet as u32),
        }
        expected.extend(late.take());
    }
    assert_eq!(outcome.skeleton.dropped, 0);
    assert_eq!(ids(&outcome.post), expected);
    let report = outcome.skeleton;
    assert_eq!(report.faults_dropped, faults.count(Fault::Drop));
    assert_eq!(report.faults_duplicated, faults.count(Fault::Duplicate));
    assert_eq!(report.faults_swapped, faults.count(Fault::Swap));
    assert_eq!(report.sent, packets - report.faults_dropped + report.faults_duplicated);
}
