//! Terminal output of a search, with one line per trial and a table of the results.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, rate, ratio};
use wiretail_schema::search::{Effort, Ending, Goal, GoalResult, Method, Over, SearchTrial, Searches};

/// Prints the parameters of the planned searches.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn plan(out: &mut impl Write, effort: &Effort, goals: &[Goal]) -> io::Result<()> {
    let goals: Vec<String> = goals.iter().map(Goal::to_string).collect();
    let (low, high) = (load(effort.over, effort.lowest), load(effort.over, effort.highest));
    let full = duration(effort.full_ns as f64);
    writeln!(
        out,
        "Each trial of the experiment is a search for {} between {low} and {high}, with a resolution of {} and \
         trials of {full}.",
        goals.join(", "),
        ratio(effort.width)
    )
}

/// Formats a trial's outcome, such as "NDR met, 100us@99.9% missed by 2 %".
pub fn trial(trial: &SearchTrial, goals: &[Goal]) -> String {
    if !trial.invalid.is_empty() {
        return format!("invalid, ignored: {}", trial.invalid.join("; "));
    }
    let word = |place: usize| match (trial.poor[place], trial.missed[place] > goals[place].allowed()) {
        (false, _) => format!("{} met", goals[place]),
        (true, true) => format!("{} missed by {}", goals[place], ratio(trial.missed[place])),
        (true, false) => format!("{} missed", goals[place]),
    };
    let words: Vec<String> = (0..goals.len()).map(word).collect();
    let stretched = match trial.stretch {
        stretch if stretch < 5e-4 => String::new(),
        stretch => format!(", departures took {} longer than arrivals", ratio(stretch)),
    };
    format!("{}, {} of {} lost{stretched}", words.join(", "), count(trial.lost), count(trial.sent))
}

/// Formats a load with its unit.
fn load(over: Over, load: u64) -> String {
    match over {
        Over::Rate => rate(load as f64),
        Over::Burst => format!("{} packets", count(load)),
    }
}

/// Formats the result for a goal.
pub fn result(over: Over, goal: &GoalResult) -> String {
    let shown = |found: Option<u64>| found.map_or("?".to_owned(), |found| load(over, found));
    let (low, high) = (shown(goal.lower), shown(goal.upper));
    let found = match goal.ending {
        Ending::Found => format!("{low} (missed at {high})"),
        Ending::AtHighest => format!("{low} or more"),
        Ending::BelowLowest => format!("less than {high}"),
        Ending::Open => format!("not found; between {low} and {high}"),
    };
    format!("{}: {found}: {}", goal.goal, goal.reason)
}

/// Prints the searches, one row per goal.
///
/// # Errors
/// Returns an error if standard output is closed.
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
            let shown =
                |found: Option<u64>| found.map_or("-".to_owned(), |found| load(search.effort.over, found));
            let forwarded = goal.forwarded_pps.map_or("-".to_owned(), rate);
            writeln!(
                out,
                "  {:<width$}  {:<16} {:>12} {:>12} {:>12} {:>7} {:>7.1} s {:>7.1} s  {}",
                search.name,
                goal.goal.to_string(),
                shown(goal.lower),
                shown(goal.upper),
                forwarded,
                search.trials.len(),
                search.sending_s,
                search.elapsed_s,
                method(search.effort.method),
            )?;
            let mark = if goal.ending == Ending::Found { "" } else { "not found: " };
            writeln!(out, "    {mark}{}", goal.reason)?;
            if let Some(held) = goal.held {
                writeln!(
                    out,
                    "    the device held {} packets of the burst when the burst's last packet arrived",
                    count(held as u64)
                )?;
            }
        }
    }
    Ok(())
}

fn method(method: Method) -> &'static str {
    match method {
        Method::Mlrsearch => "MLRsearch",
        Method::Binary => "binary search",
        Method::Linear => "linear sweep",
    }
}
