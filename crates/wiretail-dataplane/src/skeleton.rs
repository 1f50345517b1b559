//! The skeleton application: a forwarder that does nothing but forward, so that what is measured is the
//! infrastructure's own share. It busy-polls its rings and sends frames from where they were received.
//!
//! Known delays can be injected, to calibrate a measurement, or known [`faults`](crate::faults), to
//! check its accounting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::monotonic_ns;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::{DataplaneError, plan};
use crate::faults::{Fault, FaultSchedule};
use crate::frame::is_signed;
use crate::port::af_packet::{PacketTx, TxPlan, open_rx};
use crate::port::sys::rx_ring::RxRing;
use crate::port::{BATCH_MAX, PortSpec, TxPort};

/// Slots of a receiving ring unless asked otherwise: 8,192 packets cover a stall of 80 ms at 100 kpps.
pub const RING_SLOTS: usize = 8192;

/// A packet that is due within this time leaves before any new one is taken, in ns: more than sending
/// one takes. Else, where the delay is a multiple of the gap between packets, each delayed packet would
/// wait for one that arrives at the same time, and the delay would not be the known one.
const DUE_SOON_NS: u64 = 3_000;

/// When the packets of a batch leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// All together when all have been taken: the first waits for the last.
    Batch,
    /// Each at once.
    Immediate,
}

/// A known delay for calibration: the packet is held back, those behind it pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// How long it is held back, in ns.
    pub ns: u64,
    /// One of so many signed packets, the last of each so many; 1: all of them.
    pub every: u64,
}

/// How a skeleton forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkeletonPlan {
    /// Back as well, from the output to the input.
    pub both_ways: bool,
    /// Most packets that are taken before anything else is looked at, 1 to 64. It never waits for a
    /// batch to fill.
    pub batch: usize,
    /// When the packets of a batch leave; with a delay or faults, each at once.
    pub release: Release,
    /// How frames are sent.
    pub tx: TxPlan,
    /// Slots of each receiving ring, 2 KiB each.
    pub ring_slots: usize,
    /// Holds packets back.
    pub delay: Option<Delay>,
    /// Commits faults, on the way from input to output; not together with a delay.
    pub faults: FaultSchedule,
}

impl Default for SkeletonPlan {
    fn default() -> Self {
        Self {
            both_ways: false,
            batch: 32,
            release: Release::Immediate,
            tx: TxPlan::default(),
            ring_slots: RING_SLOTS,
            delay: None,
            faults: FaultSchedule::default(),
        }
    }
}

/// What a skeleton did; all ways together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkeletonReport {
    /// Packets taken from the rings.
    pub received: u64,
    /// Packets handed to the kernel; copies count.
    pub sent: u64,
    /// Packets that found a ring full.
    pub dropped: u64,
    /// Packets that the kernel did not take for sending.
    pub failed: u64,
    /// Packets longer than a slot, which were not sent: segmentation offload has to be off.
    pub oversize: u64,
    /// Packets that were held back.
    pub delayed: u64,
    /// Packets that were dropped on purpose.
    pub faults_dropped: u64,
    /// Packets that were sent twice on purpose.
    pub faults_duplicated: u64,
    /// Packets that were sent behind their successor on purpose.
    pub faults_swapped: u64,
}

/// A forwarder, ready to run.
#[derive(Debug)]
pub struct Skeleton {
    ways: Vec<Way>,
    plan: SkeletonPlan,
}

impl Skeleton {
    /// Opens the ports; from then on packets are received.
    ///
    /// # Errors
    /// A plan out of range, no such interface, no CAP_NET_RAW, no memory for the rings.
    pub fn open(
        input: &PortSpec<'_>,
        output: &PortSpec<'_>,
        plan: SkeletonPlan,
    ) -> Result<Self, DataplaneError> {
        check(&plan)?;
        let mut ways = vec![Way::open(input, output, &plan, plan.faults.clone())?];
        if plan.both_ways {
            ways.push(Way::open(output, input, &plan, FaultSchedule::default())?);
        }
        Ok(Self { ways, plan })
    }

    /// Forwards until `stop` is set, on the calling thread, which busy-waits: put it in its
    /// [`Placement`](crate::placement::Placement) first. What was received by then still leaves.
    pub fn run(mut self, stop: &AtomicBool, counters: &SharedCounters) -> SkeletonReport {
        let batch = self.plan.batch;
        let planned = self.plan.delay.is_some() || !self.plan.faults.faults().is_empty();
        while !stop.load(Ordering::Relaxed) {
            let mut taken = 0;
            for way in &mut self.ways {
                taken += match self.plan.release {
                    _ if planned => way.forward_planned(batch),
                    Release::Immediate => way.forward_each(batch),
                    Release::Batch => way.forward_batch(batch),
                };
            }
            if taken > 0 {
                self.publish(counters);
            }
        }
        self.ways.iter_mut().for_each(Way::finish);
        self.publish(counters);
        let mut report = SkeletonReport::default();
        self.ways.iter().for_each(|way| report.add(&way.report));
        report
    }

