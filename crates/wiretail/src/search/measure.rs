//! Evaluates a trial against the goals of a search.

use std::path::Path;

use anyhow::Result;
use wiretail_analysis::search::Ask;
use wiretail_schema::run::{Run, TrialRecord, TrialState};
use wiretail_schema::search::{Effort, Goal, Over, Search, SearchTrial};
use wiretail_schema::summary::{Capture, Gaps, Summary};

use crate::run::output::directory::summary;

/// Converts the record of a trial to a trial of a search.
///
/// # Errors
/// Returns an error if the results of a valid trial cannot be read.
pub fn of(
    run: &Path,
    record: &TrialRecord,
    ask: Ask,
    goals: &[Goal],
    effort: &Effort,
) -> Result<SearchTrial> {
    let mut trial = SearchTrial {
        number: record.number,
        load: ask.load,
        duration_ns: ask.duration_ns,
        invalid: Vec::new(),
        sent: 0,
        lost: 0,
        stretch: 0.0,
        missed: vec![0.0; goals.len()],
        poor: vec![false; goals.len()],
    };
    if record.state != TrialState::Valid {
        trial.invalid.clone_from(&record.reasons);
    }
    let Some(summary) = summary(run, record, 0)? else {
        if trial.invalid.is_empty() {
            trial.invalid.push("the trial was not analyzed".to_owned());
        }
        return Ok(trial);
    };
    trial.sent = summary.loss.sent;
    trial.lost = summary.loss.lost;
    // This is not computed in a search over bursts. In such a search, departures always take longer than
    // arrivals, because the last burst leaves the device only after it has arrived.
    if effort.over == Over::Rate {
        trial.stretch = stretch(&summary.pre, &summary.post);
    }
    trial.missed = goals.iter().map(|goal| missed(goal, &summary)).collect();
    let stretched = trial.stretch > effort.stretch;
    let poor = |(goal, missed): (&Goal, &f64)| stretched || *missed > goal.allowed();
    trial.poor = goals.iter().zip(&trial.missed).map(poor).collect();
    Ok(trial)
}

/// Adds the number of buffered packets to each result of a search over bursts. This is the number of packets
/// of a burst that the device held when the last packet arrived. If b packets arrive with a gap of g and
/// leave with a gap of h, this number is b (1 - g / h). It is the corrected buffer of RFC 9004, 6.4, in
/// packets instead of time, where 1/g is the highest rate of the medium and 1/h is the throughput. Both g and
/// h are the median gap in one trial.
///
/// # Errors
/// Returns an error if the results of a trial cannot be read.
pub fn held(path: &Path, run: &Run, search: &mut Search) -> Result<()> {
    for place in 0..search.goals.len() {
        let number = search.trial_found(place).map(|trial| trial.number);
        let Some(record) = run.trials.iter().find(|record| Some(record.number) == number) else { continue };
        let Some(summary) = summary(path, record, 0)? else { continue };
        let median = |gaps: &Gaps| {
            let found = gaps.percentiles.iter().find(|percentile| percentile.percentile == 50.0);
            found.map(|found| found.value_ns as f64).filter(|ns| *ns > 0.0)
        };
        let gaps = median(&summary.pre.gaps).zip(median(&summary.post.gaps));
        let result = &mut search.goals[place];
        result.held =
            gaps.zip(result.lower).map(|((came, left), burst)| burst as f64 * (1.0 - came / left).max(0.0));
    }
    Ok(())
}

/// Returns the share of packets that missed a goal.
fn missed(goal: &Goal, summary: &Summary) -> f64 {
    match goal {
        Goal::Loss { .. } => summary.loss.ratio,
        Goal::Delay { budget, .. } => {
            let verdict = summary.verdicts.iter().find(|verdict| verdict.budget == *budget);
            verdict.map_or(1.0, |verdict| verdict.failures as f64 / verdict.packets.max(1) as f64)
        }
    }
}

/// Returns how much longer the departures took than the arrivals, relative to the duration of the arrivals. A
/// device that keeps up delays the last packet by as much as the first. In an overloaded device, the last
/// packet waits for all packets in the ring.
fn stretch(pre: &Capture, post: &Capture) -> f64 {
    let came = (pre.last_ns - pre.first_ns).max(1) as f64;
    let left = (post.last_ns - post.first_ns) as f64;
    (left / came - 1.0).max(0.0)
}
