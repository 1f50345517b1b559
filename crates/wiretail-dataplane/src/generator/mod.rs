//! The load generator: sends packets at planned times and measures how late each one departs.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::pauses::WAKE_NS;
use crate::clock::{Clock, Monotonic};
use crate::counters::lateness::Histogram;
use crate::counters::stalls::StallLog;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::{DataplaneError, plan as plan_error};
use crate::generator::missed::{Departure, Departures, LateLimit};
use crate::generator::plan::{GeneratorPlan, LatePolicy, Pacing};
use crate::port::TxPort;

mod batch;
pub mod frame;
pub mod marks;
mod missed;
pub mod plan;
pub mod recording;
pub mod schedule;

use batch::Batch;

/// Time from readiness to the first departure if the plan gives no start time, in ns.
const LEAD_NS: u64 = 1_000_000;

/// Start of the next pause if there is none.
const NO_PAUSE_NS: u64 = u64::MAX;

/// Maximum size of a batch that is checked for stalls. Passing a larger batch can take as long as a stall.
const STALL_BATCH_MAX: usize = 4;

/// Interval at which a sleeping generator checks for a stop request, in ns.
const SLEEP_NS_MAX: u64 = 50_000_000;

/// A load generator that is ready to run.
#[derive(Debug)]
pub struct Generator<P> {
    ports: Vec<P>,
    plan: GeneratorPlan,
    batch: Batch,
}

/// Result of a load generator.
#[derive(Debug, Clone)]
pub struct GeneratorReport {
    /// Packets that the port accepted.
    pub sent: u64,
    /// Bytes of the sent packets, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that departed, or would have departed if they had not been skipped, later than the plan's limit.
    pub late: u64,
    /// Packets that were not sent because their departure was missed ([`LatePolicy::Skip`]). Their ids are
    /// missing on the wire.
    pub skipped: u64,
    /// Sum of all moves of the schedule, in ns ([`LatePolicy::Shift`]).
    pub shifted_ns: u64,
    /// A departure was missed if it was later than this, in ns. [`LatePolicy`] defines the value; `None` with
    /// [`LatePolicy::CatchUp`].
    pub tolerance_ns: Option<u64>,
    /// Packets that the port rejected. Their ids are missing on the wire.
    pub failed: u64,
    /// Error number (errno) of the last rejected packet.
    pub last_error: Option<i32>,
    /// Time from the intended departure until the packet is passed to the kernel. Earlier shifts are part of the
    /// intended departure.
    pub lateness: Histogram,
    /// Time that it takes to pass each batch to the kernel. A stall during this time is included in the
    /// lateness of the following packets, but not of the packets in the batch.
    pub handover: Histogram,
    /// Planned time of the first departure, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// Actual time of the first departure, CLOCK_MONOTONIC in ns; `None` if no packet was sent.
    pub first_departure_ns: Option<u64>,
    /// Actual time of the last departure, CLOCK_MONOTONIC in ns; `None` if no packet was sent.
    pub last_departure_ns: Option<u64>,
    /// Whether the plan was completed. False if the generator was stopped.
    pub complete: bool,
    /// Times at which the generator lost its core while it waited or passed up to four packets to the kernel.
    /// Larger batches are not checked, because passing them can take as long as a stall.
    pub stalls: StallLog,
}

impl<P: TxPort> Generator<P> {
    /// Allocates all memory. A stream is sent through the port with its number
    /// ([`Stream::port`](crate::generator::plan::Stream::port)), a recording through the first port.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid or uses a port that does not exist.
    pub fn new(ports: Vec<P>, plan: GeneratorPlan) -> Result<Self, DataplaneError> {
        plan.check()?;
        let last = plan.streams.iter().map(|stream| stream.port).max().unwrap_or(0);
        if last >= ports.len() {
            return Err(plan_error(
                "port of a stream",
                last,
                "the index of an existing port, counted from 0",
            ));
        }
        let batch = Batch::new(&plan);
        Ok(Self { ports, plan, batch })
    }

