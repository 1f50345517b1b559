//! Generator, skeleton and sink over veth pairs, with taps on both wires. Prints the packets sent and seen,
//! their lateness and their delay. Needs root; leaves nothing behind.
//!
//!     cargo run --release -p wiretail-dataplane --example veth_loop -- [SETTING=VALUE]...
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | rate | 100000 | packets per second |
//! | packets | 100000 | number of packets |
//! | burst | 1 | packets per burst; 0: Poisson |
//! | size | 100 | frame length in bytes, without frame check sequence; 0: the IMIX of FD.io CSIT |
//! | tx, skeleton-tx | 0 | slots of the send ring; 0: one system call per frame |
//! | batch, release | 32, immediate | batch size and release mode of the skeleton; the other mode is `batch` |
//! | delay, every | 0, 100 | the skeleton delays one packet in `every` by `delay` ns |
//! | ring | 8192 | slots of the skeleton's receive ring |
//! | fifo | 0 | real-time priority of both loops; 0: none |
//! | xdp | 0 | 1: the skeleton forwards with AF_XDP; implies `sender` = 1 |
//! | sender | 0 | 1: the ingress tap is on the sender's end of the wire |
//! | testpmd | 0 | 1: DPDK's testpmd forwards (on packet sockets) instead of the skeleton, for comparison |
//! | alone | 0 | 1: the generator alone; no program receives packets at the other end of the wire |
//! | repeat | 1 | number of runs |
//! | to | | output folder for pre.pcap and post.pcap |

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use support::{Outcome, Record, Testbed, Trial, run, run_alone};
use wiretail_capture::write::pcap::{LINK_TYPE_ETHERNET, PcapWriter};
use wiretail_dataplane::{
    Delay, GeneratorReport, Histogram, Pattern, PortKind, Release, Sizes, TxMode, TxPlan, read_signature,
};
use wiretail_schema::units::Share;

const SETTINGS: &[&str] = &[
    "rate",
    "packets",
    "burst",
    "size",
    "tx",
    "skeleton-tx",
    "batch",
    "release",
    "delay",
    "every",
    "ring",
    "fifo",
    "xdp",
    "sender",
    "testpmd",
    "alone",
    "repeat",
    "to",
];

/// Displayed percentiles in billionths, and their names.
const PERCENTILES: [(u64, &str); 4] =
    [(500_000_000, "p50"), (990_000_000, "p99"), (999_000_000, "p99.9"), (1_000_000_000, "max")];

struct Settings(HashMap<String, String>);

impl Settings {
    fn read() -> Result<Self, String> {
        let mut settings = HashMap::new();
        for argument in std::env::args().skip(1) {
            match argument.split_once('=') {
                Some((name, value)) if SETTINGS.contains(&name) => {
                    settings.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    return Err(format!(
                        "'{argument}' is not a setting; expected NAME=VALUE with one of {SETTINGS:?}"
                    ));
                }
            }
        }
        Ok(Self(settings))
    }

    fn get<T: FromStr>(&self, name: &str, usual: T) -> Result<T, String> {
        let Some(value) = self.0.get(name) else { return Ok(usual) };
        value.parse().map_err(|_| format!("{name}={value}: expected a number"))
    }

