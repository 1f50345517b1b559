//! Runs that cannot start report the reason and leave nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::bed::{Bed, Running, experiment, live, live_on_own_cores, on_own_cores};
use crate::support::{WIRETAIL, folder};

fn short() -> String {
    experiment("kind = \"bridge\"", "rate = \"1 kpps\"", "duration = \"300 ms\"")
}

/// Runs as another user or with fewer capabilities; returns the error message.
fn refused(setpriv: &[&str]) -> Option<String> {
    let bed = Bed::new(&short());
    // Every user can read, execute and write here.
    let place = folder();
    let open = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("permissions");
    };
    open(place.path());
    let program = place.path().join("wiretail");
    fs::copy(WIRETAIL, &program).expect("a copy");
    fs::copy(bed.path("test.toml"), place.path().join("test.toml")).expect("a copy");
    let mut command = Command::new("setpriv");
    command.args(setpriv).arg(&program).args(["run", "test.toml", "--out", "run", "--allow-system-changes"]);
    command.current_dir(place.path());
    bed.redirect(&mut command);
    let works =
        Command::new("setpriv").args(setpriv).arg(&program).arg("--version").stdout(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no setpriv here, or the program is out of reach of other users");
        return None;
    }
    let finished = Running::start(&bed, command).end().with_code(2);
    assert!(!place.path().join("run").exists(), "no directory is created for a run that can't start");
    assert!(finished.stdout.is_empty());
    Some(finished.stderr)
}

#[test]
fn names_missing_privileges_without_root() {
    let Some(_alone) = live() else { return };
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let Some(message) = refused(&nobody) else { return };
    assert!(message.contains("CAP_SYS_ADMIN") && message.contains("CAP_NET_ADMIN"), "{message}");
}

#[test]
fn names_missing_capability() {
    let Some(_alone) = live() else { return };
    for (capability, name) in
        [("-net_admin", "CAP_NET_ADMIN"), ("-net_raw", "CAP_NET_RAW"), ("-sys_admin", "CAP_SYS_ADMIN")]
    {
        let Some(message) = refused(&["--bounding-set", capability, "--inh-caps", capability]) else {
            return;
        };
        assert!(message.contains(name), "{message}");
        assert_eq!(message.matches("CAP_").count(), 1, "only that one: {message}");
    }
}

/// A directory on a small file system, which is unmounted after the test.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&path).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(&path)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        println!("SKIPPED: no tmpfs can be mounted here");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn reports_full_disk() {
    let Some(_alone) = live() else { return };
    // The first trial's capture does not fit, but the other files of a run do.
    let text = experiment(
        "kind = \"wire\"",
        "rate = \"20 kpps\"\nsize = \"imix-csit\"",
        "duration = \"2 s\"\ncapture = \"full\"",
    );
    for (size, capture) in [("256k", "full"), ("64k", "none")] {
        let bed = Bed::new(&text.replace("\"full\"", &format!("\"{capture}\"")));
        let Some(_small) = Small::mount(bed.out(), size) else { return };
        let finished = bed.run();
        assert!(matches!(finished.code, Some(1 | 2)), "{:?}: {}", finished.code, finished.stderr);
        assert!(finished.stderr.contains("No space left on device"), "{}", finished.stderr);
        assert!(finished.stderr.contains("run/"), "the file is named: {}", finished.stderr);
    }
}

#[test]
fn names_directory_that_cannot_be_created() {
    let Some(_alone) = live() else { return };
    let bed = Bed::new(&short());
    fs::write(bed.out(), "a file").expect("written");
    let finished = bed.run().with_code(2);
    assert!(
        finished.stderr.contains("run/trials: cannot be created")
            || finished.stderr.contains("run: cannot be created"),
        "{}",
        finished.stderr
    );
}

#[test]
fn names_core_of_another_run() {
    let Some(_alone) = live_on_own_cores() else { return };
    let text = experiment("kind = \"bridge\"", "rate = \"1 kpps\"", "duration = \"3 s\"");
    let first = Bed::new(&on_own_cores(&text));
    let mut run = first.start();
    run.until("it has its core", |bed| bed.out().join("trials/0001-bridge/capture.pcapng.zst").exists());
    let second = Bed::new(&on_own_cores(&short()));
    let refused = second.run().with_code(1);
    let expected = format!("busy with another run, process {}", run.pid);
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    assert_eq!(second.trials()[0]["state"], "failed");
    assert!(second.trials()[0]["reasons"][0].as_str().unwrap().contains(&expected));
    run.end().with_code(0);
    assert_eq!(first.trials()[0]["generator"]["sent"], 3000, "the first run is unaffected");
}

/// A program that keeps a core busy and cannot be moved, because it has its own cpuset.
struct Hog {
    folder: PathBuf,
    child: std::process::Child,
}

impl Hog {
    fn start(core: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/cpuset/hog-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() {
            println!("SKIPPED: no cpuset of cgroup v1 can be made here");
            return None;
        }
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        let hog = Self { folder, child };
        fs::write(hog.folder.join("cpuset.cpus"), core.to_string()).expect("a core");
        let memory = fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.mems").expect("a list");
        fs::write(hog.folder.join("cpuset.mems"), memory).expect("memory");
        fs::write(hog.folder.join("cgroup.procs"), hog.child.id().to_string()).expect("moved");
        Some(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A task leaves its cpuset shortly after it was reaped.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        println!("{} is left", self.folder.display());
    }
}

#[test]
fn names_core_that_cannot_be_emptied() {
    let Some(_alone) = live_on_own_cores() else { return };
    let bed = Bed::new(&on_own_cores(&short()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(hog) = Hog::start(cores as u32 - 1) else { return };
    let finished = bed.run().with_code(1);
    let expected = format!("core {}: busy with sh", cores - 1);
    assert!(finished.stderr.contains(&expected), "{}", finished.stderr);
    assert!(finished.stderr.contains(&hog.child.id().to_string()), "its number: {}", finished.stderr);
    assert!(finished.stderr.contains("host.isolate"), "the next step: {}", finished.stderr);
}
