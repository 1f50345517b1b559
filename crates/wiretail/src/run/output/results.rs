//! Turns a trial's recording into results, and recovers results from a trial that was killed.

use std::path::Path;

use anyhow::Result;
use wiretail_analysis::matching::Observer;
use wiretail_analysis::summary::calibration::CalibrationTally;
use wiretail_schema::experiment::{DutKind, Trial};
use wiretail_schema::run::calibration::Accounting;
use wiretail_schema::run::{SegmentRecord, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use crate::analyze::evaluate::{Job, evaluate};
use crate::analyze::outputs;
use crate::run::experiment::budgets;
use crate::run::output::breakdown::{self, Joining};
use crate::run::output::job::job;
use crate::run::output::lost::LostList;
use crate::run::output::{explanation, table};
use crate::run::testbed::topology::Topology;
use crate::run::trial::attempt::Recorded;
use crate::run::trial::progress;
use crate::run::trial::record::{segment_records, tap_records};
use crate::run::trial::soak::{LOG_NAME, logged_ns, soak_summary};
use crate::run::trial::{store, validity};

/// Number of worst packets listed for each trial.
const WORST: usize = 5000;

/// Evaluates every segment of a trial into the trial's directory.
pub fn evaluate_all(run: &Path, trial: &Trial, seed: u64, recorded: Recorded) -> Result<TrialRecord> {
    let Recorded { mut record, stalls } = recorded;
    let folder = run.join(&record.directory);
    let mut tally = if store::is_soak(trial) { None } else { calibration(trial) };
    let mut joining = Joining::of(trial, &Topology::of(trial));
    for place in breakdown::order(&record.segments) {
        let segment = &record.segments[place];
        let tally = if place == 0 { tally.as_mut() } else { None };
        let mut lost = LostList::new(trial, seed)?;
        let evaluated = match store::is_soak(trial) {
            true => write_soak(&run.join(&segment.directory)),
            false => {
                joining.iter_mut().for_each(|joining| joining.begin(&segment.name));
                let mut observer = (Some(&mut lost), (tally, joining.as_mut()));
                evaluate_segment(run, &folder, trial, segment, &mut observer)
            }
        };
        match evaluated {
            Ok(summary) => {
                record.segments[place].analysed = true;
                record.notes.extend(lost.write(&run.join(&record.segments[place].directory), &summary)?);
                if place == 0 {
                    record.accounting = accounting(trial, &record, &summary);
                    record.filtering = lost.filtering(trial, &summary).filter(|_| !store::is_soak(trial));
                }
            }
            // An interrupted trial may have ended before its first packet.
            Err(error) if record.state == TrialState::Interrupted => record.notes.push(format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    record.calibration = tally.and_then(|tally| tally.finish(&stalls));
    if let Some(joining) = joining {
        record.breakdown = joining.finish(&folder)?;
    }
    // The results are valid even if the explanation fails.
    match explanation::trial(run, trial, &record) {
        Ok(Some(explanation)) => explanation::write(&folder, &explanation)?,
        Ok(None) => {}
        Err(error) => record.notes.push(format!("the worst packets are not explained: {error:#}")),
    }
    Ok(record)
}

/// Compares the device's intentional faults with the measured ones; `None` if the device injected no faults,
/// or if the warm-up excludes some of them.
fn accounting(trial: &Trial, record: &TrialRecord, summary: &Summary) -> Option<Accounting> {
    let every = [trial.dut.drop_every, trial.dut.duplicate_every, trial.dut.swap_every];
    let commits = every.iter().any(|every| *every > 0);
    let dut = record.dut.filter(|_| commits && trial.trial.warm_up.ns == 0)?;
    Some(Accounting {
        packets: summary.loss.sent,
        dropped: dut.faults_dropped + dut.dropped + dut.failed,
        lost: summary.matching.lost,
        duplicated: dut.faults_duplicated,
        duplicates: summary.matching.duplicates_post,
        swapped: dut.faults_swapped,
        reordered: summary.reordering.reordered,
    })
}

/// Returns a tally of the delays that the device adds on purpose, if it adds any.
fn calibration(trial: &Trial) -> Option<CalibrationTally> {
    let (delay_ns, every) = (trial.dut.delay.ns_unsigned(), trial.dut.delay_every);
    let adds = trial.dut.kind == DutKind::Skeleton && delay_ns > 0 && every > 1;
    adds.then(|| CalibrationTally::new(delay_ns, every))
}

fn evaluate_segment(
    run: &Path,
    folder: &Path,
    trial: &Trial,
    segment: &SegmentRecord,
    observer: &mut (dyn Observer + Send),
) -> Result<Summary> {
    let out = run.join(&segment.directory);
    let mut job = Job { budgets: budgets(trial)?, out: Some(&out), ..job(folder, trial, segment)? };
    job.settings.worst = WORST;
    Ok(evaluate(job, Some(observer))?.0)
}

/// Computes the documents of a soak from its log and writes them.
fn write_soak(folder: &Path) -> Result<Summary> {
    let (analysis, delays) = soak_summary(folder)?;
    outputs::write_all(folder, &analysis, &delays)?;
    Ok(analysis.summary)
}

/// Reconstructs the record of a soak that was killed before writing one, from its log. Returns `None` if the
/// trial is not a soak or has no log.
///
/// # Errors
/// Returns an error if the log's documents cannot be written.
pub fn recover(run: &Path, trial: &Trial) -> Result<Option<TrialRecord>> {
    let mut record = validity::blank(trial, TrialState::Interrupted, Vec::new());
    let folder = run.join(&record.directory);
    if !store::is_soak(trial) || !folder.join(LOG_NAME).exists() {
        return Ok(None);
    }
    let measured = std::time::Duration::from_nanos(logged_ns(&folder)?);
    record.reasons.push(format!("ended early; {} were measured", progress::seconds(measured)));
    let topology = Topology::of(trial);
    record.taps = tap_records(&topology);
    record.segments = segment_records(&topology, &record.directory);
    for segment in &mut record.segments {
        segment.analysed = write_soak(&run.join(&segment.directory)).is_ok();
    }
    Ok(Some(record))
}

/// Summarizes a trial's outcome in one line, followed by one line for each reason why the trial is not valid.
pub fn outcome(run: &Path, record: &TrialRecord) -> String {
    let summary = || -> Option<Summary> {
        let first = record.segments.first().filter(|segment| segment.analysed)?;
        let text = std::fs::read(run.join(&first.directory).join("summary.json")).ok()?;
        serde_json::from_slice(&text).ok()
    };
    let mut text = table::state(record).to_owned();
    if let Some(summary) = summary() {
        let lost = wiretail_report::format::count(summary.loss.lost);
        let [p50, p999] = [50.0, 99.9].map(|percentile| table::value(&summary, percentile).0);
        text = format!("{text}: p50 {p50}, p99.9 {p999}, {lost} lost");
    }
    for reason in &record.reasons {
        text = format!("{text}\n    {reason}");
    }
    text
}
