//! Rule `machine-check`: no polling for corrected hardware errors.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "machine-check",
    group: RuleGroup::Kernel,
    title: "no polling for corrected hardware errors",
    why: "A timer on every core polls the machine check banks every few minutes. Reading the registers of these banks is slow and delays the packets.",
    effect: None,
    source: "arch/x86/x86_64/machinecheck.rst and boot-options.rst (mce=ignore_ce), docs.kernel.org",
    mitigation: "boot with mce=ignore_ce, or echo 0 > /sys/devices/system/machinecheck/machinecheck0/check_interval",
    cost: "memory that starts to fail is not reported",
    reads: &[INTERVAL, IGNORE],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let word = view.boot().word("mce");
    let asked = view.boot().value("mce") == Some("ignore_ce");
    let Some(interval_s) = view.text(INTERVAL).and_then(seconds) else {
        return view.missing(INTERVAL).requested(word);
    };
    let ignored = view.number(IGNORE) == Some(1);
    let judged = match ignored || interval_s == 0 {
        true => Judgement::good(),
        false if asked => Judgement::ineffective(
            "mce=ignore_ce was requested, but the kernel still polls for corrected errors",
        ),
        false => {
            Judgement::improvable(format!("each core is interrupted every {interval_s} s to poll for errors"))
        }
    };
    let shown = if ignored { "ignored".to_owned() } else { format!("every {interval_s} s") };
    judged.requested(word).effective(shown)
}

/// The kernel documentation describes this value as hexadecimal, but kernels print it in decimal (default
/// 300).
fn seconds(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

const INTERVAL: &str = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
const IGNORE: &str = "/sys/devices/system/machinecheck/machinecheck0/ignore_ce";
