//! Builds the summary document of a soak and its findings.

use wiretail_schema::packet::FlowRule;
use wiretail_schema::summary::{
    Analysis, Capture, Clock, Delay, Finding, Flow, FlowDelay, Flows, Gaps, Key, Loss, Percentile,
    SUMMARY_SCHEMA, Severity, Summary, Variation, Worst,
};
use wiretail_schema::units::{Budget, thousands};

use super::{RATE_SECONDS_MAX, RESOLUTION, SoakTotals, TapTotals, figures::figures};
use crate::metrics::intervals::drift;
use crate::metrics::reordering::metrics;
use crate::stats::counts::Counts;
use crate::stats::quantile::{distribution, share_bounds};
use crate::summary::findings::findings;
use crate::summary::verdict::verdict;
use crate::summary::{curve, pdv};

/// Probability beyond each end of a two-sided 95 % interval.
const TAIL: f64 = 0.025;

/// Properties of the log besides its records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// Whether the last line was incomplete.
    pub torn: bool,
    /// Number of other lines that could not be read.
    pub damaged: u64,
}

impl SoakTotals {
    /// Returns the document with its plots, and the delays it is based on; `None` if no packet was matched.
    pub fn result(&self, log: LogFacts) -> Option<(Analysis, Counts)> {
        if self.matching.matched == 0 {
            return None;
        }
        let delays = self.delays();
        let found = distribution(&delays);
        let intervals = self.intervals.result();
        let delay = self.delay(found.percentiles, drift(&intervals));
        let sent = self.sent();
        let mut summary = Summary {
            schema: SUMMARY_SCHEMA.to_owned(),
            wiretail_version: self.start.wiretail_version.clone(),
            title: self.start.title.clone(),
            pre: self.capture(&self.start.pre, &self.pre),
            post: self.capture(&self.start.post, &self.post),
            key: Key { rule: self.start.key.clone(), chosen_automatically: false, tried: Vec::new() },
            matching: self.matching.clone(),
            verdicts: Vec::new(),
            findings: Vec::new(),
            loss: self.loss(sent),
            reordering: metrics(self.arrived(), &self.reordering),
            variation: self.variation(&delay.percentiles),
            flows: self.flows(&delay, sent),
            delay,
            steady_state: None,
            intervals,
            worst: self.worst(),
            curve: curve(&delays),
        };
        // A negative latency is a clock error and is not judged against the budget.
        let judged = sent.saturating_sub(self.matching.negative);
        let missed = self.matching.lost.saturating_add(self.matching.out_of_window);
        let budgets = self.start.budgets.iter().zip(&self.over);
        summary.verdicts = budgets
            .filter_map(|(text, over)| {
                let budget: Budget = text.parse().ok()?;
                Some(verdict(&budget, judged, over.saturating_add(missed), 1.0))
            })
            .collect();
        summary.findings = findings(&summary);
        self.log_findings(log, &mut summary.findings);
        let figures = figures(self, &summary, &delays);
        Some((Analysis { summary, figures }, delays))
    }

    fn arrived(&self) -> u64 {
        self.matching
            .matched
            .saturating_add(self.matching.negative)
            .saturating_add(self.matching.out_of_window)
    }

    fn delay(&self, percentiles: Vec<Percentile>, drift: Option<(f64, f64)>) -> Delay {
        let (count, _, squares) = self.moments;
        Delay {
            count: self.matching.matched,
            min_ns: self.min_ns,
            mean_ns: self.sum_ns as f64 / self.matching.matched as f64,
            max_ns: self.max_ns,
            stddev_ns: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
            percentiles,
            resolution: RESOLUTION,
            drift_ns_per_s: drift.map(|(slope, _)| slope),
            drift_error_ns_per_s: drift.map(|(_, error)| error),
        }
    }

    fn loss(&self, sent: u64) -> Loss {
        let (lost, late) = (self.matching.lost, self.matching.out_of_window);
        let missed = lost.saturating_add(late).min(sent);
        let (ratio_low, ratio_high) = share_bounds(missed, sent, TAIL);
        Loss {
            sent,
            lost,
            late,
            ratio: missed as f64 / sent.max(1) as f64,
            ratio_low,
            ratio_high,
            longest_run: self.loss_run_longest.0,
            longest_run_start: self.loss_run_longest.1,
            runs: self.loss_runs,
        }
    }

    fn variation(&self, percentiles: &[Percentile]) -> Variation {
        Variation {
            ipdv: None,
            pdv: pdv(percentiles, self.min_ns),
            rfc3550_jitter_ns: self.jitter_ns.0,
            max_rfc3550_jitter_ns: self.jitter_ns.1,
        }
    }

    /// Returns one entry for all packets, because soaks do not distinguish flows.
    fn flows(&self, delay: &Delay, sent: u64) -> Flows {
        let all = Flow {
            number: Some(0),
            name: "all".to_owned(),
            sent,
            lost: self.matching.lost,
            reordered: self.reordering.reordered,
            delay: Some(FlowDelay {
                count: delay.count,
                min_ns: delay.min_ns,
                mean_ns: delay.mean_ns,
                max_ns: delay.max_ns,
                percentiles: delay.percentiles.clone(),
            }),
        };
        Flows { rule: FlowRule::None, count: 1, largest: vec![all] }
    }

