//! Counters that a hot loop writes and others read while it runs.

pub mod lateness;
pub mod stalls;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long [`SharedCounters::ask`] waits for the loop, which may be stopped or without its core.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Live counters of one hot loop: one thread writes, any other may read at any time.
///
/// Aligned to two cache lines (processors fetch them in pairs), so that what else changes in memory
/// does not slow the writer.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SharedCounters {
    received: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    oversize: AtomicU64,
    asked: AtomicBool,
}

/// What the counters said at one moment; each value by itself is exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// Packets taken from the receiving port.
    pub received: u64,
    /// Packets handed to the kernel.
    pub sent: u64,
    /// Their bytes, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that departed later than the plan's limit.
    pub late: u64,
    /// Packets that the kernel did not take.
    pub failed: u64,
    /// Packets that found no room at the receiving port, as of the last answer to [`SharedCounters::ask`].
    pub dropped: u64,
    /// Packets longer than a slot, which were not sent.
    pub oversize: u64,
}

impl SharedCounters {
    /// What the counters say now.
    pub fn read(&self) -> CounterReading {
        CounterReading {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            oversize: self.oversize.load(Ordering::Relaxed),
        }
    }

    /// Has the loop ask its ports what they dropped, which takes system calls, and publish; all values are
    /// then of one moment. A loop that does not answer within a second leaves what it published last.
    pub fn ask(&self) -> CounterReading {
        self.asked.store(true, Ordering::Release);
        let begun = Instant::now();
        while self.asked.load(Ordering::Acquire) && begun.elapsed() < ANSWER_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.read()
    }

    /// Whether somebody waits for an answer.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Publishes what was asked for.
    pub(crate) fn answer(&self, reading: &CounterReading) {
        self.publish(reading);
        self.asked.store(false, Ordering::Release);
    }

    /// Publishes the writer's own counts. Plain stores: there is one writer, so no locked addition.
    #[inline]
    pub(crate) fn publish(&self, reading: &CounterReading) {
        self.received.store(reading.received, Ordering::Relaxed);
        self.sent.store(reading.sent, Ordering::Relaxed);
        self.sent_bytes.store(reading.sent_bytes, Ordering::Relaxed);
        self.late.store(reading.late, Ordering::Relaxed);
        self.failed.store(reading.failed, Ordering::Relaxed);
        self.dropped.store(reading.dropped, Ordering::Relaxed);
        self.oversize.store(reading.oversize, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read() {
        let counters = SharedCounters::default();
        let reading = CounterReading {
            received: 1,
            sent: 2,
            sent_bytes: 3,
            late: 4,
            failed: 5,
            dropped: 6,
            oversize: 7,
        };
        counters.publish(&reading);
        assert_eq!(counters.read(), reading);
    }

    #[test]
    fn who_asks_gets_what_the_loop_then_publishes() {
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
