//! rings that hold what comes meanwhile, and no more than the cache

use crate::host::audit::rules::listed;
use crate::host::audit::rules::network::nics::{DRIVER, settings, shown};
use crate::host::audit::rules::{Rule, RuleGroup};
use crate::host::audit::{Judgement, View};

pub(crate) const RULE: Rule = Rule {
    id: "nic-rings",
    group: RuleGroup::Network,
    title: "rings that hold what comes meanwhile, and no more than the cache",
    why: "While a core is away its packets wait in the card's ring: one that is too short for an interrupt loses them. One whose buffers are more than the cache gets each packet from memory, and what waits in it is late.",
    effect: None,
    source: "ethtool(8) (-G); IEEE 802.3 (64 bytes and 20 of preamble and gap a frame at least); Farshin et al., Reexamining Direct Cache Access, USENIX ATC 2020",
    mitigation: "ethtool -G NAME rx N: as many as come while the core is away, no more than the cache holds",
    cost: "a short ring loses packets, a long one keeps them late",
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
            wrong.push(format!("{nic} has {entries}; {needed} of the smallest frames come in {AWAY_US} us"));
        }
        let queues = of("combined-channels", nic).or_else(|| of("rx-channels", nic)).unwrap_or(1).max(1);
        let buffers_kib = entries.saturating_mul(queues).saturating_mul(BUFFER_KIB);
        if let Some(cache_kib) = cache_kib.filter(|cache_kib| buffers_kib > *cache_kib) {
            wrong.push(format!(
                "{nic} has {buffers_kib} KiB of buffers in {queues} rings, the cache {cache_kib}"
            ));
        }
    }
    let judged = match wrong.is_empty() {
        true => Judgement::good(),
        false => Judgement::improvable(listed(&wrong)),
    };
    judged.effective(format!("rx {}", shown(&rings)))
}

/// The largest size of cache of the first core, which is the last level's.
fn last_cache_kib(view: &View<'_>) -> Option<u64> {
    let sizes = view.each("/sys/devices/system/cpu/cpu0/cache/index", "/size");
    sizes.filter_map(|(_, size)| size.trim().strip_suffix('K')?.parse().ok()).max()
}

/// How many of the smallest frames come while a core is away; None where the speed, in Mbit/s, is not known.
pub(crate) fn ring_entries(speed_mbps: u64) -> Option<u64> {
    let is_known = speed_mbps > 0 && speed_mbps < UNKNOWN_MBPS;
    is_known.then(|| speed_mbps.saturating_mul(AWAY_US).div_ceil(FRAME_BITS_MIN))
}

/// Bits that the smallest frame takes on the wire, with preamble and gap.
const FRAME_BITS_MIN: u64 = 84 * 8;
/// How long a device's interrupt takes a core at most, mostly.
const AWAY_US: u64 = 20;
/// A buffer of the kernel's drivers: half a page.
const BUFFER_KIB: u64 = 2;
/// `SPEED_UNKNOWN` as an unsigned number.
const UNKNOWN_MBPS: u64 = u32::MAX as u64;
