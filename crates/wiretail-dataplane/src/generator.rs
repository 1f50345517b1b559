//! The load generator: packets at planned times, and how late each one really left.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::monotonic_ns;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::DataplaneError;
use crate::frame::{LongSignature, PORT_FIRST, Template};
use crate::lateness::Histogram;
use crate::plan::GeneratorPlan;
use crate::port::{BATCH_MAX, TxPort};
use crate::schedule::Schedule;
use crate::stalls::StallLog;

/// From readiness to the first departure where no time is given, in ns.
const LEAD_NS: u64 = 1_000_000;

/// Room for a frame in the batch, in bytes.
const FRAME_ROOM: usize = 2048;

/// Handing over more packets than this at once may take as long as a stall of itself.
const STALL_BATCH_MAX: usize = 4;

/// A load generator, ready to run.
#[derive(Debug)]
pub struct Generator<P> {
    port: P,
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
    /// Builds everything that needs memory.
    ///
    /// # Errors
    /// The plan can't be carried out.
    pub fn new(port: P, plan: GeneratorPlan) -> Result<Self, DataplaneError> {
        plan.check()?;
        let batch = Batch::new(&plan);
        Ok(Self { port, plan, batch })
    }

    /// Sends until the plan ends or `stop` is set, on the calling thread, which busy-waits: put it in its
    /// [`Placement`](crate::placement::Placement) first.
    pub fn run(mut self, stop: &AtomicBool, counters: &SharedCounters) -> GeneratorReport {
        let plan = &self.plan;
        let start_ns = plan.start_ns.unwrap_or_else(|| monotonic_ns() + LEAD_NS);
        let mut departures = Schedule::new(plan.pattern, plan.end, plan.seed).map(|after| start_ns + after);
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
            let Some(departure) = wait_until(due, stop, &mut report.stalls) else { break };
            let taken = self.batch.hand_to(&mut self.port);
            now = monotonic_ns();
            report.look_for_stall(now, self.batch.count);
            report.count(&self.batch, taken, departure, plan.late_limit_ns);
            report.handover.add(now - departure);
            counters.publish(&report.reading());
        }
        report.complete = next.is_none() && !stop.load(Ordering::Relaxed);
        report.last_error = self.port.last_error();
        report
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
    fn count(&mut self, batch: &Batch, taken: usize, departure: u64, late_limit_ns: u64) {
        for at in 0..taken {
            let lateness_ns = departure - batch.due[at];
            self.lateness.add(lateness_ns);
            self.late += u64::from(lateness_ns > late_limit_ns);
            self.sent_bytes += batch.len[at] as u64;
        }
        self.sent += taken as u64;
        self.failed += (batch.count - taken) as u64;
        if taken > 0 {
            self.first_departure_ns.get_or_insert(departure);
            self.last_departure_ns = Some(departure);
        }
    }

    #[inline]
    fn reading(&self) -> CounterReading {
        CounterReading {
            received: 0,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            late: self.late,
            failed: self.failed,
        }
    }
}

/// A stream's state and templates.
#[derive(Debug)]
struct Source {
    id: u16,
    flows: u16,
    /// Indices of templates, in the order of the size cycle.
    cycle: Vec<usize>,
    sequence: u64,
}

/// Frames that depart together.
#[derive(Debug)]
struct Batch {
    templates: Vec<Template>,
    sources: Vec<Source>,
    turn: usize,
    next_id: u32,
    /// [`BATCH_MAX`] times [`FRAME_ROOM`] bytes.
    frames: Vec<u8>,
    /// Which template's bytes stand in which place: they are copied only where that changes.
    template: [usize; BATCH_MAX],
    due: [u64; BATCH_MAX],
    len: [usize; BATCH_MAX],
    count: usize,
}

impl Batch {
    fn new(plan: &GeneratorPlan) -> Self {
        let mut templates = Vec::new();
        let mut sources = Vec::new();
        for stream in &plan.streams {
            let lengths = stream.sizes.cycle(plan.seed ^ u64::from(stream.id));
            let mut distinct = lengths.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let first = templates.len();
            templates.extend(distinct.iter().map(|&len| Template::new(&stream.addresses, len)));
            let index = |len: &u16| first + distinct.partition_point(|other| other < len);
            let cycle = lengths.iter().map(index).collect();
            sources.push(Source { id: stream.id, flows: stream.flows, cycle, sequence: 0 });
        }
        Self {
            templates,
            sources,
            turn: 0,
            next_id: plan.id_first,
            frames: vec![0; BATCH_MAX * FRAME_ROOM],
            template: [usize::MAX; BATCH_MAX],
            due: [0; BATCH_MAX],
            len: [0; BATCH_MAX],
            count: 0,
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.count < BATCH_MAX
    }

    /// Builds the next packet.
    #[inline]
    fn push(&mut self, due: u64) {
        let at = self.count;
        let source = &mut self.sources[self.turn];
        let which = source.cycle[(source.sequence % source.cycle.len() as u64) as usize];
        let template = &self.templates[which];
        let frame = &mut self.frames[at * FRAME_ROOM..(at + 1) * FRAME_ROOM];
        let len = template.bytes().len();
        if self.template[at] != which {
            frame[..len].copy_from_slice(template.bytes());
            self.template[at] = which;
        }
        let port = PORT_FIRST + (source.sequence % u64::from(source.flows)) as u16;
        let long = LongSignature { stream: source.id, sequence: source.sequence, departure_ns: due };
        template.fill(frame, port, self.next_id, &long);
        source.sequence += 1;
        self.next_id = self.next_id.wrapping_add(1);
        self.turn = if self.turn + 1 == self.sources.len() { 0 } else { self.turn + 1 };
        self.due[at] = due;
        self.len[at] = len;
        self.count += 1;
    }

    #[inline]
    fn hand_to(&self, port: &mut impl TxPort) -> usize {
        let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
        for (at, frame) in frames[..self.count].iter_mut().enumerate() {
            *frame = &self.frames[at * FRAME_ROOM..][..self.len[at]];
        }
        port.send(&frames[..self.count])
    }
}

#[cfg(test)]
mod tests;
