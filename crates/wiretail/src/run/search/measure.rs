//! What a trial says about the goals of a search.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use wiretail_analysis::search::Ask;
use wiretail_schema::run::{TrialRecord, TrialState};
use wiretail_schema::search::{Effort, Goal, SearchTrial};
use wiretail_schema::summary::{Capture, Summary};

/// The trial of this record.
///
/// # Errors
/// The numbers of a valid trial can't be read.
pub fn of(
    run: &Path,
    record: &TrialRecord,
    ask: Ask,
    goals: &[Goal],
    effort: &Effort,
) -> Result<SearchTrial> {
    let mut trial = SearchTrial {
        number: record.number,
        rate_pps: ask.rate_pps,
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
    let Some(segment) = record.segments.first().filter(|segment| segment.analysed) else {
        if trial.invalid.is_empty() {
            trial.invalid.push("nothing was analysed".to_owned());
        }
        return Ok(trial);
    };
    let file = run.join(&segment.directory).join("summary.json");
    let text = fs::read(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let summary: Summary =
        serde_json::from_slice(&text).with_context(|| format!("{}: is no summary", file.display()))?;
    trial.sent = summary.loss.sent;
    trial.lost = summary.loss.lost;
    trial.stretch = stretch(&summary.pre, &summary.post);
    trial.missed = goals.iter().map(|goal| missed(goal, &summary)).collect();
    let stretched = trial.stretch > effort.stretch;
    let poor = |(goal, missed): (&Goal, &f64)| stretched || *missed > goal.allowed();
    trial.poor = goals.iter().zip(&trial.missed).map(poor).collect();
    Ok(trial)
}

/// Share of the packets that missed a goal.
fn missed(goal: &Goal, summary: &Summary) -> f64 {
    match goal {
        Goal::Loss { .. } => summary.loss.ratio,
        Goal::Delay { budget, .. } => {
            let verdict = summary.verdicts.iter().find(|verdict| verdict.budget == *budget);
            verdict.map_or(1.0, |verdict| verdict.failures as f64 / verdict.packets.max(1) as f64)
        }
    }
}

/// By how much longer packets left than they came, in parts of the time in which they came. A device that keeps up
/// delays the last packet like the first; in one that does not, the last one waits for all that are in the ring.
fn stretch(pre: &Capture, post: &Capture) -> f64 {
    let came = (pre.last_ns - pre.first_ns).max(1) as f64;
    let left = (post.last_ns - post.first_ns) as f64;
    (left / came - 1.0).max(0.0)
}
