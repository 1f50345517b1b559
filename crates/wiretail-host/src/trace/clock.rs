//! The clocks of traces and packets, and the offset between them.

use rustix::time::{ClockId, Timespec, clock_gettime};
use wiretail_schema::causes::trace::ClockOffset;

/// Number of readings, which take about 50 µs in total. The reading with the smallest uncertainty is used.
const READINGS: usize = 500;

/// CLOCK_MONOTONIC in ns. The trace clock `mono` is the same clock.
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

fn ns(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Offset between CLOCK_REALTIME and CLOCK_MONOTONIC. CLOCK_REALTIME is read between two readings of
/// CLOCK_MONOTONIC, which bounds the error.
pub fn clock_offset() -> ClockOffset {
    let reading = |_| {
        let before = now_ns();
        let real = ns(clock_gettime(ClockId::Realtime));
        let width = now_ns().saturating_sub(before);
        let at_ns = before + width / 2;
        ClockOffset {
            at_ns,
            offset_ns: real.saturating_sub_unsigned(at_ns),
            uncertainty_ns: width.div_ceil(2),
        }
    };
    (0..READINGS).map(reading).min_by_key(|reading| reading.uncertainty_ns).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_matches_current_clocks() {
        let offset = clock_offset();
        let since_1970 = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as i64;
        let by_offset = now_ns() as i64 + offset.offset_ns;
        // The wide limit allows for a clock that is set between the two readings.
        assert!(since_1970.abs_diff(by_offset) < 60_000_000_000, "{since_1970} {by_offset}");
        assert!(offset.at_ns <= now_ns());
    }
}
