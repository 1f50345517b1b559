//! Checks the validity of a trial. Capture drops, late departures and stalls have limits. A trial that
//! exceeds a limit is invalid, and each exceeded limit is reported.

use std::ops::Range;

use wiretail_analysis::summary::calibration::Span;
use wiretail_dataplane::clock::ClockOffset;
use wiretail_dataplane::counters::stalls::{STALL_NS, Stall, StallLog};
use wiretail_dataplane::generator::GeneratorReport;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::stalls::{StallSpan, StalledRole};
use wiretail_schema::run::{
    GeneratorRecord, StallCause, StallCauseRecord, StallRecord, StallsRecord, TapRecord, TrialRecord,
    TrialState,
};

/// Number of stalls that are listed individually.
const LISTED: usize = 100;
/// Minimum duration, in ns, of the stalls that `trial.stall-share` limits. Shorter stalls may be caused by a
/// tick or an interrupt.
const LONG_NS: u64 = 1_000_000;
/// Maximum difference between the start times that two loops measure for the same pause, in ns.
const SAME_NS: u64 = 100_000;

const GENERATOR: &str = "load generator";
const DEVICE: &str = "device under test";

/// Returns the record of a trial without numbers.
pub fn blank(trial: &Trial, state: TrialState, reasons: Vec<String>) -> TrialRecord {
    let blank = TrialRecord::blank(trial.number, trial.repeat, &trial.name, state);
    TrialRecord { reasons, settings: trial.records(), ..blank }
}

/// Returns the load generator's counters for the record.
pub fn generator_record(trial: &Trial, report: &GeneratorReport, clock: &ClockOffset) -> GeneratorRecord {
    let at = |billionths| report.lateness.percentile_ns(billionths).unwrap_or(0);
    GeneratorRecord {
        offered_pps: trial.traffic.rate.pps,
        sent: report.sent,
        sent_bytes: report.sent_bytes,
        failed: report.failed,
        late: report.late,
        late_limit_ns: trial.traffic.late_limit.ns_unsigned(),
        lateness_ns: [at(500_000_000), at(990_000_000), at(999_000_000), at(1_000_000_000)],
        skipped: report.skipped,
        shifted_ns: report.shifted_ns,
        overload_ratio: report.overload_ratio(),
        start_ns: Some(report.start_ns as i64 + clock.realtime_minus_monotonic_ns),
    }
}

/// Returns the reasons why the numbers do not describe the device; empty if the trial is valid.
pub fn faults(
    trial: &Trial,
    generator: &GeneratorRecord,
    taps: &[TapRecord],
    stalls: &Stalls,
) -> Vec<String> {
    let mut faults = Vec::new();
    for tap in taps.iter().filter(|tap| tap.drops > 0) {
        faults.push(format!("the {} capture dropped {} packets", tap.name, tap.drops));
    }
    if generator.failed > 0 {
        faults.push(format!("the load generator could not send {} packets", generator.failed));
    }
    faults.extend(late(generator, trial.trial.late_share.fraction()));
    let duration_ns = trial.trial.duration.ns as f64;
    // The stalls of two roles may add up to more than the trial's duration. A limit of 100 % must still mean
    // that there is no limit.
    let long_ns = (stalls.long_ns as f64).min(duration_ns);
    if long_ns > trial.trial.stall_share.fraction() * duration_ns {
        faults.push(format!(
            "the load generator or the device stalled for {:.1} ms of {:.0} ms, counting stalls of 1 ms or longer",
            long_ns / 1e6,
            duration_ns / 1e6
        ));
    }
    faults
}

/// Returns the reasons why the traffic was not as planned: a larger share than allowed was late, or was skipped
/// or shifted because the generator cannot reach the rate.
fn late(generator: &GeneratorRecord, share: f64) -> Vec<String> {
    let &GeneratorRecord { sent, late, skipped, shifted_ns, overload_ratio, .. } = generator;
    let planned = sent + skipped;
    let mut reasons = Vec::new();
    if late as f64 > share * planned as f64 {
        let limit_us = generator.late_limit_ns / 1000;
        reasons.push(format!(
            "the load generator was late with {late} of {planned} packets (more than {limit_us} us after their \
             scheduled time)"
        ));
    }
    if overload_ratio > share {
        let reaction = match skipped {
            0 => format!("shifted its schedule by {:.1} ms", shifted_ns as f64 / 1e6),
            _ => format!("skipped {skipped} of {planned} packets"),
        };
        reasons.push(format!(
            "the load generator cannot send at this rate: it {reaction}; its stalls do not explain {:.1} % of the \
             schedule",
            overload_ratio * 100.0
        ));
    }
    reasons
}

/// The stalls of a trial.
pub struct Stalls {
    pub record: StallsRecord,
    /// Start and end of each stall, in ns since 1970.
    pub spans: Vec<Span>,
    /// Total duration of stalls of a millisecond or longer, in ns.
    pub long_ns: u64,
    /// Notes on stalls that the record omits; empty in most trials.
    pub notes: Vec<String>,
}

