//! Services that undo what is set.

use wiretail_schema::host::plan::{Setting, SettingState, TakesEffect, Target};

use super::{Ask, setting};

/// What a service is when it runs, and when it does not.
const RUNNING: &str = "running";
const STOPPED: &str = "stopped";

/// Services that the isolating profiles want stopped. The regular one leaves them as they are.
pub(super) fn settings(ask: &Ask<'_>) -> Vec<Setting> {
    if !ask.isolates() {
        return Vec::new();
    }
    let tasks = ask.view.tasks();
    let target = Target::Service { name: "irqbalance".to_owned() };
    let mut found = setting(target, "irqbalance", TakesEffect::Now);
    found.wanted = Some(STOPPED.to_owned());
    if tasks.is_empty() {
        found.state = SettingState::Unseen;
        "the record has no threads".clone_into(&mut found.detail);
    } else if tasks.iter().any(|task| task.name == "irqbalance") {
        found.state = SettingState::Change;
        found.now = Some(RUNNING.to_owned());
        "by hand: systemctl disable --now irqbalance; or restart it with the file that --files puts in its place".clone_into(&mut found.detail);
    } else {
        found.now = Some(STOPPED.to_owned());
    }
    vec![found]
}
