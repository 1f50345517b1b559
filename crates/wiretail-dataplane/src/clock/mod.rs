//! The two clocks of a trial. Departures are planned with CLOCK_MONOTONIC, but the kernel's packet timestamps
//! use CLOCK_REALTIME.

pub mod pauses;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Number of readings: enough that at least one of them is not interrupted.
const SANDWICHES: usize = 64;

/// CLOCK_MONOTONIC in ns. Takes 25 to 40 ns if the vDSO can read the clock without a system call.
#[inline]
pub fn monotonic_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// The clock of a loop that waits for times. Tests of such a loop have a clock that follows a script.
pub(crate) trait Clock {
    /// The current time in ns. It never goes back.
    fn now_ns(&mut self) -> u64;

    /// Sleeps until this time in ns, or less long.
    fn sleep_until(&mut self, time_ns: u64);
}

/// CLOCK_MONOTONIC.
pub(crate) struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    fn sleep_until(&mut self, time_ns: u64) {
        sleep_until(time_ns);
    }
}

/// Sleeps until this time of CLOCK_MONOTONIC, in ns. A signal ends the sleep early.
pub(crate) fn sleep_until(time_ns: u64) {
    let time = Timespec { tv_sec: (time_ns / 1_000_000_000) as i64, tv_nsec: (time_ns % 1_000_000_000) as _ };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

/// CLOCK_REALTIME in ns since 1970, the clock of the kernel's packet timestamps.
#[inline]
pub fn realtime_ns() -> u64 {
    ns(clock_gettime(ClockId::Realtime))
}

#[inline]
fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Offset of CLOCK_REALTIME relative to CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// In ns. Add this to a monotonic time to get the real time.
    pub realtime_minus_monotonic_ns: i64,
    /// The true offset lies within plus or minus this many ns.
    pub uncertainty_ns: u64,
}

/// Reads the real time between two readings of the monotonic clock, several times, and returns the most
/// precise result. It is valid until the real time is set or slewed; measure the offset before and after a
/// trial.
pub fn clock_offset() -> ClockOffset {
    let sandwich = |_| {
        let before = monotonic_ns();
        let real = realtime_ns();
        let after = monotonic_ns();
        let half = (after - before) / 2;
        ClockOffset {
            realtime_minus_monotonic_ns: real as i64 - (before + half) as i64,
            uncertainty_ns: half.max(1),
        }
    };
    let first = sandwich(0);
    (1..SANDWICHES)
        .map(sandwich)
        .fold(first, |best, next| if next.uncertainty_ns < best.uncertainty_ns { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_converts_between_clocks() {
        let offset = clock_offset();
        let monotonic = monotonic_ns();
        let real = realtime_ns();
        let converted = monotonic as i64 + offset.realtime_minus_monotonic_ns;
        // A second is far more than any scheduling gap and far less than the offset between the clocks.
        assert!((real as i64 - converted).abs() < 1_000_000_000);
    }

    #[test]
    fn monotonic_clock_does_not_go_back() {
        let readings: Vec<u64> = (0..1000).map(|_| monotonic_ns()).collect();
        assert!(readings.is_sorted());
    }
}