/// Determines the cause of every stall of the generator and of every stall of a polling device during
/// `traffic` (in ns of the monotonic clock). Before and after the traffic, the device polls without work.
pub fn stalls(
    generator: &StallLog,
    device: Option<&StallLog>,
    traffic: &Range<u64>,
    clock: &ClockOffset,
) -> Stalls {
    let logs = [(GENERATOR, Some(generator)), (DEVICE, device)];
    let notes = logs.into_iter().filter_map(|(role, log)| uncaused(role, log?)).collect();
    let device = device.map_or(&[][..], |log| during(log, traffic));
    let mut found = Vec::new();
    let mut paired = vec![false; device.len()];
    let end = |stall: &Stall| stall.start_ns + stall.duration_ns;
    for stall in generator.kept() {
        // Both lists are sorted, and the stalls of a loop never overlap.
        let first = device.partition_point(|other| end(other) <= stall.start_ns);
        let beside = device[first..].iter().take_while(|other| other.start_ns < end(stall));
        let same = beside.into_iter().position(|other| is_same(stall, other)).map(|place| first + place);
        let (role, cause) = match same {
            Some(other) if !stall.preempted && !device[other].preempted => {
                paired[other] = true;
                (format!("{GENERATOR} and {DEVICE}"), StallCause::AllCoresPaused)
            }
            _ => (GENERATOR.to_owned(), cause_alone(stall)),
        };
        found.push((stall, role, cause));
    }
    let alone = device.iter().zip(paired).filter(|(_, paired)| !paired);
    found.extend(alone.map(|(stall, _)| (stall, DEVICE.to_owned(), cause_alone(stall))));
    let mut causes: Vec<StallCauseRecord> = Vec::new();
    for (stall, _, cause) in &found {
        let place = causes.iter().position(|known| known.cause == *cause).unwrap_or_else(|| {
            causes.push(StallCauseRecord { cause: *cause, count: 0, total_ns: 0, longest_ns: 0 });
            causes.len() - 1
        });
        let known = &mut causes[place];
        known.count += 1;
        known.total_ns += stall.duration_ns;
        known.longest_ns = known.longest_ns.max(stall.duration_ns);
    }
    causes.sort_by_key(|known| known.cause);
    let long = found.iter().map(|(stall, _, _)| stall.duration_ns).filter(|ns| *ns >= LONG_NS);
    let long_ns = long.sum();
    let mut longest: Vec<StallRecord> = found
        .into_iter()
        .map(|(stall, role, cause)| StallRecord {
            start_ns: stall.start_ns as i64 + clock.realtime_minus_monotonic_ns,
            duration_ns: stall.duration_ns,
            role,
            cause,
        })
        .collect();
    let spans =
        longest.iter().map(|stall| (stall.start_ns, stall.start_ns + stall.duration_ns as i64)).collect();
    longest.sort_by_key(|stall| std::cmp::Reverse(stall.duration_ns));
    longest.truncate(LISTED);
    Stalls { record: StallsRecord { threshold_ns: STALL_NS, causes, longest }, spans, long_ns, notes }
}

/// Returns the stalls of a device during the traffic.
fn during<'a>(device: &'a StallLog, traffic: &Range<u64>) -> &'a [Stall] {
    let kept = device.kept();
    let kept = &kept[kept.partition_point(|stall| stall.start_ns + stall.duration_ns <= traffic.start)..];
    &kept[..kept.partition_point(|stall| stall.start_ns < traffic.end)]
}

/// Lists the individual stalls of both loops during the traffic, in order of their starts, for `stalls.csv`.
pub fn list(
    generator: &StallLog,
    device: Option<&StallLog>,
    traffic: &Range<u64>,
    clock: &ClockOffset,
) -> Vec<StallSpan> {
    let unix = |ns: u64| ns as i64 + clock.realtime_minus_monotonic_ns;
    let of = |role: StalledRole, stalls: &[Stall]| {
        let row = move |stall: &Stall| StallSpan {
            role,
            start_ns: unix(stall.start_ns),
            end_ns: unix(stall.start_ns + stall.duration_ns),
            preempted: stall.preempted,
        };
        stalls.iter().map(row).collect::<Vec<_>>()
    };
    let mut list = of(StalledRole::Generator, generator.kept());
    list.extend(device.into_iter().flat_map(|log| of(StalledRole::Device, during(log, traffic))));
    list.sort_by_key(|stall| stall.start_ns);
    list
}

/// Describes the stalls that were counted but not listed. In a trial of several minutes, there can be more
/// stalls than the list holds.
fn uncaused(role: &str, log: &StallLog) -> Option<String> {
    let count = log.count() - log.kept().len() as u64;
    let kept_ns: u64 = log.kept().iter().map(|stall| stall.duration_ns).sum();
    let ms = (log.total_ns() - kept_ns) as f64 / 1e6;
    (count > 0).then(|| {
        format!("{count} further stalls of the {role}, {ms:.1} ms in total, were counted, but their causes are unknown")
    })
}

fn cause_alone(stall: &Stall) -> StallCause {
    if stall.preempted { StallCause::Scheduler } else { StallCause::OneCorePaused }
}

