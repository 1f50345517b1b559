//! Benchmark of the attribution of packet delays: `attribution_bench [EVENTS [PACKETS [ROUNDS]]]`.
//!
//! Writes the trace of a trial, by default of ten million events, to a temporary directory. Then does the
//! same as `wiretail explain RUN`: reads the trace, builds the timelines and explains the packets. Matching
//! the captures is not included; `benches/run` measures it. Each of the 5000 worst packets must get a cause.
//!
//! The reference is the straightforward implementation: it compares each packet with all spans of the core.

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use wiretail_analysis::causes::attribution::{Builder, Inputs, PacketTime, explain};
use wiretail_analysis::stats::list::median;
use wiretail_capture::trace::Trace;
use wiretail_schema::causes::trace::TRACE_FILE;
use wiretail_schema::causes::{Certainty, PacketExplanation, TrialExplanation};

mod made_up;
#[allow(dead_code, reason = "used by the tests of the reader")]
#[path = "../../../wiretail-capture/src/trace/test_support.rs"]
mod test_support;

use made_up::Trial;

/// Largest number of packets that are listed and explained.
const WORST: usize = 5000;
/// Number of packets that the reference processes; it is too slow for all of them.
const SUBSET: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (events, packets, rounds) = (number(10_000_000)?, number(5_000_000)?, number(7)?);
    let folder = tempfile::tempdir()?;
    let mut trial = Trial::new(events, packets);
    let mut bytes = 0;
    for (stream, pages) in trial.info.streams.iter().zip(std::mem::take(&mut trial.pages)) {
        bytes += pages.len();
        fs::write(folder.path().join(&stream.file), pages)?;
    }
    fs::write(folder.path().join(TRACE_FILE), serde_json::to_vec(&trial.info)?)?;
    println!("{packets} packets, trace of {:.0} MB", bytes as f64 / 1e6);

    forget_peak();
    let mut parts: [Vec<f64>; 3] = Default::default();
    let mut found = None;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        let mut trace = Trace::open(folder.path())?;
        let mut builder = Builder::new(&trial.roles);
        let end = trace.read(|event| builder.take(event))?;
        let lines = builder.finish(&trace);
        let read = start.elapsed();
        let explanation = explain(lines, &inputs(&trial, &trace));
        let all = start.elapsed();
        for (part, duration) in parts.iter_mut().zip([read, all - read, all]) {
            part.push(duration.as_secs_f64() * 1e3);
        }
        found = Some((explanation, end.events, all));
    }
    let peak_mb = peak_mb();
    let (explanation, events, _) = found.ok_or("no round")?;
    check(&explanation, packets);
    for (what, part) in ["reading, timelines", "explaining", "together"].iter().zip(&mut parts) {
        let median = median(part.iter().copied()).unwrap_or(0.0);
        let (least, most) =
            part.iter().fold((f64::MAX, 0.0_f64), |(least, most), ms| (ms.min(least), ms.max(most)));
        println!("{what:20} {median:8.0} ms  ({least:.0} to {most:.0})");
    }
    let [_, explaining_ms, together_ms] = parts.map(|part| median(part).unwrap_or(0.0));
    println!(
        "{events} events, {:.1} million per second; {} packets attributed; peak {peak_mb:.0} MB of memory",
        events as f64 / together_ms / 1e3,
        explanation.worst.len()
    );
    let each = against_all_spans(&trial, folder.path(), &explanation)?;
    let whole = each.as_secs_f64() * 1e3 * explanation.worst.len() as f64;
    println!(
        "comparison with all spans: {:.2} ms per packet, {:.1} times the explanation of these packets",
        each.as_secs_f64() * 1e3,
        whole / explaining_ms
    );
    Ok(())
}

fn inputs<'a>(trial: &'a Trial, trace: &'a Trace) -> Inputs<'a> {
    Inputs {
        evenly: true,
        trial: "made-up",
        segment: "forward",
        version: "0",
        roles: &trial.roles,
        info: trace.info(),
        names: trace,
        lost: &[],
        packets: &trial.packets,
        first_ns: trial.packets.first().map_or(0, |packet: &PacketTime| packet.in_ns),
        worst: WORST,
        timelines: 50,
    }
}

/// Checks the result, because a benchmark of a wrong result is meaningless.
fn check(found: &TrialExplanation, packets: u64) {
    assert_eq!(found.worst.len(), WORST.min(packets as usize));
    assert!(found.tail_packets >= packets / 1000);
    for packet in &found.worst {
        let known_ns: u64 = packet.parts.iter().map(|part| part.ns).sum();
        assert_eq!(known_ns + packet.unknown_ns, packet.lost_ns, "{packet:?}");
        assert!(!packet.parts.is_empty(), "{packet:?}");
    }
    let unknown = found.tail_unknown_ns as f64 / found.tail_lost_ns as f64;
    let causes: Vec<String> = found
        .causes
        .iter()
        .filter(|row| row.tail_packets > 0)
        .map(|row| format!("{:?} {}", row.kind, row.tail_packets))
        .collect();
    println!(
        "{:.2} % of the tail's excess delay without a cause; packets by cause: {}",
        unknown * 100.0,
        causes.join(", ")
    );
    assert!(unknown < 0.1);
}

/// Returns how long it takes to compare a packet with all spans of the device's core. The spans found must
/// include those that the explanation reports.
fn against_all_spans(
    trial: &Trial,
    folder: &std::path::Path,
    found: &TrialExplanation,
) -> Result<Duration, Box<dyn Error>> {
    let mut trace = Trace::open(folder)?;
    let mut builder = Builder::new(&trial.roles);
    trace.read(|event| builder.take(event))?;
    let lines = builder.finish(&trace);
    let start = Instant::now();
    let chosen: Vec<&PacketExplanation> = found.worst.iter().step_by(WORST / SUBSET).collect();
    for packet in &chosen {
        let time = trial.packets[packet.index as usize];
        let (from_ns, to_ns) = (time.in_ns as u64, (time.in_ns + time.delay_ns) as u64);
        let away =
            lines.device.iter().map(|span| span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns)));
        let away_ns: u64 = away.sum();
        let seen = packet.parts.iter().filter(|part| part.certainty == Certainty::Observed && !part.queued);
        assert!(seen.map(|part| part.ns).sum::<u64>() <= away_ns, "{packet:?}");
    }
    Ok(start.elapsed() / chosen.len().max(1) as u32)
}

/// Resets the peak of the resident set; if the kernel does not allow this, the peak of the whole program run
/// counts.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak of the resident set in MB; 0 if unavailable.
fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}
