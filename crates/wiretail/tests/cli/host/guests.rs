//! Audits in virtual machines with Debian's kernels. The boot command lines are compared with the settings in
//! effect. The tests need QEMU, busybox and the kernels that `wiretail setup vm` downloads, and print
//! `SKIPPED` if these are missing. If `WIRETAIL_KEEP_RECORDS=DIRECTORY` is set, the records are kept.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use wiretail_host::deploy::Workload;
use wiretail_host::deploy::vm::{Boot, Guest, Kernel, accel, guest_launch, kernel_cached};
use wiretail_host::{CoreSet, HostError, Namespace, run_in};
use wiretail_schema::host::audit::{Audit, Verdict};

use crate::support::{WIRETAIL, folder, succeed};

/// The papers' optimized mode, without the settings that exist only on real processors. Memory and pages are
/// those of the guest.
const TUNED: &str = "isolcpus=managed_irq,domain,1-3 nohz_full=1-3 rcu_nocbs=1-3 rcu_nocb_poll irqaffinity=0 tsc=reliable \
                     mce=ignore_ce audit=0 nmi_watchdog=0 skew_tick=1 nosoftlockup transparent_hugepage=madvise hugepages=16";
/// One parameter is misspelled, and one selects a clock that software emulation does not have.
const SLIPPED: &str =
    "isolcpu=managed_irq,domain,1-3 nohz_full=1-3 rcu_nocbs=1-2 irqaffinity=0 clocksource=tsc";
/// Time limit of a guest in software emulation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(170);
const VCPUS: u32 = 4;
const MEMORY_MIB: u32 = 768;

/// Script in the guest: keeps core 1 busy, as packets would, and runs the audit on core 0.
const SCRIPT: &str = r#"taskset 2 sh -c "while :; do :; done" 2>/dev/null & busy=$!
    taskset 1 ./wiretail host audit --watch 4s --save /tmp/host.txt --json >/dev/null || echo failed
    kill $busy; echo begin; cat /tmp/host.txt; echo end"#;

/// Returns the record of a guest; `None`, with a message, if this machine can't run it.
fn recorded(test: &str, kind: Kernel, words: &str) -> Option<String> {
    let skipped = |why: String| {
        println!("SKIPPED: {test}, {}: {why}", kind.name());
        None::<String>
    };
    let Some(kernel) = kernel_cached(kind) else {
        return skipped("not in the cache; run `wiretail setup vm`".to_owned());
    };
    let work = folder();
    let program = program(work.path());
    let accel = match accel(&kernel) {
        Ok(accel) => accel,
        Err(error) => return skipped(error.to_string()),
    };
    let guest = Guest {
        name: "wt-audit".into(),
        kernel: kind,
        boot: Boot::Plain,
        words: words.to_owned(),
        memory_mib: MEMORY_MIB,
        vcpus: VCPUS,
        links: Vec::new(),
        workload: Workload {
            argv: ["sh", "-c", SCRIPT].map(Into::into).into(),
            env: Vec::new(),
            directory: work.path().to_owned(),
            reads: vec![program],
            namespace: Namespace::new("wt-audit").expect("a name"),
            cores: CoreSet::default(),
            hugepages: false,
        },
        accel,
    };
    let launched = match guest_launch(guest) {
        Err(error @ HostError::NotInstalled { .. }) => return skipped(error.to_string()),
        other => other.expect("a guest").command,
    };
    let printed = console(launched);
    let body = printed.split_once("begin\n").and_then(|(_, rest)| rest.split_once("end\n"));
    let (record, _) = body.unwrap_or_else(|| panic!("{test}: no record:\n{printed}"));
    Some(record.to_owned())
}

/// Returns the program without debug information, because the guest has little memory.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("wiretail");
    let stripped = Command::new("strip").arg("-o").arg(&path).arg(WIRETAIL).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(WIRETAIL, &path).expect("copied");
    }
    path
}

/// Returns everything that a guest prints until it ends.
fn console(mut command: Command) -> String {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = run_in(None, command).expect("started");
    let mut output = child.stdout.take().expect("a pipe");
    let (sender, receiver) = channel();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.read_to_end(&mut text);
        let _ = sender.send(());
        String::from_utf8_lossy(&text).into_owned()
    });
    let ended = receiver.recv_timeout(PATIENCE);
    // The guest has ended by itself or is stopped here.
    let _ = child.kill();
    child.wait().expect("ended");
    let text = reader.join().expect("no panic");
    assert!(ended.is_ok(), "the guest does not end:\n{text}");
    text
}

