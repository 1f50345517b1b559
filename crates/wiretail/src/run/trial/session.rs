//! A session builds the testbed, starts the devices, executes trials, and removes the testbed. It executes
//! one trial, or several trials that differ only in their traffic (`trial.device = "kept"`). The result of
//! each trial is a record, together with the captures of all taps or the live results of a soak.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wiretail_dataplane::clock::clock_offset;
use wiretail_dataplane::clock::pauses::PauseClock;
use wiretail_dataplane::interference::injectors::Injectors;
use wiretail_dataplane::port::TxPort;
use wiretail_dataplane::port::af_packet::{PacketTx, TxPlan};
use wiretail_dataplane::timestamper::{BLOCK_TIMEOUT_MS, RingPlan, SNAPLEN, TimestampSource, Timestamper};
use wiretail_host::{Awake, JOURNAL_FOLDER, Journal};
use wiretail_schema::experiment::{CoreIdle, DeviceLifetime, Trial};
use wiretail_schema::run::energy::EnergyState;

use crate::run::devices::interference::{self, Injection};
use crate::run::devices::{self, DeviceReport, Devices};
use crate::run::testbed::Testbed;
use crate::run::testbed::changes::Changes;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::Topology;
use crate::run::testbed::{profile, sysctl, traffic};
use crate::run::trial::attempt::{Attempt, Recorded};
use crate::run::trial::energy::{self, Metering};
use crate::run::trial::execution::{Sent, TestbedContext, TrialExecution, join};
use crate::run::trial::pauses;
use crate::run::trial::record::record_all;
use crate::run::trial::recorder::{self, Recorder, Watched};
use crate::run::trial::store::{self, Captures, LiveView, Soaks, Store};
use crate::run::trial::tracing::{self, Traced, Tracing};

/// Maximum total sending time of trials that share a device. The device's list of stalls is bounded, and the
/// results of a session are written only when it ends.
const SENDING_MAX: Duration = Duration::from_secs(30);

/// The outcome of a session.
pub struct Session {
    /// The attempts that were completed, in order.
    pub done: Vec<Recorded>,
    /// Why the remaining attempts were not completed.
    pub ended: Result<()>,
}

/// Returns the number of trials at the start of `trials` that can share a device. They differ only in their
/// traffic, and send for at most [`SENDING_MAX`] in total.
pub fn share(trials: &[&Trial]) -> usize {
    let Some(first) = trials.first() else { return 0 };
    let mut sending = Duration::ZERO;
    let fits = |trial: &&&Trial| {
        sending += Duration::from(trial.trial.duration);
        first.shares_device(trial) && sending <= SENDING_MAX
    };
    trials.iter().take_while(fits).count().max(1)
}

/// Refuses a trial that cannot run as requested.
///
/// # Errors
/// Returns an error if the trial is refused; the message names the key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    devices::refuse(trial)?;
    interference::refuse(trial)?;
    energy::refuse(trial)?;
    profile::refuse(trial)?;
    sysctl::refuse(trial)?;
    tracing::refuse(trial)?;
    pauses::refuse(trial)?;
    if trial.trial.device == DeviceLifetime::Kept {
        // These features start together with a device or cover its whole lifetime.
        let dut = &trial.dut;
        let counted = [
            ("dut.delay", dut.delay.ns_unsigned()),
            ("dut.drop-every", dut.drop_every),
            ("dut.duplicate-every", dut.duplicate_every),
            ("dut.swap-every", dut.swap_every),
        ];
        let acts = counted.into_iter().find(|(_, number)| *number > 0).map(|(key, _)| key);
        let interferes = interference::plan(trial, 0, 0).map(|_| "dut.interference");
        let traced = tracing::is_traced(trial).then_some("trace.record");
        let soak = store::is_soak(trial).then_some("trial.capture = \"none\"");
        let metered = energy::is_asked(trial).then_some("energy.source");
        if let Some(key) = acts.or(interferes).or(traced).or(soak).or(metered) {
            bail!(
                "trial.device = \"kept\" cannot be combined with {key}, which applies to a single trial; set \
                 trial.device = \"fresh\""
            );
        }
    }
    Ok(())
}

