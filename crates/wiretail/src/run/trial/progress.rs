//! Displays the progress of a run: one line that is redrawn if standard error is a terminal, otherwise one
//! line per trial.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use wiretail_dataplane::counters::CounterReading;
use wiretail_report::format::{count, duration};
use wiretail_schema::experiment::Trial;

use crate::run::trial::soak::LiveStats;

/// Time that a trial takes in addition to sending. It covers building the testbed, starting the device and
/// evaluating the captures.
pub const AROUND: Duration = Duration::from_millis(1500);

/// Progress line for the current trial.
pub struct Line {
    head: String,
    duration: Duration,
    after: Duration,
    terminal: bool,
}

impl Line {
    /// Creates the progress line for the first of the remaining `trials`; the run has `total` trials.
    pub fn new(trials: &[&Trial], total: usize, quiet: bool) -> Self {
        let of = |trial: &&Trial| Duration::from(trial.trial.duration);
        let number = total + 1 - trials.len();
        let name = trials.first().map_or("", |trial| trial.name.as_str());
        Self {
            head: format!("[{number}/{total}] {name}"),
            duration: trials.first().map_or(Duration::ZERO, of),
            after: trials.iter().skip(1).map(|trial| of(trial) + AROUND).sum(),
            terminal: !quiet && std::io::stderr().is_terminal(),
        }
    }

    /// Creates the line for a trial of a search, whose number of trials is not known in advance.
    pub fn of_search(head: String, trial: &Trial, quiet: bool) -> Self {
        let duration = trial.trial.duration.into();
        let terminal = !quiet && std::io::stderr().is_terminal();
        Self { head, duration, after: Duration::ZERO, terminal }
    }

    /// Remaining sending time, but at least 5 ms.
    pub fn left(&self, elapsed: Duration) -> Duration {
        self.duration.saturating_sub(elapsed).max(Duration::from_millis(5))
    }

    /// Redraws the line on a terminal.
    pub fn show(&self, elapsed: Duration, sent: &CounterReading, missing: i64, live: Option<LiveStats>) {
        if !self.terminal {
            return;
        }
        let left = self.duration.saturating_sub(elapsed);
        let rate = sent.sent as f64 / elapsed.as_secs_f64().max(1e-3);
        let counted = |number, what| match number {
            0 => String::new(),
            number => format!("  {} {what}", count(number)),
        };
        let (late, skipped) = (counted(sent.late, "late"), counted(sent.skipped, "skipped"));
        let fate = match live {
            Some(live) => {
                let time = |ns: Option<i64>| ns.map_or("-".to_owned(), |ns| duration(ns as f64));
                let (p99, max) = (time(live.p99_ns_last), time(live.max_ns));
                format!("{} lost  p99 {p99}  max {max}", count(live.lost))
            }
            None => format!("{} in flight or lost", count(missing.max(0) as u64)),
        };
        self.draw(&format!(
            "{}  {} left, {} of the run  {} packets/s{late}{skipped}  {fate}",
            self.head,
            seconds(left),
            seconds(left + self.after),
            count(rate as u64),
        ));
    }

    /// Replaces the line with the trial's outcome.
    pub fn end(&self, outcome: &str) {
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{start}{}  {outcome}", self.head);
    }

    fn draw(&self, text: &str) {
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}

/// Formats a time such as "2 h 5 min" or "12 s".
pub fn seconds(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_short_times() {
        assert_eq!(seconds(Duration::from_secs(7500)), "2 h 5 min");
        assert_eq!(seconds(Duration::from_secs(61)), "1 min 1 s");
    }
}
