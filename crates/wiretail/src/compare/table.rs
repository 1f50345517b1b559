//! The comparison on the terminal.

use std::io::{self, Write};

use wiretail_report::comparison_words::{answer, change, level};
use wiretail_report::format::count;
use wiretail_schema::comparison::{Answer, Comparison, ComparisonOutcome, GroupComparison};

/// Writes the comparison.
///
/// # Errors
/// Returns an error if `out` cannot be written.
pub fn write(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    for pair in &comparison.pairs {
        self::pair(out, pair, comparison.tolerance)?;
        writeln!(out)?;
    }
    let outcome = match comparison.outcome {
        ComparisonOutcome::Pass => "PASS: nothing is worse by more than",
        ComparisonOutcome::Fail => "FAIL: worse by more than",
        ComparisonOutcome::Undecided => {
            "UNDECIDED: the trials neither show nor exclude a change by more than"
        }
    };
    writeln!(out, "  {outcome} {} % (--tolerance)", comparison.tolerance * 100.0)?;
    if comparison.family > 0 {
        writeln!(
            out,
            "  The unit is the trial. All {} answers together are right with 95 % confidence (Holm).",
            count(comparison.family as u64)
        )?;
    }
    for warning in &comparison.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    Ok(())
}

fn pair(out: &mut impl Write, pair: &GroupComparison, tolerance: f64) -> io::Result<()> {
    let trials = |count: usize| format!("{count} trial{}", if count == 1 { "" } else { "s" });
    writeln!(out, "  baseline  {}, {}", pair.baseline.name, trials(pair.baseline.trials.len()))?;
    writeln!(out, "  against   {}, {}", pair.other.name, trials(pair.other.trials.len()))?;
    if pair.paired {
        writeln!(out, "  compared within {} repeats", pair.trials)?;
    }
    writeln!(out, "\n  {:>10}  {:>12}  {:>12}  {:<34} answer", "", "baseline", "against", "change")?;
    for statistic in &pair.statistics {
        let shown = |value: f64| level(statistic.unit, value);
        writeln!(
            out,
            "  {:>10}  {:>12}  {:>12}  {:<34} {}",
            statistic.statistic,
            shown(statistic.baseline.median),
            shown(statistic.other.median),
            change(statistic),
            answer(statistic, tolerance),
        )?;
    }
    if pair.statistics.iter().any(|statistic| statistic.answer == Answer::SingleTrial) {
        writeln!(
            out,
            "  With a single trial in a group, a difference of the device cannot be separated from one of the trial: \
             repeat both."
        )?;
    }
    Ok(())
}
