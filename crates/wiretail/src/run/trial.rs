//! One trial: build the testbed, send, record, forward, remove the testbed, write both captures.

use std::fs::File;
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wiretail_capture::write::PcapWriter;
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::frame::Addresses;
use wiretail_dataplane::generator::{Generator, GeneratorReport};
use wiretail_dataplane::placement::Placement;
use wiretail_dataplane::plan::{End, GeneratorPlan, Pattern, Sizes, Stream};
use wiretail_dataplane::port::TxPort;
use wiretail_dataplane::port::af_packet::{PacketTx, TxPlan};
use wiretail_dataplane::skeleton::{Delay, Release, Skeleton, SkeletonPlan};
use wiretail_dataplane::timestamper::{RingPlan, SNAPLEN, StampSource, TapReport, Timestamper};
use wiretail_host::Journal;
use wiretail_schema::experiment::Trial;
use wiretail_schema::run::{GeneratorRecord, StallsRecord, TapRecord, TrialRecord, TrialState};

use super::testbed::{MAC_GENERATOR, MAC_SINK, Middle, TAPS, Testbed};

/// A packet that departs more than this after its time is late.
const LATE_LIMIT_NS: u64 = 100_000;
/// More late packets than this share make a trial invalid.
const LATE_SHARE_MAX: f64 = 0.01;
/// Time for the device to forward what is under way when the generator has ended.
const SETTLE: Duration = Duration::from_millis(300);
/// How long a device may take until it forwards.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// For experiments on a local network (IEEE 802, "Local Experimental Ethertype 1").
const ETHERTYPE_EXPERIMENTAL: u16 = 0x88b5;
/// Ethernet, in a pcap file header.
const LINK_ETHERNET: u32 = 1;

/// What a trial ran with.
pub struct Setup<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// Seed of this trial.
    pub seed: u64,
    /// Start of the names of its namespaces.
    pub prefix: &'a str,
    /// Where its captures go.
    pub directory: &'a Path,
    /// Cores of the generator and of the device under test.
    pub cores: (Option<usize>, Option<usize>),
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
}

/// What stands between generator and sink in this trial.
pub fn middle(trial: &Trial) -> Middle {
    match trial.get("dut", "kind").text.as_str() {
        "wire" => Middle::Nothing,
        "bridge" => Middle::Bridge,
        _ => Middle::Ports,
    }
}

/// Runs the trial; both captures are in its directory afterwards, `pre.pcap` and `post.pcap`.
///
/// # Errors
/// Whatever kept it from running to its end. Nothing is left of its testbed.
pub fn run(setup: &Setup<'_>, journal: Journal) -> Result<TrialRecord> {
    let middle = middle(setup.trial);
    let testbed = Testbed::build(journal, setup.prefix, middle)?;
    let measured = measure(setup, &testbed, middle);
    // The testbed goes first, whatever became of the measurement.
    testbed.remove()?;
    let (generated, taps) = measured?;
    Ok(record(setup.trial, &generated, &taps))
}

fn measure(
    setup: &Setup<'_>,
    testbed: &Testbed,
    middle: Middle,
) -> Result<(GeneratorReport, Vec<TapReport>)> {
    let plan = generator_plan(setup)?;
    let skeleton = match (middle, testbed.ports()) {
        (Middle::Ports, Some([input, output])) => {
            Some(Skeleton::open(&input, &output, skeleton_plan(setup.trial))?)
        }
        _ => None,
    };
    let forwarded = SharedCounters::default();
    let stop_forwarding = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarder = skeleton.map(|skeleton| {
            let (stop, counters, cpu) = (&stop_forwarding, &forwarded, setup.cores.1);
            scope.spawn(move || place(cpu).apply().map(|_| skeleton.run(stop, counters)))
        });
        let measured = send_and_record(setup, testbed, plan);
        stop_forwarding.store(true, Ordering::Relaxed);
        let forwarder = forwarder.map(join).transpose();
        let measured = measured?;
        match forwarder? {
            Some(report) if report.failed + report.oversize > 0 => {
                bail!("the skeleton could not send {} packets", report.failed + report.oversize)
            }
            _ => Ok(measured),
        }
    })
}

