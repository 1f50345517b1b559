//! A long trial pauses while another task computes, and its numbers leave the pauses out.

use std::process::{Child, Command};

use serde_json::Value;

use crate::run::bed::{Bed, experiment, live_on_own_cores, on_own_cores};
use crate::support::{analyze, succeed};

const PAUSE_NS: i64 = 100_000_000;

/// An ordinary task that computes until it is dropped.
struct Hog(Child);

impl Hog {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn paused(trial: &str) -> String {
    let trial = format!("duration = \"3 s\"\n{trial}");
    on_own_cores(&experiment("kind = \"skeleton\"", "rate = \"10 kpps\"", &trial))
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("a number instead of {value}"))
}

#[test]
fn numbers_of_a_trial_beside_a_busy_task_leave_pauses_out() {
    let Some(_alone) = live_on_own_cores() else { return };
    let bed = Bed::new(&paused("pauses = \"always\""));
    let hog = Hog::start();
    bed.run().with_code(0);
    drop(hog);
    let trial = &bed.trials()[0];
    assert_eq!(trial["state"], "valid", "{}", trial["reasons"]);
    let pauses = trial["pauses"].as_array().expect("pauses");
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    assert!(pauses.iter().all(|pause| int(&pause["end_ns"]) - int(&pause["start_ns"]) == PAUSE_NS));
    // The fair server takes the core for 50 ms.
    let stalls = trial["stalls"]["longest"].as_array().expect("stalls");
    let by_tasks = stalls.iter().filter(|stall| stall["cause"] == "scheduler");
    let longest = by_tasks.map(|stall| int(&stall["duration_ns"])).max();
    assert!(longest < Some(PAUSE_NS * 4 / 10), "{stalls:?}");
    let summary = bed.summary(trial, 0);
    assert_eq!((&trial["generator"]["sent"], int(&summary["loss"]["sent"])), (&30_000.into(), 30_000));
    leave_pauses_out(&summary);
    // No packet arrived in the middle of a pause.
    let worst = summary["worst"].as_array().expect("worst packets");
    let is_inside = |at_ns: i64| {
        let inside = |pause: &&Value| (int(&pause["start_ns"])..int(&pause["end_ns"])).contains(&at_ns);
        pauses.iter().any(|pause| inside(&pause))
    };
    assert!(!worst.is_empty() && !worst.iter().any(|packet| is_inside(int(&packet["pre_ns"]))));
    // The capture carries the pauses without the run.
    let capture =
        bed.out().join(trial["directory"].as_str().expect("a directory")).join("capture.pcapng.zst");
    let capture = capture.display().to_string();
    let taps = ["--pre-interface", "pre", "--post-interface", "post"];
    let alone = analyze([&[capture.as_str()][..], &taps].concat());
    leave_pauses_out(&alone);
    assert_eq!(alone["pre"]["gaps"], summary["pre"]["gaps"]);
}

/// Checks that the four pauses of 30,000 packets appear in no number of a summary.
fn leave_pauses_out(summary: &Value) {
    for tap in ["pre", "post"] {
        let capture = &summary[tap];
        assert_eq!(int(&capture["paused_ns"]), 4 * PAUSE_NS);
        let gaps = int(&capture["gaps"]["count"]) + int(&capture["clock"]["backward"]);
        assert_eq!(gaps, 30_000 - 1 - 4, "{tap}");
        assert!(int(&capture["gaps"]["max_ns"]) < PAUSE_NS, "{tap}: {}", capture["gaps"]);
        let rate = capture["mean_rate_pps"].as_f64().expect("a rate");
        assert!((rate - 10_000.0).abs() < 100.0, "{tap}: {rate}");
        let seconds = capture["rate"].as_array().expect("seconds");
        let packets: i64 = seconds.iter().map(|second| int(&second["packets"])).sum();
        assert!(packets == 30_000 && (3..=4).contains(&seconds.len()), "{tap}: {seconds:?}");
    }
    assert_eq!(int(&summary["variation"]["ipdv"]["count"]), 30_000 - 1 - 4);
    let intervals = summary["intervals"].as_array().expect("intervals");
    assert!(intervals.iter().all(|interval| int(&interval["packets"]) > 0));
}

#[test]
fn plan_states_pauses() {
    let shown = |trial: &str| {
        let bed = Bed::new(&paused(trial));
        succeed(["run", &bed.path("test.toml").display().to_string(), "--dry-run"])
    };
    assert!(shown("pauses = \"always\"").contains("4 pauses of 100 ms, after every 600 ms of sending"));
    assert!(!shown("pauses = \"none\"").contains("pauses of"));
}
