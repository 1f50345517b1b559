//! Changes that an experiment makes by itself: kernel settings, commands, and the command line of a device.
//! They take effect during the trial, and leave nothing behind, whatever ends the run.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::run::bed::{Bed, experiment, forwarder, live};
use crate::support::succeed;

/// A setting below `net` that exists once.
const OF_HOST: &str = "/proc/sys/net/core/busy_read";
/// A setting that each network namespace has.
const OF_NAMESPACE: &str = "/proc/sys/net/ipv4/ip_default_ttl";
/// A setting outside `net`.
const OF_KERNEL: &str = "/proc/sys/kernel/printk_ratelimit_burst";

/// The value of these settings on the host.
fn settings() -> [String; 3] {
    [OF_HOST, OF_NAMESPACE, OF_KERNEL]
        .map(|path| fs::read_to_string(path).expect("a setting").trim().to_owned())
}

/// An experiment with a bridge and these keys in its table `host`.
fn with_host(duration: &str, host: &str) -> String {
    let text = experiment("kind = \"bridge\"", "rate = \"1 kpps\"", &format!("duration = \"{duration}\""));
    format!("{text}{host}\n")
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The output of a trial's command.
fn log(bed: &Bed, trial: &serde_json::Value, name: &str) -> String {
    let directory = trial["directory"].as_str().expect("a directory");
    fs::read_to_string(bed.out().join(directory).join(name)).expect("a log")
}

fn reasons(trial: &serde_json::Value) -> String {
    let reasons = trial["reasons"].as_array().expect("reasons").iter();
    reasons.map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

#[test]
fn settings_are_in_effect_only_during_trial() {
    let Some(_alone) = live() else { return };
    let before = settings();
    let host = format!(
        "sysctl = [\"none\", \"net.core.busy_read = 37, net.ipv4.ip_default_ttl=33, net.ipv4.conf.in.log_martians=1, \
         kernel/printk_ratelimit_burst=11\"]\n\
         before = \"cat {OF_HOST} {OF_NAMESPACE} {OF_KERNEL}; ip netns exec $WIRETAIL_NAMESPACE \
         cat {OF_NAMESPACE} /proc/sys/net/ipv4/conf/in/log_martians\"\n"
    );
    let bed = Bed::new(&with_host("200 ms", &host));
    bed.run().with_code(0);
    assert_eq!(settings(), before, "restored");
    let trials = bed.trials();
    let names: Vec<&str> = trials.iter().map(|trial| trial["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bridge-no-sysctl", "bridge-net.core.bu..it_burst-11"]);
    let [unchanged, changed] = &trials[..] else { panic!("two trials") };
    let [of_host, of_namespace, of_kernel] = &before;
    let ttl = log(&bed, unchanged, "before.log").lines().nth(3).expect("a line").to_owned();
    assert_ne!(ttl, "33");
    let expected = format!("{of_host}\n{of_namespace}\n{of_kernel}\n{ttl}\n0\n");
    assert_eq!(log(&bed, unchanged, "before.log"), expected);
    // The host keeps its own value of a setting that each namespace has.
    assert_eq!(log(&bed, changed, "before.log"), format!("37\n{of_namespace}\n11\n33\n1\n"));
}

#[test]
fn refused_value_fails_trial_and_names_file() {
    let Some(_alone) = live() else { return };
    let before = settings();
    let host = "sysctl = [\"kernel.printk_ratelimit_burst = 12, net.core.busy_read = many\", \"none\"]";
    let bed = Bed::new(&with_host("200 ms", host));
    bed.run().with_code(1);
    assert_eq!(settings(), before);
    let trials = bed.trials();
    assert_eq!((&trials[0]["state"], &trials[1]["state"]), (&"failed".into(), &"valid".into()));
    let said = reasons(&trials[0]);
    let expected =
        "host.sysctl = \"net.core.busy_read = many\": /proc/sys/net/core/busy_read: cannot write: Invalid";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn commands_leave_no_process() {
    let Some(_alone) = live() else { return };
    let host = "before = \"echo $WIRETAIL_CORE; nproc; sh -c 'while :; do :; done' & echo $! >hog; \
                setsid sh -c 'echo $$ >daemon; exec sleep 1000' >/dev/null 2>&1 &\"\n\
                after = \"kill -0 $(cat hog) && kill -0 $(cat daemon) && pwd\"\n";
    let bed = Bed::new(&with_host("300 ms", host));
    bed.run().with_code(0);
    let [hog, daemon] = ["hog", "daemon"].map(|name| fs::read_to_string(bed.path(name)).expect("a number"));
    assert!(!is_alive(&hog) && !is_alive(&daemon), "{hog}{daemon}");
    let trial = &bed.trials()[0];
    let directory = fs::canonicalize(bed.path("")).expect("a directory");
    assert_eq!(log(&bed, trial, "after.log"), format!("{}\n", directory.display()));
    let said = log(&bed, trial, "before.log");
    let numbers: Vec<usize> = said.lines().filter_map(|line| line.parse().ok()).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(numbers.len(), 2, "{said}");
    assert!(numbers[0] < cores && (cores == 1 || numbers[1] < cores), "not on the packets' cores: {said}");
}

#[test]
fn failing_commands_fail_only_their_trial() {
    let Some(_alone) = live() else { return };
    let before = settings();
    let host = "sysctl = \"net.core.busy_read = 38\"\n\
                before = [\"echo wrong interface >&2; exit 3\", \"none\"]\n\
                after = [\"echo undone >>undone\", \"echo cannot undo >&2; exit 4\"]\n";
    let bed = Bed::new(&with_host("200 ms", host));
    let finished = bed.run().with_code(1);
    let trials = bed.trials();
    let states: Vec<_> = trials.iter().map(|trial| trial["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "valid", "failed"]);
    let said = reasons(&trials[0]);
    assert!(
        said.starts_with("host.before: `echo wrong interface >&2; exit 3` failed (exit status: 3)"),
        "{said}"
    );
    assert!(said.contains("before.log") && said.ends_with("\n    wrong interface"), "{said}");
    let said = reasons(&trials[1]);
    assert!(said.contains("wrong interface") && said.contains("; host.after: `echo cannot undo"), "{said}");
    let said = reasons(&trials[3]);
    assert!(said.contains("failed (exit status: 4)") && said.ends_with("\n    cannot undo"), "{said}");
    assert!(finished.stderr.contains("wrong interface"), "{}", finished.stderr);
    // The first and the third trial have the first of the two commands.
    assert_eq!(fs::read_to_string(bed.path("undone")).expect("written"), "undone\nundone\n");
    assert_eq!(settings(), before);
}

#[test]
fn interrupted_command_is_undone() {
    let Some(_alone) = live() else { return };
    let host = "before = \"sleep 1000 & echo $! >hog; echo on >on; sleep 1000\"\nafter = \"echo off >off\"\n";
    let bed = Bed::new(&with_host("200 ms", host));
    let mut run = bed.start();
    run.until("the command runs", |bed| bed.path("on").exists());
    let begun = Instant::now();
    run.signal("-INT");
    run.end().with_code(130);
    assert!(begun.elapsed() < Duration::from_secs(40), "well before the command's time limit");
    assert!(!is_alive(&fs::read_to_string(bed.path("hog")).expect("a number")));
    assert!(bed.path("off").exists());
    let said = reasons(&bed.trials()[0]);
    assert!(said.contains("was interrupted"), "{said}");
}

#[test]
fn killed_run_is_undone_by_clean() {
    let Some(_alone) = live() else { return };
    let before = settings();
    // During `before` and while packets are sent.
    for last in ["sleep 1000", "true"] {
        let host = format!(
            "sysctl = \"net.core.busy_read = 39\"\n\
             before = \"setsid sleep 1000 & echo $! >hog; cat {OF_HOST} >value; echo on >on; {last}\"\n\
             after = \"echo $WIRETAIL_RUN >off\"\n"
        );
        let bed = Bed::new(&with_host("20 s", &host));
        let mut run = bed.start();
        run.until("the command runs", |bed| bed.path("on").exists());
        std::thread::sleep(Duration::from_millis(700));
        let hog = fs::read_to_string(bed.path("hog")).expect("a number");
        assert!(is_alive(&hog) && !bed.path("off").exists());
        assert_eq!(settings()[0], "39");
        assert_eq!(fs::read_to_string(bed.path("value")).expect("read"), "39\n");
        run.kill();
        assert!(!is_alive(&hog), "{hog}");
        assert!(fs::read_to_string(bed.path("off")).expect("written").starts_with("wt-"));
        assert_eq!(settings(), before);
    }
}

#[test]
fn clean_reports_command_that_fails() {
    let Some(_alone) = live() else { return };
    let host = "before = \"echo on >on\"\nafter = \"echo cannot undo; exit 4\"\n";
    let bed = Bed::new(&with_host("20 s", host));
    let mut run = bed.start();
    run.until("the command runs", |bed| bed.path("on").exists());
    run.signal("-KILL");
    std::thread::sleep(Duration::from_millis(100));
    let output = crate::support::wiretail(["clean"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("host.after: `echo cannot undo; exit 4` failed (exit status: 4)"), "{said}");
    // It is not repeated.
    assert!(crate::support::wiretail(["clean"]).status.success());
    assert_eq!(run.end().code, None);
}

#[test]
fn device_command_is_a_line_of_the_shell() {
    let Some(_alone) = live() else { return };
    let first = "sysctl -w net.ipv4.ip_default_ttl=44; A='a; b' B=\\\"$WIRETAIL_IN\\\"; echo \\\"$A $B\\\"";
    let forward = forwarder("");
    let dut = format!(
        "kind = \"command\"\nready = \"forwarding from\"\ncommand = [\"{first}; exec {forward}\", \"{first}; {forward}\"]"
    );
    let host = settings();
    let bed = Bed::new(&experiment(&dut, "rate = \"1 kpps\"", "duration = \"200 ms\""));
    bed.run().with_code(0);
    assert_eq!(settings(), host, "written in the device's namespace only");
    let trials = bed.trials();
    let names: Vec<&str> = trials.iter().map(|trial| trial["name"].as_str().unwrap()).collect();
    assert_ne!(names[0], names[1]);
    for trial in &trials {
        assert_eq!(trial["generator"]["sent"], 200);
        let said = log(&bed, trial, "dut.log");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], ["net.ipv4.ip_default_ttl = 44", "a; b in"], "{said}");
        // The program got the signal, although the shell is its parent: it prints its counters at the end.
        assert!(said.contains("received"), "{said}");
    }
}

#[test]
fn dry_run_lists_changes_in_order() {
    let dut = "kind = \"command\"\ncommand = \"sysctl -w a=1; exec x\"";
    let text = experiment(dut, "rate = \"1 kpps\"", "duration = \"1 s\"");
    let host = "sysctl = [\"none\", \"net.core.busy_read = 50\"]\nbefore = \"ethtool -K x \\\"y\\\"\"\nafter = \"a; b\"\n";
    let bed = Bed::new(&format!("{text}{host}"));
    let file = bed.path("test.toml").display().to_string();
    let before = settings();
    let plan = succeed(["run", &file, "--dry-run"]);
    assert_eq!(settings(), before);
    let [unchanged, changed] = ["as in trial 1", "as in trial 2"].map(|text| plan.find(text).expect(text));
    assert!(!plan[unchanged..changed].contains(OF_HOST), "{plan}");
    let directory = Path::new(&file).parent().expect("a directory").display().to_string();
    let mut rest = &plan[changed..];
    for text in [
        format!("write \"50\" to {OF_HOST}"),
        "add network namespace wt-RUN-dut1".to_owned(),
        "add command group /run/wiretail/wt-RUN-commands".to_owned(),
        format!("at the end, in any case, run sh -c \"a; b\" (host.after), in {directory}"),
        format!("run sh -c \"ethtool -K x \\\"y\\\"\" (host.before), in {directory}"),
        "sh -c \"sysctl -w a=1; exec x\" (dut.command)".to_owned(),
    ] {
        let place = rest.find(&text).unwrap_or_else(|| panic!("{text}: {plan}"));
        rest = &rest[place + text.len()..];
    }
    fs::write(&file, format!("{text}sysctl = \"net.core.busy_reed = 1\"\n")).expect("the experiment");
    let output = crate::support::wiretail(["check", &file]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("host.sysctl: net.core.busy_reed is not a setting of this kernel"), "{said}");
    assert!(
        said.contains("/proc/sys/net/core/busy_reed does not exist; did you mean net.core.busy_read?"),
        "{said}"
    );
}
