//! One line for each piece of work that takes a while: what it is, how far it is, how long it took.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that turns while work is done, and says at its end how long that took. Where
/// standard error is no terminal, the last line only.
pub struct Spinner {
    what: String,
    started: Instant,
    drawn: Option<ProgressBar>,
}

impl Spinner {
    /// Work that begins now.
    pub fn new(what: &str) -> Self {
        let drawn = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length();
            bar.set_draw_target(ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("  {spinner} {prefix}  {elapsed}  {wide_msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            bar
        });
        Self { what: what.to_owned(), started: Instant::now(), drawn }
    }

    /// Says how far it is.
    pub fn show(&mut self, state: &str) {
        if let Some(bar) = &self.drawn {
            bar.set_message(state.to_owned());
        }
    }

    /// Shows that it goes on.
    pub fn tick(&mut self) {
        if let Some(bar) = &self.drawn {
            bar.tick();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.drawn {
            bar.finish_and_clear();
        }
        eprintln!("  {}  {:.1} s", self.what, self.started.elapsed().as_secs_f64());
    }
}
