//! Rule `tuned`: low-latency profile of tuned.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "tuned",
    group: RuleGroup::Services,
    title: "low-latency profile of tuned",
    why: "Whenever tuned starts, it sets governors, idle states and sysctls according to its profile, and overrides manual settings.",
    effect: None,
    source: "tuned-profiles(7), tuned-profiles-cpu-partitioning(7)",
    mitigation: "tuned-adm profile cpu-partitioning (isolated_cores={cores}) or network-latency; or systemctl disable --now tuned",
    cost: "higher power consumption",
    reads: &[PROFILE],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(profile) = view.text(PROFILE).map(str::trim).filter(|profile| !profile.is_empty()) else {
        return match view.has(PROFILE) {
            true if view.text(PROFILE).is_none() => view.missing(PROFILE),
            _ => Judgement::not_here("tuned is not installed, or has no profile"),
        };
    };
    let runs = view.tasks().iter().any(|task| task.name == "tuned" && !task.is_kernel);
    let fits = profile.split_whitespace().any(|name| FIT.iter().any(|fit| name.starts_with(fit)));
    let judged = match (fits, runs) {
        (true, true) => Judgement::good(),
        (true, false) if view.tasks().is_empty() => {
            Judgement::unseen("the threads were not recorded, so it is unknown whether tuned runs")
        }
        (true, false) => {
            Judgement::ineffective("tuned does not run, so it has not applied the selected profile")
        }
        (false, _) => Judgement::improvable("the profile is not intended for low latency"),
    };
    judged.requested(Some(profile)).effective(if runs { "tuned runs" } else { "tuned does not run" })
}

/// Name prefixes of low-latency profiles.
const FIT: [&str; 7] = [
    "cpu-partitioning",
    "realtime",
    "network-latency",
    "latency-performance",
    "nfv",
    "wiretail",
    "openshift-node-performance",
];
const PROFILE: &str = "/etc/tuned/active_profile";
