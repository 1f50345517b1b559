//! Rule `locked-memory`: limit on locked memory.

use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "locked-memory",
    group: RuleGroup::Memory,
    title: "limit on locked memory",
    why: "The kernel may move, merge or swap out memory that is not locked; packets wait during that time. AF_XDP frames count as locked memory: if they exceed the limit, the program does not start.",
    effect: None,
    source: "mlock(2), getrlimit(2) (RLIMIT_MEMLOCK); networking/af_xdp.rst, docs.kernel.org; limits.conf(5)",
    mitigation: "LimitMEMLOCK=infinity in the systemd service, memlock unlimited in /etc/security/limits.d, --ulimit memlock=-1 for a container, or CAP_IPC_LOCK",
    cost: "locked memory is not available to other programs",
    reads: &[LIMITS, STATUS, "/etc/security/limits.conf", "/etc/security/limits.d/*"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let Some(text) = view.text(LIMITS) else {
        return match view.has(LIMITS) {
            true => view.missing(LIMITS),
            false => Judgement::unseen(format!("{LIMITS} is not in the record")),
        };
    };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("Max locked memory")) else {
        return Judgement::unseen(format!("{LIMITS} has no \"Max locked memory\" line"));
    };
    let asked = asked(view);
    let mut words = line.split_whitespace();
    let (Some(soft), Some(hard)) = (words.next(), words.next()) else {
        return Judgement::unseen(format!("{LIMITS}: \"{}\" is not a limit", line.trim()));
    };
    let bytes = |word: &str| match word {
        "unlimited" => Some(u64::MAX),
        word => word.parse::<u64>().ok(),
    };
    // CAP_IPC_LOCK removes the limit: mlock(2).
    let Some(limit) = bytes(hard) else {
        return Judgement::unseen(format!("{LIMITS}: \"{hard}\" is not a limit"));
    };
    let judged = match limit {
        _ if may_lock(view) => Judgement::good(),
        limit if limit >= ENOUGH_BYTES => Judgement::good(),
        _ => Judgement::improvable("the limit is too small for the 16384 frames of one AF_XDP socket"),
    };
    let right = if may_lock(view) { ", no limit with CAP_IPC_LOCK" } else { "" };
    judged.requested(asked).effective(format!("{}, at most {}{right}", shown(soft), shown(hard)))
}

/// Requested limit: the last memlock line of all files, as pam_limits reads them.
fn asked(view: &View<'_>) -> Option<String> {
    let own = view.text("/etc/security/limits.conf").into_iter();
    let texts = own.chain(view.each("/etc/security/limits.d/", "").map(|(_, text)| text));
    let lines = texts.flat_map(str::lines).map(str::trim).filter(|line| !line.starts_with('#'));
    let of_memory = |line: &&str| line.split_whitespace().nth(2) == Some("memlock");
    lines.filter(of_memory).last().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn may_lock(view: &View<'_>) -> bool {
    let mask = view.text(STATUS).and_then(|text| text.lines().find_map(|line| line.strip_prefix("CapEff:")));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & (1 << 14) != 0)
}

/// Formats a byte count: "8388608" as "8 MiB".
fn shown(bytes: &str) -> String {
    match bytes.parse::<u64>() {
        Ok(bytes) if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        Ok(bytes) => format!("{} KiB", bytes >> 10),
        Err(_) => bytes.to_owned(),
    }
}

/// 16384 frames of one page each.
const ENOUGH_BYTES: u64 = 16384 * 4096;
const LIMITS: &str = "/proc/self/limits";
const STATUS: &str = "/proc/self/status";
