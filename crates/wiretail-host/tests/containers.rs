//! Tests with real containers. They check the program inside the container, its streams, signals and exit
//! status, and that containers are removed completely. Without root or a runtime, they print `SKIPPED`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wiretail_host::deploy::{Container, Runtime, Workload, container};
use wiretail_host::{CoreSet, HostError, Journal, Namespace, Plan, Step, clean, privileges, run_in};

/// Serializes the tests. Each run has its own journal folder, so different runs get the same names.
static ONE: Mutex<()> = Mutex::new(());

const PATIENCE: Duration = Duration::from_secs(20);

/// A node with one link, a container in it, and their journal.
struct Bench {
    folder: TempDir,
    journal: Journal,
    container: Container,
    child: Child,
    name: String,
    _one: MutexGuard<'static, ()>,
}

/// Environment variable of the process that is to be killed. It holds the runtime and the working folder.
const VICTIM: &str = "WIRETAIL_HOST_CONTAINER_VICTIM";

impl Bench {
    /// Returns `None`, after printing the reason, if this machine cannot run the test.
    fn start(test: &str, runtime: Runtime, script: &str) -> Option<Self> {
        if let Err(reason) = privileges(Path::new("/")).expect("a look").allow_testbed() {
            println!("SKIPPED: {test}: {reason}");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().join("work");
        fs::create_dir(&work).expect("made");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        let name = format!("{}-dut1", journal.run());
        let workload = Workload {
            argv: ["sh", "-c", script].map(Into::into).into(),
            env: vec![("GREETING".into(), "hello you".into())],
            directory: work,
            reads: Vec::new(),
            namespace: Namespace::new(&name).expect("a name"),
            cores: CoreSet::new([0]),
            hugepages: false,
        };
        let launch = match container(runtime, &name, &workload, folder.path()) {
            Err(error @ HostError::NotInstalled { .. }) => {
                println!("SKIPPED: {test}: {error}");
                return None;
            }
            other => other.expect("a container"),
        };
        let mut plan = Plan::new();
        plan.push(Step::AddNamespace { name: name.clone() });
        plan.push(Step::AddBridge { namespace: Some(name.clone()), name: "in".into(), ports: Vec::new() });
        journal.apply_all(&plan).expect("a node");
        journal.apply_all(&launch.plan).expect("its container");
        let mut command = launch.command;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = run_in(None, command).expect("started");
        let container = Container::new(&name).expect("a name");
        Some(Bench { folder, journal, container, child, name, _one: one })
    }

    fn program(&self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(pid) = self.container.program_pid() {
                return pid;
            }
            assert!(begun.elapsed() < PATIENCE, "no program");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.program().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill").success());
    }

    fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited") {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Undoes all steps and checks that nothing is left. Returns the PIDs of the killed processes.
    fn undo(mut self) -> Vec<i32> {
        let undone = self.journal.undo_all().expect("undone");
        let _ = self.child.wait();
        let groups = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        for group in groups.flat_map(|entry| [entry.path().join(&self.name), entry.path()]) {
            let name = group.file_name().unwrap_or_default().to_string_lossy().into_owned();
            assert!(!(name.starts_with(&self.name) && group.exists()), "{}", group.display());
        }
        let left: Vec<_> = fs::read_dir(self.folder.path()).expect("listed").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}: more than the working folder");
        let lock = self.folder.path().strip_prefix("/").expect("a whole path");
        assert!(!Path::new("/run/lxc/lock").join(lock).exists());
        undone.killed
    }
}

const BOTH: [Runtime; 2] = [Runtime::Runc, Runtime::Lxc];

#[test]
fn container_provides_streams_links_cores_and_status() {
    let script = r#"read line; echo "$line, $GREETING"; echo wrong >&2; ls /sys/class/net
        grep Cpus_allowed_list /proc/self/status; pwd; echo x > made; touch /usr/made || echo refused
        test -c /dev/null && test -d /proc/self && cat /proc/self/comm; exit 7"#;
    for runtime in BOTH {
        let test = format!("container_provides_streams_links_cores_and_status, {}", runtime.name());
        let Some(mut bench) = Bench::start(&test, runtime, script) else { continue };
        bench.child.stdin.take().expect("a pipe").write_all(b"hi\n").expect("written");
        let (mut out, mut err) = (String::new(), String::new());
        bench.child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("read");
        bench.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("read");
        assert_eq!(bench.wait(), Some(7), "{out}{err}");
        let work = bench.folder.path().join("work");
        let expected =
            format!("hi, hello you\nin\nlo\nCpus_allowed_list:\t0\n{}\nrefused\ncat\n", work.display());
        assert_eq!(out, expected);
        assert!(err.starts_with("wrong\n"), "{err}");
        assert_eq!(fs::read_to_string(work.join("made")).expect("written inside"), "x\n");
        assert_eq!(bench.undo(), Vec::<i32>::new());
    }
}

