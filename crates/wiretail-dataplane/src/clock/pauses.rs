//! Pauses of a trial, as its busy-polling loops see them: when to sleep, and when to be awake again.
//!
//! The load generator announces its start ([`PauseClock::announce`]); all pauses follow from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wiretail_schema::run::pauses::Pauses;

use crate::clock::clock_offset;

/// A loop wakes up this long before the end of a pause, in ns. The kernel wakes a thread up to 60 µs late, and
/// the hypervisor may delay the timer.
pub const WAKE_NS: u64 = 1_000_000;

/// A forwarder keeps polling for this time after a pause has begun, in ns. Packets that are still in flight
/// then need not wake it.
pub const GUARD_NS: u64 = 5_000_000;

/// Interval at which a loop that waits for the announcement checks for it, in ns.
const LOOK_NS: u64 = 10_000_000;

/// The pauses of a trial, and the start of the current trial once it is announced. Clones share the
/// announcement.
#[derive(Debug, Clone, Default)]
pub struct PauseClock {
    /// Relative to the start.
    plan: Pauses,
    /// CLOCK_MONOTONIC in ns; 0 before the announcement.
    start_ns: Arc<AtomicU64>,
}

impl PauseClock {
    /// Creates a clock for pauses relative to a start that is not known yet.
    pub fn new(plan: Pauses) -> Self {
        Self { plan, start_ns: Arc::default() }
    }

    /// The pauses, relative to the start of a trial.
    pub fn plan(&self) -> &Pauses {
        &self.plan
    }

    /// Time from the announcement to the first departure, in ns; 0 without pauses. It is longer than a pause, so
    /// that ordinary tasks run before the first sending phase as well.
    pub fn lead_ns(&self) -> u64 {
        if self.plan.is_empty() { 0 } else { self.plan.length_ns() + WAKE_NS }
    }

    /// How long a trial takes that sends for `duration_ns`, from its announcement to its end, in ns.
    pub fn lasting_ns(&self, duration_ns: u64) -> u64 {
        duration_ns.saturating_add(self.plan.total_ns()).saturating_add(self.lead_ns())
    }

    /// Announces the time of the first departure, CLOCK_MONOTONIC in ns.
    pub fn announce(&self, start_ns: u64) {
        self.start_ns.store(start_ns, Ordering::Relaxed);
    }

    /// Withdraws the announcement, before another trial.
    pub fn withdraw(&self) {
        self.start_ns.store(0, Ordering::Relaxed);
    }

    /// The pauses of the current trial, in ns since 1970: the clock of the packet timestamps. `None` if there
    /// are none, or before the announcement.
    pub fn announced(&self) -> Option<Pauses> {
        let start_ns = self.start_ns.load(Ordering::Relaxed);
        let shift_ns = start_ns as i64 + clock_offset().realtime_minus_monotonic_ns;
        (start_ns > 0 && !self.plan.is_empty()).then(|| self.plan.shifted(shift_ns))
    }
}

/// When a polling loop may sleep. It sleeps before the first announcement, until shortly before the start, and
/// in pauses.
#[derive(Debug)]
pub(crate) struct Rest {
    clock: PauseClock,
    /// The announcement that `awake_until_ns` belongs to.
    start_ns: u64,
    awake_until_ns: u64,
}

impl Rest {
    pub(crate) fn new(clock: PauseClock) -> Self {
        let awake_until_ns = if clock.plan.is_empty() { u64::MAX } else { 0 };
        Self { clock, start_ns: 0, awake_until_ns }
    }

    /// Returns the time until which the loop may sleep; `None` if it must keep polling. Times are
    /// CLOCK_MONOTONIC in ns.
    #[inline]
    pub(crate) fn until(&mut self, now_ns: u64) -> Option<u64> {
        let start_ns = self.clock.start_ns.load(Ordering::Relaxed);
        if now_ns < self.awake_until_ns && start_ns == self.start_ns {
            None
        } else {
            self.look(now_ns, start_ns)
        }
    }

    #[cold]
    fn look(&mut self, now_ns: u64, start_ns: u64) -> Option<u64> {
        let plan = self.clock.plan;
        self.start_ns = start_ns;
        self.awake_until_ns = u64::MAX;
        if plan.is_empty() {
            return None;
        }
        if start_ns == 0 {
            self.awake_until_ns = 0;
            return Some(now_ns + LOOK_NS);
        }
        let begin_ns = start_ns.saturating_sub(WAKE_NS);
        if now_ns < begin_ns {
            self.awake_until_ns = 0;
            return Some(begin_ns);
        }
        // A loop that wakes up before the end of a pause stays awake until the next one.
        let pauses = plan.shifted(start_ns as i64);
        let pause = pauses.get(pauses.ended((now_ns + WAKE_NS) as i64))?;
        let (from_ns, to_ns) =
            (pause.start_ns as u64 + GUARD_NS, (pause.end_ns as u64).saturating_sub(WAKE_NS));
        if now_ns < from_ns {
            self.awake_until_ns = from_ns;
            return None;
        }
        self.awake_until_ns = 0;
        Some(to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000_000_000;

    fn clock() -> PauseClock {
        PauseClock::new(Pauses::plan(1500 * MS, 500 * MS, 100 * MS))
    }

    #[test]
    fn rests_before_the_start_and_in_pauses_only() {
        let clock = clock();
        let mut rest = Rest::new(clock.clone());
        assert_eq!(rest.until(7), Some(7 + LOOK_NS), "the start is not known");
        clock.announce(START);
        let ms = |at: u64| START + at * MS;
        let expected = [
            (START - 300 * MS, Some(START - WAKE_NS)),
            (START - WAKE_NS, None),
            (START, None),
            (ms(500), None),
            (ms(504), None),
            (ms(505), Some(ms(599))),
            (ms(550), Some(ms(599))),
            (ms(599), None),
            (ms(600), None),
            (ms(1104), None),
            (ms(1105), Some(ms(1199))),
            (ms(1200), None),
            (ms(5000), None),
        ];
        for (now_ns, until) in expected {
            assert_eq!(rest.until(now_ns), until, "{now_ns}");
        }
        // The next trial of the same device.
        clock.announce(START + 10_000 * MS);
        assert_eq!(rest.until(ms(5001)), Some(ms(9999)));
        assert_eq!(rest.until(ms(10_000)), None);
        assert_eq!(rest.until(ms(10_510)), Some(ms(10_599)));
        clock.withdraw();
        assert_eq!((rest.until(ms(10_601)), clock.announced()), (Some(ms(10_601) + LOOK_NS), None));
    }

    #[test]
    fn answers_do_not_depend_on_when_the_loop_asked_before() {
        let clock = clock();
        clock.announce(START);
        let mut walking = Rest::new(clock.clone());
        for step in 0..4000 {
            let now_ns = START - 200 * MS + step * MS / 2;
            assert_eq!(walking.until(now_ns), Rest::new(clock.clone()).until(now_ns), "{now_ns}");
        }
    }

    #[test]
    fn without_pauses_a_loop_never_rests() {
        let mut rest = Rest::new(PauseClock::default());
        assert_eq!((rest.until(5), rest.until(u64::MAX - 1)), (None, None));
        assert_eq!(PauseClock::default().announced(), None);
        assert_eq!(clock().announced(), None);
        assert_eq!(PauseClock::default().lasting_ns(9), 9);
        assert_eq!(clock().lasting_ns(1500 * MS), 1500 * MS + 2 * 100 * MS + 101 * MS);
    }
}
