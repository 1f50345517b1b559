//! One attempt at a trial: build the testbed, start the device, send, record, take everything down. What
//! comes of it is a record and the captures of all taps, or the live results of a soak.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::thread::gettid;
use wiretail_analysis::calibration::Span;
use wiretail_dataplane::clock::{clock_offset, monotonic_ns};
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::disturb::planters::Planters;
use wiretail_dataplane::generator::{Generator, GeneratorReport};
use wiretail_dataplane::plan::{End, GeneratorPlan};
use wiretail_dataplane::port::af_packet::{PacketTx, TxMode, TxPlan};
use wiretail_dataplane::port::{PortKind, TxPort, open_tx};
use wiretail_dataplane::timestamper::{
    BLOCK_TIMEOUT_MS, RingPlan, SNAPLEN, StampSource, TapReport, Timestamper,
};
use wiretail_host::{Awake, JOURNAL_FOLDER, Journal, Plan, sleeps};
use wiretail_schema::energy::EnergyState;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::{InterruptDelta, TrialRecord, TrialState};
use wiretail_schema::stalls::{STALLS_FILE, StallSpan};

use super::disturb::{self, Planting};
use super::dut::{self, DeviceReport, Devices};
use super::energy::{self, Metering};
use super::interrupts::Reading;
use super::neighbour::{Neighbours, Noise};
use super::places::Places;
use super::progress::Line;
use super::recorder::{self, Recorder, Watched};
use super::store::{self, Captures, LiveView, Soaks, Store};
use super::testbed::Testbed;
use super::topology::Topology;
use super::tracing::{self, Traced, Tracing};
use super::{profile, results, traffic, validity};
use crate::outputs;

/// A device that has forwarded nothing for so long, when the generator has ended, has lost what is missing.
const SETTLE: Duration = Duration::from_millis(500);
/// Nobody waits longer than that for a device that is behind.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// By then the packets at the taps have been counted since the last one was seen.
const COUNTED: Duration = Duration::from_millis(100);
/// So long after the last departure a stall still falls upon packets.
const LAST_UNDER_WAY: Duration = Duration::from_millis(5);
/// How much longer than planned the load generator may take, at least: it catches up with what was late.
const OVERTIME: Duration = Duration::from_secs(5);
/// How often the control thread looks after everybody.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Slots of the load generator's sending ring, where one is asked for.
const RING_SLOTS: usize = 1024;

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

/// Refuses a trial that can't be done as it says.
///
/// # Errors
/// Why not, and which key to set.
pub fn refuse(trial: &Trial) -> Result<()> {
    dut::refuse(trial)?;
    disturb::refuse(trial)?;
    energy::refuse(trial)?;
    profile::refuse(trial)?;
    tracing::refuse(trial)
}

/// Runs the trial once. What its taps saw is in its directory afterwards ([`Captures`]).
///
/// # Errors
/// Whatever kept it from running to its end. Nothing is left of its testbed.
pub fn run(attempt: &Attempt<'_>) -> Result<Recorded> {
    let trial = attempt.trial;
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
            measure(attempt, &mut testbed, places.as_ref())
        }))
    });
    // The testbed goes first, whatever became of the measurement.
    let removed = testbed.remove();
    drop(claims);
    let (recorded, traced) = recorded?;
    removed?;
    traced.map_or(Ok(()), Traced::complete)?;
    Ok(recorded)
}

/// What all parties report at the end.
struct Reports {
    sent: Sent,
    device: DeviceReport,
    taps: Vec<TapReport>,
}

