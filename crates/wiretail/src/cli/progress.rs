//! A progress bar on the terminal for long operations.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter operations show no bar.
const DELAY: Duration = Duration::from_millis(400);
const REDRAW: Duration = Duration::from_millis(100);

/// Number of bytes read, updated by the readers and shown by the thread that waits for them.
pub struct Progress {
    bytes: AtomicU64,
    total: Option<u64>,
    wanted: bool,
    started: Instant,
}

impl Progress {
    /// Creates a progress towards `total` bytes, if known; shown if `wanted` and standard error is a
    /// terminal.
    pub fn new(total: Option<u64>, wanted: bool) -> Self {
        let wanted = wanted && std::io::stderr().is_terminal();
        Self { bytes: AtomicU64::new(0), total, wanted, started: Instant::now() }
    }

    /// Adds `bytes` to the number of bytes read.
    pub fn advance(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bar, for one thread to draw at intervals.
    pub fn bar(&self) -> Bar<'_> {
        Bar { progress: self, drawn: None, next: self.started + DELAY }
    }
}

/// The display of a [`Progress`].
pub struct Bar<'a> {
    progress: &'a Progress,
    drawn: Option<ProgressBar>,
    next: Instant,
}

impl Bar<'_> {
    /// Draws the bar if it is due.
    pub fn draw(&mut self) {
        if !self.progress.wanted || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + REDRAW;
        let bar = self.drawn.get_or_insert_with(|| new_bar(self.progress.total));
        bar.set_position(self.progress.bytes.load(Ordering::Relaxed));
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.drawn {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "  {bar:40} {percent:>3} %  {binary_bytes_per_sec}  {eta} left")
        }
        None => (ProgressBar::no_length(), "  {spinner} {binary_bytes} read  {binary_bytes_per_sec}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
