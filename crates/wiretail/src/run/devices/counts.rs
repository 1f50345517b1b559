//! Packet counters of devices, and their comparison with the packets seen by the taps.

use std::collections::BTreeMap;

use wiretail_schema::run::{DeviceCounts, TapRecord};

use crate::run::testbed::topology::{TapPlace, Topology};

/// Packets that a device counted, summed over its directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the device received.
    pub received: u64,
    /// Packets that the device sent.
    pub sent: u64,
    /// Packets that were lost before the device received them, or that it dropped for a reason other than a
    /// rule.
    pub dropped: u64,
    /// Received packets that were dropped by a rule.
    pub filtered: u64,
    /// Packets that could not be sent.
    pub failed: u64,
}

impl Counts {
    /// Returns the difference from an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            dropped: self.dropped.saturating_sub(before.dropped),
            filtered: self.filtered.saturating_sub(before.filtered),
            failed: self.failed.saturating_sub(before.failed),
        }
    }
}

/// Compares the counters of the devices at these nodes with the packets seen by the taps around these
/// devices. The number of tapped packets at a side of a device is `None` unless every direction has a tap on
/// that side.
pub fn reconcile(
    device: &str,
    nodes: &[usize],
    counts: &Counts,
    topology: &Topology,
    taps: &[TapRecord],
) -> DeviceCounts {
    let assignment = topology.taps();
    let ways = if topology.both_directions { 2 } else { 1 };
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
    let (tapped_in, tapped_out) = match topology.switch_node() {
        // Packets sent through shared memory do not pass a tap.
        Some(switch) if nodes.contains(&switch) && !topology.shared().is_empty() => (None, None),
        Some(switch) if nodes.contains(&switch) => {
            // Every tap at a device is also a tap of the switch: packets go from a device to the switch, or
            // from the switch to a device.
            let sum = |is: &dyn Fn(&TapPlace) -> bool| {
                assignment.iter().zip(taps).filter(|(place, _)| is(place)).map(|(_, tap)| tap.packets).sum()
            };
            let enters = sum(&|tap| tap.leaves.is_some() || tap.name.ends_with("pre"));
            let leaves = sum(&|tap| tap.enters.is_some() || tap.name.ends_with("post"));
            (Some(enters), Some(leaves))
        }
        _ => (seen(&|place| assignment[place].enters), seen(&|place| assignment[place].leaves)),
    };
    DeviceCounts {
        device: device.to_owned(),
        received: counts.received,
        sent: counts.sent,
        dropped: counts.dropped,
        filtered: counts.filtered,
        failed: counts.failed,
        tapped_in,
        tapped_out,
    }
}

