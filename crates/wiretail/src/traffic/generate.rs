//! Implements `wiretail generate`, which sends precisely timed traffic from one interface and measures its
//! precision.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use serde_json::json;
use wiretail_dataplane::counters::SharedCounters;
use wiretail_dataplane::generator::frame::Addresses;
use wiretail_dataplane::generator::plan::{End, GeneratorPlan, LatePolicy, Pacing, Pattern, Sizes, Stream};
use wiretail_dataplane::generator::{Generator, GeneratorReport};
use wiretail_dataplane::port::af_packet::{TxMode, TxPlan};
use wiretail_dataplane::port::dpdk::DpdkTx;
use wiretail_dataplane::port::{PortKind, TxPort, open_tx};
use wiretail_report::format;
use wiretail_schema::run::pauses::Pauses;

use crate::cli::traffic::{GenerateArgs, GenerateSocket, LatePolicyChoice, PatternChoice};
use crate::traffic::dpdk;
use crate::traffic::live::{self, OpenPlace, nanoseconds};
use crate::traffic::recording;

/// Maximum share of late packets, and of the schedule that is skipped or shifted without a stall. Beyond it, the
/// exit code is 1.
const LATE_SHARE_MAX: f64 = 0.01;
/// Number of slots in a sending ring.
const RING_SLOTS: usize = 1024;

/// Runs `wiretail generate`.
///
/// # Errors
/// Returns an error if the arguments are invalid, the port cannot be opened, or the recording cannot be read.
pub fn run(arguments: &GenerateArgs) -> Result<ExitCode> {
    live::stay_off(&arguments.thread);
    let stop = live::stop_on_signals()?;
    let plan = plan(arguments)?;
    let port = open(arguments)?;
    let generator = Generator::new(vec![port], plan)?;
    let counters = SharedCounters::default();
    let (stop, shared): (&AtomicBool, _) = (&stop, &counters);
    let report = live::run_watched(
        live::placement(&arguments.thread),
        move || generator.run(stop, shared),
        || {
            let now = counters.read();
            let skipped = match now.skipped {
                0 => String::new(),
                skipped => format!(", {} skipped", format::count(skipped)),
            };
            format!("{} packets sent, {} late{skipped}", format::count(now.sent), format::count(now.late))
        },
    )?;
    if arguments.json {
        live::print_json(&document(arguments, &report)?)?;
    } else {
        print(arguments, &report)?;
    }
    Ok(verdict(&report))
}

fn open(arguments: &GenerateArgs) -> Result<Box<dyn TxPort + Send>> {
    let packet = |mode| PortKind::Packet(TxPlan { mode, qdisc_bypass: !arguments.qdisc });
    let kind = match arguments.socket {
        GenerateSocket::Packet => packet(TxMode::Call),
        GenerateSocket::PacketRing => packet(TxMode::Ring(RING_SLOTS)),
        GenerateSocket::Xdp if arguments.qdisc => {
            bail!("--qdisc requires --socket packet or packet-ring: AF_XDP has no queueing discipline")
        }
        GenerateSocket::Xdp => PortKind::Xdp,
        GenerateSocket::Dpdk if arguments.qdisc => bail!(
            "--qdisc requires --socket packet or packet-ring; with --socket dpdk, send to \
             dpdk:net_af_packet0,iface=INTERFACE,qdisc_bypass=0"
        ),
        GenerateSocket::Dpdk => {
            let mut ports = dpdk::open(&[&arguments.port], &arguments.dpdk, &arguments.thread)?;
            return Ok(Box::new(DpdkTx::new(ports.remove(0))));
        }
    };
    let place = OpenPlace::interface(&arguments.port)?;
    place.named(open_tx(&place.port(), kind))
}

/// Returns exit code 1 and prints the reason if the traffic was not as requested.
fn verdict(report: &GeneratorReport) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    if report.failed > 0 {
        let reason = report.last_error.map_or("the port was full".to_owned(), |number| {
            std::io::Error::from_raw_os_error(number).to_string()
        });
        let failed = format::count(report.failed);
        eprintln!(
            "wiretail: {failed} packets could not be sent: {reason}; check that the interface is up and its \
             MTU is large enough"
        );
        code = ExitCode::from(1);
    }
    let planned = report.sent + report.skipped;
    let mut troubles = Vec::new();
    if report.late as f64 > LATE_SHARE_MAX * planned as f64 {
        let [late, planned] = [report.late, planned].map(format::count);
        troubles.push(format!("{late} of {planned} packets were late"));
    }
    if report.overload_ratio() > LATE_SHARE_MAX {
        let [skipped, planned] = [report.skipped, planned].map(format::count);
        troubles.push(match report.skipped {
            0 => format!("the schedule was shifted by {}", format::duration(report.shifted_ns as f64)),
            _ => format!("{skipped} of {planned} packets were skipped"),
        });
    }
    if !troubles.is_empty() {
        eprintln!(
            "wiretail: {}; try a lower rate, a dedicated core (--cpu) or a real-time priority (--fifo)",
            troubles.join(", ")
        );
        code = ExitCode::from(1);
    }
    code
}

