//! One sitting: build the testbed, start the devices, do a trial, or several that differ in what is sent
//! (`trial.device = "kept"`), and take everything down. What comes of each is a record and the captures of all
//! taps, or the live results of a soak.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wiretail_analysis::calibration::Span;
use wiretail_dataplane::clock::clock_offset;
use wiretail_dataplane::disturb::planters::Planters;
use wiretail_dataplane::port::TxPort;
use wiretail_dataplane::port::af_packet::{PacketTx, TxPlan};
use wiretail_dataplane::timestamper::{BLOCK_TIMEOUT_MS, RingPlan, SNAPLEN, StampSource, Timestamper};
use wiretail_host::{Awake, JOURNAL_FOLDER, Journal, Plan};
use wiretail_schema::energy::EnergyState;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::TrialRecord;

use super::disturb::{self, Planting};
use super::dut::{self, Devices};
use super::energy::{self, Metering};
use super::places::Places;
use super::progress::Line;
use super::recorder::{self, Watched};
use super::store::{self, Captures, LiveView, Soaks, Store};
use super::take::{Stand, Take, join, record_all};
use super::testbed::Testbed;
use super::topology::Topology;
use super::tracing::{self, Traced, Tracing};
use super::{profile, traffic};

/// Trials that share a device send for so long together at most: its list of stalls has an end, and what a sitting
/// measured is not safe before it is over.
const SENDING_MAX: Duration = Duration::from_secs(30);

/// What an attempt needs.
pub struct Attempt<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// Seed of this trial.
    pub seed: u64,
    /// How long to send, in ns: what is left of the trial's duration.
    pub duration_ns: u64,
    /// Where its captures go.
    pub directory: &'a Path,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// Shows how far it is.
    pub line: &'a Line,
}

/// What an attempt left.
pub struct Recorded {
    /// Counters of everybody.
    pub record: TrialRecord,
    /// When cores were taken from their roles, whole: from, to, in ns since 1970.
    pub stalls: Vec<Span>,
}

/// What became of a sitting.
pub struct Sitting {
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
        sending += Duration::from_nanos(trial.get("trial", "duration").number);
        first.shares_device(trial) && sending <= SENDING_MAX
    };
    trials.iter().take_while(fits).count().max(1)
}

/// Refuses a trial that can't be done as it says.
///
/// # Errors
/// Why not, and which key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    dut::refuse(trial)?;
    disturb::refuse(trial)?;
    energy::refuse(trial)?;
    profile::refuse(trial)?;
    tracing::refuse(trial)?;
    if trial.get("trial", "device").text == "kept" {
        // These count from the start of a device, or are of its whole life.
        let counted = ["delay", "drop-every", "duplicate-every", "swap-every"];
        let acts = counted.into_iter().find(|name| trial.get("dut", name).number > 0);
        let disturbs = disturb::plan(trial, 0, 0).map(|_| "dut.disturb".to_owned());
        let traced = tracing::is_traced(trial).then(|| "trace.record".to_owned());
        let soak = store::is_soak(trial).then(|| "trial.capture = \"none\"".to_owned());
        let metered = energy::is_asked(trial).then(|| "energy.source".to_owned());
        let acts = acts.map(|name| format!("dut.{name}"));
        if let Some(key) = acts.or(disturbs).or(traced).or(soak).or(metered) {
            bail!(
                "trial.device = \"kept\" can't be with {key}, which is of one trial; set trial.device = \"fresh\""
            );
        }
    }
    Ok(())
}