    fn trial(&self) -> Result<Trial, String> {
        let rate_pps = self.get("rate", 100_000)?;
        let pattern = match self.get("burst", 1)? {
            0 => Pattern::Poisson { rate_pps },
            1 => Pattern::Constant { rate_pps },
            burst => Pattern::Bursts { rate_pps, burst },
        };
        let mode = |slots| if slots == 0 { TxMode::Call } else { TxMode::Ring(slots) };
        let mut trial = Trial::new(pattern, self.get("packets", 100_000)?);
        trial.sizes = match self.get("size", 100)? {
            0 => Sizes::imix_csit(),
            len => Sizes::Fixed(len),
        };
        trial.generator_tx.mode = mode(self.get("tx", 0)?);
        let tx = TxPlan { mode: mode(self.get("skeleton-tx", 0)?), ..TxPlan::default() };
        trial.skeleton.port = PortKind::Packet(tx);
        trial.skeleton.batch = self.get("batch", 32)?;
        trial.skeleton.ring_slots = self.get("ring", 8192)?;
        if self.0.get("release").is_some_and(|release| release == "batch") {
            trial.skeleton.release = Release::Batch;
        }
        if self.get("xdp", 0)? == 1 {
            trial.forward_by_xdp();
        }
        if self.get("sender", 0)? == 1 {
            trial.tap_the_sender();
        }
        trial.testpmd = self.get("testpmd", 0)? == 1;
        let delay = Delay { ns: self.get("delay", 0)?, every: self.get("every", 100)? };
        trial.skeleton.delay = (delay.ns > 0).then_some(delay);
        let fifo = self.get("fifo", 0)?;
        for place in [&mut trial.generator_place, &mut trial.skeleton_place] {
            place.fifo = (fifo > 0).then_some(fifo);
            place.lock_memory = fifo > 0;
        }
        Ok(trial)
    }
}

fn line(name: &str, histogram: &Histogram) {
    print!("  {name:<22}");
    for (billionths, percentile) in PERCENTILES {
        let ns = histogram.percentile_ns(billionths).unwrap_or(0);
        print!(" {percentile} {:>9.3} µs", ns as f64 / 1000.0);
    }
    println!();
}

fn write_pcap(path: &Path, records: &[Record]) -> std::io::Result<()> {
    let mut writer = PcapWriter::new(File::create(path)?, LINK_TYPE_ETHERNET);
    for record in records {
        writer.write(record.ts_ns, record.wire_len, &record.frame)?;
    }
    writer.finish().map(drop)
}

fn id(record: &Record) -> Option<u32> {
    Some(read_signature(&record.frame, record.wire_len)?.id)
}

/// For each packet, whether the skeleton was to delay it, and its delay between the taps in ns.
fn delays(outcome: &Outcome, trial: &Trial) -> Vec<(bool, u64)> {
    let arrived: HashMap<Option<u32>, i64> = outcome.post.iter().map(|r| (id(r), r.ts_ns)).collect();
    let held =
        |id: u32| trial.skeleton.delay.is_some_and(|delay| (u64::from(id) + 1).is_multiple_of(delay.every));
    let delay = |record: &Record| {
        let id = id(record);
        let delay_ns = arrived.get(&id)? - record.ts_ns;
        Some((held(id?), u64::try_from(delay_ns).unwrap_or(0)))
    };
    outcome.pre.iter().filter_map(delay).collect()
}

/// Deviations of the gaps between packets on the ingress wire from the intended gap.
fn gap_deviations(outcome: &Outcome, pattern: Pattern) -> Histogram {
    let mut gaps = Histogram::default();
    if let Pattern::Constant { rate_pps } = pattern {
        let gap_ns = (1_000_000_000 / rate_pps) as i64;
        for pair in outcome.pre.windows(2) {
            gaps.add((pair[1].ts_ns - pair[0].ts_ns).abs_diff(gap_ns));
        }
    }
    gaps
}

/// Compares the injected delay with the difference of exact medians, and prints the number of delayed packets
/// among the worst ones.
fn show_calibration(delays: &[(bool, u64)], injected_ns: u64) {
    let median = |which: bool| {
        let mut values: Vec<u64> =
            delays.iter().filter(|(held, _)| *held == which).map(|(_, ns)| *ns).collect();
        values.sort_unstable();
        Share::MEDIAN.of(&values).copied().unwrap_or(0)
    };
    let recovered_ns = median(true) as i64 - median(false) as i64;
    let count = delays.iter().filter(|(held, _)| *held).count();
    let mut worst = delays.to_vec();
    worst.sort_unstable_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let found = worst.iter().take(count).filter(|(held, _)| *held).count();
    println!(
        "  injected {injected_ns} ns, recovered {recovered_ns} ns (error {}); \
         {found} of {count} delayed packets among the worst",
        recovered_ns - injected_ns as i64
    );
}

