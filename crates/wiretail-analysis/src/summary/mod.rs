//! Builds the summary document from the tallies, each number with its sample size.

pub mod breakdown;
pub mod calibration;
pub mod figures;
pub mod findings;
pub mod steady_state;
pub mod verdict;

use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{
    Capture, Clock, CurvePoint, Delay, Flow, FlowDelay, Flows, Key, Loss, Percentile, SUMMARY_SCHEMA,
    Summary, Truncation, Variation, Worst,
};
use wiretail_schema::units::Budget;

use crate::metrics::batches::{Batches, dispersions};
use crate::metrics::intervals::drift;
use crate::metrics::measurement::{FLOWS_MAX, FlowDelays, FlowTally, Measurement};
use crate::metrics::tap::TapTally;
use crate::stats::counts::Counts;
use crate::stats::dispersion::dispersion;
use crate::stats::quantile::{
    Distribution, PERCENTILES, dependent_distribution, dependent_share_bounds, distribution,
};
use crate::summary::findings::findings;
use crate::summary::steady_state::steady_state;
use crate::summary::verdict::{episode_packets, tail_dispersion, verdict};

/// Number of points of the distribution function in the document.
const CURVE_POINTS: usize = 400;
/// Probability beyond each end of a two-sided 95 % interval.
const TAIL: f64 = 0.025;

/// Metadata of a capture.
#[derive(Debug, Clone)]
pub struct CaptureFacts {
    /// File name as given.
    pub path: String,
    /// Format in words.
    pub format: String,
    pub interface: Option<u32>,
    /// Source of the timestamps.
    pub clock_source: String,
    /// Resolution of the timestamps in the file, in ns.
    pub resolution_ns: f64,
    pub packets_without_key: u64,
    /// Packets without a time in their trailer.
    pub packets_without_time: u64,
    /// Packets that the tap lost, as counted by the capture.
    pub packets_dropped: u64,
    /// Bytes of all packets on the wire.
    pub wire_bytes: u64,
    /// Set if the file ended within a record.
    pub truncated: Option<Truncation>,
}

/// Inputs of a summary besides the tallies.
#[derive(Debug, Clone)]
pub struct Context {
    pub version: String,
    /// Description of the input.
    pub title: String,
    pub pre: CaptureFacts,
    pub post: CaptureFacts,
    /// How packets were identified.
    pub key: Key,
    /// How flows are distinguished.
    pub flow_rule: FlowRule,
    /// Names of the flows, indexed by their number at the ingress tap.
    pub flow_names: Vec<String>,
    pub budgets: Vec<Budget>,
}

/// Builds the document and returns it with its delays; `None` if no packet was matched.
pub fn summarize(
    context: Context,
    mut measurement: Measurement,
    pre: &TapTally,
    post: &TapTally,
) -> Option<(Summary, Counts)> {
    let delays = measurement.delays();
    let batches = std::mem::take(&mut measurement.batches).finished();
    let dispersions = dispersions(&batches, &PERCENTILES);
    let found = dependent_distribution(&delays, &dispersions);
    if found.count == 0 {
        return None;
    }
    let sent = measurement.sent();
    let intervals = measurement.intervals.result();
    let (flows, flow_places) = flows(&measurement, &context);
    // If an egress capture is known to be truncated, packets that could still have arrived are not judged
    // against a budget.
    let longest_limit = context.budgets.iter().map(|budget| budget.limit.ns).max().unwrap_or(0);
    let unseen = if context.post.truncated.is_some() { measurement.lost_unseen(longest_limit) } else { 0 };
    let mut summary = Summary {
        schema: SUMMARY_SCHEMA.to_owned(),
        wiretail_version: context.version,
        title: context.title,
        pre: capture(context.pre, pre),
        post: capture(context.post, post),
        key: context.key,
        verdicts: Vec::new(),
        findings: Vec::new(),
        delay: delay(&found, &intervals),
        loss: loss(&measurement, sent, &batches),
        reordering: measurement.reordering.result(),
        variation: variation(&measurement, &found),
        flows,
        steady_state: steady_state(&batches),
        intervals,
        curve: curve(&delays),
        matching: measurement.matching,
        worst: measurement
            .worst
            .into_sorted()
            .into_iter()
            .map(|worst| Worst {
                delay_ns: worst.delay_ns,
                pre_ns: worst.pre_ns,
                post_ns: worst.pre_ns + worst.delay_ns,
                pre_index: worst.pre_index,
                flow: flow_places.get(worst.flow as usize).copied().flatten(),
            })
            .collect(),
    };
    summary.matching.events.sort_by_key(|event| (event.pre_ns.or(event.post_ns), event.kind));
    // A negative latency is a clock error and is not judged against the budget.
    let judged = sent - summary.matching.negative - unseen;
    let failures_beyond = |limit_ns: i64| {
        let mut late = 0;
        delays.for_each(|delay, count| late += if delay > limit_ns { count } else { 0 });
        late + summary.matching.lost + summary.matching.out_of_window - unseen
    };
    let tail = tail_dispersion(&summary.delay.percentiles, &dispersions);
    let judge = |budget: &Budget| {
        let failures = failures_beyond(budget.limit.ns);
        let own = dispersion(&batches.beyond(budget.limit.ns)).unwrap_or(1.0);
        let packets_per_limit = summary.pre.mean_rate_pps * budget.limit.ns as f64 / 1e9;
        verdict(budget, judged, failures, episode_packets(own, tail, failures, packets_per_limit))
    };
    summary.verdicts = context.budgets.iter().map(judge).collect();
    summary.findings = findings(&summary);
    Some((summary, delays))
}

