//! From what a trial recorded to its results, and back from what a killed one left.

use std::path::Path;

use anyhow::Result;
use wiretail_analysis::calibration::CalibrationTally;
use wiretail_analysis::matching::Outcome;
use wiretail_capture::read::{InterfaceChoice, OpenOptions};
use wiretail_schema::calibration::Accounting;
use wiretail_schema::experiment::Trial;
use wiretail_schema::packet::FlowRule;
use wiretail_schema::run::{SegmentRecord, TapRecord, TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use super::lost::LostList;
use super::recorder::SOURCE;
use super::shares::{self, Joining};
use super::sitting::Recorded;
use super::topology::{Segment, TapPlace, Topology};
use super::{budgets, explain, progress, store, table, validity};
use crate::evaluate::{Job, evaluate};
use crate::outputs;
use crate::soak::{LOG_NAME, logged_ns, soak_summary};
use crate::source::Source;

/// Worst packets listed for each trial.
const WORST: usize = 5000;

/// Evaluates every segment of a trial with this seed into its directory.
pub fn evaluate_all(run: &Path, trial: &Trial, seed: u64, recorded: Recorded) -> Result<TrialRecord> {
    let Recorded { mut record, stalls } = recorded;
    let folder = run.join(&record.directory);
    let mut tally = if store::is_soak(trial) { None } else { calibration(trial) };
    let mut joining = Joining::of(trial, &Topology::of(trial));
    for place in shares::order(&record.segments) {
        let segment = &record.segments[place];
        let tally = if place == 0 { tally.as_mut() } else { None };
        let mut lost = LostList::new(trial, seed)?;
        let evaluated = match store::is_soak(trial) {
            true => write_soak(&run.join(&segment.directory)),
            false => {
                joining.iter_mut().for_each(|joining| joining.begin(&segment.name));
                evaluate_segment(
                    run,
                    &folder,
                    trial,
                    segment,
                    Watchers { calibration: tally, joining: joining.as_mut(), lost: &mut lost },
                )
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
        record.shares = joining.finish(&folder)?;
    }
    // The numbers stand without an explanation, too.
    match explain::trial(run, trial, &record) {
        Ok(Some(explanation)) => explain::write(&folder, &explanation)?,
        Ok(None) => {}
        Err(error) => record.notes.push(format!("not explained: {error:#}")),
    }
    Ok(record)
}

/// What the device did on purpose against what was measured; None where it did nothing, or where the
/// warm-up leaves out some of it.
fn accounting(trial: &Trial, record: &TrialRecord, summary: &Summary) -> Option<Accounting> {
    let commits = ["drop-every", "duplicate-every", "swap-every"];
    let commits = commits.iter().any(|name| trial.get("dut", name).number > 0);
    let dut = record.dut.filter(|_| commits && trial.get("trial", "warm-up").number == 0)?;
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

/// A tally of the known delays that the device adds, if it does.
fn calibration(trial: &Trial) -> Option<CalibrationTally> {
    let number = |name| trial.get("dut", name).number;
    let adds =
        trial.get("dut", "kind").text == "skeleton" && number("delay") > 0 && number("delay-every") > 1;
    adds.then(|| CalibrationTally::new(number("delay"), number("delay-every")))
}

/// Who takes what became of each packet of a segment.
struct Watchers<'a> {
    calibration: Option<&'a mut CalibrationTally>,
    joining: Option<&'a mut Joining>,
    lost: &'a mut LostList,
}

/// The evaluation of a segment of a trial, whose captures are in `folder`; nothing is written.
///
/// # Errors
/// A capture that can't be read.
pub fn job(folder: &Path, trial: &Trial, segment: &SegmentRecord) -> Result<Job<'static>> {
    let capture = |tap: &str| {
        let interface = Some(InterfaceChoice::Name(tap.to_owned()));
        let options = OpenOptions { interface, ..OpenOptions::default() };
        Source::open(&store::capture_path(folder), options, false)
    };
    let streams = trial.get("traffic", "streams").number;
    let name = if segment.name == "forward" { String::new() } else { format!(", {}", segment.name) };
    Ok(Job {
        title: format!("{}{name}", trial.name),
        trim_ns: trial.get("trial", "warm-up").number as i64,
        flows: if streams > 1 { FlowRule::Stream } else { FlowRule::FiveTuple },
        ..Job::of(capture(&segment.pre)?, capture(&segment.post)?)
    })
}

fn evaluate_segment(
    run: &Path,
    folder: &Path,
    trial: &Trial,
    segment: &SegmentRecord,
    mut watchers: Watchers<'_>,
) -> Result<Summary> {
    let out = run.join(&segment.directory);
    let job = Job { budgets: budgets(trial)?, worst: WORST, out: Some(&out), ..job(folder, trial, segment)? };
    let mut each = |outcome: &Outcome| {
        watchers.lost.take(outcome);
        if let Outcome::Matched { sent, delay_ns } = outcome {
            if let Some(tally) = &mut watchers.calibration {
                tally.take(sent.index(), sent.ts_ns, *delay_ns);
            }
            if let Some(joining) = &mut watchers.joining {
                joining.take(sent, *delay_ns);
            }
        }
        Ok(())
    };
    Ok(evaluate(job, Some(&mut each))?.0)
}

/// The documents of a soak, from its log.
fn write_soak(folder: &Path) -> Result<Summary> {
    let (analysis, delays) = soak_summary(folder)?;
    outputs::write_all(folder, &analysis, &delays)?;
    Ok(analysis.summary)
}

/// The record of a soak that was killed before it could leave one: what its log tells. None where the
/// trial is no soak, or has no log.
///
/// # Errors
/// The log's documents can't be written.
pub fn recover(run: &Path, trial: &Trial) -> Result<Option<TrialRecord>> {
    let mut record = validity::blank(trial, TrialState::Interrupted, Vec::new());
    let folder = run.join(&record.directory);
    if !store::is_soak(trial) || !folder.join(LOG_NAME).exists() {
        return Ok(None);
    }
    let measured = std::time::Duration::from_nanos(logged_ns(&folder)?);
    record.reasons.push(format!("ended before its time; {} were measured", progress::seconds(measured)));
    let topology = Topology::of(trial);
    record.taps = tap_records(&topology);
    record.segments = segment_records(&topology, &record.directory);
    for segment in &mut record.segments {
        segment.analysed = write_soak(&run.join(&segment.directory)).is_ok();
    }
    Ok(Some(record))
}

/// The segments of a trial in this directory, not evaluated yet.
pub fn segment_records(topology: &Topology, directory: &str) -> Vec<SegmentRecord> {
    let taps = topology.taps();
    let segments = topology.segments().into_iter().enumerate();
    let record = |(number, segment): (usize, Segment)| SegmentRecord {
        pre: taps[segment.pre].name.clone(),
        post: taps[segment.post].name.clone(),
        directory: match number {
            0 => directory.to_owned(),
            _ => format!("{directory}/{}", segment.name),
        },
        name: segment.name,
        analysed: false,
    };
    segments.map(record).collect()
}

/// The taps of a trial, before they have counted anything.
pub fn tap_records(topology: &Topology) -> Vec<TapRecord> {
    let record = |place: &TapPlace| TapRecord {
        name: place.name.clone(),
        place: place.describe(topology),
        timestamp_source: SOURCE.name().to_owned(),
        packets: 0,
        drops: 0,
    };
    topology.taps().iter().map(record).collect()
}

/// What became of a trial, in a line.
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
