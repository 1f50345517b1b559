//! Whose the delay is: packet by packet, how much of it passed in the devices (VNFs), and how much in what carries
//! packets to them and from them (the infrastructure).
//!
//! Of each packet, the devices' share is the sum of the delays over the devices, each from the tap before it to the
//! tap behind it, and the infrastructure's is what is left of the whole way. So both are exact distributions of
//! differences of stamps, not differences of distributions: percentiles of the parts do not add up to those of the
//! whole, as their worst packets are not the same ones.
//!
//! Packets are joined by their keys: positions in two captures are not those of the same packet once one was lost or
//! overtaken. The whole way comes first and is sorted by key, 24 bytes a packet; then each device adds to it. Keys of
//! a stream rise by one, so the packet behind the last one of its flow is nearly always the one looked for.
//!
//! [`additions`] holds the devices of one trial against the skeleton of another: there the packets are not the same,
//! and the difference is one of distributions, percentile by percentile.

use wiretail_schema::run::breakdown::{
    AddedDelay, Addition, Breakdown, BreakdownCurves, BreakdownDelays, TrialCurves,
};
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::summary::Percentile;

use crate::matching::Sent;
use crate::stats::counts::Counts;
use crate::stats::quantile::{Confidence, curve_shares, distribution, percentiles_with};

/// The percentiles of [`Breakdown`]: the curves have more.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// Pages of each of the three multisets: 8 MiB.
const PAGES: usize = 4096;
/// Flows whose place in the order of keys is remembered.
const FLOWS: usize = 4096;

/// A packet of the whole way.
#[derive(Debug, Clone, Copy)]
struct Packet {
    key: u64,
    whole_ns: i64,
    /// Below, the sum of the delays in devices, in ns; above [`SEEN`], how many devices those are.
    inside: u64,
}

/// One device in [`Packet::inside`]: sums of delays stay below 2^56 ns, which is two years.
const SEEN: u64 = 1 << 56;
/// What is there of a packet that can't be told from another, or that a device seems to have let through twice.
const SPOILT: u64 = u64::MAX;

/// Collects the packets of the whole way, in any order.
#[derive(Debug, Default)]
pub struct WholeWay {
    packets: Vec<Packet>,
}

impl WholeWay {
    /// With room for so many packets.
    pub fn with_capacity(packets: usize) -> Self {
        Self { packets: Vec::with_capacity(packets) }
    }

    /// Takes a packet that was matched on the whole way.
    pub fn take(&mut self, sent: &Sent, delay_ns: i64) {
        self.packets.push(Packet { key: sent.key, whole_ns: delay_ns, inside: 0 });
    }

    /// The packets are complete: what the devices took of them comes next.
    pub fn complete(mut self) -> BreakdownTally {
        // A stable order is not needed: of equal keys none counts. Sorted ones take one pass.
        self.packets.sort_unstable_by_key(|packet| packet.key);
        for same in self.packets.chunk_by_mut(|a, b| a.key == b.key).filter(|same| same.len() > 1) {
            same.iter_mut().for_each(|packet| packet.inside = SPOILT);
        }
        BreakdownTally { packets: self.packets, devices: 0, behind_last: Vec::new() }
    }
}

/// Collects what the devices took of the packets of the whole way.
#[derive(Debug)]
pub struct BreakdownTally {
    /// By their keys.
    packets: Vec<Packet>,
    devices: u8,
    /// By flow, the place behind its last packet.
    behind_last: Vec<usize>,
}

impl BreakdownTally {
    /// What is taken from now on was matched over the next device.
    pub fn next_device(&mut self) {
        self.devices += 1;
        self.behind_last.clear();
    }

    /// Takes a packet that was matched from the tap before the device to the tap behind it.
    pub fn take(&mut self, sent: &Sent, delay_ns: i64) {
        let Some(place) = self.find(sent) else { return };
        let packet = &mut self.packets[place];
        if packet.inside == SPOILT {
            return;
        }
        match u8::try_from(packet.inside / SEEN) {
            Ok(seen) if seen + 1 == self.devices => packet.inside += SEEN + delay_ns.max(0) as u64,
            // Over this device already.
            Ok(seen) if seen == self.devices => packet.inside = SPOILT,
            // An earlier device did not see it: it stays incomplete.
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

    /// The result, of the direction whose whole way is `segment`. None where no packet was on the whole way.
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

/// Kind of the device that others are held against.
const SKELETON: &str = "skeleton";
/// Full name of the factor that is the device.
const KIND: &str = "dut.kind";

/// What each device takes beyond the skeleton application: of every valid trial that has shares, against every one
/// of the same repeat and under the same load whose device is the skeleton. Factors of the device that only one of
/// the two has (a batch, a socket) do not keep them apart; those that both have do.
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

/// Whether two trials differ in their devices only.
fn same_load(run: &Run, a: &TrialRecord, b: &TrialRecord) -> bool {
    run.factors.iter().filter(|key| *key != KIND).all(|key| match (a.setting(key), b.setting(key)) {
        (Some(a), Some(b)) => a.text == b.text,
        (None, None) => true,
        _ => key.starts_with("dut."),
    })
}

/// The quantile function of `a` less that of `b`, at the percentiles that both have.
///
/// The bounds are those farthest apart that the two intervals allow. Each leaves out its true percentile with a
/// probability of 2.5 % at most, so both hold with 95 % at least (Bonferroni), whatever the distributions; as a rule
/// the errors do not add up like that, and the interval is wider than it need be. Each is for its own percentile: not
/// all of them hold at once with 95 %.
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
