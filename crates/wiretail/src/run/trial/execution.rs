//! Executes one trial: sends its packets through devices that are ready, and reads the counters.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::thread::gettid;
use wiretail_dataplane::clock::monotonic_ns;
use wiretail_dataplane::clock::pauses::PauseClock;
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::generator::plan::End;
use wiretail_dataplane::generator::{Generator, GeneratorReport};
use wiretail_dataplane::placement::Placement;
use wiretail_dataplane::port::af_packet::{TxMode, TxPlan};
use wiretail_dataplane::port::{PortKind, TxPort, open_tx};
use wiretail_dataplane::timestamper::TapReport;
use wiretail_schema::experiment::GeneratorSocket;
use wiretail_schema::run::InterruptDelta;
use wiretail_schema::run::energy::EnergyState;
use wiretail_schema::run::pauses::Pauses;

use crate::run::devices::{Counted, Devices};
use crate::run::testbed::Testbed;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::neighbour::{Neighbours, Noise};
use crate::run::testbed::traffic;
use crate::run::trial::attempt::Attempt;
use crate::run::trial::energy::Metering;
use crate::run::trial::interrupts::CoreCounters;
use crate::run::trial::recorder::{Recorder, Watched};
use crate::run::trial::store::LiveView;

/// If no packet is seen for this time after the generator has ended, the missing packets are considered lost.
const SETTLE: Duration = Duration::from_millis(500);
/// Maximum time to drain a device that has fallen behind.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Maximum time between the arrival of a packet at a tap and the update of the packet counts.
const COUNTED: Duration = Duration::from_millis(100);
/// Time for packets that are still in flight after the last departure.
const LAST_IN_FLIGHT: Duration = Duration::from_millis(5);
/// The load generator may exceed its planned duration by at least this time, to send late packets.
const OVERTIME: Duration = Duration::from_secs(5);
/// Interval at which the control thread checks the generator, the devices and the recorder.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Number of slots in the load generator's sending ring, if it uses a ring.
const RING_SLOTS: usize = 1024;

/// A load generator with ports of any kind.
type LoadGenerator = Generator<Box<dyn TxPort + Send>>;

/// The packets of a trial, and the tap reports.
pub struct TrialExecution {
    pub sent: Sent,
    pub taps: Vec<TapReport>,
}

/// Report of the sending phase.
pub struct Sent {
    pub generator: GeneratorReport,
    /// Pauses of the trial, in ns of the monotonic clock.
    pub pauses: Pauses,
    /// The load generator's thread.
    pub thread: i32,
    /// Time during which packets were in flight, in ns of the monotonic clock.
    pub traffic: Range<u64>,
    /// Counters of devices that report them while they run.
    pub counted: Vec<Counted>,
    /// Interrupts of the device's and the load generator's core during the traffic.
    pub interrupts: Vec<InterruptDelta>,
    /// How often the device's core went to sleep during the traffic, if the kernel counts it.
    pub slept: Option<u64>,
    pub noise: Option<Noise>,
}

pub struct TestbedContext<'a, 'scope, 'env> {
    pub testbed: &'a Testbed,
    pub assignment: Option<&'a CpuAssignment>,
    pub devices: &'a mut Devices<'scope>,
    pub recorder: &'a Recorder<'scope, 'env>,
    /// Pauses of the trials, shared with the devices and the recorder.
    pub pauses: &'a PauseClock,
    /// Counts of the packets that the recorder has seen.
    pub watched: &'a Watched,
}

