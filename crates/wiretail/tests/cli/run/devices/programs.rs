//! Tests of devices that are programs, either bare, in containers or in virtual machines. All packets cross
//! the devices, and their counters match the taps. If a device is killed, its trial fails, the error contains
//! the program's last lines, and the run continues.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use wiretail_schema::run::{GUEST_EMULATED, GUEST_ON_PROCESSOR};

use crate::run::bed::{Bed, experiment, live};
use crate::run::host;

/// A device, its requirements, and its identification.
struct Case {
    dut: &'static str,
    needs: &'static [&'static str],
    /// Text in its log once it is ready.
    ready: &'static str,
    /// Its first arguments, without directories.
    victim: &'static [&'static str],
    /// Part of the last lines of its log.
    last_words: &'static str,
}

const TESTPMD: Case = Case {
    dut: "kind = \"dpdk-testpmd\"",
    needs: &["dpdk-testpmd"],
    ready: "testpmd>",
    victim: &["dpdk-testpmd"],
    last_words: "testpmd>",
};
const REDIRECT: Case = Case {
    dut: "kind = \"xdp-redirect\"",
    needs: &[],
    ready: "forwarding from",
    victim: &["wiretail", "forward"],
    last_words: "forwarding from in to out",
};
#[cfg(feature = "dpdk")]
const L2FWD: Case = Case { dut: "kind = \"dpdk-l2fwd\"", ..REDIRECT };
const RUNC: Case = Case {
    dut: "kind = \"skeleton\"\ndeployment = \"container\"\ncontainer = \"runc\"",
    needs: &["runc"],
    ..REDIRECT
};
const LXC: Case = Case {
    dut: "kind = \"skeleton\"\ndeployment = \"container\"\ncontainer = \"lxc\"",
    needs: &["lxc-execute"],
    ..REDIRECT
};
const GUEST: Case = Case {
    dut: "kind = \"skeleton\"\ndeployment = \"vm\"",
    needs: &["qemu-system-x86_64", "busybox"],
    victim: &["qemu-system-x86_64"],
    ..REDIRECT
};

/// Whether all requirements of a device are installed; prints a message if not.
fn has(case: &Case) -> bool {
    let paths = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/bin:/sbin";
    let missing = |program: &&&str| !std::env::split_paths(&paths).any(|path| path.join(program).is_file());
    let Some(program) = case.needs.iter().find(missing) else { return true };
    println!("SKIPPED: {program} is not installed; `wiretail setup` shows how to install it");
    false
}

/// Checks that the counters of the devices match the taps.
fn assert_reconciled(trial: &Value, packets: u64) {
    let devices = trial["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 1, "{trial}");
    for device in devices {
        for count in ["received", "tapped_in", "sent", "tapped_out"] {
            assert_eq!(device[count], packets, "{count} of {device}");
        }
    }
}

fn forwards_everything(case: &Case) {
    let Some(_alone) = live() else { return };
    if !has(case) {
        return;
    }
    let traffic = "rate = \"1 kpps\"\ndirections = \"both\"";
    let bed = Bed::new(&experiment(case.dut, traffic, "duration = \"1 s\""));
    bed.run().with_code(0);
    let trial = &bed.trials()[0];
    assert_eq!(trial["generator"]["sent"], 2000);
    for segment in 0..2 {
        let summary = bed.summary(trial, segment);
        assert_eq!((&summary["loss"]["sent"], &summary["loss"]["lost"]), (&1000.into(), &0.into()));
    }
    assert_reconciled(trial, 2000);
    let notes = trial["notes"].to_string();
    let said = [GUEST_ON_PROCESSOR, GUEST_EMULATED].iter().filter(|note| notes.contains(**note)).count();
    assert_eq!(said, usize::from(case.dut.contains("\"vm\"")), "notes of a guest: {notes}");
}

/// Kills the device in its first trial; the second trial has another device.
fn dies_alone(case: &Case) {
    let Some(_alone) = live() else { return };
    if !has(case) {
        return;
    }
    let bed = Bed::new(&experiment(case.dut, "rate = \"1 kpps\"", "duration = [\"60 s\", \"300 ms\"]"));
    let mut run = bed.start();
    let log = |bed: &Bed| -> Option<String> {
        let first = fs::read_dir(bed.out().join("trials")).ok()?.flatten().map(|entry| entry.path()).min()?;
        fs::read_to_string(first.join("dut.log")).ok()
    };
    run.until("the device is ready", |bed| log(bed).is_some_and(|log| log.contains(case.ready)));
    std::thread::sleep(Duration::from_millis(1500));
    let victims = host::descendants(run.pid).into_iter().filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
        // The shell or runtime that started the device is excluded, although its arguments contain the same
        // words.
        case.victim.iter().zip(&words).all(|(word, found)| found.ends_with(word))
    });
    let victims: Vec<String> = victims.map(|pid| pid.to_string()).collect();
    assert_eq!(victims.len(), 1, "{:?}", case.victim);
    assert!(Command::new("kill").arg("-KILL").args(&victims).status().expect("kill").success());
    let begun = Instant::now();
    run.until_trials(1);
    assert!(begun.elapsed().as_secs() < 20, "the trial ends early");
    run.end().with_code(1);
    let trials = bed.trials();
    let said = trials[0]["reasons"].to_string();
    assert_eq!(trials[0]["state"], "failed", "{said}");
    assert!(said.contains("the program ended unexpectedly") && said.contains("its last lines"), "{said}");
    assert!(said.contains(case.last_words), "{said}");
    assert_eq!(trials[1]["state"], "valid", "{}", trials[1]["reasons"]);
}

#[test]
fn testpmd_forwards_everything() {
    forwards_everything(&TESTPMD);
}

#[test]
fn testpmd_dies_alone() {
    dies_alone(&TESTPMD);
}

#[test]
fn redirect_forwards_everything() {
    forwards_everything(&REDIRECT);
}

#[test]
fn redirect_dies_alone() {
    dies_alone(&REDIRECT);
}

#[test]
fn runc_forwards_everything() {
    forwards_everything(&RUNC);
}

#[test]
fn runc_dies_alone() {
    dies_alone(&RUNC);
}

#[test]
fn lxc_forwards_everything() {
    forwards_everything(&LXC);
}

#[test]
fn lxc_dies_alone() {
    dies_alone(&LXC);
}

#[test]
fn guest_forwards_everything() {
    forwards_everything(&GUEST);
}

#[test]
fn guest_dies_alone() {
    dies_alone(&GUEST);
}

#[cfg(feature = "dpdk")]
#[test]
fn l2fwd_forwards_everything() {
    forwards_everything(&L2FWD);
}

#[cfg(feature = "dpdk")]
#[test]
fn l2fwd_dies_alone() {
    dies_alone(&L2FWD);
}
