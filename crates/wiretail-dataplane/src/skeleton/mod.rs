//! The skeleton: a forwarder that only forwards, used to measure the delay of the infrastructure itself. It
//! busy-polls its rings and sends frames without copying them first.
//!
//! Known delays can be injected to calibrate a measurement, and known [`faults`] to validate its accounting.

pub mod faults;
mod path;
mod ports;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use self::ports::ForwardingPaths;
use crate::clock::monotonic_ns;
use crate::clock::pauses::{PauseClock, Rest};
use crate::counters::stalls::StallLog;
use crate::counters::{CounterReading, SharedCounters};
use crate::error::{DataplaneError, plan};
use crate::interference::Injected;
use crate::interference::own::OwnInterference;
use crate::port::af_xdp::XdpMode;
use crate::port::{BATCH_MAX, PortKind, PortSpec, RxPort, TxPort};
use crate::skeleton::faults::FaultSchedule;
use crate::skeleton::path::ForwardingPath;

/// Default number of slots of a receive ring: 8,192 packets cover a stall of 80 ms at 100 kpps.
pub const RING_SLOTS: usize = 8192;

/// Number of iterations without a packet between clock readings. They take about 100 ns, much less than a
/// stall. If the clock were read in every iteration, most packets would have to wait for the reading.
const EMPTY_TURNS: u32 = 16;

/// Interval at which a sleeping skeleton checks for requests, in ns.
const LOOK_EVERY_NS: u64 = 10_000_000;

/// Maximum size of a batch that is checked for stalls. Forwarding a larger batch can take as long as a stall.
const STALL_BATCH_MAX: usize = 4;

/// A work step longer than this, in ns, was interrupted; reading the clock never takes this long.
const WORK_STEP_NS: u64 = 1_000;

/// When the packets of a batch are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// All together once the batch is complete: the first packet waits for the last.
    Batch,
    /// Each packet immediately.
    Immediate,
}

/// Behavior of a skeleton while there are no packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// Poll again immediately.
    #[default]
    Spin,
    /// Sleep until the kernel reports a packet (poll(2)), so that other threads can use the core.
    Block,
}

/// A known delay for calibration. The packet is held back; later packets overtake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Delay in ns.
    pub ns: u64,
    /// Delays the last of every `every` signed packets; 1 delays all.
    pub every: u64,
}

/// Settings of a skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkeletonPlan {
    /// Maximum number of packets per batch, 1 to 64. The skeleton never waits for a batch to fill.
    pub batch: usize,
    /// When the packets of a batch are sent. With a delay or faults, each packet is sent immediately.
    pub release: Release,
    /// Behavior while there are no packets. With a delay, the skeleton never sleeps.
    pub wait: Wait,
    /// The mechanism by which packets are received and sent.
    pub port: PortKind,
    /// Number of slots of each receive ring, 2 KiB each; rounded up to a power of two.
    pub ring_slots: usize,
    /// Computing time per packet before it is sent, in ns, as in a network function. Time during which the
    /// core is taken away is not included. Requires [`Release::Immediate`] without delays and faults.
    pub work_ns: u64,
    /// Delay of packets in the first direction.
    pub delay: Option<Delay>,
    /// Faults in the first direction. Cannot be combined with a delay.
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

/// Result of a skeleton, for all directions together.
#[derive(Debug, Clone, Default)]
pub struct SkeletonReport {
    pub counts: Counts,
    /// Times at which the skeleton lost its core while it waited or forwarded up to four packets. Larger
    /// batches are not checked, because forwarding them can take as long as a stall.
    pub stalls: StallLog,
    /// Interference that the loop caused itself.
    pub interferences: Vec<Injected>,
}

impl std::ops::Deref for SkeletonReport {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

/// Packet counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets taken from the rings.
    pub received: u64,
    /// Packets passed to the kernel, including duplicates.
    pub sent: u64,
    /// Packets dropped because a ring was full.
    pub dropped: u64,
    /// Packets that the kernel rejected for sending.
    pub failed: u64,
    /// Packets longer than a slot. They were not sent: segmentation offload must be off.
    pub oversize: u64,
    /// Packets that were held back.
    pub delayed: u64,
    /// Packets dropped intentionally.
    pub faults_dropped: u64,
    /// Packets sent twice intentionally.
    pub faults_duplicated: u64,
    /// Packets sent after their successor intentionally.
    pub faults_swapped: u64,
}

/// A forwarder that is ready to run.
#[derive(Debug)]
pub struct Skeleton {
    forwarding_paths: ForwardingPaths,
    xdp_modes: Vec<(String, XdpMode)>,
    plan: SkeletonPlan,
    own: Option<OwnInterference>,
    pauses: PauseClock,
}