fn capture(facts: CaptureFacts, tap: &TapTally) -> Capture {
    let (first_ns, last_ns) = tap.span_ns();
    let (identical, backward, max_backward_ns) = tap.irregular_steps();
    let (granularity_ns, granularity_timestamps) = tap.granularity_ns();
    Capture {
        path: facts.path,
        format: facts.format,
        interface: facts.interface,
        packets: tap.packets() + facts.packets_without_key + facts.packets_without_time,
        packets_without_key: facts.packets_without_key,
        packets_without_time: facts.packets_without_time,
        packets_dropped: facts.packets_dropped,
        wire_bytes: facts.wire_bytes,
        first_ns,
        last_ns,
        paused_ns: tap.paused_ns(),
        mean_rate_pps: tap.mean_rate_pps(),
        rate: tap.seconds().to_vec(),
        gaps: tap.gaps(),
        clock: Clock {
            source: facts.clock_source,
            resolution_ns: facts.resolution_ns,
            granularity_ns,
            granularity_timestamps,
            identical,
            backward,
            max_backward_ns,
        },
        truncated: facts.truncated,
    }
}

fn delay(found: &Distribution, intervals: &[wiretail_schema::summary::Interval]) -> Delay {
    let slope = drift(intervals);
    Delay {
        count: found.count,
        min_ns: found.min_ns,
        mean_ns: found.mean_ns,
        max_ns: found.max_ns,
        stddev_ns: found.stddev_ns,
        percentiles: found.percentiles.clone(),
        resolution: None,
        drift_ns_per_s: slope.map(|(slope, _)| slope),
        drift_error_ns_per_s: slope.map(|(_, error)| error),
    }
}

fn loss(measurement: &Measurement, sent: u64, batches: &Batches) -> Loss {
    let (lost, late) = (measurement.matching.lost, measurement.matching.out_of_window);
    let together = dispersion(&batches.failed()).unwrap_or(1.0);
    let (ratio_low, ratio_high) = dependent_share_bounds(lost + late, sent, together, TAIL);
    Loss {
        sent,
        lost,
        late,
        ratio: (lost + late) as f64 / sent.max(1) as f64,
        ratio_low,
        ratio_high,
        longest_run: measurement.loss_runs.longest,
        longest_run_start: measurement.loss_runs.longest_start,
        runs: measurement.loss_runs.runs,
    }
}

/// Percentiles of the delay variation: each percentile of the delay minus the smallest delay of the sample
/// (RFC 5481, section 4.2).
pub(crate) fn pdv(delays: &[Percentile], min_ns: i64) -> Vec<Percentile> {
    let less_smallest = |percentile: &Percentile| Percentile {
        value_ns: percentile.value_ns - min_ns,
        low_ns: (percentile.low_ns - min_ns).max(0),
        high_ns: percentile.high_ns.map(|high| high - min_ns),
        ..*percentile
    };
    delays.iter().map(less_smallest).collect()
}

fn variation(measurement: &Measurement, found: &Distribution) -> Variation {
    let (jitter, jitter_max) = measurement.variation.jitter_ns();
    Variation {
        ipdv: Some(measurement.variation.ipdv()),
        pdv: pdv(&found.percentiles, found.min_ns),
        rfc3550_jitter_ns: jitter,
        max_rfc3550_jitter_ns: jitter_max,
    }
}

/// Maximum number of listed flows, those with the most packets first. All other flows share one entry.
const FLOWS_LISTED: usize = 32;