/// Time from the first departure to the last one.
fn seconds(report: &GeneratorReport) -> f64 {
    match (report.first_departure_ns, report.last_departure_ns) {
        (Some(first), Some(last)) => (last - first) as f64 / 1e9,
        _ => 0.0,
    }
}

fn show_alone(report: &GeneratorReport) {
    let (sent, seconds) = (report.sent, seconds(report));
    let rate = (sent as f64 - 1.0) / seconds;
    println!(
        "sent {sent} in {seconds:.3} s ({rate:.0} per second), late {}, failed {}",
        report.late, report.failed
    );
    line("lateness", &report.lateness);
    line("handing over", &report.handover);
}

/// Prints the results. Returns whether every packet is accounted for.
fn show(outcome: &Outcome, trial: &Trial) -> bool {
    let (sent, pre, post) = (outcome.generator.sent, outcome.pre.len(), outcome.post.len());
    let dropped: u64 = outcome.taps.iter().map(|tap| tap.drops + tap.missing).sum();
    let other_timestamps: u64 = outcome.taps.iter().map(|tap| tap.other_timestamps).sum();
    let skeleton = &outcome.skeleton;
    let seconds = seconds(&outcome.generator);
    println!(
        "sent {sent} in {seconds:.3} s ({:.0} per second), late {}, failed {}; pre {pre}, post {post}; \
         skeleton: received {}, dropped {}, failed {}; taps: dropped {dropped}, other timestamps {other_timestamps}",
        (sent as f64 - 1.0) / seconds,
        outcome.generator.late,
        outcome.generator.failed,
        skeleton.received,
        skeleton.dropped,
        skeleton.failed
    );
    for (name, stalls) in [("generator", &outcome.generator.stalls), ("skeleton", &skeleton.stalls)] {
        let longest = stalls.kept().iter().map(|stall| stall.duration_ns).max().unwrap_or(0);
        println!(
            "  stalls of the {name}: {}, together {:.3} ms, longest {:.3} ms",
            stalls.count(),
            stalls.total_ns() as f64 / 1e6,
            longest as f64 / 1e6
        );
    }
    let delays = delays(outcome, trial);
    let mut histogram = Histogram::default();
    delays.iter().for_each(|(_, ns)| histogram.add(*ns));
    line("lateness", &outcome.generator.lateness);
    line("handing over", &outcome.generator.handover);
    line("gap deviation, ingress", &gap_deviations(outcome, trial.pattern));
    line("delay", &histogram);
    if let Some(delay) = trial.skeleton.delay {
        show_calibration(&delays, delay.ns);
    }
    sent == trial.packets && sent == pre as u64 && pre == post && dropped == 0 && skeleton.dropped == 0
}

fn all() -> Result<bool, String> {
    let settings = Settings::read()?;
    let trial = settings.trial()?;
    let bed = Testbed::new().map_err(|reason| format!("no testbed: {reason}; run as root"))?;
    let mut exact = true;
    for _ in 0..settings.get("repeat", 1)? {
        if settings.get("alone", 0)? == 1 {
            show_alone(&run_alone(&bed, &trial)?);
            continue;
        }
        let outcome = run(&bed, &trial)?;
        exact &= show(&outcome, &trial);
        if let Some(folder) = settings.0.get("to") {
            for (name, records) in [("pre.pcap", &outcome.pre), ("post.pcap", &outcome.post)] {
                let path = Path::new(folder).join(name);
                write_pcap(&path, records).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    Ok(exact)
}

fn main() -> ExitCode {
    match all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "not every packet is accounted for: sent, pre and post differ, or packets were dropped"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
