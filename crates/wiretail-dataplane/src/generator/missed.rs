//! Departures that the generator missed.
//!
//! A generator is late for two reasons: its core was taken away, or departures are planned closer together than
//! packets can be passed to the kernel. Only the first reason causes missed departures. The second one is part
//! of the plan, so the time to send the preceding packets is subtracted from the lateness.

use crate::generator::plan::{GeneratorPlan, LatePolicy, Pacing, Pattern};
use crate::generator::schedule::{SECOND_NS, Schedule};

/// Time to pass one packet to the kernel, in ns. Median of packet sockets on a two-core virtual machine: 1.25 us
/// if it is idle, 1.8 us if other programs use its caches.
const HANDOVER_NS: u64 = 2_000;

/// [`LatePolicy::Shift`] ignores delays up to this many ns, about ten readings of the clock. Without it, the
/// readings between departure time and departure would add up and lower the rate.
const SHIFT_TOLERANCE_NS: u64 = 500;

/// Time that the kernel takes to wake a sleeping generator, in ns. Measured on virtual machines: 10 to 60 us.
const WAKE_NS: u64 = 100_000;

/// A planned departure. Both times are CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departure {
    /// Intended time.
    pub(super) due_ns: u64,
    /// Earliest time at which a generator that keeps its core can send the first packet with this intended
    /// time.
    pub(super) earliest_ns: u64,
}

/// The planned departures of all packets, in order.
pub(super) struct Departures {
    schedule: Schedule,
    start_ns: u64,
    /// Time that each packet takes at most, in ns.
    step_ns: u64,
    /// Time at which all packets so far are sent if the generator keeps its core.
    free_ns: u64,
    last: Departure,
}

impl Departures {
    pub(super) fn new(plan: &GeneratorPlan, start_ns: u64) -> Self {
        // If a packet took a mean gap or longer, the earliest departures would fall behind the schedule without
        // limit, and a rate that the generator cannot reach would not show.
        let step_ns = match mean_gap_ns(plan) {
            0 => HANDOVER_NS,
            gap_ns => HANDOVER_NS.min(gap_ns - gap_ns / 8),
        };
        let last = Departure { due_ns: u64::MAX, earliest_ns: u64::MAX };
        Self { schedule: Schedule::of(plan), start_ns, step_ns, free_ns: 0, last }
    }
}

impl Iterator for Departures {
    type Item = Departure;

    #[inline]
    fn next(&mut self) -> Option<Departure> {
        let due_ns = self.start_ns + self.schedule.next()?;
        if due_ns != self.last.due_ns {
            self.last = Departure { due_ns, earliest_ns: due_ns.max(self.free_ns) };
        }
        self.free_ns = self.free_ns.max(due_ns) + self.step_ns;
        Some(self.last)
    }
}

/// Limit beyond which a departure is missed.
pub(super) struct LateLimit {
    tolerance_ns: u64,
    /// Intended time of the packet that was sent last. Other packets with this time are in time.
    begun_ns: u64,
}

impl LateLimit {
    /// Returns the limit of a plan. A departure is missed if it takes place more than a tolerance after its
    /// earliest possible time:
    ///
    /// - [`LatePolicy::Skip`]: half a gap of the pattern. At least half a gap then remains before the next
    ///   departure. At high rates, the tolerance is the time to pass a packet to the kernel.
    /// - [`LatePolicy::Shift`]: about ten readings of the clock.
    /// - [`LatePolicy::CatchUp`]: no departure is missed.
    ///
    /// The tolerance of a generator that sleeps is at least the time that the kernel takes to wake it.
    pub(super) fn new(plan: &GeneratorPlan) -> Self {
        let spinning_ns = match plan.late_policy {
            LatePolicy::CatchUp => u64::MAX,
            LatePolicy::Skip => HANDOVER_NS.max(usual_gap_ns(plan) / 2),
            LatePolicy::Shift => SHIFT_TOLERANCE_NS,
        };
        let tolerance_ns = match plan.pacing {
            Pacing::Spin => spinning_ns,
            Pacing::Sleep => spinning_ns.max(WAKE_NS),
        };
        Self { tolerance_ns, begun_ns: u64::MAX }
    }

    /// The tolerance in ns; `None` if no departure is missed.
    pub(super) fn tolerance_ns(&self) -> Option<u64> {
        (self.tolerance_ns < u64::MAX).then_some(self.tolerance_ns)
    }

    /// Delay after the earliest possible time in ns, if the departure is missed; `None` if it is in time.
    #[inline]
    pub(super) fn missed_by(&self, departure: Departure, now_ns: u64) -> Option<u64> {
        let delay_ns = now_ns.saturating_sub(departure.earliest_ns);
        (delay_ns > self.tolerance_ns && departure.due_ns != self.begun_ns).then_some(delay_ns)
    }

    /// Notes that packets up to this one are sent.
    #[inline]
    pub(super) fn begin(&mut self, departure: Departure) {
        self.begun_ns = departure.due_ns;
    }
}

/// Mean time from one packet to the next in ns, without silent phases.
fn mean_gap_ns(plan: &GeneratorPlan) -> u64 {
    match &plan.recording {
        Some(recording) => recording.duration_ns() / (recording.packets() - 1).max(1),
        None => SECOND_NS / plan.pattern.rate_pps(),
    }
}

/// Usual time from one intended departure to the next different one, in ns: the mean of a pattern, without
/// silent phases, or the median of a recording. The mean of a recording depends on its longest gaps.
fn usual_gap_ns(plan: &GeneratorPlan) -> u64 {
    match (&plan.recording, plan.pattern) {
        (Some(recording), _) => recording.median_gap_ns(),
        (None, Pattern::Bursts { rate_pps, burst }) => SECOND_NS * u64::from(burst) / rate_pps,
        (None, pattern) => SECOND_NS / pattern.rate_pps(),
    }
}
