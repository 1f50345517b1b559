//! Killed soaks: the measurement is kept up to the last second, and the rest is measured after a resume.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use wiretail_capture::interval_log::read_log;
use wiretail_schema::run::interval::LogLine;

use super::bed::{Bed, Running, experiment, live_on_own_cores, on_own_cores};
use crate::support::succeed;

/// Returns the end of the last interval of a log, in ns since 1970, and the total length of all intervals;
/// `None` before the first interval.
fn logged(log: &Path) -> Option<(i64, i64)> {
    let (mut last, mut sum) = (None, 0);
    read_log(log, |line| {
        if let LogLine::Interval(interval) = line {
            last = Some(interval.start_ns + interval.length_ns);
            sum += interval.length_ns;
        }
    })
    .ok()?;
    last.map(|last| (last, sum))
}

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as i64
}

fn has(summary: &Value, code: &str) -> bool {
    summary["findings"].as_array().expect("findings").iter().any(|finding| finding["code"] == code)
}

#[test]
fn killed_soak_is_kept_and_resumed() {
    let Some(_alone) = live_on_own_cores() else { return };
    let devices = "kind = \"bridge\"";
    let text = experiment(devices, "rate = \"20 kpps\"", "duration = \"6 s\"\ncapture = \"none\"");
    // The reader of the taps must not have to wait for other programs on its core.
    let bed = Bed::new(&on_own_cores(&text));
    let trial = bed.out().join("trials/0001-bridge");
    let log = trial.join("intervals.log");
    let mut run: Running<'_> = bed.start();
    // Measures for two seconds, and then for a time that differs between runs of this test.
    run.until("two seconds are logged", |_| logged(&log).is_some_and(|(_, sum)| sum > 2_000_000_000));
    std::thread::sleep(Duration::from_millis(u64::from(run.pid % 10) * 100));
    let killed_ns = now_ns();
    run.kill();
    let (last_ns, measured_ns) = logged(&log).expect("a log");
    let missing_ms = (killed_ns - last_ns) / 1_000_000;
    println!("killed {} ms after the end of the last record", missing_ms);
    assert!(missing_ms < 1000, "{missing_ms} ms are missing");
    let out = bed.out().display().to_string();
    let told: Value = serde_json::from_str(&succeed(["report", &out, "--json"])).expect("JSON");
    let record = &told["trials"][0];
    assert_eq!((&record["state"], &record["segments"][0]["analysed"]), (&"interrupted".into(), &true.into()));
    let summary = bed.summary(record, 0);
    let sent = summary["loss"]["sent"].as_i64().unwrap();
    // Packets of the last records may still be in flight; their outcome is determined later.
    assert!(sent > 20 * (measured_ns / 1_000_000 - 1000) && sent <= 20 * 6000, "{sent} in {measured_ns} ns");
    assert!(!has(&summary, "resumed"), "{}", summary["findings"]);
    assert!(std::fs::read_to_string(bed.out().join("report.html")).unwrap().contains("interrupted"));
    bed.resume().with_code(0);
    let (_, whole_ns) = logged(&log).expect("a log");
    assert!((5_000_000_000..8_000_000_000).contains(&whole_ns), "{whole_ns}");
    let record = &bed.trials()[0];
    assert_eq!(record["state"], "valid", "{}", record["reasons"]);
    let summary = bed.summary(record, 0);
    assert!(has(&summary, "resumed") && has(&summary, "gap"), "{}", summary["findings"]);
    assert_eq!(summary["matching"]["extra"], 0, "{}", summary["matching"]);
    assert!(summary["loss"]["sent"].as_i64().unwrap() > sent);
}
