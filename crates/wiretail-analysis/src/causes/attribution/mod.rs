//! Attributes the worst packets' delays to causes in the kernel's trace. Formulas: `docs/kpi/attribution.md`.
//!
//! Steps:
//!
//! 1. `timeline` converts events to spans of time in which the device's thread did not run, each with its
//!    innermost cause and its sender.
//! 2. `overhead` extends the spans by the time that an event takes before its first and after its last
//!    tracepoint, and adds the stalls that a polling device's loop logged.
//! 3. `queue` computes service intervals, finds packets that waited for others, and computes the delays that
//!    remain without a given cause.
//! 4. `baseline` finds service intervals that were longer than usual without an event.
//! 5. `breakdown` splits a packet's excess delay into parts. `table` assigns names to causes and senders.
//!
//! Without packets, `gaps` reports what interrupted a loop that only reads the clock.
//!
//! This module performs no I/O: [`Builder`] takes the events, [`explain`] the packets.

mod baseline;
mod breakdown;
mod gaps;
mod host_tick;
mod overhead;
mod queue;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeSet;

use wiretail_schema::causes::trace::{Gap, TraceInfo, TraceNames, TraceRoles};
use wiretail_schema::causes::{
    Certainty, EXPLANATION_SCHEMA, Evidence, PacketExplanation, PercentileValue, TimelineSpan,
    TrialExplanation,
};
use wiretail_schema::units::Share;

pub use self::gaps::{ExplainedGaps, explain_gaps};
use self::queue::{Residence, delays_without, residences};
use self::table::Table;
pub use self::timeline::{Builder, Timelines};
use self::timeline::{CpuLoad, Edge, LATEST_NS, Raw, Span};
use crate::causes::attribution::baseline::{Baseline, Taken, add_excess};
use crate::causes::attribution::breakdown::Split;
use crate::causes::attribution::overhead::{Overheads, within};
use crate::stats::list::percentiles;

/// Percentiles shown with and without each cause; 100 is the maximum.
const PERCENTILES: [Share; 5] = [Share::P99, Share::P99_9, Share::P99_99, Share::P99_999, Share::ALL];
/// Percentile at which the tail begins.
const TAIL: Share = Share::P99_9;
/// Maximum number of causes, largest first, for which percentiles without them are computed.
const WITHOUT_MAX: usize = 24;
/// Maximum number of spans in a packet's timeline. The shortest ones are left out.
const TIMELINE_MAX: usize = 120;

/// A matched packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTime {
    /// Position in the ingress capture.
    pub index: u64,
    /// Arrival time, in ns since 1970.
    pub in_ns: i64,
    /// Delay, in ns.
    pub delay_ns: i64,
}

/// Inputs of an explanation, besides the timelines.
pub struct Inputs<'a> {
    pub trial: &'a str,
    pub segment: &'a str,
    pub version: &'a str,
    /// CPU cores and threads of the device and its feeder.
    pub roles: &'a TraceRoles,
    /// The trace's document.
    pub info: &'a TraceInfo,
    /// Names for the numbers in the trace.
    pub names: &'a dyn TraceNames,
    /// Windows in which events of the device's core are missing, in ns of the trace's clock.
    pub lost: &'a [Gap],
    /// All matched packets after the warm-up, in the order of arrival.
    pub packets: &'a [PacketTime],
    /// Arrival time of the first packet, in ns since 1970.
    pub first_ns: i64,
    /// Whether the load generator sends the packets evenly, one at a time.
    pub evenly: bool,
    /// Number of worst packets that are listed.
    pub worst: usize,
    /// Number of listed packets that get a timeline. The worst packets of the same number of incidents also
    /// get one.
    pub timelines: usize,
}

