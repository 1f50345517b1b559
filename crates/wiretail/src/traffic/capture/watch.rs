//! Detects the end of a capture and displays its progress, for every kind of tap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wiretail_report::format;

use super::SETTLE;
use crate::cli::traffic::CaptureArgs;
use crate::traffic::live::ProgressLine;

/// Watches a capture from its start.
pub(super) struct Watch<'a> {
    begun: Instant,
    end: Option<Duration>,
    /// Requested packets per tap.
    most: u64,
    /// Time at which the first tap reached that number.
    full_since: Option<Instant>,
    stop: &'a AtomicBool,
    progress: ProgressLine,
}

impl<'a> Watch<'a> {
    /// Starts watching.
    pub(super) fn begin(arguments: &CaptureArgs, end: Option<Duration>, stop: &'a AtomicBool) -> Self {
        let most = arguments.packets.map_or(u64::MAX, Into::into);
        Self { begun: Instant::now(), end, most, full_since: None, stop, progress: ProgressLine::new() }
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Sleeps for `pause`, or until the capture's duration is over.
    pub(super) fn sleep(&self, pause: Duration) {
        let left = self.end.map_or(pause, |end| end.saturating_sub(self.elapsed()));
        thread::sleep(pause.min(left));
    }

    /// Updates the progress line, and returns whether a signal, the duration, or the number of packets ends
    /// the capture. After one tap has seen the requested number of packets, the capture continues for a short
    /// time, because other taps may see their packets later or see fewer packets.
    pub(super) fn is_over(&mut self, seen: &[u64]) -> bool {
        self.progress.show(&|| {
            let seen: Vec<String> = seen.iter().map(|packets| format::count(*packets)).collect();
            format!("{} packets", seen.join(" and "))
        });
        if seen.iter().any(|packets| *packets >= self.most) {
            self.full_since.get_or_insert_with(Instant::now);
        }
        let is_full = self.full_since.is_some_and(|since| since.elapsed() >= SETTLE)
            || seen.iter().all(|packets| *packets >= self.most);
        is_full || self.end.is_some_and(|end| self.elapsed() >= end) || self.stop.load(Ordering::Relaxed)
    }

    /// Removes the progress line, and returns the duration of the capture.
    pub(super) fn finish(mut self) -> Duration {
        self.progress.clear();
        self.elapsed()
    }
}
