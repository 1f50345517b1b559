//! One take: a trial's packets through devices that stand ready, and what everybody says of them.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::thread::gettid;
use wiretail_dataplane::clock::monotonic_ns;
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::generator::plan::End;
use wiretail_dataplane::generator::{Generator, GeneratorReport};
use wiretail_dataplane::port::af_packet::{TxMode, TxPlan};
use wiretail_dataplane::port::{PortKind, open_tx};
use wiretail_dataplane::timestamper::TapReport;
use wiretail_host::sleeps;
use wiretail_schema::experiment::GeneratorSocket;
use wiretail_schema::run::InterruptDelta;
use wiretail_schema::run::energy::EnergyState;

use crate::run::devices::{Counted, Devices};
use crate::run::testbed::Testbed;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::neighbour::{Neighbours, Noise};
use crate::run::testbed::traffic;
use crate::run::trial::attempt::Attempt;
use crate::run::trial::energy::Metering;
use crate::run::trial::interrupts::Reading;
use crate::run::trial::recorder::{Recorder, Watched};
use crate::run::trial::store::LiveView;

/// A device that has forwarded nothing for so long, when the generator has ended, has lost what is missing.
const SETTLE: Duration = Duration::from_millis(500);
/// Nobody waits longer than that for a device that is behind.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// By then the packets at the taps have been counted since the last one was seen.
const COUNTED: Duration = Duration::from_millis(100);
/// So long after the last departure a stall still falls upon packets.
const LAST_IN_FLIGHT: Duration = Duration::from_millis(5);
/// How much longer than planned the load generator may take, at least: it catches up with what was late.
const OVERTIME: Duration = Duration::from_secs(5);
/// How often the control thread looks after everybody.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Slots of the load generator's sending ring, where one is asked for.
const RING_SLOTS: usize = 1024;

/// A trial's packets, and what the taps saw of them.
pub struct TrialExecution {
    /// What was sent.
    pub sent: Sent,
    /// What each tap saw.
    pub taps: Vec<TapReport>,
}

/// What was sent.
pub struct Sent {
    pub generator: GeneratorReport,
    /// The load generator's thread.
    pub thread: i32,
    /// When packets were under way, in ns of the monotonic clock.
    pub traffic: Range<u64>,
    /// What devices counted meanwhile, those that tell before their end.
    pub counted: Vec<Counted>,
    /// Of the device's and the load generator's core, meanwhile.
    pub interrupts: Vec<InterruptDelta>,
    /// How often the device's core went to sleep meanwhile, where the kernel counts it.
    pub slept: Option<u64>,
    pub noise: Option<Noise>,
}

/// Devices that forward, and who records what they do.
pub struct TestbedContext<'a, 'scope, 'env> {
    /// Where they stand.
    pub testbed: &'a Testbed,
    /// Who runs on which core.
    pub assignment: Option<&'a CpuAssignment>,
    /// They.
    pub devices: &'a mut Devices<'scope>,
    /// It records.
    pub recorder: &'a Recorder<'scope, 'env>,
    /// What the recorder has seen so far.
    pub watched: &'a Watched,
}

