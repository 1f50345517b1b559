//! A run leaves the machine as it was, however it ends; also where it had cores for itself.

use std::time::Duration;

use super::bed::{Bed, experiment, live, live_on_own_cores, on_own_cores};
use super::host;

fn short(duration: &str) -> String {
    let devices = "kind = [\"wire\", \"bridge\", \"skeleton\"]";
    experiment(devices, "rate = \"1 kpps\"", &format!("duration = \"{duration}\""))
}

#[test]
fn a_run_with_its_own_cores_leaves_nothing() {
    let Some(_alone) = live_on_own_cores() else { return };
    let before = host::look();
    let bed = Bed::new(&on_own_cores(&short("400 ms")));
    let mut run = bed.start();
    let pid = run.pid;
    // While it runs the machine is another one: the look below looks at the right things.
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
fn an_interrupted_run_with_its_own_cores_leaves_nothing() {
    let Some(_alone) = live_on_own_cores() else { return };
    for wait in [100, 500, 1100] {
        let before = host::look();
        let bed = Bed::new(&on_own_cores(&short("2 s")));
        let run = bed.start();
        let pid = run.pid;
        std::thread::sleep(Duration::from_millis(wait));
        run.signal("-INT");
        let code = run.end().code;
        // Before it minds signals, one ends it at once.
        assert!(code == Some(130) || (wait < 200 && code.is_none()), "after {wait} ms: {code:?}");
        let left = host::differences(&before, &[pid]);
        assert!(left.is_empty(), "after {wait} ms: {left:?}");
    }
}

#[test]
fn what_a_killed_run_with_its_own_cores_left_is_cleaned() {
    let Some(_alone) = live_on_own_cores() else { return };
    kill_and_clean(&on_own_cores(&short("2 s")));
}

#[test]
fn what_a_killed_run_left_is_cleaned() {
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
        // Settings are another run's where this one leaves the cores alone.
        left.retain(|difference| text.contains("isolate = true") || difference.contains("wt-"));
        assert!(left.is_empty(), "after {wait} ms: {left:?}");
    }
}