fn place(cpu: Option<usize>) -> Placement {
    Placement { cpu, ..Placement::default() }
}

fn send_and_record(
    setup: &Setup<'_>,
    testbed: &Testbed,
    plan: GeneratorPlan,
) -> Result<(GeneratorReport, Vec<TapReport>)> {
    await_forwarding(testbed, setup.stop)?;
    let duration_ns = setup.trial.get("trial", "duration").number;
    let packets = setup.trial.get("traffic", "rate").number as f64 * duration_ns as f64 / 1e9;
    let ring = RingPlan {
        packets: (packets * 1.1) as u64 + 1000,
        duration_ns: duration_ns + 2_000_000_000,
        snaplen: SNAPLEN,
        source: StampSource::KernelSoftware,
    };
    let timestamper = Timestamper::open(&testbed.taps(), &ring)?;
    let tx = TxPlan { qdisc_bypass: !testbed.taps_the_sender(), ..TxPlan::default() };
    let generator = Generator::new(vec![PacketTx::open(&testbed.source(), tx)?], plan)?;
    let counters = SharedCounters::default();
    let generated = std::thread::scope(|scope| {
        let (stop, counters, cpu) = (setup.stop, &counters, setup.cores.0);
        join(scope.spawn(move || place(cpu).apply().map(|_| generator.run(stop, counters))))
    })?;
    std::thread::sleep(SETTLE);
    if !generated.complete {
        bail!("interrupted after {} packets", generated.sent);
    }
    let reports = write_captures(timestamper, setup.directory)?;
    Ok((generated, reports))
}