impl TestbedContext<'_, '_, '_> {
    /// Waits until no probe is under way any more.
    pub fn settle_probes(&self) {
        settle(self.watched, COUNTED);
    }

    /// Sends what the trial says. `inject` starts those who disturb the device, and says from when on they do.
    ///
    /// # Errors
    /// A load generator that can't send so, a device that does not tell its counters.
    pub fn send(
        &mut self,
        attempt: &Attempt<'_>,
        view: &LiveView,
        metering: &mut Metering,
        inject: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<Sent> {
        let Self { testbed, assignment, devices, recorder, watched } = self;
        let assignment = *assignment;
        let mut plan = traffic::plan(attempt.trial, attempt.seed)?;
        plan.end = End::DurationNs(attempt.duration_ns);
        devices.begin_counting()?;
        // Frames that go past the queueing discipline are not seen by a tap at the sender's end.
        let qdisc_bypass = !testbed.topology().tap_senders;
        let kind = match attempt.trial.traffic.socket {
            GeneratorSocket::Xdp if testbed.topology().tap_senders => {
                bail!(
                    "frames of traffic.socket = \"xdp\" are not seen by the tap at the sender's end, which this device needs"
                )
            }
            GeneratorSocket::Xdp => PortKind::Xdp,
            GeneratorSocket::PacketRing => {
                PortKind::Packet(TxPlan { mode: TxMode::Ring(RING_SLOTS), qdisc_bypass })
            }
            GeneratorSocket::Packet => PortKind::Packet(TxPlan { mode: TxMode::Call, qdisc_bypass }),
        };
        let open = |port| open_tx(&port, kind);
        let ports = testbed.sources().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let generator = Generator::new(ports, plan)?;
        let counters = SharedCounters::default();
        let placement = assignment.map(CpuAssignment::for_generator).unwrap_or_default();
        let (halt, quiet, thread) = (AtomicBool::new(false), AtomicBool::new(false), AtomicI32::new(0));
        let planned = Duration::from_nanos(attempt.duration_ns);
        let deadline = planned + OVERTIME.max(planned / 2);
        if let Some(origin_ns) = inject()? {
            devices.begin_interfering(origin_ns);
        }
        let counted = Reading::now();
        let slept = |core: Option<u32>| sleeps(Path::new("/"), core?);
        let slept_before = slept(assignment.map(|assignment| assignment.device));
        let (begun, begun_ns) = (Instant::now(), monotonic_ns());
        let (generator, noise) = std::thread::scope(|scope| {
            let (halt, quiet, shared, thread) = (&halt, &quiet, &counters, &thread);
            let beside = assignment.map(CpuAssignment::for_control).unwrap_or_default();
            let neighbours = Neighbours::start(scope, attempt.trial, beside, quiet)?;
            let sending = scope.spawn(move || {
                thread.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                placement.apply().map(|_| {
                    metering.begin(EnergyState::Processing);
                    let report = generator.run(halt, shared);
                    metering.end();
                    report
                })
            });
            while !sending.is_finished() {
                std::thread::sleep(LOOK_EVERY.min(attempt.line.left(begun.elapsed())));
                attempt.line.show(begun.elapsed(), &counters.read(), watched.missing(), view.get());
                // A device or recorder that is gone tells why when it is stopped; nobody has to wait for the end.
                let gone = devices.check().is_err() || recorder.has_failed();
                if attempt.stop.load(Ordering::Relaxed) || gone || begun.elapsed() > deadline {
                    halt.store(true, Ordering::Relaxed);
                }
            }
            let report = join(sending);
            quiet.store(true, Ordering::Relaxed);
            Ok::<_, anyhow::Error>((report?, neighbours.join()?))
        })?;
        let traffic = begun_ns..monotonic_ns() + LAST_IN_FLIGHT.as_nanos() as u64;
        let cores =
            assignment.map(|assignment| vec![assignment.device, assignment.generator]).unwrap_or_default();
        let interrupts = counted.until(&Reading::now(), &cores);
        let slept = slept(assignment.map(|assignment| assignment.device))
            .zip(slept_before)
            .map(|(after, before)| after - before);
        if !generator.complete && begun.elapsed() > deadline {
            bail!(
                "the load generator did not keep up: {} packets were sent in {:.1} s; ask for a lower rate, or for less \
                 company on its core",
                generator.sent,
                begun.elapsed().as_secs_f64()
            );
        }
        settle(watched, SETTLE);
        let counted = devices.end_counting()?;
        Ok(Sent { generator, thread: thread.into_inner(), traffic, counted, interrupts, slept, noise })
    }
}

/// Waits until everything has arrived, or is lost: nothing was seen for `patience`.
fn settle(watched: &Watched, patience: Duration) {
    let begun = Instant::now();
    let (mut seen, mut since) = (watched.seen(), begun);
    while begun.elapsed() < SETTLE_MAX && since.elapsed() < patience {
        if watched.seen() != seen {
            (seen, since) = (watched.seen(), Instant::now());
        } else if since.elapsed() > COUNTED && watched.missing() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a thread came to; its panic goes on here.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