impl TestbedContext<'_, '_, '_> {
    /// Waits until no probe is in flight.
    pub fn settle_probes(&self) {
        settle(self.watched, COUNTED);
    }

    /// Sends the packets of one trial, and waits until the devices have forwarded them. `inject` starts the
    /// injected interference and returns its origin, in ns of the monotonic clock.
    ///
    /// # Errors
    /// Returns an error if the load generator cannot send as planned, or a device does not report its
    /// counters.
    pub fn send(
        &mut self,
        attempt: &Attempt<'_>,
        view: &LiveView,
        metering: &mut Metering,
        inject: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<Sent> {
        self.pauses.withdraw();
        self.devices.begin_counting()?;
        let generator = self.generator(attempt)?;
        if let Some(origin_ns) = inject()? {
            self.devices.begin_interfering(origin_ns);
        }
        let counters = CoreCounters::read(self.assignment);
        let begun_ns = monotonic_ns();
        let (generator, thread, noise) = self.generate(attempt, generator, view, metering)?;
        let traffic = begun_ns..monotonic_ns() + LAST_IN_FLIGHT.as_nanos() as u64;
        let (interrupts, slept) = counters.since();
        self.refuse_slow_generator(attempt, &generator, begun_ns)?;
        settle(self.watched, SETTLE);
        let counted = self.devices.end_counting()?;
        let pauses = self.pauses.plan().shifted(generator.start_ns as i64);
        Ok(Sent { generator, pauses, thread, traffic, counted, interrupts, slept, noise })
    }

    /// Opens the ports of an attempt's load generator.
    fn generator(&self, attempt: &Attempt<'_>) -> Result<LoadGenerator> {
        let mut plan = traffic::plan(attempt.trial, attempt.seed)?;
        plan.end = End::DurationNs(attempt.duration_ns);
        plan.pauses = *self.pauses.plan();
        // A tap at the sender's end does not see frames that bypass the queueing discipline.
        let qdisc_bypass = !self.testbed.topology().tap_senders;
        let kind = match attempt.trial.traffic.socket {
            GeneratorSocket::Xdp if !qdisc_bypass => {
                bail!(
                    "traffic.socket = \"xdp\" does not work with this device: the device requires a tap at the \
                     sender's end, and that tap does not see frames from an AF_XDP socket"
                )
            }
            GeneratorSocket::Xdp => PortKind::Xdp,
            GeneratorSocket::PacketRing => {
                PortKind::Packet(TxPlan { mode: TxMode::Ring(RING_SLOTS), qdisc_bypass })
            }
            GeneratorSocket::Packet => PortKind::Packet(TxPlan { mode: TxMode::Call, qdisc_bypass }),
        };
        let open = |port| open_tx(&port, kind);
        let ports = self.testbed.sources().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(Generator::new(ports, plan)?)
    }

    /// Runs the load generator on its own thread, starts the neighbours, and watches the generator until it
    /// ends. Returns its report, its thread and the work of the neighbours.
    fn generate(
        &self,
        attempt: &Attempt<'_>,
        generator: LoadGenerator,
        view: &LiveView,
        metering: &mut Metering,
    ) -> Result<(GeneratorReport, i32, Option<Noise>)> {
        let role = |of: fn(&CpuAssignment) -> Placement| self.assignment.map(of).unwrap_or_default();
        let (placement, beside) = (role(CpuAssignment::for_generator), role(CpuAssignment::for_control));
        let (counters, thread) = (SharedCounters::default(), AtomicI32::new(0));
        let (halt, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
        let pauses = self.pauses;
        let (report, noise) = std::thread::scope(|scope| {
            let neighbours = Neighbours::start(scope, attempt.trial, beside, &quiet)?;
            let sending = scope.spawn(|| {
                thread.store(gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                placement.apply()?;
                metering.begin(EnergyState::Processing);
                let report = announced(pauses, generator).run(&halt, &counters);
                metering.end();
                Ok(report)
            });
            self.watch(attempt, &sending, &counters, view, &halt);
            let report: Result<GeneratorReport> = join(sending);
            quiet.store(true, Ordering::Relaxed);
            Ok::<_, anyhow::Error>((report?, neighbours.join()?))
        })?;
        Ok((report, thread.into_inner(), noise))
    }

    /// Displays progress while the load generator sends. Halts the generator if the user interrupts the run,
    /// a device or the recorder fails, or the deadline passes. A failed device or recorder reports its error
    /// when it is stopped.
    fn watch<T>(
        &self,
        attempt: &Attempt<'_>,
        sending: &ScopedJoinHandle<'_, T>,
        counters: &SharedCounters,
        view: &LiveView,
        halt: &AtomicBool,
    ) {
        let begun = Instant::now();
        let deadline = self.deadline(attempt);
        let paused = Duration::from_nanos(self.pauses.lasting_ns(attempt.duration_ns) - attempt.duration_ns);
        while !sending.is_finished() {
            std::thread::sleep(LOOK_EVERY.min(attempt.line.left(begun.elapsed().saturating_sub(paused))));
            attempt.line.show(begun.elapsed(), &counters.read(), self.watched.missing(), view.get());
            let failed = self.devices.check().is_err() || self.recorder.has_failed();
            if attempt.stop.load(Ordering::Relaxed) || failed || begun.elapsed() > deadline {
                halt.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Time after which the load generator is halted.
    fn deadline(&self, attempt: &Attempt<'_>) -> Duration {
        let planned = Duration::from_nanos(self.pauses.lasting_ns(attempt.duration_ns));
        planned + OVERTIME.max(planned / 2)
    }

    /// Refuses a trial whose load generator was halted by the deadline.
    fn refuse_slow_generator(
        &self,
        attempt: &Attempt<'_>,
        report: &GeneratorReport,
        begun_ns: u64,
    ) -> Result<()> {
        let taken = Duration::from_nanos(monotonic_ns() - begun_ns);
        if !report.complete && taken > self.deadline(attempt) {
            bail!(
                "the load generator did not keep up: {} packets were sent in {:.1} s; use a lower rate, or \
                 reduce the load on its core",
                report.sent,
                taken.as_secs_f64()
            );
        }
        Ok(())
    }
}

/// Announces the start of a trial with pauses, so that its loops know when to sleep.
fn announced(pauses: &PauseClock, generator: LoadGenerator) -> LoadGenerator {
    if pauses.plan().is_empty() {
        return generator;
    }
    let start_ns = monotonic_ns() + pauses.lead_ns();
    pauses.announce(start_ns);
    generator.starting_at(start_ns)
}

/// Waits until every packet has arrived, or until no packet was seen for `patience`. Packets that have not
/// arrived by then are lost.
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

/// Returns a thread's result; a panic of the thread continues in the caller.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
