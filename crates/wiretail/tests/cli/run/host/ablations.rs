//! Live ablations with harmless settings.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::run::bed::{Bed, Running, Turn, experiment, json, live};
use crate::support::wiretail;

const STAT_INTERVAL: &str = "/proc/sys/vm/stat_interval";

fn live_with_two_cores() -> Option<Turn> {
    let turn = live()?;
    let has_two = std::thread::available_parallelism().map_or(1, usize::from) > 1;
    if !has_two {
        println!("SKIPPED: only one core: none can be isolated");
    }
    Some(turn).filter(|_| has_two)
}

fn bed() -> Bed {
    Bed::new(&experiment(
        "kind = \"skeleton\"\nwait = \"block\"",
        "rate = \"1 kpps\"\npacing = \"sleep\"",
        "duration = \"200 ms\"",
    ))
}

/// Creates the command `wiretail host prove` with the experiment file and these arguments, without starting
/// it.
fn prove(bed: &Bed, more: &[&str]) -> std::process::Command {
    let mut command = bed.command_of_words(&["host", "prove"]);
    command.args(more);
    command
}

#[test]
fn alternates_configurations_and_restores_host() {
    let Some(_alone) = live_with_two_cores() else { return };
    let before = fs::read_to_string(STAT_INTERVAL).expect("a number");
    let bed = bed();
    let more = ["--only", "vm-stat-interval,host.idle", "--repeats", "2"];
    let mut running = Running::start(&bed, prove(&bed, &more));
    running.until_trials(3);
    running.signal("-INT");
    let first = running.end();
    assert_eq!(first.code, Some(130), "{}", first.stderr);
    assert!(first.stderr.contains("wiretail host prove --resume"), "{}", first.stderr);
    let half = json(&bed.out().join("ablation.json"));
    assert_eq!(half["complete"], false);
    let done = half["trials"].as_array().expect("trials").clone();
    assert!((3..8).contains(&done.len()), "{}", done.len());

    let told = bed.resume_of_words(&["host", "prove"]).with_code(0);
    let ablation = json(&bed.out().join("ablation.json"));
    let trials = ablation["trials"].as_array().expect("trials");
    assert_eq!((ablation["complete"].as_bool(), trials.len()), (Some(true), 8));
    assert!(trials[..done.len()] == done[..], "trials were repeated");
    // Every configuration has one trial per repeat.
    let mut turns: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for trial in trials {
        *turns
            .entry((trial["repeat"].as_u64().unwrap(), trial["configuration"].as_u64().unwrap()))
            .or_default() += 1;
        assert!(
            trial["packets"].as_u64().unwrap() > 150 && trial["invalid"] == Value::Array(vec![]),
            "{trial}"
        );
    }
    assert!(turns.len() == 8 && turns.values().all(|times| *times == 1), "{turns:?}");
    // The record of a trial has its settings.
    let records = bed.trials();
    let setting = |number: u64, key: &str| {
        let record = records.iter().find(|record| record["number"] == number).expect("a record");
        let found = record["settings"].as_array().unwrap().iter().find(|one| one["key"] == key);
        found.map(|one| one["text"].as_str().unwrap().to_owned())
    };
    for trial in trials {
        let number = trial["number"].as_u64().unwrap();
        let (profile, settings, idle) =
            (setting(number, "host.profile"), setting(number, "host.settings"), setting(number, "host.idle"));
        let expected = match trial["configuration"].as_u64().unwrap() {
            0 => (Some("none"), None, Some("sleep")),
            1 => (Some("optimized"), Some("all"), Some("poll")),
            2 => (Some("optimized"), Some("all"), Some("sleep")),
            _ => (Some("optimized"), Some("all but vm-stat-interval"), Some("poll")),
        };
        assert_eq!((profile.as_deref(), settings.as_deref(), idle.as_deref()), expected, "{trial}");
    }
    let effects = ablation["results"][0]["factors"].as_array().expect("factors");
    assert!(effects.iter().all(|factor| factor["effects"][2]["verdict"] == "too-few"), "{effects:?}");
    assert!(told.stdout.contains("2 pairs are too few"), "{}", told.stdout);
    let page = fs::read_to_string(bed.out().join("report.html")).expect("the page");
    assert!(page.contains("Effect of each setting"));
    assert_eq!(fs::read_to_string(STAT_INTERVAL).unwrap(), before);
}

#[test]
fn clean_reverts_killed_ablation() {
    let Some(_alone) = live_with_two_cores() else { return };
    let before = fs::read_to_string(STAT_INTERVAL).expect("a number");
    let bed = bed();
    let mut running = Running::start(&bed, prove(&bed, &["--only", "vm-stat-interval", "--repeats", "9"]));
    running
        .until("the setting was set", |_| fs::read_to_string(STAT_INTERVAL).is_ok_and(|now| now != before));
    running.kill();
    assert_eq!(fs::read_to_string(STAT_INTERVAL).unwrap(), before);
}

#[test]
fn rejects_unknown_settings_and_names_valid_ones() {
    let bed = bed();
    let refused = |more: &[&str]| {
        let file = bed.path("test.toml").display().to_string();
        let output = wiretail([&["host", "prove", &file, "--dry-run"][..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 {
        assert!(
            refused(&["--only", "thq"]).contains("--only thq: not a setting that the profile changes here")
        );
    }
    assert!(refused(&["--profile", "regular"]).contains("expected --profile energysaving or optimized"));
    let text = fs::read_to_string(bed.path("test.toml")).unwrap();
    fs::write(bed.path("test.toml"), text.clone() + "profile = \"optimized\"\nsettings = \"thq\"\n").unwrap();
    assert!(refused(&[]).contains("\"thq\", which is not an audit rule"));
    fs::write(bed.path("test.toml"), text + "profile = \"optimized\"\n").unwrap();
    assert!(refused(&[]).contains("remove host.profile and trace.record"));
    let nowhere = wiretail(["host", "prove", "--resume", "/nowhere", "--allow-system-changes"]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere"));
}