/// Makes the attempts, one after the other, with one device. What the taps saw of each is in its directory afterwards
/// ([`Captures`]). Nothing is left of the testbed.
pub fn run(attempts: &[Attempt<'_>]) -> Sitting {
    let mut done = Vec::new();
    let ended = sit(attempts, &mut done);
    Sitting { done, ended }
}

fn sit(attempts: &[Attempt<'_>], done: &mut Vec<Recorded>) -> Result<()> {
    let Some(Attempt { trial, .. }) = attempts.first() else { return Ok(()) };
    refuse(trial)?;
    let topology = Topology::of(trial);
    let isolate = trial.is("host", "isolate");
    let places = Places::assign(Path::new("/"), topology.middle, trial.is("host", "fifo"))?;
    let claims = match &places {
        Some(places) if isolate => places.claim()?,
        _ => Vec::new(),
    };
    let polls = trial.get("host", "idle").text == "poll";
    let _awake = polls.then(|| Awake::request(Path::new("/"))).transpose()?;
    let journal = Journal::create_unique(Path::new(JOURNAL_FOLDER))?;
    let needs = dut::needs(trial, &topology, journal.run());
    let mut testbed = Testbed::build(journal, topology, &needs)?;
    // On a thread of its own, whose core goes with it.
    let recorded = std::thread::scope(|scope| {
        join(scope.spawn(|| {
            if let Some(places) = &places {
                places.for_control().apply()?;
                let mut settings = Plan::new();
                settings.extend(profile::steps(trial, places)?);
                testbed.change(&settings)?;
                if isolate {
                    let has_profile = profile::of(trial).is_some();
                    let plan = places.isolation(testbed.name(), dut::stays(trial), has_profile)?;
                    testbed.change(&plan)?;
                    places.check_quiet()?;
                }
            }
            measure(attempts, &mut testbed, places.as_ref())
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
    places: Option<&Places>,
) -> Result<(Vec<Recorded>, Option<Traced>, Result<()>)> {
    let (first, topology) = (&attempts[0], *testbed.topology());
    let trial = first.trial;
    // A host that does nothing is measured once, so for one trial.
    let mut metering = match attempts {
        [_] => Metering::start(trial, places, first.stop),
        _ => Metering::default(),
    };
    metering.hold(EnergyState::Idle, first.stop);
    // Before the devices: that events are switched on disturbs all cores.
    let tracing = tracing::start(trial, testbed, places, first.directory)?;
    let taps = topology.taps();
    let watched =
        Watched::new(topology.segments().iter().filter(|segment| segment.is_whole()).cloned().collect());
    let shared = dut::Shared::default();
    let disturbing = disturb::plan(trial, first.seed, first.duration_ns);
    let planting = disturbing.map(|plan| Planting::of(trial, plan, places)).transpose()?;
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
        let reader = places.map(Places::for_reader).unwrap_or_default();
        let recorder = recorder::start(scope, &testbed.taps(&taps), ring, store(first)?, reader, &watched)?;
        let started = dut::start(scope, trial, first.seed, testbed, places, first.directory, &shared);
        let mut devices = match started {
            Ok(devices) => devices,
            Err(error) => return recorder.end().and(Err(error)),
        };
        let (mut takes, mut last, mut planters) = (Vec::new(), None, None);
        let mut stand =
            Stand { testbed, places, devices: &mut devices, recorder: &recorder, watched: &watched };
        let mut all = || {
            stand.devices.await_ready(first.stop)?;
            await_forwarding(first, testbed, stand.devices)?;
            // A probe may still be under way, and would be counted.
            stand.settle_probes();
            metering.hold(EnergyState::Available, first.stop);
            for attempt in attempts {
                if let Some(sent) = last.take() {
                    takes.push(Take { sent, taps: recorder.next(store(attempt)?)? });
                    if attempt.stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                let plant = || {
                    planters = planting.as_ref().map(|planting| planting.start(scope)).transpose()?;
                    Ok(planters.as_ref().map(Planters::origin_ns))
                };
                last = Some(stand.send(attempt, &view, &mut metering, plant)?);
            }
            Ok(())
        };
        let sent = all();
        // While the threads are there whose names the trace needs.
        let traced = tracing.map(|tracing| Tracing::finish(tracing, devices.packet_threads())).transpose();
        let planted = planters.map(Planters::stop).transpose();
        // A device that ended before its time is why the rest failed.
        let gone = devices.check();
        let (mut device, stopped) = devices.stop();
        let taps = recorder.end();
        let ended = match (gone.and(sent).and(stopped), last) {
            (Ok(()), Some(sent)) => taps.map(|taps| takes.push(Take { sent, taps })),
            (ended, _) => ended.and(taps.map(drop)),
        };
        device.disturbances.extend(planted?.into_iter().flatten());
        Ok::<_, anyhow::Error>((takes, device, traced?, ended))
    })?;
    if planting.is_some() && !takes.is_empty() {
        disturb::write(first.directory, device.disturbances.clone(), &clock_offset())?;
    }
    if let (Some(traced), [only]) = (&mut traced, &takes[..]) {
        traced.write_roles(only.sent.thread, device.stalls.as_ref(), &only.sent.traffic)?;
    }
    let mut recorded = record_all(attempts, &takes, &device, &topology, places)?;
    if let [only] = &mut recorded[..] {
        metering.finish(first.directory, &mut only.record)?;
    }
    Ok((recorded, traced, ended))
}

/// Waits until a packet crosses the device in every direction: links that were just set up, and a
/// bridge's ports, take up to a second to forward. The probes carry no signature.
fn await_forwarding(attempt: &Attempt<'_>, testbed: &Testbed, devices: &Devices<'_>) -> Result<()> {
    let patience = Duration::from_nanos(attempt.trial.get("dut", "ready-timeout").number);
    let ring = RingPlan {
        packets: 1000,
        duration_ns: patience.as_nanos() as u64,
        snaplen: SNAPLEN,
        source: StampSource::KernelSoftware,
        timeout_ms: BLOCK_TIMEOUT_MS,
    };
    let places = testbed.topology().taps();
    let arrivals: Vec<_> = ["post", "back-post"]
        .into_iter()
        .filter_map(|name| places.iter().position(|tap| tap.name == name))
        .map(|place| testbed.taps(&places)[place])
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