    #[inline]
    fn publish(&self, counters: &SharedCounters) {
        let mut reading = CounterReading::default();
        for way in &self.ways {
            reading.received += way.report.received;
            reading.sent += way.report.sent;
            reading.failed += way.report.failed;
        }
        counters.publish(&reading);
    }
}

fn check(options: &SkeletonPlan) -> Result<(), DataplaneError> {
    if !(1..=BATCH_MAX).contains(&options.batch) {
        return Err(plan("batch", options.batch, "1 to 64 packets"));
    }
    if !(BATCH_MAX..=1 << 20).contains(&options.ring_slots) {
        return Err(plan("slots of a receiving ring", options.ring_slots, "64 to 1,048,576"));
    }
    if options.delay.is_some_and(|delay| delay.every == 0) {
        return Err(plan("one packet in so many to delay", 0, "at least 1, which delays all"));
    }
    if options.delay.is_some() && !options.faults.faults().is_empty() {
        return Err(plan("forwarder", "with delays and faults", "either of them: their orders would mix"));
    }
    Ok(())
}

impl SkeletonReport {
    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.failed += other.failed;
        self.oversize += other.oversize;
        self.delayed += other.delayed;
        self.faults_dropped += other.faults_dropped;
        self.faults_duplicated += other.faults_duplicated;
        self.faults_swapped += other.faults_swapped;
    }
}

/// One way through the forwarder.
#[derive(Debug)]
struct Way {
    rx: RxRing,
    tx: PacketTx,
    /// Position of the next packet in the ring.
    next: u64,
    delay: Option<Delay>,
    /// Held back: when they are due, and their positions; in order of both.
    held: VecDeque<(u64, u64)>,
    faults: FaultSchedule,
    /// Index of the next fault.
    fault: usize,
    /// Signed packets so far: what faults and delays count.
    signed: u64,
    /// Position of a packet that waits for its successor.
    swapped: Option<u64>,
    report: SkeletonReport,
}

impl Way {
    fn open(
        from: &PortSpec<'_>,
        to: &PortSpec<'_>,
        plan: &SkeletonPlan,
        faults: FaultSchedule,
    ) -> Result<Self, DataplaneError> {
        let tx = PacketTx::open(to, plan.tx)?;
        let rx = open_rx(from, plan.ring_slots)?;
        Ok(Self {
            held: VecDeque::with_capacity(rx.slots()),
            rx,
            tx,
            next: 0,
            delay: plan.delay,
            faults,
            fault: 0,
            signed: 0,
            swapped: None,
            report: SkeletonReport::default(),
        })
    }

    /// Forwards up to `batch` packets, each at once; returns how many there were.
    #[inline]
    fn forward_each(&mut self, batch: usize) -> usize {
        let mut taken = 0;
        while taken < batch {
            let Some(packet) = self.rx.packet(self.next) else { break };
            if packet.whole {
                let sent = self.tx.send(&[packet.frame]) as u64;
                self.report.sent += sent;
                self.report.failed += 1 - sent;
            } else {
                self.report.oversize += 1;
            }
            self.rx.release(self.next);
            self.next += 1;
            self.report.received += 1;
            taken += 1;
        }
        taken
    }

    /// Takes up to `batch` packets and forwards them together; returns how many there were.
    #[inline]
    fn forward_batch(&mut self, batch: usize) -> usize {
        // Nearly every look finds nothing: that must not cost the array below.
        if self.rx.packet(self.next).is_none() {
            return 0;
        }
        let mut frames: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
        let (mut taken, mut whole) = (0, 0);
        while taken < batch {
            let Some(packet) = self.rx.packet(self.next + taken as u64) else { break };
            taken += 1;
            if packet.whole {
                frames[whole] = packet.frame;
                whole += 1;
            }
        }
        let sent = self.tx.send(&frames[..whole]);
        self.report.sent += sent as u64;
        self.report.failed += (whole - sent) as u64;
        self.report.oversize += (taken - whole) as u64;
        self.report.received += taken as u64;
        for _ in 0..taken {
            self.rx.release(self.next);
            self.next += 1;
        }
        taken
    }

