//! Rule `rights`: capabilities of the packet processor.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "rights",
    group: RuleGroup::Guests,
    title: "capabilities of the packet processor",
    why: "A packet processor that lacks these capabilities still handles packets, but without real-time priority and locked memory. At best, it logs that it could not get them.",
    effect: None,
    source: "capabilities(7), packet(7), sched(7), mlock(2)",
    mitigation: "run the packet processor as root, or give it CAP_NET_RAW, CAP_NET_ADMIN, CAP_SYS_NICE and CAP_IPC_LOCK (setcap, --cap-add, lxc.cap.keep)",
    cost: "these capabilities also permit other privileged operations",
    reads: &[STATUS],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(text) = view.text(STATUS) else { return view.missing(STATUS) };
    let Some(mask) = text.lines().find_map(|line| line.strip_prefix("CapEff:")) else {
        return Judgement::unseen(format!("{STATUS} has no CapEff line"));
    };
    let Ok(mask) = u64::from_str_radix(mask.trim(), 16) else {
        return Judgement::unseen(format!("{STATUS}: \"{}\" is not a capability mask", mask.trim()));
    };
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(bit, _)| mask & (1 << bit) == 0).map(|(_, name)| *name).collect();
    let judged = match missing.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(format!("this process lacks {}", missing.join(", "))),
    };
    judged.effective(format!("{} of {}", NEEDED.len() - missing.len(), NEEDED.len()))
}

/// Bit numbers from include/uapi/linux/capability.h.
const NEEDED: [(u32, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (14, "CAP_IPC_LOCK"), (23, "CAP_SYS_NICE")];
const STATUS: &str = "/proc/self/status";
