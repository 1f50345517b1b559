//! The trace's clock and that of packets.

use rustix::time::{ClockId, Timespec, clock_gettime};
use wiretail_schema::causes::trace::ClockOffset;

/// Readings of which the narrowest counts: some 50 µs in all.
const READINGS: usize = 500;

/// CLOCK_MONOTONIC, which is the trace's clock `mono`, in ns.
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

fn ns(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// CLOCK_REALTIME against CLOCK_MONOTONIC, sandwiched.
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
    fn the_offset_is_that_of_now() {
        let offset = clock_offset();
        let since_1970 = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as i64;
        let by_offset = now_ns() as i64 + offset.offset_ns;
        // A clock that is set between the two lines is no fault of this.
        assert!(since_1970.abs_diff(by_offset) < 60_000_000_000, "{since_1970} {by_offset}");
        assert!(offset.at_ns <= now_ns());
    }
}