/// Returns whether two loops stalled together, that is, whether most of the shorter stall lies within the
/// longer one. Ticks also interrupt both cores at once, but are shorter than [`SAME_NS`].
fn is_same(a: &Stall, b: &Stall) -> bool {
    let end = |stall: &Stall| stall.start_ns + stall.duration_ns;
    let common = end(a).min(end(b)).saturating_sub(a.start_ns.max(b.start_ns));
    let shorter = a.duration_ns.min(b.duration_ns);
    shorter >= SAME_NS && common * 2 > shorter
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(stalls: &[(u64, u64)]) -> StallLog {
        let mut log = StallLog::default();
        for (start, duration) in stalls {
            // skip() is not used here, because a preemption of this test would be attributed to the loop.
            log.begin(*start);
            log.tick(start + duration);
        }
        log
    }

    #[test]
    fn stall_share_of_full_duration_is_no_limit() {
        let clock = ClockOffset { realtime_minus_monotonic_ns: 0, uncertainty_ns: 1 };
        // If two roles share a busy core, each one stalls while the other runs.
        let (first, second) = (log(&[(1_000_000, 900_000_000)]), log(&[(901_000_000, 900_000_000)]));
        let stalls = stalls(&first, Some(&second), &(0..u64::MAX), &clock);
        let generator = GeneratorRecord {
            offered_pps: 1000,
            sent: 1000,
            sent_bytes: 100_000,
            failed: 0,
            late: 0,
            late_limit_ns: 100_000,
            lateness_ns: [0; 4],
            skipped: 0,
            shifted_ns: 0,
            overload_ratio: 0.0,
            start_ns: None,
        };
        let faults_at = |share: &str| {
            let text = format!(
                "title = \"a\"\nseed = 1\n[dut]\nkind = \"wire\"\n[traffic]\nrate = \"1 kpps\"\n\
                 [trial]\nduration = \"1 s\"\nstall-share = \"{share}\"\n"
            );
            let experiment = wiretail_schema::experiment::Experiment::parse(&text).unwrap();
            faults(&experiment.trials()[0], &generator, &[], &stalls).len()
        };
        assert_eq!((faults_at("100 %"), faults_at("1 %")), (0, 1));
    }

    #[test]
    fn reports_packets_late_or_skipped_by_rate_out_of_reach() {
        let enough = GeneratorRecord {
            offered_pps: 1000,
            sent: 950,
            sent_bytes: 95_000,
            failed: 0,
            late: 10,
            late_limit_ns: 100_000,
            lateness_ns: [0; 4],
            skipped: 50,
            shifted_ns: 0,
            overload_ratio: 0.01,
            start_ns: None,
        };
        let reasons = |generator: &GeneratorRecord| late(generator, 0.01).join("; ");
        assert_eq!(reasons(&enough), "", "stalls may skip packets");
        let late = reasons(&GeneratorRecord { late: 11, ..enough.clone() });
        assert!(late.contains("late with 11 of 1000 packets (more than 100 us"), "{late}");
        let skipped = reasons(&GeneratorRecord { overload_ratio: 0.02, ..enough.clone() });
        assert!(skipped.contains("cannot send at this rate: it skipped 50 of 1000 packets"), "{skipped}");
        assert!(skipped.contains("do not explain 2.0 %"), "{skipped}");
        let shifted = GeneratorRecord { sent: 1000, skipped: 0, shifted_ns: 40_000_000, ..enough.clone() };
        let shifted = reasons(&GeneratorRecord { overload_ratio: 0.02, ..shifted });
        assert!(shifted.contains("shifted its schedule by 40.0 ms"), "{shifted}");
        let all = GeneratorRecord { sent: 0, late: 1000, skipped: 1000, overload_ratio: 1.0, ..enough };
        assert!(super::late(&all, 1.0).is_empty(), "a limit of 100 % means that there is no limit");
    }

    #[test]
    fn common_pause_counts_as_one_stall() {
        let clock = ClockOffset { realtime_minus_monotonic_ns: 7, uncertainty_ns: 1 };
        let generator = log(&[(1_000_000, 30_000), (5_000_000, 400_000)]);
        let device = log(&[(5_010_000, 380_000), (9_000_000, 25_000)]);
        let Stalls { record, spans, notes, .. } = stalls(&generator, Some(&device), &(0..u64::MAX), &clock);
        let causes: Vec<_> =
            record.causes.iter().map(|cause| (cause.cause, cause.count, cause.total_ns)).collect();
        assert_eq!(
            causes,
            [(StallCause::AllCoresPaused, 1, 400_000), (StallCause::OneCorePaused, 2, 55_000)]
        );
        assert_eq!(record.longest[0].start_ns, 5_000_007);
        assert_eq!(record.longest[0].role, "load generator and device under test");
        assert_eq!(record.longest[2].role, DEVICE);
        assert!(spans.len() == 3 && notes.is_empty());
        // The device's last stall began after the traffic had ended.
        let sent = stalls(&generator, Some(&device), &(500_000..8_000_000), &clock);
        assert_eq!(sent.spans.len(), 2);
        assert_eq!(stalls(&generator, Some(&device), &(5_400_000..8_000_000), &clock).spans.len(), 2);
    }
}
