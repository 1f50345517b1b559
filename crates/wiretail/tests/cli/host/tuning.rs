//! `wiretail host apply`, `verify` and `revert` on the files of a recorded machine, and on this machine if it
//! may be changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wiretail_host::{Difference, HostState, Kind};
use wiretail_schema::host::record::{HostRecord, Reading};
use wiretail_schema::random::Random;

use crate::run::bed;
use crate::support::{WIRETAIL, fail, folder, succeed, wiretail};

const GUEST: &str = include_str!("../../../../wiretail-analysis/tests/hosts/guest.txt");
/// Number of times that `apply` is killed, each time at a different moment.
const KILLS: u32 = 20;

/// Writes the recorded guest as files. Also creates configuration directories, one of which is in use.
fn tree() -> tempfile::TempDir {
    let root = folder();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    for (name, reading) in HostRecord::parse(GUEST).expect("a record").readings {
        if let (true, Reading::Text(text)) = (name.starts_with('/'), reading) {
            write(&name, &format!("{text}\n"));
        }
    }
    write("/etc/default/grub", "GRUB_TIMEOUT=5\n");
    write("/etc/sysctl.d/99-wiretail.conf", "somebody = 1\n\n");
    write("/etc/systemd/system.conf", "[Manager]\n");
    root
}