/// Returns a note if the device's counters differ from the packets seen by the taps.
pub fn disagreement(counts: &DeviceCounts) -> Option<String> {
    let beside = |count: u64, tapped: Option<u64>| match tapped {
        Some(tapped) => format!("{count} (the taps: {tapped})"),
        None => count.to_string(),
    };
    (!counts.agrees()).then(|| {
        format!(
            "{} counted different numbers than the taps: {} received and {} sent; it reports {} dropped, {} \
             filtered and {} not sent",
            counts.device,
            beside(counts.received, counts.tapped_in),
            beside(counts.sent, counts.tapped_out),
            counts.dropped,
            counts.filtered,
            counts.failed
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testbed::topology::{Guests, Middle, Switch};
    use crate::run::trial::record::tap_records;

    fn topology(devices: usize, switch: Switch, both_directions: bool) -> Topology {
        Topology {
            middle: Middle::Ports,
            devices,
            switch,
            guests: Guests::None,
            both_directions,
            tap_senders: false,
        }
    }

    /// Returns the taps of a topology with these packet counts.
    fn taps(topology: &Topology, seen: &[(&str, u64)]) -> Vec<TapRecord> {
        let mut taps = tap_records(topology);
        for tap in &mut taps {
            tap.packets = seen.iter().find(|(name, _)| *name == tap.name).expect("every tap").1;
        }
        assert_eq!(taps.len(), seen.len());
        taps
    }

    /// Returns the packets that the taps saw enter and leave these devices.
    fn tapped(topology: &Topology, nodes: &[usize], seen: &[(&str, u64)]) -> (Option<u64>, Option<u64>) {
        let found = reconcile("dut", nodes, &Counts::default(), topology, &taps(topology, seen));
        (found.tapped_in, found.tapped_out)
    }

    #[test]
    fn one_way_device_is_between_first_and_last_tap() {
        let one = topology(1, Switch::None, false);
        assert_eq!(tapped(&one, &[1], &[("pre", 100), ("post", 90)]), (Some(100), Some(90)));
    }

    #[test]
    fn adds_up_both_directions() {
        let one = topology(1, Switch::None, true);
        let seen = [("pre", 100), ("post", 90), ("back-pre", 1000), ("back-post", 900)];
        assert_eq!(tapped(&one, &[1], &seen), (Some(1100), Some(990)));
    }

    #[test]
    fn hops_share_a_tap_forward_and_have_none_between_them_backward() {
        let two = topology(2, Switch::None, false);
        let seen = [("pre", 100), ("hop1", 90), ("post", 80)];
        assert_eq!(tapped(&two, &[1], &seen), (Some(100), Some(90)));
        assert_eq!(tapped(&two, &[2], &seen), (Some(90), Some(80)));
        // If one thread serves both devices, it counts the packets that enter either device.
        assert_eq!(tapped(&two, &[1, 2], &seen), (Some(190), Some(170)));
        let back = topology(2, Switch::None, true);
        let seen = [("pre", 100), ("hop1", 90), ("post", 80), ("back-pre", 70), ("back-post", 60)];
        // Packets of the reverse direction enter the second device and leave the first device. There is no
        // tap between the two devices.
        assert_eq!(tapped(&back, &[1], &seen), (None, Some(150)));
        assert_eq!(tapped(&back, &[2], &seen), (Some(160), None));
        assert_eq!(tapped(&back, &[1, 2], &seen), (None, None));
    }

    #[test]
    fn devices_at_a_switch_have_their_own_taps() {
        let two = topology(2, Switch::Bridge, true);
        let seen = [
            ("pre", 1),
            ("vnf1-in", 10),
            ("vnf1-out", 9),
            ("vnf2-in", 8),
            ("vnf2-out", 7),
            ("post", 1),
            ("back-pre", 1),
            ("back-vnf2-in", 600),
            ("back-vnf2-out", 500),
            ("back-vnf1-in", 400),
            ("back-vnf1-out", 300),
            ("back-post", 1),
        ];
        assert_eq!(tapped(&two, &[1], &seen), (Some(410), Some(309)));
        assert_eq!(tapped(&two, &[2], &seen), (Some(608), Some(507)));
        assert_eq!(tapped(&two, &[1, 2], &seen), (Some(1018), Some(816)));
    }

    #[test]
    fn disagreement_names_both_counts() {
        let counts = |received, dropped, tapped_in| DeviceCounts {
            device: "dut1".to_owned(),
            received,
            sent: 90,
            dropped,
            filtered: 0,
            failed: 0,
            tapped_in,
            tapped_out: Some(90),
        };
        // Dropped packets may be included in the number of received packets, or may be counted separately.
        for fine in [
            counts(100, 0, Some(100)),
            counts(95, 5, Some(100)),
            counts(100, 10, Some(100)),
            counts(1, 0, None),
            DeviceCounts { filtered: 10, ..counts(100, 5, Some(105)) },
        ] {
            assert_eq!(disagreement(&fine), None, "{fine:?}");
        }
        let text = disagreement(&counts(98, 0, Some(100))).expect("two are missing");
        assert!(text.starts_with("dut1 counted different") && text.contains("98 (the taps: 100)"), "{text}");
        let mut sent = counts(100, 0, None);
        sent.tapped_out = Some(91);
        assert!(disagreement(&sent).is_some_and(|text| text.contains("90 (the taps: 91) sent")));
    }
}