#[test]
fn signals_reach_the_program() {
    // The script has no trap for INT and must not ignore it.
    let script = r#"trap "echo told" USR1; trap "echo end; exit 3" TERM; echo ready
        while :; do sleep 0.05; done"#;
    for runtime in BOTH {
        let test = format!("signals_reach_the_program, {}", runtime.name());
        for (last, expected, status) in [("TERM", "end", Some(3)), ("INT", "", Some(130))] {
            let Some(mut bench) = Bench::start(&test, runtime, script) else { continue };
            let mut lines = BufReader::new(bench.child.stdout.take().expect("a pipe")).lines();
            let mut line = || lines.next().map(|line| line.expect("read")).unwrap_or_default();
            assert_eq!(line(), "ready");
            bench.signal("USR1");
            assert_eq!(line(), "told");
            bench.signal(last);
            assert_eq!(line(), expected);
            assert_eq!(bench.wait(), status, "{test}");
            assert_eq!(bench.undo(), Vec::<i32>::new());
        }
    }
}

#[test]
fn container_allows_realtime_priority_on_request() {
    for runtime in BOTH {
        let test = format!("container_allows_realtime_priority_on_request, {}", runtime.name());
        let Some(bench) = Bench::start(&test, runtime, "exec sleep 60") else { continue };
        let pid = bench.program().to_string();
        bench.container.allow_realtime().expect("allowed");
        let chrt = Command::new("chrt").args(["-f", "-p", "1", &pid]).status().expect("util-linux is there");
        assert!(chrt.success());
        bench.undo();
    }
}

#[test]
fn removes_killed_container_completely() {
    for runtime in BOTH {
        let test = format!("removes_killed_container_completely, {}", runtime.name());
        let Some(mut bench) = Bench::start(&test, runtime, "sleep 60 & exec sleep 60") else { continue };
        let pid = bench.program();
        bench.child.kill().expect("killed");
        bench.child.wait().expect("ended");
        // When process 1 of the container ends, all its other processes end as well.
        println!("{test}: program {pid}, killed {:?}", bench.undo());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// Runs only with [`VICTIM`] set: starts a container and waits to be killed.
#[test]
fn victim() {
    let Some(value) = std::env::var_os(VICTIM) else { return };
    let value = value.into_string().expect("UTF-8");
    let (runtime, folder) = value.split_once(' ').expect("two words");
    let runtime = if runtime == "lxc" { Runtime::Lxc } else { Runtime::Runc };
    let folder = Path::new(folder);
    let mut journal = Journal::create_unique(&folder.join("journals")).expect("a journal");
    let name = format!("{}-dut1", journal.run());
    let workload = Workload {
        argv: ["sleep", "60"].map(Into::into).into(),
        env: Vec::new(),
        directory: folder.join("work"),
        reads: Vec::new(),
        namespace: Namespace::new(&name).expect("a name"),
        cores: CoreSet::new([0]),
        hugepages: false,
    };
    let launch = container(runtime, &name, &workload, folder).expect("a container");
    journal.apply(&Step::PrepareNamespaces).expect("done");
    journal.apply(&Step::AddNamespace { name: name.clone() }).expect("a node");
    journal.apply_all(&launch.plan).expect("its container");
    let mut child = run_in(None, launch.command).expect("started");
    let container = Container::new(&name).expect("a name");
    while container.program_pid().is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    println!("started {name}");
    child.wait().expect("ended");
}

#[test]
fn cleans_up_after_killed_run() {
    for runtime in BOTH {
        let test = format!("cleans_up_after_killed_run, {}", runtime.name());
        // Prints the reason if this machine cannot run the test.
        let Some(mut bench) = Bench::start(&test, runtime, "exit 0") else { continue };
        assert_eq!(bench.wait(), Some(0));
        bench.undo();
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("work")).expect("made");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, format!("{} {}", runtime.name(), folder.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let name =
            lines.find_map(|line| Some(line.split_once("started ")?.1.to_owned())).expect("it started");
        child.kill().expect("killed");
        child.wait().expect("ended");
        let report = clean(&folder.path().join("journals"), false).expect("cleaned");
        assert!(report.faults.is_empty() && report.cleaned.len() == 1, "{report:?}");
        assert_eq!(Container::new(&name).expect("a name").program_pid(), None);
        assert!(!Namespace::new(&name).expect("a name").path().exists());
        assert!(!Path::new("/sys/fs/cgroup/cpuset").join(&name).exists());
        let left: Vec<_> = fs::read_dir(folder.path()).expect("listed").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}: more than the working folder");
    }
}
