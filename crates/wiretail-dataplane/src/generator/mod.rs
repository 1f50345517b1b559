//! The load generator: packets at planned times, and how late each one really left.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::{monotonic_ns, sleep_until};
use crate::counters::lateness::Histogram;
use crate::counters::stalls::StallLog;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::{DataplaneError, plan as plan_error};
use crate::generator::plan::{GeneratorPlan, Pacing};
use crate::generator::schedule::Schedule;
use crate::port::TxPort;

mod batch;
pub mod frame;
pub mod marks;
pub mod plan;
pub mod recording;
pub mod schedule;

use batch::Batch;

/// From readiness to the first departure where no time is given, in ns.
const LEAD_NS: u64 = 1_000_000;

/// Handing over more packets than this at once may take as long as a stall of itself.
const STALL_BATCH_MAX: usize = 4;

/// A generator that sleeps looks this often whether it is to stop, in ns.
const SLEEP_NS_MAX: u64 = 50_000_000;

/// A load generator, ready to run.
#[derive(Debug)]
pub struct Generator<P> {
    ports: Vec<P>,
    plan: GeneratorPlan,
    batch: Batch,
}

/// What a load generator did.
#[derive(Debug, Clone)]
pub struct GeneratorReport {
    /// Packets that the port took.
    pub sent: u64,
    /// Their bytes, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that departed later than the plan's limit.
    pub late: u64,
    /// Packets that the port did not take; their ids are missing on the wire.
    pub failed: u64,
    /// The error number (errno) of the last one of these.
    pub last_error: Option<i32>,
    /// From the intended departure to the moment at which the packet is handed to the kernel.
    pub lateness: Histogram,
    /// How long handing over took, batch by batch: the kernel's part of sending. A stall in there does
    /// not show as lateness of its own packet, but of the following ones.
    pub handover: Histogram,
    /// Planned time of the first departure, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// Real time of the first departure, CLOCK_MONOTONIC in ns; None without any.
    pub first_departure_ns: Option<u64>,
    /// Real time of the last departure, CLOCK_MONOTONIC in ns; None without any.
    pub last_departure_ns: Option<u64>,
    /// It ran to the end of its plan; false: it was stopped.
    pub complete: bool,
    /// When its core was taken from it, while it waited or handed over up to four packets. Handing over
    /// more at once may take as long of itself.
    pub stalls: StallLog,
}

impl<P: TxPort> Generator<P> {
    /// Builds everything that needs memory. Streams leave through the port of their number
    /// ([`Stream::port`](crate::generator::plan::Stream::port)), a recording through the first.
    ///
    /// # Errors
    /// The plan can't be carried out, or has a stream of a port that is not there.
    pub fn new(ports: Vec<P>, plan: GeneratorPlan) -> Result<Self, DataplaneError> {
        plan.check()?;
        let last = plan.streams.iter().map(|stream| stream.port).max().unwrap_or(0);
        if last >= ports.len() {
            return Err(plan_error("port of a stream", last, "the number of a port, from 0"));
        }
        let batch = Batch::new(&plan);
        Ok(Self { ports, plan, batch })
    }

    /// Sends until the plan ends or `stop` is set, on the calling thread, which busy-waits unless the plan's
    /// [`Pacing`] says otherwise: put it in its [`Placement`](crate::placement::Placement) first.
    pub fn run(mut self, stop: &AtomicBool, counters: &SharedCounters) -> GeneratorReport {
        let plan = &self.plan;
        let start_ns = plan.start_ns.unwrap_or_else(|| monotonic_ns() + LEAD_NS);
        let mut departures = Schedule::of(plan).map(|after| start_ns + after);
        let mut report = GeneratorReport::starting_at(start_ns);
        let mut next = departures.next();
        let mut now = monotonic_ns();
        while let Some(due) = next {
            // Ready before it is due. What is due at the same time, or already late, goes with it.
            self.batch.clear();
            while let Some(due_too) = next.filter(|&at| at <= due.max(now) && self.batch.has_room()) {
                self.batch.push(due_too);
                next = departures.next();
            }
            if plan.pacing == Pacing::Sleep {
                sleep_towards(due, stop, &mut report.stalls);
            }
            let Some(departure) = wait_until(due, stop, &mut report.stalls) else { break };
            self.batch.hand_to(&mut self.ports);
            now = monotonic_ns();
            report.look_for_stall(now, self.batch.count());
            report.count(&self.batch, departure, plan.late_limit_ns);
            report.handover.add(now - departure);
            counters.publish(&report.reading());
        }
        report.complete = next.is_none() && !stop.load(Ordering::Relaxed);
        report.last_error = self.ports.iter().find_map(TxPort::last_error);
        report
    }
}

/// Sleeps until `due`, or until stopped. What others do with the core meanwhile is no stall.
fn sleep_towards(due: u64, stop: &AtomicBool, stalls: &mut StallLog) {
    let mut now = monotonic_ns();
    while now < due && !stop.load(Ordering::Relaxed) {
        sleep_until(due.min(now + SLEEP_NS_MAX));
        now = monotonic_ns();
        stalls.skip(now);
    }
}

/// The time, once it is not before `due`; None if stopped.
#[inline]
fn wait_until(due: u64, stop: &AtomicBool, stalls: &mut StallLog) -> Option<u64> {
    // No pause instruction: under a hypervisor it may give the processor away.
    loop {
        let now = monotonic_ns();
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

    /// `now` is the time behind a hand-over of so many packets.
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
            failed: self.failed,
            ..CounterReading::default()
        }
    }
}

#[cfg(test)]
mod tests;