impl Skeleton {
    /// Opens the ports of all directions, each from one port to another. Packets are received from then on. A
    /// bidirectional forwarder has two directions; a chain of several hops has one per hop. One thread serves
    /// them in turn. Delays and faults apply to the first direction.
    ///
    /// # Errors
    /// Returns an error if the plan is out of range, an interface does not exist, CAP_NET_RAW is missing, or
    /// there is no memory for the rings. With AF_XDP, also returns an error if an interface receives or sends
    /// in two directions, has several receive queues or another XDP program, or without CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn open(
        forwarding_paths: &[(PortSpec<'_>, PortSpec<'_>)],
        plan: SkeletonPlan,
    ) -> Result<Self, DataplaneError> {
        check(forwarding_paths, &plan)?;
        let (mut forwarding_paths, xdp_modes) = ForwardingPaths::open(forwarding_paths, &plan)?;
        forwarding_paths.interfere_first(plan.delay, plan.faults.clone());
        Ok(Self { forwarding_paths, xdp_modes, plan, own: None, pauses: PauseClock::default() })
    }

    /// Names and XDP modes of the receiving interfaces; empty with packet sockets.
    pub fn xdp_modes(&self) -> &[(String, XdpMode)] {
        &self.xdp_modes
    }

    /// Adds interference that the loop causes itself.
    #[must_use]
    pub fn interfered(self, own: OwnInterference) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Makes the loop sleep in the pauses of this clock, and before the first trial is announced. A packet
    /// wakes it.
    #[must_use]
    pub fn resting(self, pauses: PauseClock) -> Self {
        Self { pauses, ..self }
    }

    /// Forwards until `stop` is set. Runs in the calling thread, which busy-waits if [`Wait::Spin`] is set.
    /// Apply the [`Placement`](crate::placement::Placement) of the thread first. Packets received before the
    /// stop are still sent.
    pub fn run(self, stop: &AtomicBool, counters: &SharedCounters) -> SkeletonReport {
        let rest = Rest::new(self.pauses);
        match self.forwarding_paths {
            ForwardingPaths::Packet(forwarding_paths) => {
                forward_all(forwarding_paths, &self.plan, self.own, rest, stop, counters)
            }
            ForwardingPaths::Xdp(forwarding_paths) => {
                forward_all(forwarding_paths, &self.plan, self.own, rest, stop, counters)
            }
        }
    }
}

fn forward_all<R: RxPort, T: TxPort>(
    mut forwarding_paths: Vec<ForwardingPath<R, T>>,
    plan: &SkeletonPlan,
    mut own: Option<OwnInterference>,
    mut rest: Rest,
    stop: &AtomicBool,
    counters: &SharedCounters,
) -> SkeletonReport {
    let mut stalls = StallLog::default();
    own.iter_mut().for_each(OwnInterference::begin);
    let mut empty_turns = 0;
    // A delayed packet is due at a certain time, not when another packet arrives, so the loop must not block.
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
        // The clock is read after packets were forwarded, so that the reading does not delay them.
        match taken {
            0 if blocks => {
                await_packet(&forwarding_paths, LOOK_EVERY_NS);
                stalls.skip(monotonic_ns());
            }
            0 => {
                empty_turns += 1;
                if empty_turns < EMPTY_TURNS {
                    continue;
                }
                let now = monotonic_ns();
                stalls.tick(now);
                if let Some(until) = rest.until(now)
                    && !forwarding_paths.iter().any(ForwardingPath::is_holding)
                {
                    forwarding_paths.iter_mut().for_each(ForwardingPath::give_up_swap);
                    await_packet(&forwarding_paths, until.saturating_sub(now).min(LOOK_EVERY_NS));
                    let now = monotonic_ns();
                    stalls.skip(now);
                    own.iter_mut().for_each(|own| own.skip(now));
                }
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

/// Keeps the core busy for this much computing time. An interruption prolongs it, as it would prolong a
/// computation.
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

/// Sleeps until a packet has arrived in any direction, for at most `ns`, which is less than a second.
fn await_packet<R: RxPort, T: TxPort>(forwarding_paths: &[ForwardingPath<R, T>], ns: u64) {
    let mut sockets: Vec<_> = forwarding_paths
        .iter()
        .map(|forwarding_path| PollFd::from_borrowed_fd(forwarding_path.socket(), PollFlags::IN))
        .collect();
    // Failures, such as interruption by a signal, are treated like a packet: all directions are polled again.
    let _ = poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: ns as _ }));
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
        return Err(plan("number of directions", 0, "at least one pair of a receiving and a sending port"));
    }
    if !(1..=BATCH_MAX).contains(&options.batch) {
        return Err(plan("batch", options.batch, "1 to 64 packets"));
    }
    if !(BATCH_MAX..=1 << 20).contains(&options.ring_slots) {
        return Err(plan("slots of a receive ring", options.ring_slots, "64 to 1,048,576"));
    }
    if options.delay.is_some_and(|delay| delay.every == 0) {
        return Err(plan("delay interval in packets", 0, "at least 1, which delays all packets"));
    }
    let sends_at_once = options.release == Release::Immediate
        && options.delay.is_none()
        && options.faults.faults().is_empty();
    if options.work_ns > 0 && !sends_at_once {
        return Err(plan(
            "forwarder with work for each packet",
            "combined with delays, faults or batch release",
            "none of these, because each packet is sent when its work is done",
        ));
    }
    if options.delay.is_some() && !options.faults.faults().is_empty() {
        return Err(plan(
            "forwarder",
            "configured with both delays and faults",
            "only one of them, because the order of packets would otherwise be ambiguous",
        ));
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
    fn rejects_plans_out_of_range() {
        let refused = |plan: SkeletonPlan| check(&[FORWARDING_PATH], &plan).unwrap_err().to_string();
        assert!(refused(SkeletonPlan { batch: 65, ..Default::default() }).contains("batch is 65"));
        assert!(check(&[], &SkeletonPlan::default()).unwrap_err().to_string().contains("directions is 0"));
        assert!(refused(SkeletonPlan { ring_slots: 1, ..Default::default() }).contains("slots"));
        let never = Some(Delay { ns: 1, every: 0 });
        assert!(refused(SkeletonPlan { delay: never, ..Default::default() }).contains("at least 1"));
        let faults = FaultSchedule::from_list(vec![(1, Fault::Drop)]).unwrap();
        let delay = Some(Delay { ns: 1, every: 1 });
        assert!(
            refused(SkeletonPlan { delay, faults, ..Default::default() }).contains("both delays and faults")
        );
        let work = SkeletonPlan { work_ns: 1, release: Release::Batch, ..Default::default() };
        assert!(refused(work).contains("when its work is done"));
    }
}
