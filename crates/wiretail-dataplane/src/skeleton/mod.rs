//! The skeleton application: a forwarder that does nothing but forward, so that what is measured is the
//! infrastructure's own share. It busy-polls its rings and sends frames from where they were received.
//!
//! Known delays can be injected, to calibrate a measurement, or known [`faults`], to
//! check its accounting.

pub mod faults;
mod path;
mod ports;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use self::ports::ForwardingPaths;
use crate::clock::monotonic_ns;
use crate::counters::stalls::StallLog;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::{DataplaneError, plan};
use crate::interference::Injected;
use crate::interference::own::OwnInterference;
use crate::port::af_xdp::XdpMode;
use crate::port::{BATCH_MAX, PortKind, PortSpec, RxPort, TxPort};
use crate::skeleton::faults::FaultSchedule;
use crate::skeleton::path::ForwardingPath;

/// Slots of a receiving ring unless asked otherwise: 8,192 packets cover a stall of 80 ms at 100 kpps.
pub const RING_SLOTS: usize = 8192;

/// Turns without a packet from one look at the clock to the next: some 100 ns, where a stall has 20,000.
/// A look at each turn would make a packet wait for the clock more often than not.
const EMPTY_TURNS: u32 = 16;

/// A skeleton that sleeps looks this often whether it is asked something.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Forwarding more packets than this at once may take as long as a stall of itself.
const STALL_BATCH_MAX: usize = 4;

/// A step of work that took longer was interrupted, in ns; no clock takes so long to read.
const WORK_STEP_NS: u64 = 1_000;

/// When the packets of a batch leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// All together when all have been taken: the first waits for the last.
    Batch,
    /// Each at once.
    Immediate,
}

/// What a skeleton does while there is no packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// It looks again at once.
    #[default]
    Spin,
    /// It sleeps until the kernel wakes it for a packet (poll(2)), so that others can use the core.
    Block,
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
    /// Most packets that are taken before anything else is looked at, 1 to 64. It never waits for a
    /// batch to fill.
    pub batch: usize,
    /// When the packets of a batch leave; with a delay or faults, each at once.
    pub release: Release,
    /// What it does while there is no packet; with a delay it never sleeps.
    pub wait: Wait,
    /// By what means packets are received and sent.
    pub port: PortKind,
    /// Slots of each receiving ring, 2 KiB each; rounded up to a power of two.
    pub ring_slots: usize,
    /// What each packet costs before it is sent, in ns of the loop's own time, as a network function would compute for
    /// it: time in which the core is taken away is none. Needs [`Release::Immediate`], neither a delay nor faults.
    pub work_ns: u64,
    /// Holds packets back, on the first way.
    pub delay: Option<Delay>,
    /// Commits faults, on the first way; not together with a delay.
    pub faults: FaultSchedule,
}

impl Default for SkeletonPlan {
    fn default() -> Self {
        Self {
            batch: 32,
            release: Release::Immediate,
            wait: Wait::Spin,
            port: PortKind::default(),
            ring_slots: RING_SLOTS,
            work_ns: 0,
            delay: None,
            faults: FaultSchedule::default(),
        }
    }
}

/// What a skeleton did; all ways together.
#[derive(Debug, Clone, Default)]
pub struct SkeletonReport {
    /// What became of the packets.
    pub counts: Counts,
    /// When its core was taken from it: while it waited, or forwarded up to four packets. Forwarding more
    /// at once may take as long of itself.
    pub stalls: StallLog,
    /// How it disturbed itself.
    pub interferences: Vec<Injected>,
}

impl std::ops::Deref for SkeletonReport {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
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
    forwarding_paths: ForwardingPaths,
    xdp_modes: Vec<(String, XdpMode)>,
    plan: SkeletonPlan,
    own: Option<OwnInterference>,
}

