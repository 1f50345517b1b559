//! Trials until they are valid, or as often as the experiment allows: alone, or several with one device.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::{TrialRecord, TrialState};

use super::output::results;
use super::trial::{store, validity};
use crate::run::output::directory::RunDirectory;
use crate::run::trial::attempt::{Attempt, Recorded};
use crate::run::trial::progress::Line;
use crate::run::trial::session::{self, Session};

/// Tries a trial until it is valid, or as often as the experiment allows. What can't be written ends the
/// run; anything else becomes part of the record.
///
/// # Errors
/// A directory that can't be written.
pub fn attempts(
    directory: &RunDirectory,
    trial: &Trial,
    seed: u64,
    line: &Line,
    stop: &AtomicBool,
) -> Result<TrialRecord> {
    let mut records = sessions(directory, &[trial], seed, std::slice::from_ref(line), stop)?;
    records.pop().context("a trial left no record")
}

/// The same of trials that share a device, a line for each: those that are not valid are tried again together. A trial that was not
/// begun when the run was told to end has no record.
///
/// # Errors
/// A directory that can't be written.
pub fn sessions(
    directory: &RunDirectory,
    trials: &[&Trial],
    seed: u64,
    lines: &[Line],
    stop: &AtomicBool,
) -> Result<Vec<TrialRecord>> {
    let mut records: Vec<Option<TrialRecord>> = trials.iter().map(|_| None).collect();
    loop {
        let is_open = |place: &usize| {
            let most = trials[*place].trial.retries;
            records[*place].as_ref().is_none_or(|record| {
                let again = matches!(record.state, TrialState::Failed | TrialState::Invalid);
                again && u64::from(record.retries) < most
            })
        };
        let open: Vec<usize> = (0..trials.len()).filter(is_open).collect();
        if open.is_empty() {
            break;
        }
        session(directory, trials, &open, seed, lines, stop, &mut records)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(records.into_iter().flatten().collect())
}

/// Tries the trials at these places once, with one device; puts what became of them into `records`.
fn session(
    directory: &RunDirectory,
    trials: &[&Trial],
    open: &[usize],
    seed: u64,
    lines: &[Line],
    stop: &AtomicBool,
    records: &mut [Option<TrialRecord>],
) -> Result<()> {
    let blank = |place: usize| validity::blank(trials[place], TrialState::Failed, Vec::new());
    let retry = |records: &[Option<TrialRecord>], place: usize| {
        records[place].as_ref().map_or(0, |record| record.retries + 1)
    };
    let mut folders = Vec::new();
    for place in open {
        let goes_on = retry(records, *place) == 0 && store::is_soak(trials[*place]);
        folders.push(directory.for_attempt(&blank(*place), goes_on)?);
    }
    let seed_of = |trial: &Trial| seed.wrapping_add(trial.like as u64);
    let mut attempts = Vec::new();
    for (&place, (folder, measured_ns)) in open.iter().zip(&folders) {
        let trial = trials[place];
        let duration_ns = trial.trial.duration.ns_unsigned().saturating_sub(*measured_ns).max(1);
        let (seed, line) = (seed_of(trial), &lines[place]);
        attempts.push(Attempt { trial, seed, duration_ns, directory: folder, stop, line });
    }
    let Session { done, ended } = session::run(&attempts);
    let begun = done.len() + usize::from(ended.is_err());
    let mut outcomes: Vec<Result<Recorded>> = done.into_iter().map(Ok).collect();
    if let Err(error) = ended {
        // What fails when all is done is a fault of the last one.
        outcomes.truncate(open.len() - 1);
        outcomes.push(Err(error));
    }
    for (&place, outcome) in open[..begun.min(open.len())].iter().zip(outcomes) {
        let trial = trials[place];
        let mut record = outcome
            .and_then(|recorded| results::evaluate_all(directory.path(), trial, seed_of(trial), recorded))
            .unwrap_or_else(|error| TrialRecord { reasons: vec![crate::message(&error)], ..blank(place) });
        record.retries = retry(records, place);
        records[place] = Some(record);
    }
    Ok(())
}
