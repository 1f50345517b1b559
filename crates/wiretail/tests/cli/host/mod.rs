//! `wiretail host` on this machine and on recorded ones; [`guests`] starts virtual machines.

mod noise;
mod recommend;
mod tuning;

mod guests;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use wiretail_schema::host::audit::{Audit, Verdict};

use crate::run::bed;
use crate::support::{WIRETAIL, fail, folder, succeed, wiretail};

const OPTIMIZED: &str = include_str!("../../../../wiretail-analysis/tests/hosts/optimized.txt");

const GUEST: &str = include_str!("../../../../wiretail-analysis/tests/hosts/guest.txt");

#[test]
fn audit_of_record_equals_audit_of_machine() {
    let folder = folder();
    let saved = folder.path().join("host.txt").display().to_string();
    let here: Value =
        serde_json::from_str(&succeed(["host", "audit", "--watch", "50ms", "--save", &saved, "--json"]))
            .expect("JSON");
    assert_eq!(here["schema"], "wiretail.audit/1");
    let again: Value =
        serde_json::from_str(&succeed(["host", "audit", "--from", &saved, "--json"])).expect("JSON");
    assert_eq!(here, again);
    let shown = succeed(["host", "audit", "--from", &saved, "--cores", "0"]);
    assert!(shown.contains("cores to isolate: 0 (requested)"), "{shown}");
}

#[test]
fn audits_recorded_host() {
    let folder = folder();
    let path = folder.path().join("host.txt");
    fs::write(
        &path,
        OPTIMIZED.replace("[madvise]", "madvise").replace(
            "=== /sys/kernel/mm/transparent_hugepage/enabled\nalways",
            "=== /sys/kernel/mm/transparent_hugepage/enabled\n[always]",
        ),
    )
    .expect("written");
    let path = path.display().to_string();
    let shown = succeed(["host", "audit", "--from", &path]);
    assert!(
        shown.contains("INEFFECTIVE thp") && shown.contains("1 ineffective, 0 harmful, 0 improvable"),
        "{shown}"
    );
    assert!(shown.contains("requested: transparent_hugepage=madvise; in effect: always"), "{shown}");
    let checked = wiretail(["host", "audit", "--from", &path, "--check"]);
    assert_eq!(checked.status.code(), Some(1));
    let all = succeed(["host", "audit", "--from", &path, "--all"]);
    assert!(all.contains("good        isolcpus") && all.contains("why: "), "{all}");
}

#[test]
fn rejects_invalid_host_records() {
    let folder = folder();
    let path = folder.path().join("host.txt");
    fs::write(&path, "wiretail.host/1\ninterval_ns 0\nnonsense\n").expect("written");
    let message = fail(["host", "audit", "--from", &path.display().to_string()]);
    assert!(message.contains("host.txt") && message.contains("line 3"), "{message}");
    let message = fail(["host", "audit", "--from", &folder.path().display().to_string()]);
    assert!(message.contains("proc/cmdline"), "{message}");
    assert!(fail(["host", "audit", "--from", "/no/host"]).contains("--save"));
}

#[test]
fn plan_lists_changes_and_writes_files() {
    let folder = folder();
    let record = folder.path().join("host.txt").display().to_string();
    fs::write(&record, GUEST).expect("written");
    let out = folder.path().join("tuning");
    let arguments = ["host", "plan", "--profile", "optimized", "--cores", "1", "--from", &record];
    let shown = succeed(arguments.iter().copied().chain(["--out", &out.display().to_string()]));
    assert!(shown.contains("change      isolcpus") && shown.contains("1 -> managed_irq,domain,1"), "{shown}");
    assert!(shown.contains("sched_rt_runtime_us") && shown.contains("950000 -> -1"), "{shown}");
    assert!(shown.contains("cost: a real-time thread that hangs blocks its core forever"), "{shown}");
    assert!(!shown.contains("in effect   /proc"), "{shown}");
    let written = fs::read_to_string(out.join("etc/default/grub.d/99-wiretail.cfg")).expect("GRUB's");
    assert!(written.contains("idle=poll"), "{written}");
    let plan: Value =
        serde_json::from_str(&succeed(arguments.iter().copied().chain(["--json"]))).expect("JSON");
    assert_eq!((&plan["schema"], &plan["cores"]), (&"wiretail.plan/1".into(), &"1".into()));
    let refused = fail(["host", "plan", "--profile", "regular", "--cores", "0-1", "--from", &record]);
    assert!(refused.contains("no core is left"), "{refused}");
    let here = succeed(["host", "plan", "--profile", "regular", "--all"]);
    assert!(here.contains("profile regular, role "), "{here}");
}

