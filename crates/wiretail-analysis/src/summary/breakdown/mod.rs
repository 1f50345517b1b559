//! Latency breakdown per packet: the delay in the devices (VNFs) and in the infrastructure that carries
//! packets to and from them.
//!
//! For each packet, the devices' share is the sum of its delays in the devices. The delay in a device is
//! measured from the tap upstream of the device to the tap downstream of it. The infrastructure's share is
//! the rest of the path. Both are exact distributions of timestamp differences, not differences of
//! distributions. The percentiles of the parts therefore do not add up to the percentiles of the whole,
//! because their worst packets differ.
//!
//! Packets are joined by their keys, because positions in two captures diverge once a packet is lost or
//! overtaken. The packets of the whole path are collected first and sorted by key, at 24 bytes per packet. The
//! delays of each device are then added to them. Keys of a stream increase by one, so the packet of a flow is
//! almost always found right after the previous packet of that flow.
//!
//! [`additions`] compares the devices of one trial with the skeleton of another. The packets differ between
//! trials, so the result is a difference of distributions, percentile by percentile.

use wiretail_schema::run::breakdown::{
    AddedDelay, Addition, Breakdown, BreakdownCurves, BreakdownDelays, TrialCurves,
};
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;

use crate::matching::Sent;
use crate::stats::counts::Counts;
use crate::stats::quantile::{Confidence, curve_shares, distribution, percentiles_with};

/// Percentiles in [`Breakdown`]; the curves have more.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// Number of pages of each of the three multisets: 8 MiB.
const PAGES: usize = 4096;
/// Number of flows with a remembered position in the order of keys.
const FLOWS: usize = 4096;

/// A packet of the whole path.
#[derive(Debug, Clone, Copy)]
struct Packet {
    key: u64,
    whole_ns: i64,
    /// Sum of the delays in devices in ns, plus [`SEEN`] times the number of those devices.
    inside: u64,
}

/// Value added to [`Packet::inside`] for each device. Sums of delays stay below 2^56 ns, which is two years.
const SEEN: u64 = 1 << 56;
/// Marks a packet that has a repeated key or seems to have passed a device twice.
const SPOILT: u64 = u64::MAX;

/// Collects the packets of the whole path, in any order.
#[derive(Debug, Default)]
pub struct WholeWay {
    packets: Vec<Packet>,
}

impl WholeWay {
    /// Creates an empty collection with room for `packets` packets.
    pub fn with_capacity(packets: usize) -> Self {
        Self { packets: Vec::with_capacity(packets) }
    }

    /// Adds a packet that was matched over the whole path.
    pub fn take(&mut self, sent: &Sent, delay_ns: i64) {
        self.packets.push(Packet { key: sent.key, whole_ns: delay_ns, inside: 0 });
    }

    /// Ends the collection of packets. The delays in the devices are added next.
    pub fn complete(mut self) -> BreakdownTally {
        // The sort does not need to be stable, because packets with equal keys are ignored. Sorted input
        // takes one pass.
        self.packets.sort_unstable_by_key(|packet| packet.key);
        for same in self.packets.chunk_by_mut(|a, b| a.key == b.key).filter(|same| same.len() > 1) {
            same.iter_mut().for_each(|packet| packet.inside = SPOILT);
        }
        BreakdownTally { packets: self.packets, devices: 0, behind_last: Vec::new() }
    }
}

/// Adds the delays in the devices to the packets of the whole path.
#[derive(Debug)]
pub struct BreakdownTally {
    /// Packets ordered by key.
    packets: Vec<Packet>,
    devices: u8,
    /// Per flow, the position after its last packet.
    behind_last: Vec<usize>,
}

impl BreakdownTally {
    /// Starts the next device. Packets added from now on were matched over it.
    pub fn next_device(&mut self) {
        self.devices += 1;
        self.behind_last.clear();
    }

    /// Adds a packet that was matched over the current device.
    pub fn take(&mut self, sent: &Sent, delay_ns: i64) {
        let Some(place) = self.find(sent) else { return };
        let packet = &mut self.packets[place];
        if packet.inside == SPOILT {
            return;
        }
        match u8::try_from(packet.inside / SEEN) {
            Ok(seen) if seen + 1 == self.devices => packet.inside += SEEN + delay_ns.max(0) as u64,
            // The packet has already passed this device.
            Ok(seen) if seen == self.devices => packet.inside = SPOILT,
            // An earlier device did not see the packet, so it stays incomplete.
            _ => {}
        }
    }

    fn find(&mut self, sent: &Sent) -> Option<usize> {
        let flow = (sent.flow as usize).min(FLOWS);
        if self.behind_last.len() <= flow {
            self.behind_last.resize(flow + 1, 0);
        }
        let guess = self.behind_last[flow];
        let place = match self.packets.get(guess) {
            Some(packet) if packet.key == sent.key => guess,
            _ => self.packets.binary_search_by_key(&sent.key, |packet| packet.key).ok()?,
        };
        self.behind_last[flow] = place + 1;
        Some(place)
    }