fn plan(arguments: &GenerateArgs) -> Result<GeneratorPlan> {
    let end = match (arguments.packets, arguments.duration) {
        (Some(packets), _) => End::Packets(packets.get()),
        (None, Some(duration)) => End::DurationNs(nanoseconds("duration", duration)?),
        // A recording ends after its last packet.
        (None, None) => End::Packets(u64::MAX),
    };
    let recording = match &arguments.replay {
        Some(path) => Some(Arc::new(recording::read(path, arguments.rate)?)),
        None => None,
    };
    Ok(GeneratorPlan {
        streams: if recording.is_some() { Vec::new() } else { streams(arguments) },
        recording,
        marks: None,
        pattern: pattern(arguments)?,
        end,
        seed: arguments.seed,
        start_ns: None,
        pacing: Pacing::default(),
        pauses: Pauses::default(),
        late_policy: match arguments.late_policy {
            LatePolicyChoice::CatchUp => LatePolicy::CatchUp,
            LatePolicyChoice::Skip => LatePolicy::Skip,
            LatePolicyChoice::Shift => LatePolicy::Shift,
        },
        late_limit_ns: nanoseconds("late-limit", arguments.late_limit)?,
        id_first: arguments.first_id,
    })
}

fn streams(arguments: &GenerateArgs) -> Vec<Stream> {
    let addresses = Addresses {
        mac_from: arguments.mac_from,
        mac_to: arguments.mac_to,
        ip_from: arguments.ip_from,
        ip_to: arguments.ip_to,
        port_to: arguments.port_to,
    };
    let sizes = Sizes::from(&arguments.size);
    let stream = |id| Stream { id, port: 0, addresses, flows: arguments.flows, sizes: sizes.clone() };
    (0..arguments.streams).map(stream).collect()
}

fn pattern(arguments: &GenerateArgs) -> Result<Pattern> {
    // A recording contains its own departure times.
    let rate_pps = arguments.rate.unwrap_or(1);
    let (on_off, burst) = (arguments.pattern == PatternChoice::OnOff, arguments.burst);
    if burst > 1 && arguments.pattern != PatternChoice::Constant {
        bail!("--burst {burst} requires --pattern constant");
    }
    match (on_off, arguments.on, arguments.off) {
        (true, Some(on), Some(off)) => {
            let (on_ns, off_ns) = (nanoseconds("on", on)?, nanoseconds("off", off)?);
            Ok(Pattern::OnOff { rate_pps, on_ns, off_ns })
        }
        (true, ..) => bail!("--pattern on-off requires --on and --off, such as --on 10ms --off 90ms"),
        (false, Some(_), _) => bail!("--on and --off require --pattern on-off"),
        _ if arguments.pattern == PatternChoice::Poisson => Ok(Pattern::Poisson { rate_pps }),
        _ if burst > 1 => Ok(Pattern::Bursts { rate_pps, burst }),
        _ => Ok(Pattern::Constant { rate_pps }),
    }
}

/// Returns the time from the first to the last departure in ns, and the packet rate over that time.
fn achieved(report: &GeneratorReport) -> Option<(u64, f64)> {
    let duration_ns = report.last_departure_ns?.checked_sub(report.first_departure_ns?)?;
    (duration_ns > 0 && report.sent > 1)
        .then(|| (duration_ns, (report.sent - 1) as f64 * 1e9 / duration_ns as f64))
}

/// Returns the p50, p99, p99.9 and maximum lateness, in ns.
fn lateness(report: &GeneratorReport) -> [Option<u64>; 4] {
    [500_000_000, 990_000_000, 999_000_000, 1_000_000_000].map(|at| report.lateness.percentile_ns(at))
}

fn document(arguments: &GenerateArgs, report: &GeneratorReport) -> Result<serde_json::Value> {
    let [p50, p99, p999, max] = lateness(report);
    let achieved = achieved(report);
    Ok(json!({
        "port": arguments.port.to_string(),
        "sent": report.sent,
        "sent_bytes": report.sent_bytes,
        "failed": report.failed,
        "last_error": report.last_error,
        "duration_ns": achieved.map(|(duration_ns, _)| duration_ns),
        "rate_pps": achieved.map(|(_, rate)| rate),
        "late": report.late,
        "late_limit_ns": nanoseconds("late-limit", arguments.late_limit)?,
        "lateness_ns": { "p50": p50, "p99": p99, "p99_9": p999, "max": max },
        "skipped": report.skipped,
        "shifted_ns": report.shifted_ns,
        "overload_ratio": report.overload_ratio(),
        "late_tolerance_ns": report.tolerance_ns,
        "stalls": report.stalls.count(),
        "stalls_ns": report.stalls.total_ns(),
        "complete": report.complete,
    }))
}

fn print(arguments: &GenerateArgs, report: &GeneratorReport) -> Result<()> {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format::duration(ns as f64));
    let [p50, p99, p999, max] = lateness(report).map(time);
    let mut out = std::io::stdout().lock();
    let ended = if report.complete { "" } else { " (interrupted)" };
    let rate = achieved(report).map_or(String::new(), |(duration_ns, rate)| {
        format!(
            " in {}: {} packets per second",
            format::duration(duration_ns as f64),
            format::count(rate.round() as u64)
        )
    });
    let (sent, bytes) = (format::count(report.sent), format::count(report.sent_bytes));
    writeln!(out, "{}: sent {sent} packets, {bytes} bytes{rate}{ended}", arguments.port)?;
    let late = format::count(report.late);
    writeln!(out, "  late      {late}, by more than {}", arguments.late_limit)?;
    writeln!(out, "  lateness  p50 {p50}  p99 {p99}  p99.9 {p999}  max {max}")?;
    let tolerance = time(report.tolerance_ns);
    match arguments.late_policy {
        LatePolicyChoice::CatchUp => {}
        LatePolicyChoice::Skip => {
            let skipped = format::count(report.skipped);
            writeln!(
                out,
                "  skipped   {skipped}, because they missed their departure by more than {tolerance}"
            )?;
        }
        LatePolicyChoice::Shift => {
            let shifted = time(Some(report.shifted_ns));
            writeln!(out, "  shifted   by {shifted} in total, by delays of more than {tolerance}")?;
        }
    }
    writeln!(out, "  not sent  {}", format::count(report.failed))?;
    Ok(())
}
