//! Tests with a real testbed. They check links, packets, undoing, and the cleanup after a killed run. Without
//! root, they print `SKIPPED`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use wiretail_host::{
    CoreSet, Cores, Difference, HostState, Journal, LeftoverState, MacAddress, Namespace, Netlink, Plan,
    Step, VethEnd, clean, leftovers, name_prefix, privileges, quieten, run_in, takes_redirected_frames,
};
use wiretail_schema::random::Random;

/// Environment variable of the process that is to be killed. It holds the folder of its journal.
const VICTIM: &str = "WIRETAIL_HOST_VICTIM";

/// Environment variable that makes the process to be killed move other tasks off a core first.
const QUIET: &str = "WIRETAIL_HOST_QUIET";

/// Serializes the tests: they compare the state of the whole host.
static ONE: Mutex<()> = Mutex::new(());

/// Takes both locks: the one between threads and the one between processes. Returns `None` if the machine
/// cannot run these tests.
fn allowed(test: &str) -> Option<(MutexGuard<'static, ()>, File)> {
    let held = privileges(Path::new("/")).expect("the privileges of this process");
    match held.allow_testbed() {
        Ok(()) => {
            let threads = ONE.lock().unwrap_or_else(PoisonError::into_inner);
            let processes = File::open(std::env::temp_dir()).expect("a folder");
            processes.lock().expect("locked");
            Some((threads, processes))
        }
        Err(reason) => {
            println!("SKIPPED: {test}: {reason}");
            None
        }
    }
}

fn end(namespace: &str, link: &str, mac: u32) -> VethEnd {
    VethEnd { namespace: Some(namespace.into()), link: link.into(), mac: Some(MacAddress::local(mac)) }
}

/// gen -- dut (bridge) -- sink
fn plan(run: &str) -> Plan {
    let [generator, dut, sink] = ["gen", "dut", "sink"].map(|role| format!("{run}-{role}"));
    let mut plan = Plan::new();
    for name in [&generator, &dut, &sink] {
        plan.push(Step::AddNamespace { name: name.clone() });
        plan.push(Step::DisableIpv6 { namespace: name.clone() });
        plan.push(Step::SetUp { namespace: Some(name.clone()), link: "lo".into() });
    }
    plan.push(Step::AddVeth { a: end(&generator, "gen0", 1), b: end(&dut, "in0", 2) });
    plan.push(Step::AddVeth { a: end(&dut, "out0", 3), b: end(&sink, "sink0", 4) });
    plan.push(Step::AddBridge {
        namespace: Some(dut.clone()),
        name: "br0".into(),
        ports: vec!["in0".into(), "out0".into()],
    });
    let links = [(&generator, "gen0"), (&dut, "in0"), (&dut, "out0"), (&dut, "br0"), (&sink, "sink0")];
    plan.extend(
        links.map(|(namespace, link)| Step::SetUp { namespace: Some(namespace.clone()), link: link.into() }),
    );
    let ends = [(&generator, "gen0", "10.0.0.1"), (&sink, "sink0", "10.0.0.2")];
    plan.extend(ends.map(|(namespace, link, address)| Step::AddAddress {
        namespace: Some(namespace.clone()),
        link: link.into(),
        address: address.parse().expect("an address"),
        prefix_len: 24,
    }));
    plan.push(Step::AddNeighbour {
        namespace: Some(generator),
        link: "gen0".into(),
        address: "10.0.0.2".parse().expect("an address"),
        mac: MacAddress::local(4),
    });
    plan
}

fn state() -> HostState {
    HostState::capture(Path::new("/"), &[]).expect("the state of the host")
}

/// Differences caused by this test. Names of other runs are ignored.
fn differences(before: &HostState, prefix: &str) -> Vec<Difference> {
    let mut differences = before.differences(&state());
    differences.retain(|difference| !difference.is_named() || difference.object.contains(prefix));
    differences
}

fn own_prefix() -> String {
    name_prefix(std::process::id())
}