    /// Sets the time of the first departure, CLOCK_MONOTONIC in ns.
    #[must_use]
    pub fn starting_at(mut self, start_ns: u64) -> Self {
        self.plan.start_ns = Some(start_ns);
        self
    }

    /// Sends until the plan ends or `stop` is set. Runs in the calling thread, which busy-waits if the pacing
    /// is [`Pacing::Spin`]. Apply the [`Placement`](crate::placement::Placement) of the thread first.
    pub fn run(self, stop: &AtomicBool, counters: &SharedCounters) -> GeneratorReport {
        self.run_by(&mut Monotonic, stop, counters)
    }

    fn run_by(
        mut self,
        clock: &mut impl Clock,
        stop: &AtomicBool,
        counters: &SharedCounters,
    ) -> GeneratorReport {
        let plan = &self.plan;
        let policy = plan.late_policy;
        let start_ns = plan.start_ns.unwrap_or_else(|| clock.now_ns() + LEAD_NS);
        let mut departures = Departures::new(plan, start_ns);
        let mut limit = LateLimit::new(plan);
        let mut report = GeneratorReport::starting_at(start_ns);
        report.tolerance_ns = limit.tolerance_ns();
        let mut next = departures.next();
        let mut now = clock.now_ns();
        // The first packet is treated as if it followed a pause.
        let mut pause_ns = if plan.pauses.is_empty() { NO_PAUSE_NS } else { 0 };
        while let Some(first) = next {
            // Prepares the batch in advance. Packets that are due at the same time, or already late, join it.
            // Late packets that are to move with the schedule depart one after the other.
            let until = if policy == LatePolicy::Shift { first.due_ns } else { first.due_ns.max(now) };
            self.batch.begin(report.shifted_ns);
            while let Some(departure) = next.filter(|next| next.due_ns <= until && self.batch.has_room()) {
                if policy == LatePolicy::Skip && limit.missed_by(departure, now).is_some() {
                    self.batch.skip();
                    report.skip(departure, now, plan.late_limit_ns);
                } else {
                    self.batch.push(departure);
                }
                next = departures.next();
            }
            let Some(planned) = self.batch.first() else { continue };
            let due = planned.due_ns + report.shifted_ns;
            if plan.pacing == Pacing::Sleep {
                sleep_towards(clock, due, stop, &mut report.stalls);
            } else if due >= pause_ns {
                sleep_towards(clock, due.saturating_sub(WAKE_NS), stop, &mut report.stalls);
                pause_ns = next_pause_ns(plan, start_ns, due);
            }
            let Some(departure) = wait_until(clock, due, stop, &mut report.stalls) else { break };
            // The generator may have been stalled while it waited.
            match policy {
                LatePolicy::CatchUp => {}
                LatePolicy::Skip => {
                    while let Some(first) = self.batch.first()
                        && limit.missed_by(first, departure).is_some()
                    {
                        self.batch.drop_first();
                        report.skip(first, departure, plan.late_limit_ns);
                    }
                }
                LatePolicy::Shift => {
                    report.shifted_ns += limit.missed_by(planned, departure - report.shifted_ns).unwrap_or(0);
                }
            }
            let Some(last) = self.batch.last() else {
                now = departure;
                continue;
            };
            limit.begin(last);
            self.batch.hand_to(&mut self.ports);
            now = clock.now_ns();
            report.look_for_stall(now, self.batch.count());
            report.count(&self.batch, departure, plan.late_limit_ns);
            report.handover.add(now - departure);
            counters.publish(&report.reading());
        }
        counters.publish(&report.reading());
        report.complete = next.is_none() && !stop.load(Ordering::Relaxed);
        report.last_error = self.ports.iter().find_map(TxPort::last_error);
        report
    }
}