    /// Forwards up to `batch` packets with delays or faults; returns how many there were, those sent
    /// after their delay included.
    fn forward_planned(&mut self, batch: usize) -> usize {
        let mut taken = 0;
        if !self.held.is_empty() {
            let now = monotonic_ns();
            taken += self.send_due(now);
            if self.is_due_soon(now) {
                return taken;
            }
        }
        for _ in 0..batch {
            if !self.step() {
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Sends what was held back long enough; returns how many there were.
    #[inline]
    fn send_due(&mut self, now: u64) -> usize {
        let mut sent = 0;
        while let Some(&(due, position)) = self.held.front()
            && due <= now
        {
            self.held.pop_front();
            self.send(position);
            self.rx.release(position);
            sent += 1;
        }
        sent
    }

    /// Whether to wait for a held packet. Not where all are held: new ones would wait behind each.
    #[inline]
    fn is_due_soon(&self, now: u64) -> bool {
        let one_of_many = self.delay.is_some_and(|delay| delay.every > 1);
        one_of_many && self.held.front().is_some_and(|(due, _)| *due < now + DUE_SOON_NS)
    }

    /// Takes the next packet; false if there is none.
    fn step(&mut self) -> bool {
        let oldest = self.swapped.or_else(|| self.held.front().map(|(_, position)| *position));
        // The ring has come round to a packet that is still held: there is nothing new.
        if oldest.is_some_and(|oldest| self.next - oldest >= self.rx.slots() as u64) {
            return false;
        }
        let position = self.next;
        let Some(packet) = self.rx.packet(position) else { return false };
        let (whole, signed) = (packet.whole, is_signed(packet.frame));
        self.next += 1;
        self.report.received += 1;
        if !whole {
            self.report.oversize += 1;
            self.rx.release(position);
            return true;
        }
        self.signed += u64::from(signed);
        if let Some(delay) = self.delay.filter(|delay| signed && self.signed.is_multiple_of(delay.every)) {
            self.held.push_back((monotonic_ns() + delay.ns, position));
            self.report.delayed += 1;
            return true;
        }
        self.carry_out(self.fault_of(signed), position);
        true
    }

    fn fault_of(&self, signed: bool) -> Option<Fault> {
        let (packet, fault) = *self.faults.faults().get(self.fault)?;
        (signed && packet + 1 == self.signed).then_some(fault)
    }

    fn carry_out(&mut self, fault: Option<Fault>, position: u64) {
        self.fault += usize::from(fault.is_some());
        match fault {
            Some(Fault::Drop) => self.report.faults_dropped += 1,
            Some(Fault::Duplicate) => {
                self.report.faults_duplicated += 1;
                self.send(position);
                self.send(position);
            }
            Some(Fault::Swap) => {
                self.report.faults_swapped += 1;
                self.swapped = Some(position);
                return;
            }
            None => self.send(position),
        }
        self.rx.release(position);
        self.send_swapped();
    }

    #[inline]
    fn send_swapped(&mut self) {
        if let Some(position) = self.swapped.take() {
            self.send(position);
            self.rx.release(position);
        }
    }

    #[inline]
    fn send(&mut self, position: u64) {
        let Some(packet) = self.rx.packet(position) else { return };
        let sent = self.tx.send(&[packet.frame]) as u64;
        self.report.sent += sent;
        self.report.failed += 1 - sent;
    }

    /// Empties the ring once, sends what is held, and asks what was dropped.
    fn finish(&mut self) {
        let mut left = self.rx.slots();
        while left > 0 && (self.step() || !self.held.is_empty()) {
            left -= 1;
            self.send_due(monotonic_ns());
        }
        self.send_swapped();
        while !self.held.is_empty() {
            self.send_due(monotonic_ns());
        }
        self.report.dropped = self.rx.statistics().map_or(0, |counts| counts.drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_out_of_range_are_refused_by_name() {
        let refused = |plan: SkeletonPlan| check(&plan).unwrap_err().to_string();
        assert!(refused(SkeletonPlan { batch: 65, ..Default::default() }).contains("batch is 65"));
        assert!(refused(SkeletonPlan { ring_slots: 1, ..Default::default() }).contains("slots"));
        let never = Some(Delay { ns: 1, every: 0 });
        assert!(refused(SkeletonPlan { delay: never, ..Default::default() }).contains("at least 1"));
        let faults = FaultSchedule::from_list(vec![(1, Fault::Drop)]).unwrap();
        let delay = Some(Delay { ns: 1, every: 1 });
        assert!(refused(SkeletonPlan { delay, faults, ..Default::default() }).contains("either"));
    }
}
