//! Meters with known power, and failing meters.

use std::fs;

use super::*;

/// Runs a command until it has produced this many readings or failed.
fn watch(line: &str, interval_ms: u64, readings: usize) -> Readings {
    let interval = Duration::from_millis(interval_ms);
    let patience = Duration::from_secs(5);
    let meter = Meter::patient_command(line, interval, patience, || {}).expect("a thread");
    await_readings(&meter, readings);
    meter.finish()
}

fn await_readings(meter: &Meter, readings: usize) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        let log = meter.shared.log();
        if log.readings.len() >= readings || log.ended.is_some() {
            return;
        }
        drop(log);
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("fewer than {readings} readings");
}

/// Waits until a process with `word` among its arguments exists or, if `expected` is false, until it no
/// longer exists. A killed process takes a moment to exit.
fn await_runs(word: &str, expected: bool) {
    let begun = Instant::now();
    while runs(word) != expected {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "process with {word}: expected running: {expected}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn runs(word: &str) -> bool {
    fs::read_dir("/proc").expect("processes").flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

#[test]
fn restarts_command_that_exits() {
    let readings = watch("echo 50", 10, 4);
    assert_eq!((readings.ended, readings.domains), (None, vec![("metered".to_owned(), true)]));
    assert!(readings.readings.iter().all(|reading| reading.values == [50.0]));
    // Readings are strictly ordered in time; intervals depend on the machine's load and are not checked.
    let times: Vec<u64> = readings.readings.iter().map(|reading| reading.at_ns).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

#[test]
fn running_command_yields_one_reading_per_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let starts = folder.path().join("starts");
    let line = format!(
        "echo x >> {}; p=10; while true; do echo $p; p=$((p + 1)); sleep 0.01; done",
        starts.display()
    );
    let readings = watch(&line, 10, 5);
    let told: Vec<f64> = readings.readings.iter().map(|reading| reading.values[0]).collect();
    let ramp: Vec<f64> = (10..).map(f64::from).take(told.len()).collect();
    assert_eq!((told, readings.ended), (ramp, None));
    assert_eq!(fs::read_to_string(starts).expect("written"), "x\n");
}

#[test]
fn failed_commands_report_cause() {
    for (line, what) in [
        ("echo no meter >&2; exit 3", "energy.command failed (exit status: 3): no meter"),
        ("echo 50; kill -9 $$", "energy.command failed (signal: 9 (SIGKILL))"),
        ("echo soon", "printed \"soon\"; expected one number in watts"),
        ("true", "printed \"\"; expected one number"),
        ("while true; do echo 5; done", "more than 1000 lines per second"),
        ("no-such-program-at-all", "not found"),
    ] {
        let (_, why) = watch(line, 10, usize::MAX).ended.unwrap_or_else(|| panic!("{line} goes on"));
        assert!(why.contains(what), "{line}: {why}");
    }
}

#[test]
fn silent_commands_time_out() {
    let patience = Duration::from_millis(200);
    for line in ["echo 1; exec sleep 8231.25", "echo 1; sleep 8231.25 & exit 0", "exec >&-; sleep 8231.25"] {
        let meter =
            Meter::patient_command(line, Duration::from_millis(10), patience, || {}).expect("a thread");
        await_readings(&meter, usize::MAX);
        assert!(meter.finish().ended.is_some(), "{line}");
        await_runs("8231.25", false);
    }
}

#[test]
fn dropping_meter_kills_all_processes_of_command() {
    let line = "trap '' TERM; sleep 8232.25 & while true; do echo 5; sleep 0.01; done";
    let meter = Meter::command(line, Duration::from_secs(1), || {}).expect("a thread");
    meter.await_first(|| false);
    await_runs("8232.25", true);
    drop(meter);
    await_runs("8232.25", false);
}

#[test]
fn reads_counters_at_state_boundaries() {
    let root = tempfile::tempdir().expect("a folder");
    let zone = root.path().join("sys/class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).expect("made");
    // Replaces the file atomically, because the meter's thread reads it concurrently.
    let set = |uj: &str| {
        fs::write(zone.join("next"), uj).expect("written");
        fs::rename(zone.join("next"), zone.join("energy_uj")).expect("renamed");
    };
    fs::write(zone.join("name"), "package-0\n").expect("written");
    fs::write(zone.join("max_energy_range_uj"), "262143328850\n").expect("written");
    set("1000000\n");
    let meter = Meter::rapl(root.path(), || {}).expect("zones");
    let from = meter.begin();
    set("21000000\n");
    let to = meter.end();
    set("gone\n");
    meter.begin();
    let readings = meter.finish();
    let within: Vec<f64> = readings
        .readings
        .iter()
        .filter(|reading| (from..=to).contains(&reading.at_ns))
        .map(|reading| reading.values[0])
        .collect();
    assert_eq!((within.first(), within.last()), (Some(&0.0), Some(&20.0)));
    assert_eq!((readings.source, readings.resolution_ns), (EnergySource::Rapl, 1_000_000));
    assert!(readings.ended.is_some_and(|(at_ns, why)| at_ns >= to && why.contains("\"gone\"")));
    assert!(Meter::rapl(Path::new("/no/tree"), || {}).is_err());
}