/// Audits a guest's record, which may be kept as `NAME.txt`.
fn audited(name: &str, kind: Kernel, words: &str) -> Option<Audit> {
    let record = recorded(name, kind, words)?;
    let folder = folder();
    let path = match std::env::var_os("WIRETAIL_KEEP_RECORDS") {
        Some(kept) => PathBuf::from(kept).join(format!("{name}.txt")),
        None => folder.path().join("host.txt"),
    };
    fs::write(&path, record).expect("written");
    let path = path.display().to_string();
    let audit: Audit =
        serde_json::from_str(&succeed(["host", "audit", "--from", &path, "--json"])).expect("an audit");
    for finding in audit.findings.iter().filter(|finding| finding.verdict.is_problem()) {
        println!("{name}: {} {}: {}", finding.verdict.name(), finding.rule, finding.detail);
    }
    Some(audit)
}

/// Returns the finding of a rule: the verdict, the requested and the effective setting.
fn found<'a>(audit: &'a Audit, rule: &str) -> (Verdict, Option<&'a str>, Option<&'a str>) {
    let finding = audit.findings.iter().find(|finding| finding.rule == rule).expect("the rule");
    (finding.verdict, finding.requested.as_deref(), finding.effective.as_deref())
}

#[test]
fn tuned_guest_has_boot_settings_in_effect() {
    for (name, kind) in [("guest-tuned", Kernel::Standard), ("guest-tuned-rt", Kernel::Rt)] {
        let Some(audit) = audited(name, kind, TUNED) else { continue };
        assert_eq!((audit.role.name(), audit.cores.as_str()), ("vm", "1-3"));
        for (rule, word) in [
            ("isolcpus", "isolcpus=managed_irq,domain,1-3"),
            ("nohz-full", "nohz_full=1-3"),
            ("rcu-nocbs", "rcu_nocbs=1-3"),
        ] {
            assert_eq!(found(&audit, rule), (Verdict::Good, Some(word), Some("1-3")), "{name}: {rule}");
        }
        for rule in ["boot-line", "nmi-watchdog", "soft-watchdog", "hugepages", "workqueue", "kernel-threads"]
        {
            assert_eq!(found(&audit, rule).0, Verdict::Good, "{name}: {rule}");
        }
        // The rt kernel does not support transparent huge pages.
        assert_eq!(found(&audit, "thp").0, if kind == Kernel::Rt { Verdict::NotHere } else { Verdict::Good });
        let realtime = found(&audit, "realtime-kernel").2 == Some("PREEMPT_RT");
        assert_eq!(realtime, kind == Kernel::Rt);
    }
}

#[test]
fn guest_with_defaults_requests_nothing() {
    for (name, kind) in [("guest-regular", Kernel::Standard), ("guest-regular-rt", Kernel::Rt)] {
        let Some(audit) = audited(name, kind, "") else { continue };
        assert_eq!(audit.cores, "1-3", "all but the first");
        for rule in ["isolcpus", "nohz-full", "rcu-nocbs", "workqueue"] {
            let (verdict, requested, _) = found(&audit, rule);
            assert_eq!((verdict, requested), (Verdict::Improvable, None), "{name}: {rule}");
        }
        let ineffective = audit.findings.iter().filter(|finding| finding.verdict == Verdict::Ineffective);
        assert_eq!(ineffective.count(), 0, "{name}");
    }
}

#[test]
fn audit_finds_ineffective_settings_of_guest() {
    let Some(audit) = audited("guest-slipped", Kernel::Cloud, SLIPPED) else { return };
    let slip = audit.findings.iter().find(|finding| finding.rule == "boot-line").expect("the rule");
    assert_eq!(slip.verdict, Verdict::Ineffective);
    assert!(slip.detail.contains("\"isolcpu\"; did you mean isolcpus?"), "{}", slip.detail);
    assert_eq!(found(&audit, "isolcpus"), (Verdict::Improvable, None, Some("none")));
    assert_eq!(found(&audit, "nohz-full").0, Verdict::Good);
    // nohz_full also moves the RCU callbacks off its cores.
    assert_eq!(found(&audit, "rcu-nocbs"), (Verdict::Good, Some("rcu_nocbs=1-2"), Some("1-3")));
    let (verdict, requested, effective) = found(&audit, "clocksource");
    assert_eq!(requested, Some("clocksource=tsc"));
    assert_eq!(verdict, if effective == Some("tsc") { Verdict::Good } else { Verdict::Ineffective });
}
