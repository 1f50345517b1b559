//! Counters that a hot loop writes and others read while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

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
        }
    }

    /// Publishes the writer's own counts. Plain stores: there is one writer, so no locked addition.
    #[inline]
    pub(crate) fn publish(&self, reading: &CounterReading) {
        self.received.store(reading.received, Ordering::Relaxed);
        self.sent.store(reading.sent, Ordering::Relaxed);
        self.sent_bytes.store(reading.sent_bytes, Ordering::Relaxed);
        self.late.store(reading.late, Ordering::Relaxed);
        self.failed.store(reading.failed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read() {
        let counters = SharedCounters::default();
        let reading = CounterReading { received: 1, sent: 2, sent_bytes: 3, late: 4, failed: 5 };
        counters.publish(&reading);
        assert_eq!(counters.read(), reading);
    }
}
