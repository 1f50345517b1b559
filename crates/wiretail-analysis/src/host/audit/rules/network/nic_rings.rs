//! Rule `nic-rings`: receive rings long enough for interruptions, but small enough for the cache.

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-rings",
    group: RuleGroup::Network,
    title: "receive rings long enough for interruptions, but small enough for the cache",
    why: "While a core is interrupted, its packets wait in the NIC's ring, and a ring that is too short drops them. If the ring's buffers do not fit into the cache, each packet is read from memory. Packets that wait in a long ring leave late.",
    effect: None,
    source: "ethtool(8) (-G); IEEE 802.3 (at least 64 bytes per frame, plus 20 bytes of preamble and gap); Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020",
    mitigation: "ethtool -G NAME rx N, where N is the number of packets that arrive while the core is interrupted, but no more than the cache holds",
    cost: "a short ring drops packets, a long one delays them",
    reads: &[DRIVER, "/sys/devices/system/cpu/cpu0/cache/index*/size"],
    judge,
};

fn judge(view: &View<'_>) -> Judgement {
    let rings = match settings(view, "rx-ring") {
        Ok(rings) => rings,
        Err(judged) => return judged,
    };
    let of = |name: &str, nic: &str| -> Option<u64> {
        let all = settings(view, name).ok()?;
        all.iter().find(|(one, _)| *one == nic)?.1.parse().ok()
    };
    let cache_kib = last_cache_kib(view);
    let mut wrong = Vec::new();
    for (nic, entries) in &rings {
        let Ok(entries) = entries.parse::<u64>() else { continue };
        let needed = of("speed-mbps", nic).and_then(ring_entries);
        let may_grow = of("rx-ring-max", nic).is_some_and(|most| most > entries);
        if let Some(needed) = needed.filter(|needed| entries < *needed && may_grow) {
            wrong.push(format!(
                "{nic} has {entries} entries, but up to {needed} frames arrive in {AWAY_US} us"
            ));
        }
        let queues = of("combined-channels", nic).or_else(|| of("rx-channels", nic)).unwrap_or(1).max(1);
        let buffers_kib = entries.saturating_mul(queues).saturating_mul(BUFFER_KIB);
        if let Some(cache_kib) = cache_kib.filter(|cache_kib| buffers_kib > *cache_kib) {
            wrong.push(format!(
                "{nic} has {buffers_kib} KiB of buffers in {queues} rings, but the cache holds {cache_kib} KiB"
            ));
        }
    }
    let judged = match wrong.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&wrong)),
    };
    judged.effective(format!("rx {}", shown(&rings)))
}

/// Size of the first core's largest cache, which is its last-level cache, in KiB.
fn last_cache_kib(view: &View<'_>) -> Option<u64> {
    let sizes = view.each("/sys/devices/system/cpu/cpu0/cache/index", "/size");
    sizes.filter_map(|(_, size)| size.trim().strip_suffix('K')?.parse().ok()).max()
}

/// Number of minimum-size frames that arrive while a core is interrupted. `None` if the link speed, in Mbit/s,
/// is unknown.
pub(crate) fn ring_entries(speed_mbps: u64) -> Option<u64> {
    let is_known = speed_mbps > 0 && speed_mbps < UNKNOWN_MBPS;
    is_known.then(|| speed_mbps.saturating_mul(AWAY_US).div_ceil(FRAME_BITS_MIN))
}

/// Bits of a minimum-size frame on the wire, including preamble and gap.
const FRAME_BITS_MIN: u64 = 84 * 8;
/// Typical upper bound on the time for which a device interrupt occupies a core.
const AWAY_US: u64 = 20;
/// Buffer size of the kernel's drivers: half a page.
const BUFFER_KIB: u64 = 2;
/// `SPEED_UNKNOWN` as an unsigned number.
const UNKNOWN_MBPS: u64 = u32::MAX as u64;