/// Explains the delays of the worst packets.
pub fn explain(mut lines: Timelines, inputs: &Inputs<'_>) -> TrialExplanation {
    let roles = inputs.roles;
    let overheads = Overheads::calibrate(&lines, roles);
    let device = overheads.widen(&std::mem::take(&mut lines.device), &lines);
    let device = overheads.add_stalls(&device, &roles.stalls, &mut lines);
    let feeding: Vec<Span> = {
        let spans = overheads.widen(&std::mem::take(&mut lines.feeding), &lines);
        let is_interrupt =
            |span: &Span| matches!(lines.edges.values()[usize::from(span.edge)], Edge::Vector(_));
        spans.into_iter().filter(is_interrupt).collect()
    };
    let offset_ns = inputs.info.clock_before.offset_ns;
    let at = |ns: i64| (ns.saturating_sub(offset_ns).max(0) as u64).min(LATEST_NS);
    let packets = inputs.packets.iter();
    let residences =
        residences(packets.map(|p| (p.index, at(p.in_ns), at(p.in_ns.saturating_add(p.delay_ns)))));
    let baseline = Baseline::of(&residences, &device, lines.causes.values().len());
    let device = add_excess(&residences, &device, &baseline, roles, &mut lines, &feeding);
    let cpu_loads = [CpuLoad::Planned, CpuLoad::Late, CpuLoad::Load];
    let cpu_loads = cpu_loads.map(|cpu_load| lines.causes.of(Raw::Burst(cpu_load)) as u16);
    let taken = Taken::of(&residences, &device, &baseline);
    let undisturbed_ns = {
        let mut less_ns = vec![0; residences.len()];
        taken.entries.iter().for_each(|(place, _, ns)| less_ns[*place as usize] += ns);
        delays_without(&residences, |place| less_ns[place])
    };
    let split = Split {
        residences: &residences,
        spans: &device,
        baseline: &baseline,
        undisturbed_ns: &undisturbed_ns,
        own_ns: &taken.own_ns,
        cpu_loads,
        evenly: inputs.evenly,
    };
    let sent: BTreeSet<(u32, u16)> = device.iter().map(|span| (span.sender, span.cause)).collect();
    let mut table = Table::new(&lines, inputs.names, sent);
    let trial = Trial {
        inputs,
        residences: &residences,
        spans: &device,
        split,
        taken: &taken,
        at_first: at(inputs.first_ns),
    };
    let mut explanation = trial.explain(&mut table);
    explanation.evidence = evidence(&lines, &overheads, inputs);
    explanation.evidence.packets_in_lost = trial.tail_in_lost(explanation.tail_above_ns);
    explanation
}

fn evidence(lines: &Timelines, overheads: &Overheads, inputs: &Inputs<'_>) -> Evidence {
    let (info, roles) = (inputs.info, inputs.roles);
    let mut remarks = info.remarks.clone();
    if let Some(spin) = &roles.spin {
        let [count, total_ns, longest_ns] = overheads.paused;
        remarks.push(format!(
            "during {} ms of calibration, the core was paused {count} times without a kernel event: \
             {} us in total, {} us at most",
            spin.span.to_ns.saturating_sub(spin.span.from_ns) / 1_000_000,
            total_ns / 1000,
            longest_ns / 1000
        ));
    } else {
        remarks.push(
            "no calibration: the overhead of interrupts before their first tracepoint is unknown".to_owned(),
        );
    }
    Evidence {
        core: roles.core,
        events: lines.events,
        duration_ns: info.end_ns.saturating_sub(info.start_ns),
        clock_uncertainty_ns: info.clock_before.uncertainty_ns.max(info.clock_after.uncertainty_ns),
        windows_lost: inputs.lost.len() as u64,
        packets_in_lost: 0,
        stacks: info.stacks,
        calibration: overheads.table(lines, inputs.names),
        logs_stalls: roles.logs_stalls,
        remarks,
    }
}

/// A trial and the data needed to explain it.
struct Trial<'a> {
    inputs: &'a Inputs<'a>,
    residences: &'a [Residence],
    spans: &'a [Span],
    split: Split<'a>,
    taken: &'a Taken,
    at_first: u64,
}