fn measure(
    attempt: &Attempt<'_>,
    testbed: &mut Testbed,
    places: Option<&Places>,
) -> Result<(Recorded, Option<Traced>)> {
    let trial = attempt.trial;
    let mut metering = Metering::start(trial, places, attempt.stop);
    metering.hold(EnergyState::Idle, attempt.stop);
    // Before the devices: that events are switched on disturbs all cores.
    let tracing = tracing::start(trial, testbed, places, attempt.directory)?;
    let taps = testbed.topology().taps();
    let segments = testbed.topology().segments();
    let watched = Watched::new(segments.iter().filter(|segment| segment.is_whole()).cloned().collect());
    let shared = dut::Shared::default();
    let mut plan = traffic::plan(trial, attempt.seed)?;
    plan.end = End::DurationNs(attempt.duration_ns);
    let disturbing = disturb::plan(trial, attempt.seed, attempt.duration_ns);
    let planting = disturbing.map(|plan| Planting::of(trial, plan, places)).transpose()?;
    let view = LiveView::default();
    let soak = store::is_soak(trial);
    let store: Box<dyn Store> = if soak {
        Box::new(Soaks::create(attempt.directory, trial, testbed.topology(), &view)?)
    } else {
        Box::new(Captures::create(attempt.directory, testbed.topology())?)
    };
    let (reports, mut traced) = std::thread::scope(|scope| {
        // The taps first: of several sockets on a link the kernel serves the last one first, and that
        // should be the device.
        let ring = recorder::ring(taps.len(), traffic::packets(trial), attempt.duration_ns, soak);
        let reader = places.map(Places::for_reader).unwrap_or_default();
        let recorder = recorder::start(scope, &testbed.taps(&taps), ring, store, reader, &watched)?;
        let started = dut::start(scope, trial, attempt.seed, testbed, places, attempt.directory, &shared);
        let mut devices = match started {
            Ok(devices) => devices,
            Err(error) => return recorder.end().and(Err(error)),
        };
        let mut planters = None;
        let generated = ready_and_send(
            attempt,
            testbed,
            places,
            plan,
            (&mut devices, &recorder),
            (&watched, &view, &mut metering),
            || {
                planters = planting.as_ref().map(|planting| planting.start(scope)).transpose()?;
                Ok(planters.as_ref().map(Planters::origin_ns))
            },
        );
        // While the threads are there whose names the trace needs.
        let traced = tracing.map(|tracing| Tracing::finish(tracing, devices.packet_threads())).transpose();
        let planted = planters.map(Planters::stop).transpose();
        // A device that ended before its time is why the rest failed.
        let ended = devices.check();
        let device = devices.stop();
        let taps = recorder.end();
        ended?;
        let mut reports = Reports { sent: generated?, device: device?, taps: taps? };
        reports.device.disturbances.extend(planted?.into_iter().flatten());
        Ok::<_, anyhow::Error>((reports, traced?))
    })?;
    if planting.is_some() {
        disturb::write(attempt.directory, reports.device.disturbances.clone(), &clock_offset())?;
    }
    if let Some(traced) = &mut traced {
        traced.write_roles(reports.sent.thread, reports.device.stalls.as_ref(), &reports.sent.traffic)?;
    }
    let stalls =
        validity::list(&reports.sent.generator.stalls, reports.device.stalls.as_ref(), &clock_offset());
    outputs::write_file(&attempt.directory.join(STALLS_FILE), StallSpan::list(&stalls).as_bytes())?;
    let mut recorded = record(trial, testbed.topology(), places, &reports);
    metering.finish(attempt.directory, &mut recorded.record)?;
    Ok((recorded, traced))
}

/// What was sent.
struct Sent {
    generator: GeneratorReport,
    /// The load generator's thread.
    thread: i32,
    /// When packets were under way, in ns of the monotonic clock.
    traffic: Range<u64>,
    /// Of the device's and the load generator's core, meanwhile.
    interrupts: Vec<InterruptDelta>,
    /// How often the device's core went to sleep meanwhile, where the kernel counts it.
    slept: Option<u64>,
    noise: Option<Noise>,
}

