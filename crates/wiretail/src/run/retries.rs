//! Retries a single trial, or several trials that share a device, up to the number of retries that the
//! experiment allows.

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

/// Repeats a trial until it is valid or its retries are used up. A failed write ends the run. Other failures
/// are stored in the trial's record.
///
/// # Errors
/// Returns an error if a directory cannot be written.
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

/// Repeats trials that share a device. Each trial has its own progress line, and all trials that are not
/// valid are retried together. A trial has no record if the run was stopped before the trial started.
///
/// # Errors
/// Returns an error if a directory cannot be written.
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

/// Runs the selected trials once, with one device, and stores their results in `records`.
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
        // If an error occurs after the last trial, it is attributed to that trial.
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
