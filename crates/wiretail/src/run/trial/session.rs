//! One sitting: build the testbed, start the devices, do a trial, or several that differ in what is sent
//! (`trial.device = "kept"`), and take everything down. What comes of each is a record and the captures of all
//! taps, or the live results of a soak.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wiretail_dataplane::clock::clock_offset;
use wiretail_dataplane::interference::injectors::Injectors;
use wiretail_dataplane::port::TxPort;
use wiretail_dataplane::port::af_packet::{PacketTx, TxPlan};
use wiretail_dataplane::timestamper::{BLOCK_TIMEOUT_MS, RingPlan, SNAPLEN, TimestampSource, Timestamper};
use wiretail_host::{Awake, JOURNAL_FOLDER, Journal, Plan};
use wiretail_schema::experiment::{CoreIdle, DeviceLifetime, Trial};
use wiretail_schema::run::energy::EnergyState;

use crate::run::devices::interference::{self, Injection};
use crate::run::devices::{self, Devices};
use crate::run::testbed::Testbed;
use crate::run::testbed::cpus::CpuAssignment;
use crate::run::testbed::topology::Topology;
use crate::run::testbed::{profile, traffic};
use crate::run::trial::attempt::{Attempt, Recorded};
use crate::run::trial::energy::{self, Metering};
use crate::run::trial::execution::{TestbedContext, TrialExecution, join};
use crate::run::trial::record::record_all;
use crate::run::trial::recorder::{self, Watched};
use crate::run::trial::store::{self, Captures, LiveView, Soaks, Store};
use crate::run::trial::tracing::{self, Traced, Tracing};

/// Trials that share a device send for so long together at most: its list of stalls has an end, and what a sitting
/// measured is not safe before it is over.
const SENDING_MAX: Duration = Duration::from_secs(30);

/// What became of a sitting.
pub struct Session {
    /// The attempts that were made to their ends, in their order.
    pub done: Vec<Recorded>,
    /// Why there are no more of them.
    pub ended: Result<()>,
}

/// How many of these trials, the first ones, the device of the first one may be kept for: those whose traffic alone is another.
pub fn share(trials: &[&Trial]) -> usize {
    let Some(first) = trials.first() else { return 0 };
    let mut sending = Duration::ZERO;
    let fits = |trial: &&&Trial| {
        sending += Duration::from(trial.trial.duration);
        first.shares_device(trial) && sending <= SENDING_MAX
    };
    trials.iter().take_while(fits).count().max(1)
}

/// Refuses a trial that can't be done as it says.
///
/// # Errors
/// Why not, and which key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    devices::refuse(trial)?;
    interference::refuse(trial)?;
    energy::refuse(trial)?;
    profile::refuse(trial)?;
    tracing::refuse(trial)?;
    if trial.trial.device == DeviceLifetime::Kept {
        // These count from the start of a device, or are of its whole life.
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
                "trial.device = \"kept\" can't be with {key}, which is of one trial; set trial.device = \"fresh\""
            );
        }
    }
    Ok(())
}