    /// Returns the result for the direction whose whole path is `segment`, or `None` if no packet took the
    /// whole path.
    pub fn finish(self, segment: &str) -> Option<(Breakdown, BreakdownCurves)> {
        let [mut whole, mut infrastructure, mut vnf] = [(); 3].map(|()| Counts::new(PAGES));
        let (mut left_out, mut contradictory) = (0, 0);
        for packet in &self.packets {
            let (seen, inside_ns) = (packet.inside / SEEN, (packet.inside % SEEN) as i64);
            if packet.inside == SPOILT || seen != u64::from(self.devices) {
                left_out += 1;
            } else if inside_ns > packet.whole_ns {
                contradictory += 1;
            } else {
                whole.add(packet.whole_ns);
                infrastructure.add(packet.whole_ns - inside_ns);
                vnf.add(inside_ns);
            }
        }
        if self.packets.is_empty() {
            return None;
        }
        let breakdown = Breakdown {
            segment: segment.to_owned(),
            devices: self.devices.into(),
            packets: whole.count(),
            left_out,
            contradictory,
            whole: delays(&whole),
            infrastructure: delays(&infrastructure),
            vnf: delays(&vnf),
        };
        let granularity = curve_shares(whole.count());
        let curve = |counts: &Counts| percentiles_with(counts, &granularity, Confidence::P97_5);
        let curves = BreakdownCurves {
            segment: segment.to_owned(),
            whole: curve(&whole),
            infrastructure: curve(&infrastructure),
            vnf: curve(&vnf),
        };
        Some((breakdown, curves))
    }
}

fn delays(counts: &Counts) -> BreakdownDelays {
    let found = distribution(counts);
    let shown = found.percentiles.into_iter().filter(|p| PERCENTILES.contains(&p.percentile));
    BreakdownDelays { mean_ns: found.mean_ns, max_ns: found.max_ns, percentiles: shown.collect() }
}

/// Kind of the reference device.
const SKELETON: &str = "skeleton";
/// Full name of the factor that selects the device.
const KIND: &str = "dut.kind";

/// Delay that each device adds to the skeleton application. Compares every valid trial that has a breakdown
/// with every skeleton trial of the same repeat under the same load. Device factors that exist in only one of
/// the two trials, such as a batch size or a socket, are ignored. All other device factors must be equal.
pub fn additions(run: &Run, curves: &[TrialCurves]) -> Vec<Addition> {
    let usable = |trial: &&TrialRecord| trial.state == TrialState::Valid && !trial.breakdown.is_empty();
    let is_skeleton = |trial: &TrialRecord| trial.setting(KIND).is_some_and(|kind| kind.text == SKELETON);
    let (bases, others): (Vec<_>, Vec<_>) =
        run.trials.iter().filter(usable).partition(|trial| is_skeleton(trial));
    let curves_of = |trial: &TrialRecord| curves.iter().find(|c| c.trial == trial.number);
    let mut found = Vec::new();
    for (other, base) in others.iter().flat_map(|other| bases.iter().map(move |base| (*other, *base))) {
        let (Some(of), Some(from)) = (curves_of(other), curves_of(base)) else { continue };
        if other.repeat != base.repeat || !same_load(run, other, base) {
            continue;
        }
        for curve in &of.curves {
            let same = |segment: &str| segment == curve.segment;
            let against = from.curves.iter().find(|c| same(&c.segment));
            let max = |trial: &TrialRecord| {
                trial.breakdown.iter().find(|s| same(&s.segment)).map(|breakdown| breakdown.vnf.max_ns)
            };
            let (Some(against), Some(most), Some(least)) = (against, max(other), max(base)) else { continue };
            let points = difference(&curve.vnf, &against.vnf);
            if !points.is_empty() {
                let segment = curve.segment.clone();
                let (trial, skeleton) = (other.number, base.number);
                found.push(Addition { trial, skeleton, segment, points, max_ns: most - least });
            }
        }
    }
    found
}

/// Whether two trials differ only in their devices.
fn same_load(run: &Run, a: &TrialRecord, b: &TrialRecord) -> bool {
    run.factors.iter().filter(|key| *key != KIND).all(|key| match (a.setting(key), b.setting(key)) {
        (Some(a), Some(b)) => a.text == b.text,
        (None, None) => true,
        _ => key.starts_with("dut."),
    })
}

/// Difference of the quantile functions of `a` and `b`, at the percentiles that both have.
///
/// The bounds are the farthest apart that the two intervals allow. Each interval misses its true percentile
/// with a probability of at most 2.5 %, so both are correct with at least 95 % (Bonferroni), for any
/// distribution. The errors rarely add up in full, so the interval is usually wider than necessary. The 95 %
/// apply to each percentile separately, not to all of them together.
fn difference(a: &[Percentile], b: &[Percentile]) -> Vec<AddedDelay> {
    let other = |p: &Percentile| b.iter().find(|other| other.percentile == p.percentile);
    let pairs = a.iter().filter_map(|p| Some((p, other(p)?)));
    pairs
        .map(|(a, b)| AddedDelay {
            percentile: a.percentile,
            value_ns: a.value_ns - b.value_ns,
            low_ns: b.high_ns.map(|high| a.low_ns - high),
            high_ns: a.high_ns.map(|high| high - b.low_ns),
            supported: a.supported && b.supported,
        })
        .collect()
}

#[cfg(test)]
mod tests;