impl Trial<'_> {
    fn explain(&self, table: &mut Table<'_>) -> TrialExplanation {
        let mut delays: Vec<u64> = self.residences.iter().map(Residence::delay_ns).collect();
        let [baseline_ns, tail_above_ns] =
            percentiles(&mut delays, [Share::MEDIAN, TAIL]).unwrap_or_default();
        let tail_packets = delays.iter().filter(|delay| **delay >= tail_above_ns).count();
        // The number of listed packets may exceed the number of packets in the tail.
        let wanted = tail_packets.max(self.inputs.worst).min(delays.len());
        let place = delays.len() - wanted;
        let least_ns = if wanted > 0 { *delays.select_nth_unstable(place).1 } else { 0 };
        let is_wanted = |place: &usize| self.residences[*place].delay_ns() >= least_ns;
        let mut worst: Vec<usize> = (0..self.residences.len()).filter(is_wanted).collect();
        worst.sort_by_key(|place| (std::cmp::Reverse(self.residences[*place].delay_ns()), *place));
        worst.truncate(wanted);
        let mut explanation = TrialExplanation {
            schema: EXPLANATION_SCHEMA.to_owned(),
            wiretail_version: self.inputs.version.to_owned(),
            trial: self.inputs.trial.to_owned(),
            segment: self.inputs.segment.to_owned(),
            first_ns: self.inputs.first_ns,
            packets: self.residences.len() as u64,
            baseline_ns: baseline_ns as i64,
            tail_packets: tail_packets as u64,
            tail_above_ns: tail_above_ns as i64,
            percentiles: percentile_values(&mut delays),
            ..TrialExplanation::default()
        };
        let mut told = Vec::new();
        for place in &worst {
            let residence = &self.residences[*place];
            let lost_ns = residence.delay_ns().saturating_sub(baseline_ns);
            let missing = self.is_in_lost(residence);
            let (parts, unknown_ns) =
                if missing { (Vec::new(), lost_ns) } else { self.split.packet(*place, lost_ns) };
            let (parts, unknown_ns) = table.tell(parts, unknown_ns);
            if !missing && residence.delay_ns() >= tail_above_ns {
                explanation.tail_lost_ns += lost_ns;
                explanation.tail_unknown_ns += unknown_ns;
                table.count(&parts);
            }
            told.push(PacketExplanation {
                index: residence.index,
                at_ns: (residence.in_ns - self.at_first.min(residence.in_ns)) as i64,
                delay_ns: residence.delay_ns() as i64,
                lost_ns,
                parts,
                unknown_ns,
                ahead: self.ahead(*place),
                incident: self.residences[residence.busy_from].index,
                events_missing: missing,
                timeline: Vec::new(),
            });
        }
        told.truncate(self.inputs.worst);
        // The worst packets, and the worst packet of each of the worst incidents.
        let mut incidents: Vec<u64> = Vec::new();
        for (number, (packet, place)) in told.iter_mut().zip(&worst).enumerate() {
            let is_new = incidents.len() < self.inputs.timelines && !incidents.contains(&packet.incident);
            incidents.extend(is_new.then_some(packet.incident));
            if is_new || number < self.inputs.timelines {
                packet.timeline = self.timeline(&self.residences[*place], table);
            }
        }
        if let (Some(first), Some(last)) = (self.residences.first(), self.residences.last()) {
            table.count_spans(within(self.spans, first.in_ns, last.out_ns));
        }
        self.rank(table);
        table.finish(&mut explanation, told);
        explanation
    }

    /// Computes the percentiles without each of the largest causes.
    fn rank(&self, table: &mut Table<'_>) {
        for row in table.largest(WITHOUT_MAX) {
            let (mut less_ns, mut any) = (vec![0u64; self.residences.len()], false);
            for (place, cause, ns) in &self.taken.entries {
                if table.row_of(*cause) == Some(row) {
                    less_ns[*place as usize] += ns;
                    any = true;
                }
            }
            // Waiting for other packets depends on the traffic, not on the device.
            if !any {
                continue;
            }
            let mut delays = delays_without(self.residences, |place| less_ns[place]);
            let without = percentile_values(&mut delays).iter().map(|at| at.value_ns).collect();
            table.set_without(row, without);
        }
    }

    /// Number of packets that arrived earlier and left later.
    fn ahead(&self, place: usize) -> u64 {
        let residence = &self.residences[place];
        let earlier = self.residences[residence.busy_from..place].iter().rev();
        earlier.take_while(|other| other.out_ns > residence.in_ns).count() as u64
    }

    fn is_in_lost(&self, residence: &Residence) -> bool {
        let from_ns = self.residences[residence.busy_from].in_ns;
        self.inputs.lost.iter().any(|lost| lost.from_ns < residence.out_ns && from_ns < lost.to_ns)
    }

    fn tail_in_lost(&self, tail_above_ns: i64) -> u64 {
        let tail = self.residences.iter().filter(|residence| residence.delay_ns() as i64 >= tail_above_ns);
        tail.filter(|residence| self.is_in_lost(residence)).count() as u64
    }

    fn timeline(&self, residence: &Residence, table: &mut Table<'_>) -> Vec<TimelineSpan> {
        let before_ns = (residence.delay_ns() / 3).clamp(10_000, 1_000_000);
        // The cause of the wait lies within the busy period.
        let began_ns =
            self.residences[residence.busy_from].in_ns.max(residence.in_ns.saturating_sub(1_000_000));
        let from_ns = residence.in_ns.saturating_sub(before_ns).min(began_ns);
        let relative = |ns: u64| ns as i64 - residence.in_ns as i64;
        let mut spans: Vec<Span> = Vec::new();
        for span in within(self.spans, from_ns, residence.out_ns) {
            let goes_on = |last: &&mut Span| {
                (last.to_ns, last.cause, last.sender, last.certainty)
                    == (span.from_ns, span.cause, span.sender, span.certainty)
            };
            match spans.last_mut().filter(goes_on) {
                Some(last) => last.to_ns = span.to_ns,
                None => spans.push(*span),
            }
        }
        if spans.len() > TIMELINE_MAX {
            let mut lengths: Vec<u64> = spans.iter().map(|span| span.to_ns - span.from_ns).collect();
            let least_ns = *lengths.select_nth_unstable_by(TIMELINE_MAX - 1, |a, b| b.cmp(a)).1;
            spans.retain(|span| span.to_ns - span.from_ns >= least_ns);
            spans.truncate(TIMELINE_MAX);
        }
        let span = |span: &Span| TimelineSpan {
            from_ns: relative(span.from_ns.max(from_ns)),
            to_ns: relative(span.to_ns.min(residence.out_ns)),
            cause: table.row_of(span.cause),
            certainty: span.certainty,
            sender: table.sender_of(span),
        };
        spans.iter().map(span).collect()
    }
}

/// Values at [`PERCENTILES`]; empty for an empty slice.
fn percentile_values(delays: &mut [u64]) -> Vec<PercentileValue> {
    let packets = delays.len() as u64;
    let values = percentiles(delays, PERCENTILES).unwrap_or_default();
    let value = |(share, value_ns): (Share, u64)| PercentileValue {
        percentile: share.percent(),
        value_ns: value_ns as i64,
        supported: share == Share::ALL || share.is_supported_by(packets),
    };
    PERCENTILES.into_iter().zip(values).map(value).collect()
}

/// Index of a certainty in [`wiretail_schema::causes::CauseRow::tail_ns`].
fn place_of(certainty: Certainty) -> usize {
    match certainty {
        Certainty::Observed => 0,
        Certainty::Modelled => 1,
        Certainty::Inferred => 2,
    }
}