/// Start of the first pause after a time; [`NO_PAUSE_NS`] if there is none. Times are CLOCK_MONOTONIC in ns.
#[cold]
fn next_pause_ns(plan: &GeneratorPlan, start_ns: u64, at_ns: u64) -> u64 {
    let pauses = plan.pauses.shifted(start_ns as i64);
    pauses.get(pauses.ended(at_ns as i64)).map_or(NO_PAUSE_NS, |pause| pause.start_ns as u64)
}

/// Sleeps until `due` or a stop request. If other threads use the core during this time, no stall is
/// recorded.
fn sleep_towards(clock: &mut impl Clock, due: u64, stop: &AtomicBool, stalls: &mut StallLog) {
    let mut now = clock.now_ns();
    while now < due && !stop.load(Ordering::Relaxed) {
        clock.sleep_until(due.min(now + SLEEP_NS_MAX));
        now = clock.now_ns();
        stalls.skip(now);
    }
}

/// Waits until `due` and returns the time. `None` if stopped.
#[inline]
fn wait_until(clock: &mut impl Clock, due: u64, stop: &AtomicBool, stalls: &mut StallLog) -> Option<u64> {
    // No pause instruction: under a hypervisor, it may yield the processor.
    loop {
        let now = clock.now_ns();
        stalls.tick(now);
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        if now >= due {
            return Some(now);
        }
    }
}

impl GeneratorReport {
    fn starting_at(start_ns: u64) -> Self {
        Self {
            sent: 0,
            sent_bytes: 0,
            late: 0,
            skipped: 0,
            shifted_ns: 0,
            tolerance_ns: None,
            failed: 0,
            last_error: None,
            lateness: Histogram::default(),
            handover: Histogram::default(),
            start_ns,
            first_departure_ns: None,
            last_departure_ns: None,
            complete: false,
            stalls: StallLog::default(),
        }
    }

    /// Share of the schedule that was skipped or shifted, beyond the time of the stalls. It shows a rate that the
    /// generator cannot reach even if it keeps its core. Always 0 with [`LatePolicy::CatchUp`].
    pub fn overload_ratio(&self) -> f64 {
        let span_ns = self.last_departure_ns.unwrap_or(0).saturating_sub(self.start_ns).max(1) as f64;
        let planned = (self.sent + self.failed + self.skipped).max(1) as f64;
        let missed = self.skipped as f64 / planned + self.shifted_ns as f64 / span_ns;
        (missed - self.stalls.total_ns() as f64 / span_ns).clamp(0.0, 1.0)
    }

    /// Counts a packet that is skipped at this time.
    #[inline]
    fn skip(&mut self, departure: Departure, now: u64, late_limit_ns: u64) {
        self.skipped += 1;
        self.late += u64::from(now.saturating_sub(departure.due_ns) > late_limit_ns);
    }

    /// Checks for a stall. `now` is the time after passing `packets` packets to the ports.
    #[inline]
    fn look_for_stall(&mut self, now: u64, packets: usize) {
        if packets <= STALL_BATCH_MAX {
            self.stalls.tick(now);
        } else {
            self.stalls.skip(now);
        }
    }

    #[inline]
    fn count(&mut self, batch: &Batch, departure: u64, late_limit_ns: u64) {
        let before = self.sent;
        for frame in batch.handed() {
            if !frame.taken {
                self.failed += 1;
                continue;
            }
            let lateness_ns = departure - frame.due_ns;
            self.lateness.add(lateness_ns);
            self.late += u64::from(lateness_ns > late_limit_ns);
            self.sent_bytes += frame.len as u64;
            self.sent += 1;
        }
        if self.sent > before {
            self.first_departure_ns.get_or_insert(departure);
            self.last_departure_ns = Some(departure);
        }
    }

    #[inline]
    fn reading(&self) -> CounterReading {
        CounterReading {
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            late: self.late,
            skipped: self.skipped,
            failed: self.failed,
            ..CounterReading::default()
        }
    }
}

#[cfg(test)]
mod tests;