impl Skeleton {
    /// Opens the ports of all ways, each from a port to a port; from then on packets are received. Both
    /// directions of a forwarder are two ways, a chain of several hops is a way a hop. One thread serves
    /// them in turns; delays and faults are those of the first way.
    ///
    /// # Errors
    /// A plan out of range, no such interface, no CAP_NET_RAW, no memory for the rings. With AF_XDP: an
    /// interface that receives or sends twice, has several receiving queues or another XDP program; no
    /// CAP_BPF and CAP_NET_ADMIN.
    pub fn open(
        forwarding_paths: &[(PortSpec<'_>, PortSpec<'_>)],
        plan: SkeletonPlan,
    ) -> Result<Self, DataplaneError> {
        check(forwarding_paths, &plan)?;
        let (mut forwarding_paths, xdp_modes) = ForwardingPaths::open(forwarding_paths, &plan)?;
        forwarding_paths.interfere_first(plan.delay, plan.faults.clone());
        Ok(Self { forwarding_paths, xdp_modes, plan, own: None })
    }

    /// What the interfaces can do that packets are received from by AF_XDP, by their names; empty with
    /// packet sockets.
    pub fn xdp_modes(&self) -> &[(String, XdpMode)] {
        &self.xdp_modes
    }

    /// Has the loop disturb itself.
    #[must_use]
    pub fn interfered(self, own: OwnInterference) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Forwards until `stop` is set, on the calling thread, which busy-waits unless the plan's [`Wait`] says otherwise: put it in its
    /// [`Placement`](crate::placement::Placement) first. What was received by then still leaves.
    pub fn run(self, stop: &AtomicBool, counters: &SharedCounters) -> SkeletonReport {
        match self.forwarding_paths {
            ForwardingPaths::Packet(forwarding_paths) => {
                forward_all(forwarding_paths, &self.plan, self.own, stop, counters)
            }
            ForwardingPaths::Xdp(forwarding_paths) => {
                forward_all(forwarding_paths, &self.plan, self.own, stop, counters)
            }
        }
    }
}

fn forward_all<R: RxPort, T: TxPort>(
    mut forwarding_paths: Vec<ForwardingPath<R, T>>,
    plan: &SkeletonPlan,
    mut own: Option<OwnInterference>,
    stop: &AtomicBool,
    counters: &SharedCounters,
) -> SkeletonReport {
    let mut stalls = StallLog::default();
    own.iter_mut().for_each(OwnInterference::begin);
    let mut empty_turns = 0;
    // A packet that is held back is due by the clock, not by an arrival.
    let blocks = plan.wait == Wait::Block && plan.delay.is_none();
    while !stop.load(Ordering::Relaxed) {
        let mut taken = 0;
        for forwarding_path in &mut forwarding_paths {
            taken += match plan.work_ns {
                0 => forwarding_path.forward(plan.batch, plan.release),
                work_ns => forwarding_path.forward_each(plan.batch, || work(work_ns, &mut stalls, &mut own)),
            };
        }
        if counters.is_asked() {
            forwarding_paths.iter_mut().for_each(ForwardingPath::count_dropped);
            counters.answer(&reading(&forwarding_paths));
        }
        // The clock is read behind a packet: there it delays none but one that is already late.
        match taken {
            0 if blocks => {
                await_packet(&forwarding_paths);
                stalls.skip(monotonic_ns());
            }
            0 => {
                empty_turns += 1;
                if empty_turns < EMPTY_TURNS {
                    continue;
                }
                stalls.tick(monotonic_ns());
            }
            1..=STALL_BATCH_MAX => stalls.tick(monotonic_ns()),
            _ => stalls.skip(monotonic_ns()),
        }
        empty_turns = 0;
        if let Some(own) = &mut own {
            own.look(&mut stalls);
        }
        if taken > 0 {
            counters.publish(&reading(&forwarding_paths));
        }
    }
    forwarding_paths.iter_mut().for_each(ForwardingPath::finish);
    counters.answer(&reading(&forwarding_paths));
    let mut counts = Counts::default();
    forwarding_paths.iter().for_each(|forwarding_path| counts.add(&forwarding_path.report));
    let interferences = own.map(OwnInterference::finish).unwrap_or_default();
    SkeletonReport { counts, stalls, interferences }
}

