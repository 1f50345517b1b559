//! When a capture is over, and what is shown until then: the same for every kind of tap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wiretail_report::format;

use super::SETTLE;
use crate::cli::traffic::CaptureArgs;
use crate::traffic::live::ProgressLine;

/// Watches a capture, from its beginning.
pub(super) struct Watch<'a> {
    begun: Instant,
    end: Option<Duration>,
    /// Packets of each tap that are wanted.
    most: u64,
    /// Since when one tap has them.
    full_since: Option<Instant>,
    stop: &'a AtomicBool,
    progress: ProgressLine,
}

impl<'a> Watch<'a> {
    /// Begins.
    pub(super) fn begin(arguments: &CaptureArgs, end: Option<Duration>, stop: &'a AtomicBool) -> Self {
        let most = arguments.packets.map_or(u64::MAX, Into::into);
        Self { begun: Instant::now(), end, most, full_since: None, stop, progress: ProgressLine::new() }
    }

    /// How long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Sleeps so long, or until its time is over.
    pub(super) fn sleep(&self, pause: Duration) {
        let left = self.end.map_or(pause, |end| end.saturating_sub(self.elapsed()));
        thread::sleep(pause.min(left));
    }

    /// Shows what the taps have seen, and says whether a signal, the time or the number of packets ends it: one
    /// tap may see fewer packets than another.
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

    /// Takes the line away; returns how long the capture took.
    pub(super) fn finish(mut self) -> Duration {
        self.progress.clear();
        self.elapsed()
    }
}