/// GRUB executes its drop-in as shell code. The drop-in must remove the parameters that the plan sets, and
/// keep all others.
#[test]
fn grub_drop_in_changes_only_its_words() {
    let folder = folder();
    let record = folder.path().join("host.txt").display().to_string();
    fs::write(&record, GUEST).expect("written");
    let out = folder.path().display().to_string();
    for (profile, expected) in
        [("regular", "quiet splash "), ("energysaving", "quiet splash isolcpus=managed_irq,domain,1 ")]
    {
        succeed(["host", "plan", "--profile", profile, "--cores", "1", "--from", &record, "--out", &out]);
        let script = "GRUB_CMDLINE_LINUX='iommu=pt idle=poll'; GRUB_CMDLINE_LINUX_DEFAULT='quiet isolcpus=7 nosoftlockup splash'
            . \"$0\"; echo \"$GRUB_CMDLINE_LINUX|$GRUB_CMDLINE_LINUX_DEFAULT\"";
        let drop_in = folder.path().join("etc/default/grub.d/99-wiretail.cfg");
        let shell =
            std::process::Command::new("sh").args(["-euc", script]).arg(drop_in).output().expect("a shell");
        let line = String::from_utf8_lossy(&shell.stdout).into_owned();
        assert!(
            line.starts_with(&format!("iommu=pt |{expected}")) && !line.contains("isolcpus=7"),
            "{profile}: {line}"
        );
    }
}

/// The kernel treats text between quotes as one word, even if it contains blanks.
#[test]
fn grub_drop_in_keeps_quoted_blanks() {
    let folder = folder();
    let record = folder.path().join("host.txt").display().to_string();
    fs::write(&record, GUEST).expect("written");
    let out = folder.path().display().to_string();
    succeed(["host", "plan", "--profile", "regular", "--cores", "1", "--from", &record, "--out", &out]);
    let drop_in = folder.path().join("etc/default/grub.d/99-wiretail.cfg");
    for (line, expected) in [
        (r#"dyndbg="file a* +p;  idle=poll" quiet"#, r#"dyndbg="file a* +p;  idle=poll" quiet "#),
        (r#""isolcpus=1 2" a"b c"d idle=poll"#, r#"a"b c"d "#),
        (r#"x isolcpus="1 -3"	y"#, "x y "),
        (r#"  x="open idle=poll"#, r#"x="open idle=poll "#),
        ("", ""),
    ] {
        let script = "GRUB_CMDLINE_LINUX=\"$1\" GRUB_CMDLINE_LINUX_DEFAULT=; . \"$0\"; printf '%s' \"$GRUB_CMDLINE_LINUX\"";
        let arguments = [std::ffi::OsStr::new("-euc"), script.as_ref(), drop_in.as_os_str(), line.as_ref()];
        let shell = std::process::Command::new("sh").args(arguments).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&shell.stdout), expected, "{line}: {shell:?}");
    }
}

/// Rules whose findings change over time (counters) or depend on the user's privileges.
const NOT_THE_SAME_TWICE: [&str; 9] = [
    "tick",
    "interrupts",
    "tasks",
    "kernel-threads",
    "steal",
    "smi",
    "irq-affinity",
    "rights",
    "locked-memory",
];

#[test]
fn audit_without_root_names_unreadable_files() {
    let test = "audit_without_root_names_unreadable_files";
    let folder = folder();
    // A place where other users may execute it.
    let program = folder.path().join("wiretail");
    fs::copy(WIRETAIL, &program).expect("copied");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("opened");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]);
        command.arg(&program).args(arguments).stdin(Stdio::null()).output()
    };
    if !as_nobody(&["--version"]).is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: {test}: setpriv can't become nobody here; it needs root");
        return;
    }
    // No other test may change the machine between the following two audits.
    let Some(_turn) = bed::live() else { return };
    let common = ["host", "audit", "--cores", "0", "--role", "bare", "--watch", "50ms"];
    let ask = |more: &[&str]| {
        let output = as_nobody(&[&common[..], more].concat()).expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let nobody: Audit = serde_json::from_str(&ask(&["--json"])).expect("an audit");
    let root: Audit = serde_json::from_str(&succeed([&common[..], &["--json"]].concat())).expect("an audit");
    for (mine, roots) in nobody.findings.iter().zip(&root.findings) {
        assert_eq!(mine.rule, roots.rule);
        if mine.verdict == Verdict::Unseen {
            assert!(!mine.detail.is_empty(), "{mine:?}");
        } else if !NOT_THE_SAME_TWICE.contains(&mine.rule.as_str()) {
            assert_eq!(mine.verdict, roots.verdict, "{mine:?}");
        }
    }
    assert!(nobody.unreadable.iter().all(|one| !one.why.is_empty()), "{:?}", nobody.unreadable);
    let environment =
        nobody.unreadable.iter().find(|one| one.name == "/proc/1/environ").expect("unreadable for nobody");
    assert!(environment.why.contains("ermission denied"), "{environment:?}");
    let rights = nobody.findings.iter().find(|finding| finding.rule == "rights").expect("the rule");
    assert!(rights.detail.contains("CAP_SYS_NICE"), "{rights:?}");

    let shown = ask(&[]);
    for finding in nobody.findings.iter().filter(|finding| finding.verdict == Verdict::Unseen) {
        assert!(shown.contains(&format!("not seen: {}: ", finding.rule)), "{shown}");
    }
    let line = shown.lines().find(|line| line.contains("could not be read")).expect("a line");
    assert!(line.contains("Permission denied") && line.contains("/proc/N/environ"), "{line}");
    println!("{test}: {} findings, {} files unreadable", nobody.findings.len(), nobody.unreadable.len());
}