/// Runs the attempts one after the other, with one device, and removes the testbed. Each attempt's captures
/// are then in its directory ([`Captures`]).
pub fn run(attempts: &[Attempt<'_>]) -> Session {
    let mut done = Vec::new();
    let ended = in_testbed(attempts, &mut done);
    Session { done, ended }
}

fn in_testbed(attempts: &[Attempt<'_>], done: &mut Vec<Recorded>) -> Result<()> {
    let Some(Attempt { trial, directory, stop, .. }) = attempts.first() else { return Ok(()) };
    refuse(trial)?;
    let topology = Topology::of(trial);
    let isolate = trial.host.isolate;
    let assignment = CpuAssignment::assign(Path::new("/"), topology.middle, trial.host.fifo)?;
    let claims = match &assignment {
        Some(assignment) if isolate => assignment.claim()?,
        _ => Vec::new(),
    };
    let polls = trial.host.idle == CoreIdle::Poll;
    let _awake = polls.then(|| Awake::request(Path::new("/"))).transpose()?;
    let journal = Journal::create_unique(Path::new(JOURNAL_FOLDER))?;
    let run = journal.run().to_owned();
    let changes = Changes::of(trial, &run);
    let needs = devices::needs(trial, &topology, &run);
    let testbed = Testbed::build(journal, topology, &changes.testbed(&topology, needs));
    let mut testbed = testbed.map_err(|error| sysctl::blame(trial, error))?;
    // A separate thread, so that its core affinity does not outlive the session.
    let recorded = std::thread::scope(|scope| {
        join(scope.spawn(|| {
            if let Some(assignment) = &assignment {
                assignment.for_control().apply()?;
                testbed.change(&changes.settings(assignment, devices::stays(trial))?)?;
                if isolate {
                    assignment.check_quiet()?;
                }
            }
            let directory = std::path::absolute(directory)?;
            let commands = changes.commands(&topology, assignment.as_ref(), &directory)?;
            testbed.run_commands(&commands, stop)?;
            measure(attempts, &mut testbed, assignment.as_ref())
        }))
    });
    // The testbed is removed even if the measurement failed.
    let removed = testbed.remove();
    drop(claims);
    let (recorded, traced, ended) = match (recorded, removed) {
        (Ok(recorded), Ok(())) => recorded,
        (Err(error), Ok(())) | (Ok(_), Err(error)) => return Err(error),
        (Err(error), Err(removed)) => bail!("{}; {removed}", crate::message(&error)),
    };
    traced.map_or(Ok(()), Traced::complete)?;
    done.extend(recorded);
    ended
}

/// Runs all attempts in a testbed: starts taps and devices, sends the packets, stops devices and taps, and
/// writes their reports.
fn measure(
    attempts: &[Attempt<'_>],
    testbed: &mut Testbed,
    assignment: Option<&CpuAssignment>,
) -> Result<(Vec<Recorded>, Option<Traced>, Result<()>)> {
    let (first, topology) = (&attempts[0], *testbed.topology());
    // The energy of the idle host is measured only in a session of one trial, because it is measured once per
    // session.
    let mut metering = match attempts {
        [_] => Metering::start(first.trial, assignment, first.stop),
        _ => Metering::default(),
    };
    metering.hold(EnergyState::Idle, first.stop);
    // The trace starts before the devices, because switching on trace events disturbs all cores.
    let tracing = tracing::start(first.trial, testbed, assignment, first.directory)?;
    let pauses = PauseClock::new(pauses::plan(first.trial, assignment, first.duration_ns));
    let lasting_ns = pauses.lasting_ns(first.duration_ns);
    let interference = interference::plan(first.trial, first.seed, lasting_ns);
    let injection = interference.map(|plan| Injection::of(first.trial, plan, assignment)).transpose()?;
    let shared = Shared::of(topology, pauses);
    let session = Sending { attempts, assignment, injection: injection.as_ref(), shared: &shared };
    let Measured { executions, device, mut traced, ended } =
        std::thread::scope(|scope| session.run(scope, testbed, tracing, &mut metering))?;
    if let (Some(_), [only, ..]) = (&injection, &executions[..]) {
        let injected = interference::outside_pauses(&device.interferences, &only.sent.pauses);
        interference::write(first.directory, injected, &clock_offset())?;
    }
    if let (Some(traced), [only]) = (&mut traced, &executions[..]) {
        traced.write_roles(only.sent.thread, device.stalls.as_ref(), &only.sent.traffic)?;
    }
    let mut recorded = record_all(attempts, &executions, &device, &topology, assignment)?;
    if let [only] = &mut recorded[..] {
        metering.finish(first.directory, &mut only.record)?;
    }
    Ok((recorded, traced, ended))
}

struct Shared {
    topology: Topology,
    watched: Watched,
    view: LiveView,
    devices: devices::Shared,
}

impl Shared {
    fn of(topology: Topology, pauses: PauseClock) -> Self {
        let whole = topology.segments().iter().filter(|segment| segment.is_whole()).cloned().collect();
        Self {
            topology,
            watched: Watched::new(whole),
            view: LiveView::default(),
            devices: devices::Shared::pausing(pauses),
        }
    }
}

/// Results of a session whose devices and taps have stopped.
struct Measured {
    executions: Vec<TrialExecution>,
    device: DeviceReport,
    traced: Option<Traced>,
    /// Why there are fewer executions than attempts.
    ended: Result<()>,
}

/// Progress of the attempts.
#[derive(Default)]
struct Progress<'scope> {
    executions: Vec<TrialExecution>,
    /// The packets that the last attempt sent. The recorder still holds their timestamps.
    last: Option<Sent>,
    injectors: Option<Injectors<'scope>>,
}

/// The attempts of a session, with all that is needed to send their packets.
struct Sending<'env> {
    attempts: &'env [Attempt<'env>],
    assignment: Option<&'env CpuAssignment>,
    injection: Option<&'env Injection>,
    shared: &'env Shared,
}