/// Makes the attempts, one after the other, with one device. What the taps saw of each is in its directory afterwards
/// ([`Captures`]). Nothing is left of the testbed.
pub fn run(attempts: &[Attempt<'_>]) -> Session {
    let mut done = Vec::new();
    let ended = sit(attempts, &mut done);
    Session { done, ended }
}

fn sit(attempts: &[Attempt<'_>], done: &mut Vec<Recorded>) -> Result<()> {
    let Some(Attempt { trial, .. }) = attempts.first() else { return Ok(()) };
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
    let needs = devices::needs(trial, &topology, journal.run());
    let mut testbed = Testbed::build(journal, topology, &needs)?;
    // On a thread of its own, whose core goes with it.
    let recorded = std::thread::scope(|scope| {
        join(scope.spawn(|| {
            if let Some(assignment) = &assignment {
                assignment.for_control().apply()?;
                let mut settings = Plan::new();
                settings.extend(profile::steps(trial, assignment)?);
                testbed.change(&settings)?;
                if isolate {
                    let has_profile = profile::of(trial).is_some();
                    let plan = assignment.isolation(testbed.name(), devices::stays(trial), has_profile)?;
                    testbed.change(&plan)?;
                    assignment.check_quiet()?;
                }
            }
            measure(attempts, &mut testbed, assignment.as_ref())
        }))
    });
    // The testbed goes first, whatever became of the measurement.
    let removed = testbed.remove();
    drop(claims);
    let (recorded, traced, ended) = recorded?;
    removed?;
    traced.map_or(Ok(()), Traced::complete)?;
    done.extend(recorded);
    ended
}

fn measure(
    attempts: &[Attempt<'_>],
    testbed: &mut Testbed,
    assignment: Option<&CpuAssignment>,
) -> Result<(Vec<Recorded>, Option<Traced>, Result<()>)> {
    let (first, topology) = (&attempts[0], *testbed.topology());
    let trial = first.trial;
    // A host that does nothing is measured once, so for one trial.
    let mut metering = match attempts {
        [_] => Metering::start(trial, assignment, first.stop),
        _ => Metering::default(),
    };
    metering.hold(EnergyState::Idle, first.stop);
    // Before the devices: that events are switched on disturbs all cores.
    let tracing = tracing::start(trial, testbed, assignment, first.directory)?;
    let taps = topology.taps();
    let watched =
        Watched::new(topology.segments().iter().filter(|segment| segment.is_whole()).cloned().collect());
    let shared = devices::Shared::default();
    let interfering = interference::plan(trial, first.seed, first.duration_ns);
    let injection = interfering.map(|plan| Injection::of(trial, plan, assignment)).transpose()?;
    let view = LiveView::default();
    let soak = store::is_soak(trial);
    let store = |attempt: &Attempt<'_>| -> Result<Box<dyn Store + '_>> {
        Ok(match soak {
            true => Box::new(Soaks::create(attempt.directory, attempt.trial, &topology, &view)?),
            false => Box::new(Captures::create(attempt.directory, &topology)?),
        })
    };
    let (takes, device, mut traced, ended) = std::thread::scope(|scope| {
        // The taps first: of several sockets on a link the kernel serves the last one first, and that
        // should be the device.
        let packets = attempts.iter().map(|attempt| traffic::packets(attempt.trial)).max().unwrap_or(0);
        let longest_ns = attempts.iter().map(|attempt| attempt.duration_ns).max().unwrap_or(0);
        let ring = recorder::ring(taps.len(), packets, longest_ns, soak);
        let reader = assignment.map(CpuAssignment::for_reader).unwrap_or_default();
        let recorder = recorder::start(scope, &testbed.taps(&taps), ring, store(first)?, reader, &watched)?;
        let started = devices::start(scope, trial, first.seed, testbed, assignment, first.directory, &shared);
        let mut devices = match started {
            Ok(devices) => devices,
            Err(error) => return recorder.end().and(Err(error)),
        };
        let (mut takes, mut last, mut injectors) = (Vec::new(), None, None);
        let mut testbed_context = TestbedContext {
            testbed,
            assignment,
            devices: &mut devices,
            recorder: &recorder,
            watched: &watched,
        };
        let mut all = || {
            testbed_context.devices.await_ready(first.stop)?;
            await_forwarding(first, testbed, testbed_context.devices)?;
            // A probe may still be under way, and would be counted.
            testbed_context.settle_probes();
            metering.hold(EnergyState::Available, first.stop);
            for attempt in attempts {
                if let Some(sent) = last.take() {
                    takes.push(TrialExecution { sent, taps: recorder.next(store(attempt)?)? });
                    if attempt.stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                let inject = || {
                    injectors = injection.as_ref().map(|injection| injection.start(scope)).transpose()?;
                    Ok(injectors.as_ref().map(Injectors::origin_ns))
                };
                last = Some(testbed_context.send(attempt, &view, &mut metering, inject)?);
            }
            Ok(())
        };
        let sent = all();
        // While the threads are there whose names the trace needs.
        let traced = tracing.map(|tracing| Tracing::finish(tracing, devices.packet_threads())).transpose();
        let injected = injectors.map(Injectors::stop).transpose();
        // A device that ended before its time is why the rest failed.
        let gone = devices.check();
        let (mut device, stopped) = devices.stop();
        let taps = recorder.end();
        let ended = match (gone.and(sent).and(stopped), last) {
            (Ok(()), Some(sent)) => taps.map(|taps| takes.push(TrialExecution { sent, taps })),
            (ended, _) => ended.and(taps.map(drop)),
        };
        device.interferences.extend(injected?.into_iter().flatten());
        Ok::<_, anyhow::Error>((takes, device, traced?, ended))
    })?;
    if injection.is_some() && !takes.is_empty() {
        interference::write(first.directory, device.interferences.clone(), &clock_offset())?;
    }
    if let (Some(traced), [only]) = (&mut traced, &takes[..]) {
        traced.write_roles(only.sent.thread, device.stalls.as_ref(), &only.sent.traffic)?;
    }
    let mut recorded = record_all(attempts, &takes, &device, &topology, assignment)?;
    if let [only] = &mut recorded[..] {
        metering.finish(first.directory, &mut only.record)?;
    }
    Ok((recorded, traced, ended))
}

/// Waits until a packet crosses the device in every direction: links that were just set up, and a
/// bridge's ports, take up to a second to forward. The probes carry no signature.
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
    bail!("the device under test forwards nothing: no probe crossed it within {patience:?}")
}
