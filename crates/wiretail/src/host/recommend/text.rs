//! The human-readable recommendations.

use std::io::{self, Write};

use wiretail_report::format::{count, duration, rate};
use wiretail_schema::host::recommendation::{
    DelayOf, Evidence, Latency, MatrixRow, NextStep, Origin, Recommendation, Recommendations, TrialsOf,
};

use crate::host::text::wrapped;

/// Number of statements per recommendation, and of loads per deployment, that are printed without `--all`.
const SHOWN: usize = 5;
/// Largest number of ranges of trials that are printed; if there are more, only the number of trials is
/// printed.
const RANGES: usize = 6;

/// Writes all recommendations; with `all`, also sources and every statement.
pub(super) fn print(out: &mut impl Write, found: &Recommendations, all: bool) -> io::Result<()> {
    let host = &found.host;
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    writeln!(out, "  {}, kernel {}, role {}", some(&host.processor), some(&host.kernel), host.role.name())?;
    let cores = if host.cores.is_empty() { "none" } else { &host.cores };
    writeln!(out, "  cores to isolate: {cores} ({})", host.cores_from)?;
    for run in &found.runs {
        let (valid, trials) = (run.valid, run.trials);
        writeln!(out, "  {}: {valid} of {trials} trials usable: {}", run.directory, run.title)?;
    }
    if found.runs.is_empty() {
        writeln!(out, "  no run was given: based on the audit alone")?;
    }
    found.notes.iter().try_for_each(|note| wrapped(out, "note", note))?;
    writeln!(out, "\n  RECOMMENDATIONS")?;
    found.recommendations.iter().try_for_each(|one| recommendation(out, one, all))?;
    writeln!(out, "\n  LATENCY, SECURITY, RESOURCES")?;
    found.matrix.rows.iter().try_for_each(|one| row(out, one, all))?;
    writeln!(out, "    common to all rows, from the host")?;
    for (label, facts) in
        [("security", &found.matrix.host_security), ("resources", &found.matrix.host_resources)]
    {
        facts.iter().try_for_each(|fact| evidence(out, label, fact))?;
    }
    writeln!(out, "\n  [..] 95 % confidence interval over all named trials; ? too few packets")
}

fn recommendation(out: &mut impl Write, one: &Recommendation, all: bool) -> io::Result<()> {
    writeln!(out, "    {:<16} {}", one.stand.name(), one.title)?;
    wrapped(out, "", &one.says)?;
    if all {
        wrapped(out, "advice", &one.advice)?;
    }
    let shown = if all { one.evidence.len() } else { SHOWN };
    one.evidence.iter().take(shown).try_for_each(|fact| evidence(out, "evidence", fact))?;
    if one.evidence.len() > shown {
        wrapped(out, "evidence", &format!("{} more with --all", one.evidence.len() - shown))?;
    }
    one.next.iter().try_for_each(|step| next(out, step))?;
    if all { wrapped(out, "source", &one.source) } else { Ok(()) }
}

fn row(out: &mut impl Write, row: &MatrixRow, all: bool) -> io::Result<()> {
    let profile = if row.profile.is_empty() { String::new() } else { format!(", {}", row.profile) };
    writeln!(out, "    {}{profile}", row.deployment.name())?;
    if row.latency.is_empty() {
        wrapped(out, "latency", "no evidence yet")?;
    }
    let shown = if all { row.latency.len() } else { SHOWN };
    row.latency.iter().take(shown).try_for_each(|load| latency(out, load))?;
    if row.latency.len() > shown {
        wrapped(out, "latency", &format!("{} more loads with --all", row.latency.len() - shown))?;
    }
    row.security.iter().try_for_each(|fact| evidence(out, "security", fact))?;
    row.resources.iter().try_for_each(|fact| evidence(out, "resources", fact))?;
    row.next.iter().try_for_each(|step| next(out, step))
}

fn latency(out: &mut impl Write, load: &Latency) -> io::Result<()> {
    let emulated = match load.emulated {
        Some(true) => " (emulated processor: not representative of hardware)",
        Some(false) | None => "",
    };
    let numbers: Vec<String> = load.delays.iter().map(value).collect();
    let rests = load.delays.first().map(rests).unwrap_or_default();
    wrapped(out, "latency", &format!("{}{emulated}: {}{rests}", load.load, numbers.join(", ")))
}

/// Writes a statement with its origin, and its numbers below.
fn evidence(out: &mut impl Write, label: &str, fact: &Evidence) -> io::Result<()> {
    let from = match &fact.from {
        Origin::Trials { trials } => format!(" [{}]", shown(trials)),
        Origin::Search { run, search } => format!(" [{run}: search {search}]"),
        Origin::Rule { rule, .. } => format!(" [audit: {rule}]"),
        Origin::Deployment => String::new(),
    };
    wrapped(out, label, &format!("{}{from}", fact.says))?;
    if !fact.rates.is_empty() {
        let rates = fact.rates.iter().map(|found| format!("{} {}", found.of, rate(found.pps as f64)));
        wrapped(out, "rates", &rates.collect::<Vec<_>>().join("; "))?;
    }
    for group in fact.delays.chunk_by(|a, b| a.of == b.of) {
        let numbers: Vec<String> = group.iter().map(value).collect();
        wrapped(out, "delay", &format!("{}: {}{}", group[0].of, numbers.join(", "), rests(&group[0])))?;
    }
    Ok(())
}

/// Formats "p99.9 12.34 µs [11.00 µs … 13.00 µs]".
fn value(delay: &DelayOf) -> String {
    let value = duration(delay.value_ns as f64);
    let weak = if delay.supported { "" } else { "?" };
    let bound = |ns: i64| duration(ns as f64);
    match (delay.percentile, delay.low_ns, delay.high_ns) {
        (100.0, ..) => format!("max {value}"),
        (percentile, Some(low), high) => {
            let high = high.map_or_else(|| "?".to_owned(), bound);
            format!("p{percentile} {value}{weak} [{} … {high}]", bound(low))
        }
        (percentile, None, _) => format!("p{percentile} {value}{weak}"),
    }
}

fn rests(delay: &DelayOf) -> String {
    format!("; {} packets, {}", count(delay.packets), shown(&delay.trials))
}

/// Formats "runs/a: 1-3,5; runs/b: 2".
fn shown(trials: &[TrialsOf]) -> String {
    let each = trials.iter().map(|of| format!("{}: {}", of.run, numbers(&of.trials)));
    each.collect::<Vec<_>>().join("; ")
}

/// Formats "1-3,5", or only the number of trials if the list is long.
fn numbers(all: &[usize]) -> String {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let rows = sorted.chunk_by(|a, b| a + 1 == *b).map(|row| match row {
        [one] => one.to_string(),
        row => format!("{}-{}", row[0], row[row.len() - 1]),
    });
    let rows: Vec<String> = rows.collect();
    if rows.len() > RANGES { format!("{} trials", sorted.len()) } else { rows.join(",") }
}

/// Writes the purpose of a command, and the command on a separate line for copying.
fn next(out: &mut impl Write, step: &NextStep) -> io::Result<()> {
    wrapped(out, "do", &format!("{}:", step.what))?;
    writeln!(out, "{:20}{}", "", step.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_trial_numbers_as_ranges() {
        assert_eq!(numbers(&[5, 1, 2, 3, 3, 9, 8]), "1-3,5,8-9");
        assert_eq!(numbers(&[]), "");
        assert_eq!(numbers(&[1, 3, 5, 7, 9, 11, 13]), "7 trials");
    }
}
