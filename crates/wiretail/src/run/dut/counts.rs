//! What devices count, and whether that is what the taps saw.

use std::collections::BTreeMap;

use wiretail_schema::run::{DeviceCounts, TapRecord};

use crate::run::topology::Topology;

/// Packets that a device counted, all its directions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that it took.
    pub received: u64,
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that it lost before it took them, or dropped by its own decision.
    pub dropped: u64,
    /// Packets that it could not send.
    pub failed: u64,
}

impl Counts {
    /// What was counted since.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            dropped: self.dropped.saturating_sub(before.dropped),
            failed: self.failed.saturating_sub(before.failed),
        }
    }
}

/// What the devices of these places counted, beside what the taps around them saw; None of a side where not
/// every way in (or out) has a tap.
pub fn reconcile(
    device: &str,
    nodes: &[usize],
    counts: &Counts,
    topology: &Topology,
    taps: &[TapRecord],
) -> DeviceCounts {
    let places = topology.taps();
    let ways = if topology.both_ways { 2 } else { 1 };
    let seen = |of: &dyn Fn(usize) -> Option<usize>| {
        let mut found: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
        for (place, tap) in taps.iter().enumerate() {
            if let Some(node) = of(place).filter(|node| nodes.contains(node)) {
                let (ways, packets) = found.entry(node).or_default();
                (*ways, *packets) = (*ways + 1, *packets + tap.packets);
            }
        }
        let whole = nodes.iter().all(|node| found.get(node).is_some_and(|(found, _)| *found == ways));
        whole.then(|| found.values().map(|(_, packets)| packets).sum())
    };
    DeviceCounts {
        device: device.to_owned(),
        received: counts.received,
        sent: counts.sent,
        dropped: counts.dropped,
        failed: counts.failed,
        tapped_in: seen(&|place| places[place].enters),
        tapped_out: seen(&|place| places[place].leaves),
    }
}