    fn worst(&self) -> Vec<Worst> {
        let worst = self.worst.clone().into_sorted().into_iter();
        worst
            .map(|worst| Worst {
                delay_ns: worst.delay_ns,
                pre_ns: worst.pre_ns,
                post_ns: worst.pre_ns.saturating_add(worst.delay_ns),
                pre_index: worst.pre_index,
                flow: Some(0),
            })
            .collect()
    }

    fn capture(&self, start: &wiretail_schema::run::interval::TapStart, tap: &TapTotals) -> Capture {
        let sum = &tap.sum;
        let covered_s = tap.last_ns.saturating_sub(tap.first_ns).saturating_sub(self.gap_ns) as f64 / 1e9;
        let n = sum.gaps as f64;
        let mean_ns = if sum.gaps > 0 { sum.gap_sum_ns as f64 / n } else { 0.0 };
        let squares = (sum.gap_squares_ns2 - n * mean_ns * mean_ns).max(0.0);
        Capture {
            path: start.name.clone(),
            format: "live, one record per half second".to_owned(),
            interface: None,
            packets: sum.packets.saturating_add(sum.packets_without_key),
            packets_without_key: sum.packets_without_key,
            packets_without_time: 0,
            packets_dropped: sum.packets_dropped,
            wire_bytes: sum.wire_bytes,
            first_ns: tap.first_ns,
            last_ns: tap.last_ns,
            mean_rate_pps: if covered_s > 0.0 {
                sum.packets.saturating_sub(1) as f64 / covered_s
            } else {
                0.0
            },
            rate: if tap.rate.len() <= RATE_SECONDS_MAX { tap.rate.clone() } else { Vec::new() },
            gaps: Gaps {
                count: sum.gaps,
                min_ns: sum.min_gap_ns,
                mean_ns,
                max_ns: sum.max_gap_ns,
                stddev_ns: if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
                percentiles: Vec::new(),
            },
            clock: Clock {
                source: start.clock_source.clone(),
                resolution_ns: start.resolution_ns,
                granularity_ns: sum.granularity.0.max(1.0),
                granularity_timestamps: sum.granularity.1,
                identical: sum.identical,
                backward: sum.backward,
                max_backward_ns: sum.max_backward_ns,
            },
            truncated: None,
        }
    }

    /// Findings about gaps in the log, and about its limits.
    fn log_findings(&self, log: LogFacts, list: &mut Vec<Finding>) {
        let mut add = |severity, code: &str, message: String| {
            list.push(Finding { severity, code: code.to_owned(), message });
        };
        let limits = format!(
            "computed from {} records of half a second each: percentiles and the curve are rounded to within {} % of \
             the measured delays; IPDV, late times of reordered packets, percentiles of gaps, single events and flows \
             are not kept. A packet counts in the record in which it arrives or, {} s after it was sent, is given up",
            thousands(self.seconds),
            RESOLUTION.unwrap_or(0.0) * 100.0,
            2.0 * self.matching.window_ns as f64 / 1e9,
        );
        add(Severity::Note, "soak-limits", limits);
        let origin = self.span_ns.map_or(0, |(first, _)| first);
        let seconds = |ns: i64| ns as f64 / 1e9;
        for gap in &self.gaps {
            let message = format!(
                "{:.1} s are missing from the log, from {:.1} s to {:.1} s after its start: the measurement did not run, \
                 or its records were damaged; packets of that time are not counted",
                seconds(gap.to_ns - gap.from_ns),
                seconds(gap.from_ns - origin),
                seconds(gap.to_ns - origin),
            );
            add(Severity::Warning, "gap", message);
        }
        if self.gaps_more > 0 {
            let message = format!(
                "{} more gaps; {:.1} s are missing in total",
                thousands(self.gaps_more),
                seconds(self.gap_ns)
            );
            add(Severity::Warning, "gap", message);
        }
        if self.segments > 1 {
            let message = format!(
                "resumed {} times; packets in flight at each interruption are not counted, and positions in the \
                 ingress capture are counted anew from each start",
                thousands(self.segments - 1)
            );
            add(Severity::Note, "resumed", message);
        }
        if !self.ended {
            let torn = if log.torn { ", its last record incomplete" } else { "" };
            let message = format!(
                "the log has no end{torn}: the measurement is still running, or it was killed; the numbers cover the \
                 {:.1} s up to the last record, without packets that were in flight",
                self.span_ns.map_or(0.0, |(first, last)| seconds(last.saturating_sub(first))),
            );
            add(Severity::Warning, "soak-interrupted", message);
        }
        if log.damaged > 0 {
            let message = format!("{} damaged lines of the log were ignored", thousands(log.damaged));
            add(Severity::Warning, "damaged", message);
        }
        list.sort_by_key(|finding| finding.severity);
    }
}
