//! Counters that a packet loop writes and other threads read while it runs.

pub mod lateness;
pub mod stalls;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time limit of [`SharedCounters::ask`]. The loop may have ended or lost its core.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Live counters of a packet loop: one thread writes them, any other thread can read them at any time.
///
/// Aligned to two cache lines, because processors fetch lines in pairs. Without this alignment, changes of
/// adjacent memory would slow down the writer.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SharedCounters {
    received: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    late: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    oversize: AtomicU64,
    asked: AtomicBool,
}

/// Counter values at one moment. Each value is exact, but values may have been read at slightly different
/// times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// Packets taken from the receiving port.
    pub received: u64,
    /// Packets passed to the kernel.
    pub sent: u64,
    /// Bytes of the sent packets, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that departed later than the plan's limit.
    pub late: u64,
    /// Packets that were not sent because their departure was missed.
    pub skipped: u64,
    /// Packets that the kernel rejected.
    pub failed: u64,
    /// Packets that the receiving port dropped for lack of room, as of the last reply to
    /// [`SharedCounters::ask`].
    pub dropped: u64,
    /// Packets longer than a slot. They were not sent.
    pub oversize: u64,
}

impl SharedCounters {
    /// Reads the current values.
    pub fn read(&self) -> CounterReading {
        CounterReading {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            oversize: self.oversize.load(Ordering::Relaxed),
        }
    }

    /// Asks the loop to query the drop counters of its ports and to publish all counters, so that all values
    /// belong to the same moment. The query takes system calls. Returns the values published last if the loop
    /// does not reply within a second.
    pub fn ask(&self) -> CounterReading {
        self.asked.store(true, Ordering::Release);
        let begun = Instant::now();
        while self.asked.load(Ordering::Acquire) && begun.elapsed() < ANSWER_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.read()
    }

    /// Whether a reply is requested.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Publishes the requested values.
    pub(crate) fn answer(&self, reading: &CounterReading) {
        self.publish(reading);
        self.asked.store(false, Ordering::Release);
    }

    /// Publishes the writer's counts with plain stores. Atomic increments are not needed because there is
    /// only one writer.
    #[inline]
    pub(crate) fn publish(&self, reading: &CounterReading) {
        self.received.store(reading.received, Ordering::Relaxed);
        self.sent.store(reading.sent, Ordering::Relaxed);
        self.sent_bytes.store(reading.sent_bytes, Ordering::Relaxed);
        self.late.store(reading.late, Ordering::Relaxed);
        self.skipped.store(reading.skipped, Ordering::Relaxed);
        self.failed.store(reading.failed, Ordering::Relaxed);
        self.dropped.store(reading.dropped, Ordering::Relaxed);
        self.oversize.store(reading.oversize, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_published_values() {
        let counters = SharedCounters::default();
        let reading = CounterReading {
            received: 1,
            sent: 2,
            sent_bytes: 3,
            late: 4,
            skipped: 5,
            failed: 6,
            dropped: 7,
            oversize: 8,
        };
        counters.publish(&reading);
        assert_eq!(counters.read(), reading);
    }

    #[test]
    fn ask_returns_values_published_afterwards() {
        let counters = SharedCounters::default();
        let reading = CounterReading { received: 1, dropped: 2, ..CounterReading::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !counters.is_asked() {
                    std::thread::yield_now();
                }
                counters.answer(&reading);
            });
            assert_eq!(counters.ask(), reading);
        });
        assert!(!counters.is_asked());
    }
}
