//! Calibration of devices that release a batch at once. Their packets depart in clumps. Each clump took the
//! batch overhead and the service times of its packets.

use std::collections::BTreeMap;

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::Length;

use super::service::{Work, limit, moments};
use super::{Isolated, Observation};
use crate::stats::list::{median, median_estimate};

/// Departures closer than this fraction of the mean gap belong to one clump.
const TOGETHER: f64 = 0.25;
/// Minimum mean size of clumps; below it, departures do not form clumps.
const CLUMP_MIN: f64 = 1.2;
/// Minimum number of clumps of one size. Sizes with fewer clumps are not used.
const SIZE_MIN: usize = 10;

/// Batch: its size, the arrival of its first packet, and its departure, in ns.
#[derive(Debug, Clone, Copy)]
struct Clump {
    packets: u64,
    first_ns: f64,
    left_ns: f64,
}

/// Service, computed from the times between clumps, and the clumps that found the server idle. `None` if
/// packets depart one by one.
pub(super) fn found(observations: &[Observation<'_>]) -> Option<(Work, Vec<Isolated>)> {
    let (mut busy, mut first) = (Vec::new(), Vec::new());
    let (mut packets, mut clumps) = (0, 0);
    for one in observations {
        let found = clumps_of(one.packets);
        packets += found.iter().map(|clump| clump.packets).sum::<u64>();
        clumps += found.len();
        for pair in found.windows(2) {
            // The server took this batch when the previous one departed, so all of its packets were waiting.
            if pair[1].first_ns < pair[0].left_ns {
                busy.push(Batch { packets: pair[1].packets, ns: pair[1].left_ns - pair[0].left_ns });
            } else {
                first.push((pair[1], pair[1].first_ns - pair[0].left_ns));
            }
        }
    }
    if busy.is_empty() || (packets as f64) < CLUMP_MIN * clumps as f64 {
        return None;
    }
    let work = work(&busy);
    let isolated = first.iter().map(|(clump, idle_ns)| Isolated {
        idle_ns: *idle_ns,
        // The service of the other packets in the clump is subtracted.
        delay_ns: clump.left_ns
            - clump.first_ns
            - (clump.packets - 1) as f64 * (work.mean_ns - work.overhead_ns),
    });
    let isolated = isolated.collect();
    Some((work, isolated))
}

/// Service interval of a batch that had waited.
#[derive(Debug, Clone, Copy)]
struct Batch {
    packets: u64,
    ns: f64,
}

fn clumps_of(packets: &[(f64, f64)]) -> Vec<Clump> {
    let gaps = packets.windows(2).filter_map(|pair| {
        let left = pair[0].0 + pair[0].1;
        (pair[1].0 < left).then(|| (pair[1].0 + pair[1].1 - left).max(0.0))
    });
    let together_ns = TOGETHER * moments(&gaps.collect::<Vec<_>>()).0;
    let mut clumps: Vec<Clump> = Vec::new();
    for &(at_ns, delay_ns) in packets {
        let left_ns = at_ns + delay_ns;
        match clumps.last_mut() {
            Some(last) if left_ns - last.left_ns <= together_ns && at_ns < last.left_ns => {
                last.packets += 1;
                last.left_ns = last.left_ns.max(left_ns);
            }
            _ => clumps.push(Clump { packets: 1, first_ns: at_ns, left_ns }),
        }
    }
    clumps
}

/// Fits the time of a batch of n packets as overhead + n x service. A first line, through the median of each
/// batch size, identifies interrupted batches, which are far above it. A second line is then fitted through
/// the means of the other batches.
fn work(busy: &[Batch]) -> Work {
    let rough = line(busy, |times| median(times.iter().copied()).unwrap_or(0.0));
    let rest = |batch: &Batch, of: &Line| batch.ns - of.overhead_ns - batch.packets as f64 * of.service_ns;
    // Scales a batch's deviation to one packet and adds the service time, because [`limit`] is relative to
    // the median.
    let one = |batch: &Batch, of: &Line| of.service_ns + rest(batch, of) / (batch.packets as f64).sqrt();
    let single: Vec<f64> = busy.iter().map(|batch| one(batch, &rough)).collect();
    let above_ns = limit(&single);
    let bulk: Vec<Batch> =
        busy.iter().zip(&single).filter(|(_, one)| **one <= above_ns).map(|(batch, _)| *batch).collect();
    let line = line(&bulk, |times| moments(times).0);
    let interrupted = busy.iter().zip(&single).filter(|(_, one)| **one > above_ns);
    let excesses = interrupted.map(|(batch, _)| rest(batch, &line).max(0.0)).collect();
    let mut services: Vec<f64> = bulk.iter().map(|batch| one(batch, &line).max(0.0)).collect();
    let median_ns = median_estimate(&mut services).unwrap_or(Estimate::exact(0.0));
    let (mean_ns, variance) = moments(&services);
    let constant = variance.sqrt() < 1e-3 * mean_ns;
    Work {
        service: if constant { Length::Constant(line.service_ns) } else { Length::Samples(services) },
        overhead_ns: line.overhead_ns,
        median_ns,
        mean_ns: mean_ns + line.overhead_ns,
        variance,
        above_ns,
        excesses,
        busy_ns: busy.iter().map(|batch| batch.ns).sum(),
        gaps: busy.len() as u64,
        remark: line.alone.then(|| {
            "all batches had the same size: the overhead of a batch cannot be separated from the service of its packets".to_owned()
        }),
    }
}

struct Line {
    overhead_ns: f64,
    service_ns: f64,
    /// Whether there was only one batch size.
    alone: bool,
}

/// Least-squares line through one value per batch size. Each value is weighted by the number of batches of
/// that size. The line goes through the origin if there is only one size or if the overhead would be
/// negative.
fn line(batches: &[Batch], value: impl Fn(&mut [f64]) -> f64) -> Line {
    let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    batches.iter().for_each(|batch| sizes.entry(batch.packets).or_default().push(batch.ns));
    let mut points: Vec<(f64, f64, f64)> =
        sizes.into_iter().map(|(n, mut times)| (n as f64, value(&mut times), times.len() as f64)).collect();
    if points.iter().any(|point| point.2 >= SIZE_MIN as f64) {
        points.retain(|point| point.2 >= SIZE_MIN as f64);
    }
    let weight: f64 = points.iter().map(|point| point.2).sum();
    let mean_of = |of: &dyn Fn(&(f64, f64, f64)) -> f64| {
        points.iter().map(|point| of(point) * point.2).sum::<f64>() / weight.max(1.0)
    };
    let (n, time) = (mean_of(&|point| point.0), mean_of(&|point| point.1));
    let spread = mean_of(&|point| (point.0 - n).powi(2));
    let slope = mean_of(&|point| (point.0 - n) * (point.1 - time)) / spread;
    let overhead_ns = time - slope * n;
    let alone = points.len() < 2;
    if alone || !slope.is_finite() || slope < 0.0 || overhead_ns < 0.0 {
        return Line { overhead_ns: 0.0, service_ns: if n > 0.0 { time / n } else { 0.0 }, alone };
    }
    Line { overhead_ns, service_ns: slope, alone }
}
