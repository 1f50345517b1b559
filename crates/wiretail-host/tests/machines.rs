//! Tests with a real virtual machine. They check that the machine boots, its links carry packets, its console
//! accepts commands, and it ends together with its program. Without root, QEMU, busybox or Debian's kernel,
//! the tests print `SKIPPED`.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wiretail_host::deploy::vm::{
    Backend, Boot, Guest, GuestLink, Kernel, accel, ensure_kernel, guest_launch, kernel_cached, vcpu_threads,
};
use wiretail_host::deploy::{Workload, open_tap};
use wiretail_host::{
    CoreSet, HostError, Journal, MacAddress, Namespace, Netlink, Plan, Step, privileges, run_in,
};

/// Serializes the tests: each machine occupies two cores.
static ONE: Mutex<()> = Mutex::new(());

/// Time limit for software emulation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);
const PACKETS: usize = 1000;

/// gen:out -- in:guest:out -- sink:in
struct Bench {
    _folder: TempDir,
    journal: Journal,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    _one: MutexGuard<'static, ()>,
}

fn ends(run: &str) -> [(String, &'static str, u32, IpAddr); 2] {
    let address = |last| IpAddr::from([10, 0, 0, last]);
    [(format!("{run}-gen"), "out", 1, address(1)), (format!("{run}-sink"), "in", 2, address(2))]
}

fn plan(run: &str) -> Plan {
    let ends = ends(run);
    let mut plan = Plan::new();
    for (namespace, link, number, address) in ends.clone() {
        plan.push(Step::AddNamespace { name: namespace.clone() });
        plan.push(Step::DisableIpv6 { namespace: namespace.clone() });
        let namespace = Some(namespace);
        let mac = Some(MacAddress::local(number));
        plan.push(Step::AddTap { namespace: namespace.clone(), link: link.into(), mac });
        plan.push(Step::SetUp { namespace: namespace.clone(), link: link.into() });
        plan.push(Step::AddAddress {
            namespace: namespace.clone(),
            link: link.into(),
            address,
            prefix_len: 24,
        });
        let (_, _, other, address) = &ends[2 - number as usize];
        let (address, mac) = (*address, MacAddress::local(*other));
        plan.push(Step::AddNeighbour { namespace, link: link.into(), address, mac });
    }
    plan
}

impl Bench {
    /// A machine with taps at both ends. Returns `None`, after printing the reason, if this machine cannot
    /// run the test.
    fn start(test: &str, kind: Kernel, boot: Boot, script: &str) -> Option<Self> {
        let tap = |journal: &Journal, end: usize| {
            let (namespace, link, _, _) = &ends(journal.run())[end];
            Backend::Tap(open_tap(Some(namespace), link).expect("a tap"))
        };
        Self::start_with(test, kind, boot, script, &|journal, _| [tap(journal, 0), tap(journal, 1)])
    }

    /// A machine whose links `in` and `out` have the given backends.
    fn start_with(
        test: &str,
        kind: Kernel,
        boot: Boot,
        script: &str,
        backends: &dyn Fn(&Journal, &Path) -> [Backend; 2],
    ) -> Option<Self> {
        if let Err(reason) = privileges(Path::new("/")).expect("a look").allow_testbed() {
            println!("SKIPPED: {test}: {reason}");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = ensure_kernel(kind).and_then(|kernel| accel(&kernel));
        let accel = match prepared {
            Err(error @ HostError::NotInstalled { .. }) => {
                println!("SKIPPED: {test}: {error}");
                return None;
            }
            other => other.expect("an answer"),
        };
        println!("{test}: {}", accel.name());
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        std::fs::create_dir(&work).expect("made");
        std::fs::write(work.join("greeting"), "hello\n").expect("written");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        journal.apply_all(&plan(journal.run().to_owned().as_str())).expect("two ends");
        let links = ["in", "out"].into_iter().zip([3, 4]).zip(backends(&journal, folder.path()));
        let links = links.map(|((name, number), backend)| GuestLink {
            name: name.into(),
            mac: MacAddress::local(number),
            backend,
        });
        let guest = Guest {
            name: journal.run().into(),
            kernel: kind,
            boot,
            words: String::new(),
            memory_mib: 384,
            vcpus: 2,
            links: links.collect(),
            workload: Workload {
                argv: ["sh", "-c", script].map(Into::into).into(),
                env: vec![("WHO".into(), "it's me".into())],
                directory: work,
                reads: Vec::new(),
                namespace: Namespace::new(&ends(journal.run())[0].0).expect("a name"),
                cores: CoreSet::default(),
                hugepages: false,
            },
            accel,
        };
        let mut command = match guest_launch(guest) {
            Err(error @ HostError::NotInstalled { .. }) => {
                println!("SKIPPED: {test}: {error}");
                return None;
            }
            other => other.expect("a guest").command,
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = run_in(None, command).expect("started");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                println!("| {line}");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Some(Bench { _folder: folder, journal, child, input, lines, _one: one })
    }

    fn wait_for(&self, what: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {what:?} in time"));
            if line.contains(what) {
                return line;
            }
        }
    }

    fn say(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("written");
    }

    /// Number of timer interrupts of both vCPUs.
    fn timer_interrupts(&mut self) -> [u64; 2] {
        self.say("interrupts");
        let line = self.wait_for("LOC:");
        let mut counts = line.split_ascii_whitespace().skip(1).map(|count| count.parse().expect("a count"));
        [counts.next().expect("of 0"), counts.next().expect("of 1")]
    }

    /// Waits for the machine to exit, and checks that nothing is left.
    fn end(mut self) {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("waited").is_none() {
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.journal.undo_all().expect("undone").killed, Vec::<i32>::new());
    }
}

#[test]
fn packets_cross_guest_and_commands_work() {
    let script = r#"read greeting <greeting; echo "$greeting, $WHO"
        ip link add br0 type bridge && ip link set in master br0 && ip link set out master br0
        ip link set br0 up
        # Up to a second after the links.
        while [ "$(cat /sys/class/net/br0/brif/*/state | tr -d '\n')" != 33 ]; do sleep 0.05; done
        trap 'echo told' USR1; trap 'echo over; exit 5' TERM; echo forwarding; read line; echo "got $line"
        while :; do sleep 0.1; done"#;
    let test = "packets_cross_guest_and_commands_work";
    let Some(mut bench) = Bench::start(test, Kernel::Cloud, Boot::Plain, script) else { return };
    let begun = Instant::now();
    bench.wait_for("wiretail-guest: ready, Linux ");
    println!("{test}: ready after {:.1} s", begun.elapsed().as_secs_f64());
    bench.wait_for("hello, it's me");
    bench.wait_for("forwarding");
    let processors = vcpu_threads(bench.child.id());
    assert_eq!(processors.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);

    let [generator, sink] = ends(bench.journal.run());
    let socket = |end: &(String, &str, u32, IpAddr)| {
        let namespace = Namespace::new(&end.0).expect("a name");
        namespace.wait_until_ready(Duration::from_secs(5)).expect("ready");
        namespace.inside(|| UdpSocket::bind((end.3, 7))).expect("entered").expect("a socket")
    };
    let (from, to) = (socket(&generator), socket(&sink));
    to.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let receiver = thread::spawn(move || {
        let mut buffer = [0; 100];
        (0..PACKETS).take_while(|_| to.recv(&mut buffer).is_ok()).count()
    });
    for _ in 0..PACKETS {
        from.send_to(&[7; 60], (sink.3, 7)).expect("sent");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(receiver.join().expect("no panic"), PACKETS);

    bench.say("line of text");
    bench.wait_for("got of text");
    bench.say("signal USR1");
    bench.wait_for("told");
    bench.say("stop");
    bench.wait_for("over");
    bench.wait_for("wiretail-guest: status 5");
    bench.end();
}

#[test]
fn isolated_vcpu_has_no_timer_ticks() {
    let test = "isolated_vcpu_has_no_timer_ticks";
    let script = "echo polling; while :; do :; done";
    let Some(mut bench) = Bench::start(test, Kernel::Cloud, Boot::Tuned, script) else { return };
    bench.wait_for("polling");
    // Timer ticks continue for a moment after the program has started.
    thread::sleep(Duration::from_secs(2));
    let before = bench.timer_interrupts();
    thread::sleep(Duration::from_secs(4));
    let after = bench.timer_interrupts();
    let [shared, isolated] = [0, 1].map(|processor| after[processor] - before[processor]);
    println!("{test}: timer interrupts in 4 s: {shared} on vCPU 0, {isolated} on the isolated vCPU");
    // Without isolation, there are 250 per second.
    assert!(isolated < 100, "{isolated}");
    bench.say("signal KILL");
    bench.wait_for("wiretail-guest: status 137");
    bench.end();
}

/// A user-space switch that forwards packets between two sockets: DPDK's testpmd.
fn switch(sockets: &[PathBuf; 2]) -> Option<Child> {
    let mut command = Command::new("dpdk-testpmd");
    command.args([
        "--no-huge",
        "-m",
        "128",
        "--no-pci",
        "--no-telemetry",
        "--no-shconf",
        "--lcores",
        "(0,1)@0",
    ]);
    for (number, socket) in sockets.iter().enumerate() {
        command.arg(format!("--vdev=net_vhost{number},iface={}", socket.display()));
    }
    command.args(["--", "--forward-mode=io", "--auto-start", "--total-num-mbufs=2048", "--stats-period=900"]);
    command.arg("--no-mlockall").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run_in(None, command).ok()
}

#[test]
fn packets_cross_user_space_switch() {
    let test = "packets_cross_user_space_switch";
    let folder = tempfile::tempdir().expect("a folder");
    let sockets = ["in", "out"].map(|name| folder.path().join(name));
    let Some(mut switch) = switch(&sockets) else {
        println!("SKIPPED: {test}: no dpdk-testpmd; run `wiretail setup dpdk`");
        return;
    };
    let begun = Instant::now();
    while !sockets.iter().all(|socket| socket.exists()) {
        assert!(begun.elapsed() < PATIENCE, "no sockets");
        assert!(switch.try_wait().expect("waited").is_none(), "the switch has ended");
        thread::sleep(Duration::from_millis(20));
    }
    // Nothing replies to these packets. `out` counts the packets that `in` sends.
    let script = r#"ip addr add 10.9.0.1/24 dev in; arp -i in -s 10.9.0.2 02:00:00:00:00:04
        sleep 1; ping -c 6 -W 1 10.9.0.2
        echo "arrived $(cat /sys/class/net/out/statistics/rx_packets)""#;
    let vhost =
        |_: &Journal, _: &Path| sockets.clone().map(|socket| Backend::VhostUser { socket, server: false });
    let bench = Bench::start_with(test, Kernel::Cloud, Boot::Plain, script, &vhost);
    if let Some(bench) = bench {
        let line = bench.wait_for("arrived ");
        let count: u32 = line.trim_start_matches("arrived ").trim().parse().expect("a count");
        assert!(count >= 6, "{count}");
        bench.end();
    }
    switch.kill().expect("killed");
    switch.wait().expect("ended");
}

/// Tests only kernels that are already in the cache of `wiretail setup vm`, because a test must not download
/// a hundred megabytes.
#[test]
fn other_kernels_boot() {
    for kind in [Kernel::Standard, Kernel::Rt] {
        let test = format!("other_kernels_boot, {}", kind.name());
        let Some(kernel) = kernel_cached(kind) else {
            println!("SKIPPED: {test}: not in the cache; run `wiretail setup vm`");
            continue;
        };
        let script = "uname -v; ls -1 /sys/class/net; exit 3";
        let Some(bench) = Bench::start(&test, kind, Boot::Tuned, script) else { continue };
        bench.wait_for(&format!("wiretail-guest: ready, Linux {}", kernel.release));
        if kind == Kernel::Rt {
            bench.wait_for("PREEMPT_RT");
        }
        bench.wait_for("in");
        bench.wait_for("out");
        bench.wait_for("wiretail-guest: status 3");
        bench.end();
    }
}

#[test]
fn tap_is_created_opened_once_and_removed() {
    if let Err(reason) = privileges(Path::new("/")).expect("a look").allow_testbed() {
        println!("SKIPPED: tap_is_created_opened_once_and_removed: {reason}");
        return;
    }
    if !Path::new("/dev/net/tun").exists() {
        println!("SKIPPED: tap_is_created_opened_once_and_removed: no /dev/net/tun");
        return;
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let name = format!("{}-gen", journal.run());
    let namespace = Namespace::new(&name).expect("a name");
    let tap =
        Step::AddTap { namespace: Some(name.clone()), link: "out".into(), mac: Some(MacAddress::local(7)) };
    let up = Step::SetUp { namespace: Some(name.clone()), link: "out".into() };
    for step in [Step::PrepareNamespaces, Step::AddNamespace { name: name.clone() }, tap.clone(), up] {
        journal.apply(&step).expect("done");
    }
    assert!(matches!(journal.apply(&tap), Err(HostError::Exists { .. })));
    let links = || namespace.inside(Netlink::open).expect("entered").and_then(|mut socket| socket.links());
    let link = || links().expect("listed").into_iter().find(|link| link.name == "out").expect("there");
    assert_eq!((link().mac, link().ready), (Some(MacAddress::local(7)), false));
    let open = open_tap(Some(&name), "out").expect("opened");
    namespace.wait_until_ready(Duration::from_secs(5)).expect("a carrier");
    let busy = open_tap(Some(&name), "out").expect_err("open already");
    assert_eq!(busy.io_kind(), Some(std::io::ErrorKind::ResourceBusy), "{busy}");
    let missing = open_tap(Some(&name), "none").expect_err("not there");
    assert_eq!(missing.io_kind(), Some(std::io::ErrorKind::NotFound), "{missing}");
    drop(open);
    open_tap(Some(&name), "out").expect("it stayed");
    journal.undo_all().expect("undone");
    assert!(!namespace.path().exists());
}
