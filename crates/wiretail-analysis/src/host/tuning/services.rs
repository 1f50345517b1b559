//! Services that undo settings of the plan.

use wiretail_schema::host::plan::{Setting, SettingState, TakesEffect, Target};

use super::{Ask, setting};

/// Names of the two states of a service.
const RUNNING: &str = "running";
const STOPPED: &str = "stopped";

/// Services that the isolating profiles stop. The regular profile does not change them.
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
        "run: systemctl disable --now irqbalance; or restart irqbalance with the file that --files installs"
            .clone_into(&mut found.detail);
    } else {
        found.now = Some(STOPPED.to_owned());
    }
    vec![found]
}
