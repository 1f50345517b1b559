//! The results of a comparison in words, for pages and for the terminal.

use wiretail_schema::comparison::{Answer, LevelUnit, StatisticComparison};

use crate::format;

/// Larger relative changes are shown as a factor.
const FACTOR_MIN: f64 = 2.0;

/// Formats a level: "12.4 µs", "0.1 %".
pub fn level(unit: LevelUnit, value: f64) -> String {
    match unit {
        LevelUnit::Ns => format::duration(value),
        LevelUnit::Ratio => format::ratio(value),
    }
}

/// Formats a change with its interval: "+12 % [+8 % … +16 %]".
pub fn change(statistic: &StatisticComparison) -> String {
    let shown = |value: f64| signed(statistic.unit, value);
    match (statistic.change_low, statistic.change_high) {
        (Some(low), Some(high)) => format!("{} [{} … {}]", shown(statistic.change), shown(low), shown(high)),
        _ => shown(statistic.change),
    }
}

/// Rounds to three significant digits.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn signed(unit: LevelUnit, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    let size = value.abs();
    match unit {
        LevelUnit::Ns if value >= FACTOR_MIN => format!("×{}", format::short(three_digits(1.0 + value))),
        // One digit below 10 %, so that the tolerance of 5 % can be compared.
        LevelUnit::Ns if size < 0.1 => format!("{sign}{:.1} %", size * 100.0),
        LevelUnit::Ns => format!("{sign}{:.0} %", size * 100.0),
        LevelUnit::Ratio => format!("{sign}{}", format::ratio(size)),
    }
}

/// The answer to whether the group is worse than the baseline.
pub fn answer(statistic: &StatisticComparison, tolerance: f64) -> String {
    let at_most = statistic.change_high.map_or(String::new(), |high| match signed(statistic.unit, high) {
        high if high.starts_with('−') => String::new(),
        high if high.starts_with('×') => format!("; at most {high}"),
        high => format!("; at most {} worse", high.trim_start_matches('+')),
    });
    match statistic.answer {
        Answer::Better => "better".to_owned(),
        Answer::Worse => "WORSE".to_owned(),
        Answer::NotWorse => format!("not worse by more than {} %{at_most}", format::short(tolerance * 100.0)),
        Answer::NotSeparated => format!("no difference found{at_most}"),
        Answer::TooFewTrials { needed } => format!("UNDECIDED: needs {needed} trials a group"),
        Answer::SingleTrial => "UNDECIDED: a single trial".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::comparison::GroupLevel;

    use super::*;

    fn statistic(change: [f64; 3], answer: Answer) -> StatisticComparison {
        let level = GroupLevel {
            median: 1e4,
            low: None,
            high: None,
            smallest: 9e3,
            largest: 2e4,
            next_low: None,
            next_high: None,
        };
        StatisticComparison {
            statistic: "p99.9".to_owned(),
            unit: LevelUnit::Ns,
            baseline: level,
            other: level,
            change: change[1],
            change_low: Some(change[0]),
            change_high: Some(change[2]),
            confidence: 95.0,
            p_value: None,
            adjusted_p_value: None,
            answer,
        }
    }

    #[test]
    fn answers_say_what_is_excluded() {
        let worse = statistic([0.08, 0.12, 0.16], Answer::Worse);
        assert_eq!(
            (change(&worse).as_str(), answer(&worse, 0.05).as_str()),
            ("+12 % [+8.0 % … +16 %]", "WORSE")
        );
        let same = statistic([-0.03, 0.001, 0.02], Answer::NotWorse);
        assert_eq!(change(&same), "+0.1 % [−3.0 % … +2.0 %]");
        assert_eq!(answer(&same, 0.05), "not worse by more than 5 %; at most 2.0 % worse");
        let open = StatisticComparison { change_low: None, change_high: None, ..same };
        assert_eq!(change(&open), "+0.1 %");
        let few = StatisticComparison { answer: Answer::TooFewTrials { needed: 9 }, ..open };
        assert_eq!(answer(&few, 0.05), "UNDECIDED: needs 9 trials a group");
        let huge = statistic([1.5, 13.2, 1668.4], Answer::Worse);
        assert_eq!(
            change(&huge).replace(format::SPACE, " "),
            "×14.2 [+150 % … ×1670]".replace("1670", &format::short(1670.0))
        );
    }
}