/// Returns every file in a directory with its content, and every subdirectory.
fn content(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if path.is_dir() {
            found.insert(name, "folder".to_owned());
            found.extend(content(&path));
        } else {
            found.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
    found
}

/// Compares the content, except for new directories that are empty.
fn same(before: &BTreeMap<String, String>, root: &Path) {
    let after = content(root);
    for (name, text) in &after {
        assert!(before.get(name) == Some(text), "{name}: {:?} -> {text:?}", before.get(name));
    }
    assert_eq!(before.len(), after.len());
}

fn apply(root: &str) -> Vec<&str> {
    let words = ["host", "apply", "--profile", "optimized", "--cores", "1", "--files", "--root", root];
    words.into_iter().chain(["--allow-system-changes"]).collect()
}

#[test]
fn apply_persists_until_revert() {
    let tree = tree();
    let root = tree.path().display().to_string();
    let read = |path: &str| fs::read_to_string(tree.path().join(path)).unwrap_or_default();
    let before = content(tree.path());
    let refused = fail(apply(&root).into_iter().filter(|word| !word.starts_with("--allow")));
    assert!(refused.contains("--allow-system-changes"), "{refused}");
    let dry = succeed(apply(&root).into_iter().chain(["--dry-run"]));
    assert!(dry.contains("write \"-1\" to") && dry.contains("99-wiretail.cfg"), "{dry}");
    same(&before, tree.path());

    let told = succeed(apply(&root));
    assert!(told.contains("0 refused, 6 files installed") && told.contains("update-grub"), "{told}");
    assert_eq!(read("proc/sys/kernel/sched_rt_runtime_us"), "-1\n");
    assert_eq!(read("proc/irq/25/smp_affinity_list"), "0\n");
    assert_eq!(read("proc/irq/26/smp_affinity_list"), "0-1\n", "the interrupt is unused");
    assert!(read("etc/sysctl.d/99-wiretail.conf").contains("kernel.sched_rt_runtime_us = -1"));
    assert!(
        read("etc/systemd/system/wiretail-host.service").contains("echo 1 > /sys/devices/virtual/workqueue")
    );
    let again = fail(apply(&root));
    assert!(again.contains("already applied") && again.contains("host revert"), "{again}");

    // The record lists irqbalance as a thread, which the tree lacks. Kernel command-line parameters need a reboot.
    let verify = ["host", "verify", "--root", &root];
    assert_eq!(
        wiretail(verify.into_iter().chain(["--now"])).status.code(),
        Some(1),
        "threads are unknown in a tree"
    );
    let plan: Value =
        serde_json::from_slice(&wiretail(verify.into_iter().chain(["--json"])).stdout).expect("JSON");
    let settings = plan["settings"].as_array().expect("a list");
    let open: Vec<&Value> = settings
        .iter()
        .filter(|one| {
            one["target"]["kind"] == "file" && one["state"] != "in-effect" && one["state"] != "not-here"
        })
        .collect();
    assert!(open.is_empty(), "{open:#?}");
    fs::write(tree.path().join("proc/sys/vm/stat_interval"), "1\n").expect("written");
    let shown = String::from_utf8(wiretail(verify).stdout).expect("UTF-8");
    assert!(shown.contains("change      /proc/sys/vm/stat_interval"), "{shown}");

    let dry = succeed(["host", "revert", "--dry-run", "--root", &root]);
    assert!(
        dry.contains("changes would be undone") && !read("proc/sys/vm/stat_interval").contains("120"),
        "{dry}"
    );
    let undone = succeed(["host", "revert", "--root", &root]);
    assert!(undone.contains("changes undone") && undone.contains("update-grub"), "{undone}");
    // The selected word alone was written back. The kernel then shows all words, with the selected one in
    // brackets, so the test writes this form into the tree.
    let choice = tree.path().join("sys/kernel/mm/transparent_hugepage/enabled");
    assert_eq!(fs::read_to_string(&choice).expect("read"), "always\n");
    fs::write(&choice, "[always] madvise never\n").expect("written");
    let emptied: BTreeMap<_, _> =
        content(tree.path()).into_iter().filter(|(name, _)| !name.contains("/var")).collect();
    let differences: Vec<_> = before.iter().filter(|(name, text)| emptied.get(*name) != Some(text)).collect();
    assert!(differences.is_empty(), "{differences:?}");
    assert!(
        !tree.path().join("etc/default/grub.d").exists() && !tree.path().join("var/lib/wiretail").exists()
    );
    assert!(succeed(["host", "revert", "--root", &root]).contains("nothing is applied"));
    assert!(fail(["host", "verify", "--root", &root]).contains("no profile is applied"));
}

#[test]
fn revert_restores_changes_of_killed_apply() {
    let tree = tree();
    let root = tree.path().display().to_string();
    // If a file accepts a word, it then shows this word, as in the kernel.
    fs::write(tree.path().join("sys/kernel/mm/transparent_hugepage/enabled"), "always\n").expect("written");
    fs::create_dir_all(tree.path().join("var/lib")).expect("made");
    let before = content(tree.path());
    let begun = Instant::now();
    succeed(apply(&root));
    let whole = begun.elapsed();
    succeed(["host", "revert", "--root", &root]);
    same(&before, tree.path());
    let killed = kill_at_moments(&apply(&root), whole, || {
        succeed(["host", "revert", "--root", &root]);
        same(&before, tree.path());
    });
    assert!(killed > 0, "none of {KILLS} was killed before its end");
}

/// At its end, a run restores the values that it read at its start. If apply or revert changed values during
/// a run, these changes would be lost.
#[test]
fn apply_is_refused_while_run_has_same_files() {
    let tree = tree();
    let root = tree.path().display().to_string();
    succeed(apply(&root));
    let runs = tree.path().join("run/wiretail");
    fs::create_dir_all(&runs).expect("made");
    // The journal of a killed run.
    let run = runs.join("wt-1-0.jsonl");
    fs::copy(tree.path().join("var/lib/wiretail/host/applied.jsonl"), &run).expect("copied");
    let refused = fail(["host", "revert", "--root", &root]);
    assert!(
        refused.contains("wt-1-0: was killed and had changed") && refused.contains("wiretail clean"),
        "{refused}"
    );
    fs::remove_file(&run).expect("removed");
    succeed(["host", "revert", "--root", &root]);
}

/// Starts `apply` and kills it at seeded moments within its total duration. Returns the number of runs killed
/// before their end.
fn kill_at_moments(arguments: &[&str], whole: Duration, check: impl Fn()) -> u32 {
    let mut killed = 0;
    let mut random = Random::new(7);
    for _ in 0..KILLS {
        let moment = whole.mul_f64(random.uniform());
        let mut command = Command::new(WIRETAIL);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("wiretail starts");
        std::thread::sleep(moment);
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        killed += u32::from(status.code().is_none());
        check();
    }
    killed
}

/// Restores this machine, even if a test fails.
struct PutBack;

impl Drop for PutBack {
    fn drop(&mut self) {
        wiretail(["host", "revert"]);
    }
}

/// Returns the state of everything that a plan may change here.
fn this_machine() -> HostState {
    let plan: Value =
        serde_json::from_str(&succeed(["host", "plan", "--profile", "optimized", "--json"])).expect("JSON");
    let settings = plan["settings"].as_array().expect("a list").iter();
    let paths: Vec<String> =
        settings.filter_map(|one| one["target"]["path"].as_str()).map(str::to_owned).collect();
    let mut touched: Vec<&Path> = paths.iter().map(Path::new).collect();
    let files = [
        "/etc/default/grub.d/99-wiretail.cfg",
        "/etc/sysctl.d/99-wiretail.conf",
        "/etc/systemd/system/wiretail-host.service",
        "/etc/systemd/system/multi-user.target.d/99-wiretail.conf",
        "/etc/systemd/system.conf.d/99-wiretail.conf",
    ];
    touched.extend(files.map(Path::new));
    HostState::capture(Path::new("/"), &touched).expect("captured")
}

/// Returns the settings that differ from `before`, without namespaces and links, which belong to concurrent
/// tests.
fn changed_since(before: &HostState) -> Vec<Difference> {
    let mut differences = before.differences(&this_machine());
    differences.retain(|difference| difference.kind == Kind::Setting);
    differences
}

#[test]
fn tunes_and_restores_this_machine_despite_kills() {
    let Some(_turn) = bed::live_on_own_cores() else { return };
    if !succeed(["host", "revert", "--dry-run"]).contains("nothing is applied") {
        return println!("SKIPPED: a profile is applied on this machine");
    }
    let before = this_machine();
    let all_back = || {
        let differences = changed_since(&before);
        assert!(differences.is_empty(), "{differences:#?}");
    };
    let _put_back = PutBack;
    let apply = apply("/");
    let begun = Instant::now();
    succeed(&apply);
    let whole = begun.elapsed();
    let changed = changed_since(&before);
    let verified = wiretail(["host", "verify", "--now"]);
    let cleaned = succeed(["clean"]);
    let applied_still = changed_since(&before);
    succeed(["host", "revert"]);
    assert!(!changed.is_empty() && changed == applied_still, "clean is for runs: {cleaned}");
    assert!(cleaned.contains("a profile remains applied to this host"), "{cleaned}");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    all_back();
    let killed = kill_at_moments(&apply, whole, || {
        succeed(["host", "revert"]);
        all_back();
    });
    println!(
        "{} values changed and restored; killed {killed} times of {KILLS} before the end",
        changed.len()
    );
}

#[test]
fn revert_after_reboot_restores_files_only() {
    let Some(_turn) = bed::live_on_own_cores() else { return };
    if !succeed(["host", "revert", "--dry-run"]).contains("nothing is applied") {
        return println!("SKIPPED: a profile is applied on this machine");
    }
    let before = this_machine();
    let _put_back = PutBack;
    succeed(apply("/"));
    let journal = Path::new("/var/lib/wiretail/host/applied.jsonl");
    let text = fs::read_to_string(journal).expect("the journal");
    let earlier = text.replace("\"boot\":\"", "\"boot\":\"x");
    fs::write(journal, earlier).expect("written");
    let told = wiretail(["host", "revert"]);
    let has_files = Path::new("/etc/sysctl.d/99-wiretail.conf").exists();
    let changed = changed_since(&before).len();
    // A reboot would have had the same effect.
    fs::create_dir_all("/var/lib/wiretail/host").expect("made");
    fs::write(journal, text).expect("written");
    succeed(["host", "revert"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("was rebooted"), "{told}");
    assert!(!has_files && changed > 0, "{changed}");
    assert!(changed_since(&before).is_empty());
}
