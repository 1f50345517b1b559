//! Result of a search from all of its trials, with the reason.

use wiretail_schema::search::{Effort, Ending, Goal, GoalResult, Over, SearchTrial};
use wiretail_schema::units::thousands;

use super::classify::{Question, Rating};
use super::history::{Bounds, History, close_enough, span};

/// Result for each goal.
pub(super) fn conclude(effort: &Effort, goals: &[Goal], trials: &[SearchTrial]) -> Vec<GoalResult> {
    let history = History::new(effort, trials);
    goals
        .iter()
        .enumerate()
        .map(|(at, goal)| {
            let question = Question::last(effort, at);
            let bounds = history.bounds(&question);
            let ending = ending(effort, bounds);
            let forwarded_pps =
                bounds.lower.and_then(|lower| question.forwarded_pps(lower, history.at(lower)));
            let mut reason = reason(effort, &history, &question, bounds, ending);
            reason.push_str(&inconsistency(effort, &history, &question, bounds));
            GoalResult {
                goal: goal.clone(),
                ending,
                lower: bounds.lower,
                upper: bounds.upper,
                forwarded_pps: forwarded_pps.filter(|_| effort.over == Over::Rate),
                held: None,
                reason,
            }
        })
        .collect()
}

fn ending(effort: &Effort, bounds: Bounds) -> Ending {
    let (lowest, highest) = span(effort);
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) if close_enough(effort, lower, upper) => Ending::Found,
        (None, Some(upper)) if upper <= lowest => Ending::BelowLowest,
        (Some(lower), None) if lower >= highest => Ending::AtHighest,
        _ => Ending::Open,
    }
}

fn reason(
    effort: &Effort,
    history: &History,
    question: &Question,
    Bounds { lower, upper }: Bounds,
    ending: Ending,
) -> String {
    let unit = effort.over.unit();
    let met = |place: &str| lower.map(|load| counted(history, question, (load, unit), false, place));
    let missed = |place: &str| upper.map(|load| counted(history, question, (load, unit), true, place));
    let both = match ending {
        Ending::AtHighest => [met("the highest load"), None],
        Ending::BelowLowest => [missed("the lowest load"), None],
        Ending::Found | Ending::Open => [met(""), missed("")],
    };
    let found = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if ending != Ending::Open {
        return found;
    }
    let why = unusable(effort, history, question, Bounds { lower, upper }).unwrap_or_else(|| {
        match (history.rates().next(), lower, upper) {
            (None, ..) => "the search ended before the first trial".to_owned(),
            (Some(_), Some(_), Some(_)) => "the search ended before the bounds were close enough".to_owned(),
            (Some(_), Some(_), None) => "the search ended before any load missed the goal".to_owned(),
            (Some(_), None, Some(_)) => "the search ended before any load met the goal".to_owned(),
            (Some(_), None, None) => "the search ended before any load met or missed the goal".to_owned(),
        }
    });
    if found.is_empty() { why } else { format!("{why}: {found}") }
}

/// Describes the trials at a load, for example "2 full trials at 87 500 pps met it", "1 of 3 full trials at 88
/// 000 pps met it", or "1 short trial at 88 000 pps missed it".
fn counted(
    history: &History,
    question: &Question,
    (load, unit): (u64, &str),
    missed: bool,
    place: &str,
) -> String {
    let of = |full: bool, side: Option<bool>| {
        history
            .at(load)
            .filter(|trial| question.is_full(trial) == full)
            .filter(|trial| side.is_none_or(|side| question.missed(trial) == Some(side)))
            .count()
    };
    // Short trials that met a goal are not evidence that the rate meets it.
    let full = of(true, Some(missed)) > 0;
    let (count, all) = (of(full, Some(missed)), of(full, None));
    let of_all = if count < all { format!(" of {all}") } else { String::new() };
    let kind = if full { "full" } else { "short" };
    let trials = if all.max(count) == 1 { "trial" } else { "trials" };
    let verb = if missed { "missed" } else { "met" };
    let load = thousands(load);
    let load = if place.is_empty() { format!("{load} {unit}") } else { format!("{place}, {load} {unit},") };
    format!("{count}{of_all} {kind} {trials} at {load} {verb} it")
}

/// Load with invalid trials that prevented closer bounds, and the reason why they were invalid.
fn unusable(effort: &Effort, history: &History, question: &Question, bounds: Bounds) -> Option<String> {
    let between = |rate: &u64| {
        bounds.lower.is_none_or(|lower| *rate > lower) && bounds.upper.is_none_or(|upper| *rate < upper)
    };
    let rate =
        history.rates().filter(between).find(|rate| history.unusable(question, *rate, effort.full_ns))?;
    let trial = history.invalid_at(rate).last()?;
    Some(format!(
        "{} trials at {} {} were invalid ({}), and no other load decides the goal",
        history.invalid_at(rate).count(),
        thousands(rate),
        effort.over.unit(),
        trial.invalid.join("; ")
    ))
}

/// Remark if the goal was met at a higher load than one at which it was missed.
fn inconsistency(effort: &Effort, history: &History, question: &Question, bounds: Bounds) -> String {
    let Some(upper) = bounds.upper else { return String::new() };
    let higher =
        history.rates().rev().find(|rate| *rate > upper && history.rating(question, *rate) == Rating::Meets);
    match higher {
        None => String::new(),
        Some(higher) => format!(
            "; the device is inconsistent: it met the goal at {} {}, but missed it at a lower load",
            thousands(higher),
            effort.over.unit()
        ),
    }
}