#[test]
fn packet_crosses_testbed_and_undo_restores_host() {
    let Some(_one) = allowed("packet_crosses_testbed_and_undo_restores_host") else { return };
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let run = journal.run().to_owned();
    journal.apply_all(&plan(&run)).expect("built");

    let namespace = |role: &str| Namespace::new(&format!("{run}-{role}")).expect("a name");
    for role in ["gen", "dut", "sink"] {
        namespace(role).wait_until_ready(Duration::from_secs(5)).expect("ready");
    }
    let links =
        namespace("dut").inside(Netlink::open).expect("entered").and_then(|mut socket| socket.links());
    let links = links.expect("listed");
    assert!(links.iter().all(|link| link.ready), "{links:?}");
    let bridge = links.iter().find(|link| link.name == "br0").expect("a bridge");
    let input = links.iter().find(|link| link.name == "in0").expect("a port");
    assert_eq!(
        (bridge.kind.as_str(), input.kind.as_str(), input.master),
        ("bridge", "veth", Some(bridge.index))
    );
    assert_eq!((input.up, input.mac), (true, Some(MacAddress::local(2))));

    let bind = |address: &'static str| move || UdpSocket::bind(address).expect("bound");
    let sink = namespace("sink").inside(bind("10.0.0.2:53")).expect("entered");
    let generator = namespace("gen").inside(bind("10.0.0.1:5000")).expect("entered");
    sink.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    generator.send_to(b"across", "10.0.0.2:53").expect("sent");
    let mut buffer = [0; 64];
    let (len, from) = sink.recv_from(&mut buffer).expect("arrived");
    assert_eq!((&buffer[..len], from.to_string().as_str()), (b"across".as_slice(), "10.0.0.1:5000"));

    let seen = differences(&before, &own_prefix());
    assert!(seen.iter().any(|difference| difference.object.ends_with("-dut")), "{seen:?}");
    // Both sockets are still open: they must not keep the namespaces alive.
    let undone = journal.undo_all().expect("undone");
    println!("undone: {undone:?}");
    let left = differences(&before, &own_prefix());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn undo_kills_programs_inside() {
    let Some(_one) = allowed("undo_kills_programs_inside") else { return };
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let name = format!("{}-dut", journal.run());
    journal.apply(&Step::PrepareNamespaces).expect("prepared");
    journal.apply(&Step::AddNamespace { name: name.clone() }).expect("added");
    let namespace = Namespace::new(&name).expect("a name");
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let mut child = run_in(Some(&namespace), sleep).expect("started");
    let inode =
        |path: String| fs::metadata(path).map(|metadata| std::os::unix::fs::MetadataExt::ino(&metadata));
    let expected = inode(namespace.path().display().to_string()).expect("there");
    assert_eq!(inode(format!("/proc/{}/ns/net", child.id())).expect("there"), expected);
    match Command::new("ip").args(["netns", "exec", &name, "true"]).status() {
        Ok(status) => assert!(status.success(), "ip netns exec {name}"),
        Err(error) => println!("SKIPPED: check with iproute2: {error}"),
    }
    let undone = journal.undo_all().expect("undone");
    assert_eq!(undone.killed, [child.id().cast_signed()]);
    assert!(!child.wait().expect("ended").success());
    let left = differences(&before, &own_prefix());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn kernel_kills_programs_with_their_thread() {
    let mut command = Command::new("sleep");
    command.arg("60");
    let mut child = thread::spawn(move || run_in(None, command)).join().expect("no panic").expect("started");
    let deadline = Instant::now() + Duration::from_secs(10);
    while child.try_wait().expect("looked").is_none() {
        assert!(Instant::now() < deadline, "still there");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn rejects_existing_names() {
    let Some(_one) = allowed("rejects_existing_names") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let mut second = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    assert_ne!(first.run(), second.run());
    let name = format!("{}-dut", first.run());
    first.apply(&Step::PrepareNamespaces).expect("prepared");
    first.apply(&Step::AddNamespace { name: name.clone() }).expect("added");
    let [a, b] =
        ["a", "b"].map(|link| VethEnd { namespace: Some(name.clone()), link: link.into(), mac: None });
    first.apply(&Step::AddVeth { a, b }).expect("added");
    first.apply(&Step::SetUp { namespace: Some(name.clone()), link: "a".into() }).expect("up");
    let error =
        Namespace::new(&name).and_then(|namespace| namespace.wait_until_ready(Duration::from_millis(20)));
    let error = error.expect_err("the other end is down").to_string();
    assert!(error.contains("these links are still not ready: a;"), "{error}");
    second.apply(&Step::AddNamespace { name: name.clone() }).expect_err("taken");
    second.undo_all().expect("undone");
    let namespace = Namespace::new(&name).expect("a name");
    namespace.open().expect("still there");
    drop(first);
    assert!(!namespace.path().exists(), "dropping undoes");
}

/// Not a test: `cleans_up_after_killed_run` starts this as a child process and kills it.
#[test]
fn victim() {
    let Ok(folder) = std::env::var(VICTIM) else { return };
    let mut journal = Journal::create_unique(Path::new(&folder)).expect("a journal");
    println!("\nstarted");
    let mut plan = plan(journal.run());
    if std::env::var_os(QUIET).is_some() {
        let root = Path::new("/");
        let dut = Cores::read(root).expect("cores").assign().expect("roles").dut;
        plan.extend(quieten(root, journal.run(), &CoreSet::new([dut]), &[]).expect("steps"));
    }
    journal.apply_all(&plan).expect("built");
    let namespace = Namespace::new(&format!("{}-dut", journal.run())).expect("a name");
    let mut sleep = Command::new("sleep");
    sleep.arg("20");
    let mut child = run_in(Some(&namespace), sleep).expect("started");
    println!("\nbuilt");
    child.wait().expect("killed before");
}

/// Starts the victim, waits until `after` has passed since the start of its journal, and kills it. If `after`
/// is `None`, waits until its testbed is complete. Returns its PID and how long after the start of its
/// journal it was killed.
fn kill_victim(folder: &Path, after: Option<Duration>, quiet: bool) -> (u32, Duration) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    if quiet {
        command.env(QUIET, "1");
    }
    let mut child = command
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut wait_for = |word: &str| lines.find(|line| line.as_ref().is_ok_and(|line| line == word));
    assert!(wait_for("started").is_some(), "the victim did not start");
    let started = Instant::now();
    match after {
        Some(after) => thread::sleep(after),
        None => assert!(wait_for("built").is_some(), "the victim did not build"),
    }
    let took = started.elapsed();
    child.kill().expect("killed");
    child.wait().expect("ended");
    (child.id(), took)
}

#[test]
fn cleans_up_after_killed_run() {
    let Some(_one) = allowed("cleans_up_after_killed_run") else { return };
    kill_at_random_moments(20, false);
}

/// Kills `times` runs while they build their testbeds, cleans up after each, and compares the host.
fn kill_at_random_moments(times: u32, quiet: bool) {
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let journals = folder.path().join("journals");
    let cleaned = |pid: u32| {
        let dead = leftovers(&journals).expect("listed");
        assert!(dead.iter().all(|leftover| leftover.state == LeftoverState::Dead), "{dead:?}");
        let report = clean(&journals, false).expect("cleaned");
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        let left = differences(&before, &name_prefix(pid));
        assert!(left.is_empty(), "{left:?}");
        report.cleaned.iter().map(|(_, undone)| undone.steps).sum::<usize>()
    };
    let (pid, whole) = kill_victim(&journals, None, quiet);
    let steps = cleaned(pid);
    assert!(steps >= plan("run").steps().len(), "{steps}");
    println!("a whole run: {steps} steps");
    let mut random = Random::new(20_261_120);
    let mut undone = Vec::new();
    for _ in 0..times {
        let (pid, _) = kill_victim(&journals, Some(whole.mul_f64(random.uniform())), quiet);
        undone.push(cleaned(pid));
    }
    println!("killed {times} times; steps that were undone: {undone:?}");
    assert!(!journals.exists(), "removing the last journal must remove its folder");
}

#[test]
fn concurrent_runs_do_not_collide() {
    let Some(_one) = allowed("concurrent_runs_do_not_collide") else { return };
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let journals = folder.path().join("journals");
    for moments in [[None, None, None], [Some(5), Some(40), Some(90)], [Some(70), Some(20), None]] {
        let pids: Vec<u32> = thread::scope(|scope| {
            let kill = |after: Option<u64>| {
                let journals = &journals;
                scope.spawn(move || kill_victim(journals, after.map(Duration::from_millis), false).0)
            };
            let running = moments.map(kill);
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let report = clean(&journals, false).expect("cleaned");
        assert!(report.faults.is_empty() && report.living.is_empty(), "{report:?}");
        assert_eq!(report.cleaned.len(), pids.len());
        for pid in pids {
            let left = differences(&before, &name_prefix(pid));
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// Tests the steps needed for a router and for the far end of a redirection.
#[test]
fn sets_routes_sysctls_and_gro() {
    let Some(_one) = allowed("sets_routes_sysctls_and_gro") else { return };
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let run = journal.run().to_owned();
    let name = format!("{run}-dut");
    // Stays within the maximum length of a link name.
    let outside = format!("g{}", &run[run.len().saturating_sub(12)..]);
    let place = || Some(name.clone());
    let address = |text: &str| text.parse().expect("an address");
    let mut plan = Plan::new();
    plan.push(Step::AddNamespace { name: name.clone() });
    plan.push(Step::AddVeth {
        a: end(&name, "in", 1),
        b: VethEnd { namespace: None, link: outside.clone(), mac: None },
    });
    plan.push(Step::SetUp { namespace: place(), link: "in".into() });
    plan.push(Step::SetUp { namespace: None, link: outside.clone() });
    plan.push(Step::AddAddress {
        namespace: place(),
        link: "in".into(),
        address: address("169.254.1.2"),
        prefix_len: 30,
    });
    plan.push(Step::AddRoute {
        namespace: place(),
        link: "in".into(),
        destination: address("198.18.0.0"),
        prefix_len: 16,
        gateway: address("169.254.1.1"),
    });
    let forwarding = "net/ipv4/ip_forward";
    plan.push(Step::SetSysctl { namespace: name.clone(), name: forwarding.into(), value: "1".into() });
    journal.apply_all(&plan).expect("built");
    let inside = Namespace::new(&name).expect("a name");
    let value =
        inside.inside(|| fs::read_to_string(Path::new("/proc/sys").join(forwarding))).expect("entered");
    assert_eq!(value.expect("read").trim(), "1");
    // The kernel's table: interface, destination, gateway, in hexadecimal in memory order.
    let routes = inside.inside(|| fs::read_to_string("/proc/thread-self/net/route")).expect("entered");
    let routes = routes.expect("read");
    let hex = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
    let route = ["in".to_owned(), hex([198, 18, 0, 0]), hex([169, 254, 1, 1])];
    let found = routes.lines().any(|line| line.split_whitespace().take(3).eq(route.iter()));
    assert!(found, "{routes}");

    let takes = || inside.inside(|| takes_redirected_frames("in")).expect("entered").expect("an answer");
    if takes().is_none() {
        println!("SKIPPED: check of redirected frames: not reported by this kernel");
    }
    assert_ne!(takes(), Some(true), "a veth has GRO off by default");
    let gro = |on| Step::SetGro { namespace: None, link: outside.clone(), on };
    let (mut first, mut second) =
        [(); 2].map(|()| Journal::create_unique(&folder.path().join("journals")).expect("a journal")).into();
    first.apply(&gro(true)).expect("on");
    assert_ne!(takes(), Some(false));
    second.apply(&gro(false)).expect("off");
    assert_ne!(takes(), Some(true));
    second.undo_all().expect("undone");
    assert_ne!(takes(), Some(false), "it was on");
    first.undo_all().expect("undone");
    assert_ne!(takes(), Some(true), "it was off");

    let error = journal.apply(&Step::SetGro { namespace: place(), link: "none".into(), on: true });
    let error = error.expect_err("no such link").to_string();
    assert!(error.contains(":none: cannot read the GRO setting"), "{error}");
    let unreachable = Step::AddRoute {
        namespace: place(),
        link: "in".into(),
        destination: address("198.19.0.0"),
        prefix_len: 16,
        gateway: address("192.0.2.1"),
    };
    let error = journal.apply(&unreachable).expect_err("no route to the gateway").to_string();
    assert!(error.contains("cannot add the route"), "{error}");
    // Undoing GRO of a link that no longer exists.
    journal.apply(&gro(true)).expect("on");
    journal.undo_all().expect("undone");
    let left = differences(&before, &own_prefix());
    assert!(left.is_empty(), "{left:?}");
}

/// Uses a private cpuset with a child process, so that no other tasks are moved.
#[test]
fn moves_tasks_and_moves_them_back() {
    let Some(_one) = allowed("moves_tasks_and_moves_them_back") else { return };
    let root = Path::new("/sys/fs/cgroup/cpuset");
    if !root.join("cpuset.cpus").exists() {
        println!("SKIPPED: moves_tasks_and_moves_them_back: no cpuset of cgroup v1 at {}", root.display());
        return;
    }
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let [from, to] = ["from", "to"].map(|which| root.join(format!("{}-{which}", journal.run())));
    for path in [&from, &to] {
        journal.apply(&Step::AddDirectory { path: path.clone() }).expect("made");
        for (file, value) in [("cpuset.cpus", "0"), ("cpuset.mems", "0")] {
            let step = Step::WriteFile { path: path.join(file), value: value.into(), may_refuse: false };
            journal.apply(&step).expect("written");
        }
    }
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let mut child = run_in(None, sleep).expect("started");
    fs::write(from.join("cgroup.procs"), child.id().to_string()).expect("moved");
    let step = Step::MoveTasks { from: from.clone(), to: to.clone(), keep: Vec::new() };
    journal.apply(&step).expect("moved");
    let inside =
        |path: &Path| fs::read_to_string(path.join("cgroup.procs")).expect("listed").trim().to_owned();
    assert_eq!((inside(&from), inside(&to)), (String::new(), child.id().to_string()));
    let seen = differences(&before, &own_prefix());
    assert!(!seen.is_empty());
    // The folder `from` cannot be removed while the child is in that cpuset. The first undo moves the child
    // back to `from` and fails to remove the folder. The second undo removes the folder after the child has
    // ended.
    journal.undo_all().expect_err("a process is inside");
    assert!(!to.exists());
    assert_eq!(inside(&from), child.id().to_string());
    child.kill().expect("killed");
    child.wait().expect("ended");
    journal.undo_all().expect("undone");
    let left = differences(&before, &own_prefix());
    assert!(left.is_empty(), "{left:?}");
}

/// Cores on which a process may run.
fn cores_of(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("a list").trim().to_owned()
}

/// Whether to run tests that move all tasks of the machine off a core, which would disturb measurements and
/// builds.
fn may_move_tasks() -> bool {
    let asked = std::env::var_os("WIRETAIL_TEST_CORES").is_some();
    if !asked {
        println!("SKIPPED: moves all tasks off a core temporarily; set WIRETAIL_TEST_CORES=1 to allow this");
    }
    asked
}

#[test]
fn isolates_core_and_restores_it() {
    if !may_move_tasks() {
        return;
    }
    let Some(_one) = allowed("isolates_core_and_restores_it") else { return };
    let root = Path::new("/");
    let cores = Cores::read(root).expect("cores");
    let roles = cores.assign().expect("roles");
    if !roles.is_dut_alone() {
        println!("SKIPPED: isolates_core_and_restores_it: only one core");
        return;
    }
    let mut command = Command::new("sleep");
    command.arg("60");
    let mut child = run_in(None, command).expect("started");
    let usual = cores_of(child.id());
    let before = state();
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
    let quiet = CoreSet::new([roles.dut]);
    let own = std::process::id().cast_signed();
    let steps = quieten(root, journal.run(), &quiet, &[own]).expect("steps");
    let moves = steps.iter().any(|step| matches!(step, Step::MoveTasks { .. }));
    let started = Instant::now();
    steps.iter().try_for_each(|step| journal.apply(step)).expect("quiet");
    let made = started.elapsed();
    let inside = cores_of(child.id());
    let mine = cores_of(std::process::id());
    let changed = before.differences(&state()).len();
    let undone = journal.undo_all().expect("undone");
    println!("{} steps in {made:?}, {changed} values changed, {undone:?}", steps.len());
    if moves {
        assert_eq!(inside, cores.usable.without(&quiet).to_string());
        assert_eq!(mine, usual);
    }
    assert_eq!(cores_of(child.id()), usual);
    assert!(before.differences(&state()).is_empty(), "{:?}", before.differences(&state()));
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn restores_isolated_core_after_kill() {
    if !may_move_tasks() {
        return;
    }
    let Some(_one) = allowed("restores_isolated_core_after_kill") else { return };
    kill_at_random_moments(10, true);
}