/// Waits for the device, then sends what the plan says. `plant` starts those who disturb the device, and says from when
/// on they do.
fn ready_and_send(
    attempt: &Attempt<'_>,
    testbed: &Testbed,
    places: Option<&Places>,
    plan: GeneratorPlan,
    (devices, recorder): (&mut Devices<'_>, &Recorder<'_>),
    (watched, view, metering): (&Watched, &LiveView, &mut Metering),
    plant: impl FnOnce() -> Result<Option<u64>>,
) -> Result<Sent> {
    devices.await_ready(attempt.stop)?;
    await_forwarding(attempt, testbed, devices)?;
    // A probe may still be under way, and would be counted.
    settle(watched, COUNTED);
    metering.hold(EnergyState::Available, attempt.stop);
    devices.begin_counting()?;
    // Frames that go past the queueing discipline are not seen by a tap at the sender's end.
    let qdisc_bypass = !testbed.topology().tap_senders;
    let kind = match attempt.trial.get("traffic", "socket").text.as_str() {
        "xdp" if testbed.topology().tap_senders => {
            bail!(
                "frames of traffic.socket = \"xdp\" are not seen by the tap at the sender's end, which this device needs"
            )
        }
        "xdp" => PortKind::Xdp,
        "packet-ring" => PortKind::Packet(TxPlan { mode: TxMode::Ring(RING_SLOTS), qdisc_bypass }),
        _ => PortKind::Packet(TxPlan { mode: TxMode::Call, qdisc_bypass }),
    };
    let open = |port| open_tx(&port, kind);
    let ports = testbed.sources().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let generator = Generator::new(ports, plan)?;
    let counters = SharedCounters::default();
    let placement = places.map(Places::for_generator).unwrap_or_default();
    let (halt, quiet, thread) = (AtomicBool::new(false), AtomicBool::new(false), AtomicI32::new(0));
    let planned = Duration::from_nanos(attempt.duration_ns);
    let deadline = planned + OVERTIME.max(planned / 2);
    if let Some(origin_ns) = plant()? {
        devices.begin_disturbing(origin_ns);
    }
    let counted = Reading::now();
    let slept = |core: Option<u32>| sleeps(Path::new("/"), core?);
    let slept_before = slept(places.map(|places| places.device));
    let (begun, begun_ns) = (Instant::now(), monotonic_ns());
    let (generator, noise) = std::thread::scope(|scope| {
        let (halt, quiet, shared, thread) = (&halt, &quiet, &counters, &thread);
        let beside = places.map(Places::for_control).unwrap_or_default();
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
    let traffic = begun_ns..monotonic_ns() + LAST_UNDER_WAY.as_nanos() as u64;
    let cores = places.map(|places| vec![places.device, places.generator]).unwrap_or_default();
    let interrupts = counted.until(&Reading::now(), &cores);
    let slept =
        slept(places.map(|places| places.device)).zip(slept_before).map(|(after, before)| after - before);
    if !generator.complete && begun.elapsed() > deadline {
        bail!(
            "the load generator did not keep up: {} packets were sent in {:.1} s; ask for a lower rate, or for less \
             company on its core",
            generator.sent,
            begun.elapsed().as_secs_f64()
        );
    }
    settle(watched, SETTLE);
    devices.end_counting()?;
    Ok(Sent { generator, thread: thread.into_inner(), traffic, interrupts, slept, noise })
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

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The trial's record: what everybody counted, and whether that says something about the device.
fn record(trial: &Trial, topology: &Topology, places: Option<&Places>, reports: &Reports) -> Recorded {
    let sent = &reports.sent;
    let mut record = validity::blank(trial, TrialState::Valid, Vec::new());
    let generator = validity::generator_record(trial, &sent.generator);
    record.taps = results::tap_records(topology);
    for (tap, report) in record.taps.iter_mut().zip(&reports.taps) {
        (tap.packets, tap.drops) = (report.packets, report.drops + report.missing);
    }
    record.dut = reports.device.record;
    record.devices = reports.device.reconciled(topology, &record.taps);
    let stalls = validity::stalls(
        &sent.generator.stalls,
        reports.device.stalls.as_ref(),
        &sent.traffic,
        &clock_offset(),
    );
    record.reasons = validity::faults(trial, &generator, &record.taps, &stalls);
    record.notes = stalls.notes;
    record.notes.extend(record.devices.iter().filter_map(dut::disagreement));
    if trial.is("host", "fifo") && !places.is_some_and(|places| places.fifo) {
        record.notes.push("without real-time priority: the load generator has no core of its own".to_owned());
    }
    if let (Some(times @ 1..), "poll") = (sent.slept, trial.get("host", "idle").text.as_str()) {
        record.notes.push(format!("the device's core slept {times} times, though it was asked to poll"));
    }
    record.notes.extend(sent.noise.as_ref().map(|noise| noise.note()));
    record.notes.extend(reports.device.notes.iter().cloned());
    record.stalls = stalls.record;
    record.generator = Some(generator);
    record.interrupts.clone_from(&sent.interrupts);
    record.segments = results::segment_records(topology, &record.directory);
    record.state = match (sent.generator.complete, record.reasons.is_empty()) {
        (false, _) => {
            let sent = sent.generator.sent;
            record.reasons.insert(0, format!("interrupted after {sent} packets"));
            TrialState::Interrupted
        }
        (true, true) => TrialState::Valid,
        (true, false) => TrialState::Invalid,
    };
    Recorded { record, stalls: stalls.spans }
}
