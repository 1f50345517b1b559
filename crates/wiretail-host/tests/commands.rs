//! Commands of the user, with real processes. Without root, the tests print `SKIPPED`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wiretail_host::{CommandSpec, CoreSet, Cores, Journal, Step, is_of_namespace, privileges};

fn allowed(test: &str) -> bool {
    let held = privileges(Path::new("/")).expect("the privileges of this process");
    match held.allow_testbed() {
        Ok(()) => true,
        Err(reason) => {
            println!("SKIPPED: {test}: {reason}");
            false
        }
    }
}

/// A folder with a journal, a group, and the files that commands write.
struct Place {
    folder: TempDir,
    journal: Journal,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::create_unique(&folder.path().join("journals")).expect("a journal");
        journal.apply(&Step::AddCommandGroup { path: folder.path().join("group") }).expect("a group");
        Self { folder, journal }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str, cores: CoreSet) -> CommandSpec {
        CommandSpec {
            key: "host.before".into(),
            line: line.into(),
            directory: self.folder.path().into(),
            log: self.path("log"),
            env: Vec::new(),
            cores,
            group: self.path("group"),
        }
    }

    /// Runs a command and returns its output.
    fn run(&mut self, line: &str, cores: CoreSet) -> String {
        let command = Box::new(self.command(line, cores));
        self.journal.apply(&Step::RunCommand { command }).expect("it succeeds");
        fs::read_to_string(self.path("log")).expect("a log")
    }

    /// Waits until a command has written a complete line to a file, and returns the line.
    fn line(&self, name: &str) -> String {
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            if let Some((line, _)) = text.split_once('\n') {
                return line.to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{name} was not written");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A process outside the group.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn group_contains_daemons_and_nothing_else() {
    if !allowed("group_contains_daemons_and_nothing_else") {
        return;
    }
    let bystander = Bystander(Command::new("sleep").arg("1000").spawn().expect("sleep"));
    let mut place = Place::new();
    place.run(
        "sleep 1000 & echo $! >plain; setsid sh -c 'echo $$ >daemon; exec sleep 1000' >/dev/null 2>&1 &\n\
         (sh -c 'trap \"\" TERM; echo $$ >stubborn; while :; do sleep 0.05; done' &) &",
        CoreSet::default(),
    );
    let pids = ["plain", "daemon", "stubborn"].map(|name| place.line(name));
    assert!(pids.iter().all(|pid| is_alive(pid)), "they outlive the command: {pids:?}");
    let undone = place.journal.undo_all().expect("undone");
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    for pid in &pids {
        assert!(undone.killed.contains(&pid.parse().expect("a number")), "{pid}: {:?}", undone.killed);
    }
    assert!(is_alive(&bystander.0.id().to_string()));
    assert!(!place.path("group").exists());
}

#[test]
fn processes_may_end_by_themselves() {
    if !allowed("processes_may_end_by_themselves") {
        return;
    }
    let mut place = Place::new();
    let line = "sh -c 'trap \"echo saved >saved; exit\" TERM; echo on >on; while :; do sleep 0.05; done' &";
    place.run(line, CoreSet::default());
    place.line("on");
    place.journal.undo_all().expect("undone");
    assert_eq!(place.line("saved"), "saved");
}

#[test]
fn command_sees_the_host_and_keeps_to_its_cores() {
    if !allowed("command_sees_the_host_and_keeps_to_its_cores") {
        return;
    }
    let usable = Cores::read(Path::new("/")).expect("cores").usable;
    let core = CoreSet::new(usable.cores().last().copied());
    let mut place = Place::new();
    let line =
        "grep Cpus_allowed_list /proc/self/status; uname -n; readlink /proc/self/ns/net /proc/self/ns/uts";
    let said = place.run(line, core.clone());
    let text = |path: &str| fs::read_link(path).expect("a link").display().to_string();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("Cpus_allowed_list:\t{core}"));
    assert_eq!(lines[1..3], [host.trim(), &text("/proc/self/ns/net")]);
    assert_ne!(lines[3], text("/proc/self/ns/uts"), "the mark of the group");
    // A core that does not exist: the command runs nevertheless.
    assert!(!place.run("echo on", CoreSet::new([1000])).is_empty());
}

#[test]
fn kernel_keeps_only_some_settings_per_namespace() {
    if !allowed("kernel_keeps_only_some_settings_per_namespace") {
        return;
    }
    for (path, expected) in [
        ("net/ipv4/ip_forward", true),
        ("net/ipv4/conf/default/rp_filter", true),
        // Shown in the first namespace only, or read-only in the others.
        ("net/core/dev_weight", false),
        ("net/core/netdev_budget", false),
        ("vm/swappiness", false),
    ] {
        let path = Path::new("/proc/sys").join(path);
        assert!(path.exists(), "{}", path.display());
        assert_eq!(is_of_namespace(&path).expect("root"), expected, "{}", path.display());
    }
}
