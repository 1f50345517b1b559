//! A search on a terminal: a line a trial, and a table of what was found.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, rate, ratio};
use wiretail_schema::search::{Effort, Ending, Goal, GoalResult, Method, SearchTrial, Searches};

/// What would be done.
///
/// # Errors
/// Standard output is closed.
pub fn plan(out: &mut impl Write, effort: &Effort, goals: &[Goal]) -> io::Result<()> {
    let goals: Vec<String> = goals.iter().map(Goal::to_string).collect();
    let (low, high) = (rate(effort.lowest_pps as f64), rate(effort.highest_pps as f64));
    let full = duration(effort.full_ns as f64);
    writeln!(
        out,
        "Each is a search for {} between {low} and {high}, to within {}, with trials of {full}.",
        goals.join(", "),
        ratio(effort.width)
    )
}

/// What became of a trial: "NDR met, 100us@99.9% missed by 2 %".
pub fn trial(trial: &SearchTrial, goals: &[Goal]) -> String {
    if !trial.invalid.is_empty() {
        return format!("invalid, has no say: {}", trial.invalid.join("; "));
    }
    let word = |place: usize| match (trial.poor[place], trial.missed[place] > goals[place].allowed()) {
        (false, _) => format!("{} met", goals[place]),
        (true, true) => format!("{} missed by {}", goals[place], ratio(trial.missed[place])),
        (true, false) => format!("{} missed", goals[place]),
    };
    let words: Vec<String> = (0..goals.len()).map(word).collect();
    let stretched = match trial.stretch {
        stretch if stretch < 5e-4 => String::new(),
        stretch => format!(", packets left for {} longer than they came", ratio(stretch)),
    };
    format!("{}, {} of {} lost{stretched}", words.join(", "), count(trial.lost), count(trial.sent))
}

/// What was found for a goal.
pub fn result(goal: &GoalResult) -> String {
    let pps = |pps: Option<u64>| pps.map_or("?".to_owned(), |pps| rate(pps as f64));
    let (low, high) = (pps(goal.lower_pps), pps(goal.upper_pps));
    let found = match goal.ending {
        Ending::Found => format!("{low} (missed at {high})"),
        Ending::AtHighest => format!("{low} and more"),
        Ending::BelowLowest => format!("less than {high}"),
        Ending::Open => format!("not found; between {low} and {high}"),
    };
    format!("{}: {found}: {}", goal.goal, goal.reason)
}

/// The searches, a row a goal.
///
/// # Errors
/// Standard output is closed.
pub fn table(out: &mut impl Write, searches: &Searches) -> io::Result<()> {
    writeln!(out, "{}\n", searches.title)?;
    let names = searches.searches.iter().map(|search| search.name.chars().count());
    let width = names.max().unwrap_or(0).max(6);
    writeln!(
        out,
        "  {:<width$}  {:<16} {:>12} {:>12} {:>12} {:>7} {:>9} {:>9}  method",
        "search", "goal", "met at", "missed at", "forwarded", "trials", "sending", "elapsed"
    )?;
    for search in &searches.searches {
        for goal in &search.goals {
            let pps = |pps: Option<f64>| pps.map_or("-".to_owned(), rate);
            let of = |pps: Option<u64>| pps.map(|pps| pps as f64);
            writeln!(
                out,
                "  {:<width$}  {:<16} {:>12} {:>12} {:>12} {:>7} {:>7.1} s {:>7.1} s  {}",
                search.name,
                goal.goal.to_string(),
                pps(of(goal.lower_pps)),
                pps(of(goal.upper_pps)),
                pps(goal.forwarded_pps),
                search.trials.len(),
                search.sending_s,
                search.elapsed_s,
                method(search.effort.method),
            )?;
            let mark = if goal.ending == Ending::Found { "" } else { "not found: " };
            writeln!(out, "    {mark}{}", goal.reason)?;
        }
    }
    Ok(())
}

/// A method's name.
fn method(method: Method) -> &'static str {
    match method {
        Method::Mlrsearch => "MLRsearch",
        Method::Binary => "binary search",
        Method::Linear => "linear sweep",
    }
}