impl<'env> Sending<'env> {
    /// Starts taps and devices, sends the packets of all attempts, and stops devices and taps.
    fn run<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        testbed: &mut Testbed,
        tracing: Option<Tracing>,
        metering: &mut Metering,
    ) -> Result<Measured> {
        let Sending { attempts, assignment, shared, .. } = *self;
        let first = &attempts[0];
        // The taps start before the devices. The kernel serves the newest socket of a link first, and this
        // should be the device's socket.
        let recorder = self.start_recorder(scope, testbed)?;
        let started = devices::start(
            scope,
            first.trial,
            first.seed,
            testbed,
            assignment,
            first.directory,
            &shared.devices,
        );
        let mut devices = match started {
            Ok(devices) => devices,
            Err(error) => return recorder.end().and(Err(error)),
        };
        let mut progress = Progress::default();
        let context = TestbedContext {
            testbed,
            assignment,
            devices: &mut devices,
            recorder: &recorder,
            pauses: &shared.devices.pauses,
            watched: &shared.watched,
        };
        let sent = self.send_all(scope, context, metering, &mut progress);
        // The trace needs the names of the threads, so the threads must still be running.
        let traced = tracing.map(|tracing| tracing.finish(devices.packet_threads())).transpose();
        let injected = progress.injectors.map(Injectors::stop).transpose();
        // The failure of a device causes the other errors, so it is reported first.
        let failed = devices.check();
        let (mut device, stopped) = devices.stop();
        let taps = recorder.end();
        let mut executions = progress.executions;
        let ended = match (failed.and(sent).and(stopped), progress.last) {
            (Ok(()), Some(sent)) => taps.map(|taps| executions.push(TrialExecution { sent, taps })),
            (ended, _) => ended.and(taps.map(drop)),
        };
        device.interferences.extend(injected?.into_iter().flatten());
        Ok(Measured { executions, device, traced: traced?, ended })
    }

    fn start_recorder<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        testbed: &Testbed,
    ) -> Result<Recorder<'scope, 'env>> {
        let taps = self.shared.topology.taps();
        let packets = self.attempts.iter().map(|attempt| traffic::packets(attempt.trial)).max().unwrap_or(0);
        let pauses = &self.shared.devices.pauses;
        let lasting = self.attempts.iter().map(|attempt| pauses.lasting_ns(attempt.duration_ns));
        let longest_ns = lasting.max().unwrap_or(0);
        let first = &self.attempts[0];
        let ring = recorder::ring(taps.len(), packets, longest_ns, store::is_soak(first.trial));
        let reader = self.assignment.map(CpuAssignment::for_reader).unwrap_or_default();
        recorder::start(scope, &testbed.taps(&taps), ring, self.store(first)?, reader, &self.shared.watched)
    }

    /// Returns the store for the packets of an attempt.
    fn store(&self, attempt: &Attempt<'_>) -> Result<Box<dyn Store + 'env>> {
        let Shared { topology, view, devices, .. } = self.shared;
        Ok(match store::is_soak(attempt.trial) {
            true => Box::new(Soaks::create(attempt.directory, attempt.trial, topology, view)?),
            false => Box::new(Captures::create(attempt.directory, topology, devices.pauses.clone())?),
        })
    }

    /// Waits for the devices to forward, then sends the packets of one attempt after the other.
    fn send_all<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        mut context: TestbedContext<'_, 'scope, 'env>,
        metering: &mut Metering,
        progress: &mut Progress<'scope>,
    ) -> Result<()> {
        let first = &self.attempts[0];
        context.devices.await_ready(first.stop)?;
        await_forwarding(first, context.testbed, context.devices)?;
        // A probe that is still in flight would be counted as a packet of the trial.
        context.settle_probes();
        metering.hold(EnergyState::Available, first.stop);
        let mut coming = self.attempts.iter().skip(1);
        for attempt in self.attempts {
            let inject = || {
                progress.injectors = self.injection.map(|injection| injection.start(scope)).transpose()?;
                Ok(progress.injectors.as_ref().map(Injectors::origin_ns))
            };
            let sent = context.send(attempt, &self.shared.view, metering, inject)?;
            match coming.next().filter(|_| !attempt.stop.load(Ordering::Relaxed)) {
                Some(next) => {
                    let taps = context.recorder.next(self.store(next)?)?;
                    progress.executions.push(TrialExecution { sent, taps });
                }
                None => {
                    progress.last = Some(sent);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Waits until a probe crosses the device in every direction. New links and the ports of a bridge do not
/// forward for up to a second. Probes do not contain the load generator's signature.
fn await_forwarding(attempt: &Attempt<'_>, testbed: &Testbed, devices: &Devices<'_>) -> Result<()> {
    let patience = Duration::from(attempt.trial.dut.ready_timeout);
    let ring = RingPlan {
        packets: 1000,
        duration_ns: patience.as_nanos() as u64,
        snaplen: SNAPLEN,
        source: TimestampSource::KernelSoftware,
        timeout_ms: BLOCK_TIMEOUT_MS,
    };
    let assignment = testbed.topology().taps();
    let arrivals: Vec<_> = ["post", "back-post"]
        .into_iter()
        .filter_map(|name| assignment.iter().position(|tap| tap.name == name))
        .map(|place| testbed.taps(&assignment)[place])
        .collect();
    let mut sinks = Timestamper::open(&arrivals, &ring)?;
    let open = |port| PacketTx::open(&port, TxPlan::default());
    let mut sources = testbed.sources().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let probes = traffic::probes(testbed.topology());
    let mut waiting: Vec<u16> = arrivals.iter().map(|tap| tap.tap).collect();
    let begun = Instant::now();
    while begun.elapsed() < patience {
        for (source, probe) in sources.iter_mut().zip(&probes) {
            source.send(&[probe]);
        }
        std::thread::sleep(Duration::from_millis(20));
        sinks.collect(&mut |tap, _, _, frame| {
            if traffic::is_probe(frame) {
                waiting.retain(|other| *other != tap);
            }
        });
        if waiting.is_empty() {
            return Ok(());
        }
        devices.check()?;
        if attempt.stop.load(Ordering::Relaxed) {
            bail!("interrupted before the first packet");
        }
    }
    bail!("the device under test does not forward: no probe crossed it within {patience:?}")
}
