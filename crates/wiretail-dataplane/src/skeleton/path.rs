//! One direction of the forwarder: from a receiving port to a sending port.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use super::{Counts, Delay, Release};
use crate::clock::monotonic_ns;
use crate::generator::frame::is_signed;
use crate::port::{BATCH_MAX, RxPort, TxPort};
use crate::skeleton::faults::{Fault, FaultSchedule};

/// Threshold in ns. A held packet that is due within this time is sent before a new packet is taken. The
/// threshold is longer than it takes to send a packet. Without this rule, if the delay is a multiple of the
/// gap between packets, a new packet would arrive whenever a held packet is due. The held packet would then
/// wait for the new one and be delayed for too long.
const DUE_SOON_NS: u64 = 3_000;

/// One direction of the forwarder.
#[derive(Debug)]
pub(super) struct ForwardingPath<R, T> {
    rx: R,
    tx: T,
    /// Position of the next packet in the ring.
    next: u64,
    delay: Option<Delay>,
    /// Due times and positions of held packets, in ascending order of both.
    held: VecDeque<(u64, u64)>,
    faults: FaultSchedule,
    /// Index of the next fault.
    fault: usize,
    /// Number of signed packets, to which faults and delays refer.
    signed: u64,
    /// Position of a packet that is to be sent after its successor.
    swapped: Option<u64>,
    pub(super) report: Counts,
}

impl<R: RxPort, T: TxPort> ForwardingPath<R, T> {
    /// Creates a direction without delays and faults.
    pub(super) fn new(rx: R, tx: T) -> Self {
        Self {
            held: VecDeque::with_capacity(rx.slots()),
            rx,
            tx,
            next: 0,
            delay: None,
            faults: FaultSchedule::default(),
            fault: 0,
            signed: 0,
            swapped: None,
            report: Counts::default(),
        }
    }

    /// The descriptor to wait on for packets.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.rx.socket()
    }

    /// Sets the delays or faults.
    pub(super) fn interfere(&mut self, delay: Option<Delay>, faults: FaultSchedule) {
        (self.delay, self.faults) = (delay, faults);
    }

    /// Forwards up to `batch` available packets according to the plan; returns their number.
    #[inline]
    pub(super) fn forward(&mut self, batch: usize, release: Release) -> usize {
        if self.delay.is_some() || !self.faults.faults().is_empty() {
            return self.forward_planned(batch);
        }
        match release {
            Release::Immediate => self.forward_each(batch, || {}),
            Release::Batch => self.forward_batch(batch),
        }
    }

    /// Forwards up to `batch` packets, each as soon as its `work` is done; returns their number.
    #[inline]
    pub(super) fn forward_each(&mut self, batch: usize, mut work: impl FnMut()) -> usize {
        let mut taken = 0;
        while taken < batch {
            let Some(packet) = self.rx.packet(self.next) else { break };
            work();
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

    /// Takes up to `batch` packets and forwards them together; returns their number.
    #[inline]
    fn forward_batch(&mut self, batch: usize) -> usize {
        // Most polls find no packet and should not initialize the array below.
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

    /// Forwards up to `batch` packets with delays or faults. Returns the number of packets, including those
    /// sent after their delay.
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

    /// Sends all held packets that are due; returns their number.
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

    /// Whether to wait for a held packet. False if all packets are delayed, because new packets would have to
    /// wait for each of them.
    #[inline]
    fn is_due_soon(&self, now: u64) -> bool {
        let one_of_many = self.delay.is_some_and(|delay| delay.every > 1);
        one_of_many && self.held.front().is_some_and(|(due, _)| *due < now + DUE_SOON_NS)
    }

    /// Takes the next packet; returns false if there is none.
    fn step(&mut self) -> bool {
        let oldest = self.swapped.or_else(|| self.held.front().map(|(_, position)| *position));
        // The ring has wrapped around to a packet that is still held, so there is no new packet.
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

    /// Empties the ring once, sends all held packets, and reads the drop counter.
    pub(super) fn finish(&mut self) {
        let mut left = self.rx.slots();
        while left > 0 && (self.step() || !self.held.is_empty()) {
            left -= 1;
            self.send_due(monotonic_ns());
        }
        self.send_swapped();
        while !self.held.is_empty() {
            self.send_due(monotonic_ns());
        }
        self.count_dropped();
    }

    /// Adds the packets that the receiving port dropped since the last call.
    pub(super) fn count_dropped(&mut self) {
        self.report.dropped += self.rx.dropped().unwrap_or(0);
    }
}