/// Waits until a packet crosses the device: links that were just set up, and a bridge's ports, take
/// up to a second to forward. The probes carry no signature, and the taps are not open yet.
fn await_forwarding(testbed: &Testbed, stop: &AtomicBool) -> Result<()> {
    let ring = RingPlan {
        packets: 1000,
        duration_ns: READY_TIMEOUT.as_nanos() as u64,
        snaplen: SNAPLEN,
        source: StampSource::KernelSoftware,
    };
    let [_, post] = testbed.taps();
    let mut sink = Timestamper::open(&[post], &ring)?;
    let mut source = PacketTx::open(&testbed.source(), TxPlan::default())?;
    let mut probe = [0; 60];
    probe[..6].copy_from_slice(&MAC_SINK.0);
    probe[6..12].copy_from_slice(&MAC_GENERATOR.0);
    probe[12..14].copy_from_slice(&ETHERTYPE_EXPERIMENTAL.to_be_bytes());
    let begun = Instant::now();
    while begun.elapsed() < READY_TIMEOUT {
        source.send(&[&probe]);
        std::thread::sleep(Duration::from_millis(20));
        let mut arrived = false;
        sink.collect(&mut |_, _, _, frame| arrived |= frame.get(12..14) == probe.get(12..14));
        if arrived {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted before the first packet");
        }
    }
    bail!("the device under test forwards nothing: no probe arrived at the sink within {READY_TIMEOUT:?}")
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn generator_plan(setup: &Setup<'_>) -> Result<GeneratorPlan> {
    let get = |table, name| setup.trial.get(table, name).number;
    let (rate_pps, burst) = (get("traffic", "rate"), get("traffic", "burst"));
    let pattern = match u32::try_from(burst)? {
        1 => Pattern::Constant { rate_pps },
        burst => Pattern::Bursts { rate_pps, burst },
    };
    let addresses = Addresses {
        mac_from: MAC_GENERATOR.0,
        mac_to: MAC_SINK.0,
        ip_from: Ipv4Addr::new(10, 0, 0, 1),
        ip_to: Ipv4Addr::new(10, 0, 0, 2),
        port_to: 53,
    };
    let sizes = Sizes::Fixed(u16::try_from(get("traffic", "size"))?);
    let flows = u16::try_from(get("traffic", "flows")).context("traffic.flows: at most 65535")?;
    Ok(GeneratorPlan {
        streams: vec![Stream { id: 0, port: 0, addresses, flows, sizes }],
        recording: None,
        pattern,
        end: End::DurationNs(get("trial", "duration")),
        seed: setup.seed,
        start_ns: None,
        late_limit_ns: LATE_LIMIT_NS,
        id_first: 0,
    })
}

fn skeleton_plan(trial: &Trial) -> SkeletonPlan {
    let get = |name| trial.get("dut", name);
    let (ns, every) = (get("delay").number, get("delay-every").number);
    SkeletonPlan {
        batch: get("batch").number as usize,
        release: if get("release").text == "batch" { Release::Batch } else { Release::Immediate },
        delay: (ns > 0 && every > 0).then_some(Delay { ns, every }),
        ..SkeletonPlan::default()
    }
}

/// Writes what both taps recorded.
fn write_captures(timestamper: Timestamper, directory: &Path) -> Result<Vec<TapReport>> {
    let create = |tap: &str| {
        let path = directory.join(format!("{tap}.pcap"));
        let file = File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
        anyhow::Ok(PcapWriter::new(BufWriter::with_capacity(1 << 18, file), LINK_ETHERNET))
    };
    let mut writers = [create(TAPS[0])?, create(TAPS[1])?];
    let mut failure = Ok(());
    let reports = timestamper.drain(&mut |tap, ts_ns, wire_len, frame| {
        if let Some(writer) = writers.get_mut(usize::from(tap))
            && failure.is_ok()
        {
            failure = writer.write(ts_ns, wire_len, frame);
        }
    });
    let finish =
        failure.and_then(|()| writers.into_iter().try_for_each(|writer| writer.finish().map(|_| ())));
    finish.with_context(|| format!("{}: the captures can't be written", directory.display()))?;
    Ok(reports)
}

/// The trial's counters, and whether its numbers say something about the device.
fn record(trial: &Trial, generated: &GeneratorReport, taps: &[TapReport]) -> TrialRecord {
    let drops = |tap: usize| taps.get(tap).map_or(0, |report| report.drops + report.missing);
    let mut reasons = Vec::new();
    for (tap, name) in TAPS.iter().enumerate() {
        if drops(tap) > 0 {
            reasons.push(format!("the {name} capture dropped {} packets", drops(tap)));
        }
    }
    if generated.failed > 0 {
        reasons.push(format!("the load generator could not send {} packets", generated.failed));
    }
    if generated.late as f64 > LATE_SHARE_MAX * generated.sent as f64 {
        reasons.push(format!(
            "the load generator was late with {} of {} packets (more than {} us after their time)",
            generated.late,
            generated.sent,
            LATE_LIMIT_NS / 1000
        ));
    }
    let at = |billionths| generated.lateness.percentile_ns(billionths).unwrap_or(0);
    let state = if reasons.is_empty() { TrialState::Valid } else { TrialState::Invalid };
    let mut record = blank(trial, state, reasons);
    record.generator = Some(GeneratorRecord {
        offered_pps: trial.get("traffic", "rate").number,
        sent: generated.sent,
        sent_bytes: generated.sent_bytes,
        failed: generated.failed,
        late: generated.late,
        late_limit_ns: LATE_LIMIT_NS,
        lateness_ns: [at(500_000_000), at(990_000_000), at(999_000_000), at(1_000_000_000)],
    });
    record.taps = TAPS
        .iter()
        .zip(taps)
        .map(|(name, tap)| TapRecord {
            name: (*name).to_owned(),
            place: tap.interface.clone(),
            timestamp_source: tap.source.name().to_owned(),
            packets: tap.packets,
            drops: tap.drops + tap.missing,
        })
        .collect();
    record
}

/// A record without numbers.
pub fn blank(trial: &Trial, state: TrialState, reasons: Vec<String>) -> TrialRecord {
    TrialRecord {
        number: trial.number,
        repeat: trial.repeat,
        name: trial.name.clone(),
        directory: format!("trials/{:04}-{}", trial.number, trial.name),
        state,
        reasons,
        notes: Vec::new(),
        attempts: 1,
        settings: trial.records(),
        generator: None,
        dut: None,
        taps: Vec::new(),
        segments: Vec::new(),
        stalls: StallsRecord::default(),
    }
}
