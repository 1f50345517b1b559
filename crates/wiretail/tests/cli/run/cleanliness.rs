//! A run restores the machine, regardless of how it ends and whether cores are isolated.

use std::time::Duration;

use super::bed::{Bed, experiment, live, live_on_own_cores, on_own_cores};
use super::host;

fn short(duration: &str) -> String {
    let devices = "kind = [\"wire\", \"bridge\", \"skeleton\"]";
    experiment(devices, "rate = \"1 kpps\"", &format!("duration = \"{duration}\""))
}

#[test]
fn run_with_isolated_cores_leaves_nothing() {
    let Some(_alone) = live_on_own_cores() else { return };
    let before = host::look();
    let bed = Bed::new(&on_own_cores(&short("400 ms")));
    let mut run = bed.start();
    let pid = run.pid;
    // Checks that the comparison below would detect changes: the machine differs while the run is active.
    let mut changed = Vec::new();
    run.until("it changes the machine", |_| {
        changed = host::differences(&before, &[pid]);
        changed.iter().any(|change| change.contains("workqueue") || change.contains("cpuset"))
    });
    assert!(changed.iter().any(|change| change.contains("/run/netns")), "{changed:?}");
    run.end().with_code(0);
    let left = host::differences(&before, &[pid]);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn interrupted_run_with_isolated_cores_leaves_nothing() {
    let Some(_alone) = live_on_own_cores() else { return };
    for wait in [100, 500, 1100] {
        let before = host::look();
        let bed = Bed::new(&on_own_cores(&short("2 s")));
        let run = bed.start();
        let pid = run.pid;
        std::thread::sleep(Duration::from_millis(wait));
        run.signal("-INT");
        let code = run.end().code;
        // Until the run handles signals, a signal kills it at once.
        assert!(code == Some(130) || (wait < 200 && code.is_none()), "after {wait} ms: {code:?}");
        let left = host::differences(&before, &[pid]);
        assert!(left.is_empty(), "after {wait} ms: {left:?}");
    }
}

#[test]
fn cleans_up_killed_run_with_isolated_cores() {
    let Some(_alone) = live_on_own_cores() else { return };
    kill_and_clean(&on_own_cores(&short("2 s")));
}

#[test]
fn cleans_up_killed_run() {
    let Some(_alone) = live() else { return };
    kill_and_clean(&short("2 s"));
}

fn kill_and_clean(text: &str) {
    for wait in [30, 300, 800] {
        let before = host::look();
        let bed = Bed::new(text);
        let run = bed.start();
        let pid = run.pid;
        std::thread::sleep(Duration::from_millis(wait));
        run.kill();
        let mut left = host::differences(&before, &[pid]);
        // If this run does not isolate cores, the settings may belong to another run.
        left.retain(|difference| text.contains("isolate = true") || difference.contains("wt-"));
        assert!(left.is_empty(), "after {wait} ms: {left:?}");
    }
}