/// Keeps the core busy for so much time of the loop's own. An interruption lengthens it, as it would a computation.
fn work(ns: u64, stalls: &mut StallLog, own: &mut Option<OwnInterference>) {
    let (mut last, mut done) = (monotonic_ns(), 0);
    stalls.tick(last);
    while done < ns {
        let now = monotonic_ns();
        done += (now - last).min(WORK_STEP_NS);
        stalls.tick(now);
        if let Some(own) = own {
            own.look(stalls);
        }
        last = now;
    }
}

/// Sleeps until a packet has arrived on any of the ways, or it is time to look at everything else.
fn await_packet<R: RxPort, T: TxPort>(forwarding_paths: &[ForwardingPath<R, T>]) {
    let mut sockets: Vec<_> = forwarding_paths
        .iter()
        .map(|forwarding_path| PollFd::from_borrowed_fd(forwarding_path.socket(), PollFlags::IN))
        .collect();
    // A failure, as by a signal, is as good as a packet: the ways are looked at again.
    let _ = poll(&mut sockets, Some(&LOOK_EVERY));
}

#[inline]
fn reading<R, T>(forwarding_paths: &[ForwardingPath<R, T>]) -> CounterReading {
    let mut reading = CounterReading::default();
    for forwarding_path in forwarding_paths {
        reading.received += forwarding_path.report.received;
        reading.sent += forwarding_path.report.sent;
        reading.failed += forwarding_path.report.failed;
        reading.dropped += forwarding_path.report.dropped;
        reading.oversize += forwarding_path.report.oversize;
    }
    reading
}

fn check(
    forwarding_paths: &[(PortSpec<'_>, PortSpec<'_>)],
    options: &SkeletonPlan,
) -> Result<(), DataplaneError> {
    if forwarding_paths.is_empty() {
        return Err(plan("number of ways", 0, "at least one, from a port to a port"));
    }
    if !(1..=BATCH_MAX).contains(&options.batch) {
        return Err(plan("batch", options.batch, "1 to 64 packets"));
    }
    if !(BATCH_MAX..=1 << 20).contains(&options.ring_slots) {
        return Err(plan("slots of a receiving ring", options.ring_slots, "64 to 1,048,576"));
    }
    if options.delay.is_some_and(|delay| delay.every == 0) {
        return Err(plan("one packet in so many to delay", 0, "at least 1, which delays all"));
    }
    let sends_at_once = options.release == Release::Immediate
        && options.delay.is_none()
        && options.faults.faults().is_empty();
    if options.work_ns > 0 && !sends_at_once {
        let expected =
            "neither delays nor faults nor release by batches: each packet is sent when its work is done";
        return Err(plan("forwarder", "with work for each packet", expected));
    }
    if options.delay.is_some() && !options.faults.faults().is_empty() {
        return Err(plan("forwarder", "with delays and faults", "either of them: their orders would mix"));
    }
    Ok(())
}

impl Counts {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::faults::Fault;

    const PORT: PortSpec<'_> = PortSpec { netns: None, interface: "nosuch0" };
    const FORWARDING_PATH: (PortSpec<'_>, PortSpec<'_>) = (PORT, PORT);

    #[test]
    fn plans_out_of_range_are_refused_by_name() {
        let refused = |plan: SkeletonPlan| check(&[FORWARDING_PATH], &plan).unwrap_err().to_string();
        assert!(refused(SkeletonPlan { batch: 65, ..Default::default() }).contains("batch is 65"));
        assert!(check(&[], &SkeletonPlan::default()).unwrap_err().to_string().contains("ways is 0"));
        assert!(refused(SkeletonPlan { ring_slots: 1, ..Default::default() }).contains("slots"));
        let never = Some(Delay { ns: 1, every: 0 });
        assert!(refused(SkeletonPlan { delay: never, ..Default::default() }).contains("at least 1"));
        let faults = FaultSchedule::from_list(vec![(1, Fault::Drop)]).unwrap();
        let delay = Some(Delay { ns: 1, every: 1 });
        assert!(refused(SkeletonPlan { delay, faults, ..Default::default() }).contains("either"));
        let work = SkeletonPlan { work_ns: 1, release: Release::Batch, ..Default::default() };
        assert!(refused(work).contains("when its work is done"));
    }
}