/// Returns the flows, most packets first, and each flow's position in that order, indexed by its number at
/// the tap.
fn flows(measurement: &Measurement, context: &Context) -> (Flows, Vec<Option<u32>>) {
    let tallies = &measurement.flows;
    let mut order: Vec<usize> =
        (0..tallies.len().min(FLOWS_MAX)).filter(|&i| tallies[i].sent() > 0).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(tallies[i].sent()), i));
    let count = order.len() as u64;
    let mut rest: Vec<usize> = order.split_off(order.len().min(FLOWS_LISTED));
    rest.extend((FLOWS_MAX..tallies.len()).filter(|&i| tallies[i].sent() > 0));
    let mut places = vec![None; tallies.len()];
    for (place, &i) in (0..).zip(&order) {
        places[i] = Some(place);
    }
    let name = |i: usize| context.flow_names.get(i).cloned().unwrap_or_else(|| format!("flow {i}"));
    let mut largest: Vec<Flow> =
        order.iter().map(|&i| flow(name(i), u32::try_from(i).ok(), &[&tallies[i]])).collect();
    if !rest.is_empty() {
        let rest: Vec<&FlowTally> = rest.iter().map(|&i| &tallies[i]).collect();
        largest.push(flow("others".to_owned(), None, &rest));
    }
    (Flows { rule: context.flow_rule, count, largest }, places)
}

/// One entry of the flow table, for one flow or for several together.
fn flow(name: String, number: Option<u32>, tallies: &[&FlowTally]) -> Flow {
    let total = |of: fn(&FlowTally) -> u64| tallies.iter().map(|tally| of(tally)).sum();
    let delay = match tallies {
        [FlowTally { delays: FlowDelays::Each(delays), .. }] => {
            let found = distribution(delays);
            (found.count > 0).then_some(FlowDelay {
                count: found.count,
                min_ns: found.min_ns,
                mean_ns: found.mean_ns,
                max_ns: found.max_ns,
                percentiles: found.percentiles,
            })
        }
        _ => sums(tallies),
    };
    Flow {
        name,
        number,
        sent: total(FlowTally::sent),
        lost: total(|t| t.lost),
        reordered: total(|t| t.reordered),
        delay,
    }
}

fn sums(tallies: &[&FlowTally]) -> Option<FlowDelay> {
    let (mut n, mut sum, mut min, mut max) = (0, 0i128, i64::MAX, i64::MIN);
    for tally in tallies {
        match &tally.delays {
            FlowDelays::Each(delays) => delays.for_each(|value, times| {
                n += times;
                sum += i128::from(value) * i128::from(times);
                (min, max) = (min.min(value), max.max(value));
            }),
            FlowDelays::Sums { count, sum_ns, min_ns, max_ns } => {
                n += count;
                sum += sum_ns;
                (min, max) = (min.min(*min_ns), max.max(*max_ns));
            }
        }
    }
    let mean_ns = sum as f64 / n as f64;
    (n > 0).then_some(FlowDelay { count: n, min_ns: min, mean_ns, max_ns: max, percentiles: Vec::new() })
}

/// Distribution function at a few hundred ranks, half of them evenly spaced over the nines and half over the
/// ranks, each with its exact delay and count.
pub(crate) fn curve(delays: &Counts) -> Vec<CurvePoint> {
    let n = delays.count();
    let half = CURVE_POINTS / 2;
    let nines = (n as f64).log10();
    let from_above = (0..=half).map(|i| 10f64.powf(nines * (1.0 - i as f64 / half as f64)));
    let ranks = (1..half).map(|i| (n as f64 * i as f64 / half as f64) as u64);
    let mut ranks: Vec<u64> =
        ranks.chain(from_above.map(|above| n + 1 - (above as u64).clamp(1, n))).collect();
    ranks.sort_unstable();
    let mut points = Vec::new();
    let mut wanted = ranks.into_iter().peekable();
    let mut cumulative = 0;
    delays.for_each(|delay_ns, count| {
        cumulative += count;
        let mut reached = points.is_empty();
        while wanted.next_if(|rank| *rank <= cumulative).is_some() {
            reached = true;
        }
        if reached {
            points.push(CurvePoint { delay_ns, cumulative });
        }
    });
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_starts_and_ends_with_the_extremes() {
        let mut counts = Counts::new(100);
        (0..5000).for_each(|i| counts.add(i % 1000 + i / 4990 * 3000));
        let points = curve(&counts);
        assert!(points.len() <= CURVE_POINTS + 2 && points.len() > 100);
        assert_eq!(points[0], CurvePoint { delay_ns: 0, cumulative: 5 });
        assert_eq!(points.last(), Some(&CurvePoint { delay_ns: 3999, cumulative: 5000 }));
        assert!(points.is_sorted_by_key(|p| (p.delay_ns, p.cumulative)));
    }
}
