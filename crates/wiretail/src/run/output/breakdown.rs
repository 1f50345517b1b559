//! Divides the delay between devices and infrastructure, for trials with a switch. This module collects the
//! outcomes of a trial's segments, one direction after the other, for
//! [`wiretail_analysis::summary::breakdown`].

use std::path::Path;

use anyhow::Result;
use wiretail_analysis::matching::{Observer, Outcome};
use wiretail_analysis::summary::breakdown::{BreakdownTally, WholeWay};
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::SegmentRecord;
use wiretail_schema::run::breakdown::{Breakdown, BreakdownCurves};

use crate::analyze::outputs;
use crate::run::testbed::topology::{Switch, Topology};
use crate::run::testbed::traffic;
use crate::run::trial::store;

/// Name of the file with the latency breakdown curves, in the trial's directory.
pub const CURVES: &str = "breakdown.json";

/// Returns whether a segment belongs to the reverse direction.
fn is_back(segment: &SegmentRecord) -> bool {
    segment.name.starts_with("back")
}

/// Orders the segments by direction. In each direction, the whole path comes before its devices.
pub fn order(segments: &[SegmentRecord]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|place| is_back(&segments[*place]));
    order
}

/// The latency breakdown of a trial. It is built while the segments are evaluated, in the order of [`order`].
pub struct Joining {
    devices: usize,
    packets: usize,
    /// The current direction: its name and progress.
    current: Option<(String, Stage)>,
    /// Number of devices in this direction that have been started.
    begun: usize,
    done: Vec<(Breakdown, BreakdownCurves)>,
}

enum Stage {
    Whole(WholeWay),
    Devices(BreakdownTally),
}

impl Joining {
    /// Returns `None` unless the trial's devices are connected by a switch and have taps. A soak has no
    /// breakdown, because it does not keep individual packets.
    pub fn of(trial: &Trial, topology: &Topology) -> Option<Self> {
        let packets = usize::try_from(traffic::packets(trial)).ok()?;
        let tapped = topology.switch != Switch::None && topology.shared().is_empty();
        let joins = tapped && !store::is_soak(trial);
        let devices = topology.devices;
        joins.then_some(Self { devices, packets, current: None, begun: 0, done: Vec::new() })
    }

    /// Assigns the next outcomes to this segment.
    pub fn begin(&mut self, segment: &str) {
        if matches!(segment, "forward" | "back") {
            self.end_direction();
            let way = WholeWay::with_capacity(self.packets);
            self.current = Some((segment.to_owned(), Stage::Whole(way)));
        } else if let Some((name, stage)) = self.current.take() {
            let mut tally = match stage {
                Stage::Whole(way) => way.complete(),
                Stage::Devices(tally) => tally,
            };
            tally.next_device();
            self.begun += 1;
            self.current = Some((name, Stage::Devices(tally)));
        }
    }

    /// Completes a direction. A breakdown requires that every device has its own taps, because the delay of a
    /// device without taps would be attributed to the infrastructure.
    fn end_direction(&mut self) {
        if let Some((name, Stage::Devices(tally))) = self.current.take()
            && self.begun == self.devices
        {
            self.done.extend(tally.finish(&name));
        }
        self.begun = 0;
    }

    /// Writes the curves into the trial's directory, and returns the latency breakdown for the trial's
    /// record.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(mut self, directory: &Path) -> Result<Vec<Breakdown>> {
        self.end_direction();
        let (breakdown, curves): (Vec<Breakdown>, Vec<BreakdownCurves>) = self.done.into_iter().unzip();
        if !curves.is_empty() {
            outputs::write_file(&directory.join(CURVES), &serde_json::to_vec(&curves)?)?;
        }
        Ok(breakdown)
    }
}

impl Observer for Joining {
    fn outcome(&mut self, outcome: &Outcome) {
        let Outcome::Matched { sent, delay_ns } = outcome else { return };
        match &mut self.current {
            Some((_, Stage::Whole(way))) => way.take(sent, *delay_ns),
            Some((_, Stage::Devices(tally))) => tally.take(sent, *delay_ns),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wiretail_analysis::matching::Sent;

    use super::*;

    #[test]
    fn orders_segments_by_direction() {
        let names = ["forward", "back", "vnf1", "vnf2", "back-vnf1", "back-vnf2"];
        let segment = |name: &str| SegmentRecord {
            name: name.to_owned(),
            pre: String::new(),
            post: String::new(),
            directory: String::new(),
            analysed: true,
        };
        let segments = names.map(segment);
        let ordered: Vec<&str> = order(&segments).into_iter().map(|place| names[place]).collect();
        assert_eq!(ordered, ["forward", "vnf1", "vnf2", "back", "back-vnf1", "back-vnf2"]);
    }

    #[test]
    fn direction_without_all_taps_has_no_breakdown() {
        let sent = |key| Sent { ts_ns: 0, key, sequence: key, duplicates_before: 0, flow: 0 };
        let mut joining = Joining { devices: 2, packets: 10, current: None, begun: 0, done: Vec::new() };
        for (segment, delay) in
            [("forward", 100), ("vnf1", 20), ("back", 200), ("back-vnf1", 30), ("back-vnf2", 50)]
        {
            joining.begin(segment);
            (0..10).for_each(|key| joining.matched(&sent(key), delay));
        }
        let folder = tempfile::tempdir().unwrap();
        let breakdown = joining.finish(folder.path()).unwrap();
        let [back] = &breakdown[..] else { panic!("{breakdown:?}") };
        assert_eq!((back.segment.as_str(), back.packets, back.vnf.max_ns), ("back", 10, 80));
        assert_eq!(back.infrastructure.max_ns, 120);
        assert!(folder.path().join(CURVES).exists());
    }
}
