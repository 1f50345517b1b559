//! Implements `wiretail forward`: the smallest possible device under test.

mod dpdk;
mod redirect;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use serde_json::json;
use wiretail_dataplane::counters::{CounterReading, SharedCounters};
use wiretail_dataplane::port::PortKind;
use wiretail_dataplane::skeleton::{Counts, Delay, Release, Skeleton, SkeletonPlan};
use wiretail_report::format;

use crate::cli::traffic::{ForwardArgs, ForwardSocket, ReleaseChoice};
use crate::traffic::live::{self, OpenPlace, Questions, nanoseconds};

/// Runs `wiretail forward` until a signal arrives.
///
/// # Errors
/// Returns an error if the arguments are invalid or a port cannot be opened.
pub fn run(arguments: &ForwardArgs) -> Result<ExitCode> {
    live::stay_off(&arguments.thread);
    let (stop, questions) = (live::stop_on_signals()?, Questions::register()?);
    if arguments.socket != ForwardSocket::Dpdk && (arguments.work.is_some() || arguments.coalesce.is_some()) {
        bail!("--work and --coalesce require --socket dpdk");
    }
    let stop: &AtomicBool = &stop;
    let (counted, more) = match arguments.socket {
        ForwardSocket::Dpdk => dpdk::run(arguments, stop, questions)?,
        ForwardSocket::XdpRedirect => redirect::run(arguments, stop, questions)?,
        _ => run_skeleton(arguments, stop, questions)?,
    };
    if arguments.json {
        live::print_json(&document(arguments, &counted, more))?;
    } else {
        print(arguments, &counted)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Packet counters of any forwarder.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    received: u64,
    sent: u64,
    dropped: u64,
    failed: u64,
    oversize: u64,
    delayed: u64,
}

fn say_ready(arguments: &ForwardArgs) {
    eprintln!("forwarding from {} to {}; press Ctrl-C to stop", arguments.input, arguments.output);
}

/// Forwards packets with the kernel's sockets. Returns the counters, and further fields for the final
/// document.
fn run_skeleton(
    arguments: &ForwardArgs,
    stop: &AtomicBool,
    questions: Questions,
) -> Result<(Counted, serde_json::Value)> {
    let (input, output) = (OpenPlace::interface(&arguments.input)?, OpenPlace::interface(&arguments.output)?);
    let mut forwarding_paths = vec![(input.port(), output.port())];
    if arguments.both_directions {
        forwarding_paths.push((output.port(), input.port()));
    }
    let skeleton = Skeleton::open(&forwarding_paths, plan(arguments)?)?;
    let modes: Vec<(String, String)> =
        skeleton.xdp_modes().iter().map(|(name, mode)| (name.clone(), mode.to_string())).collect();
    say_ready(arguments);
    modes.iter().for_each(|(interface, mode)| eprintln!("  {interface}: {mode}"));
    let counters = SharedCounters::default();
    let shared = &counters;
    let run = || {
        live::run_watched(
            live::placement(&arguments.thread),
            move || skeleton.run(stop, shared),
            || {
                let now = counters.read();
                format!("{} packets received, {} sent", format::count(now.received), format::count(now.sent))
            },
        )
    };
    let report = questions.answered(|| live::print_json_line(&so_far(&shared.ask().into())), run)?;
    let modes = modes.iter().map(|(interface, mode)| json!({ "interface": interface, "mode": mode }));
    let more = json!({
        "xdp": modes.collect::<Vec<_>>(),
        "stalls": report.stalls.count(),
        "stalls_ns": report.stalls.total_ns(),
    });
    Ok((report.counts.into(), more))
}

impl From<CounterReading> for Counted {
    fn from(counters: CounterReading) -> Self {
        let CounterReading { received, sent, dropped, failed, oversize, .. } = counters;
        Self { received, sent, dropped, failed, oversize, delayed: 0 }
    }
}

impl From<Counts> for Counted {
    fn from(counts: Counts) -> Self {
        let Counts { received, sent, dropped, failed, oversize, delayed, .. } = counts;
        Self { received, sent, dropped, failed, oversize, delayed }
    }
}

fn plan(arguments: &ForwardArgs) -> Result<SkeletonPlan> {
    let delay = match arguments.delay {
        Some(delay) => Some(Delay { ns: nanoseconds("delay", delay)?, every: arguments.delay_every }),
        None => None,
    };
    let release = match arguments.release {
        ReleaseChoice::Immediate => Release::Immediate,
        ReleaseChoice::Batch => Release::Batch,
    };
    let port = if arguments.socket == ForwardSocket::Xdp { PortKind::Xdp } else { PortKind::default() };
    Ok(SkeletonPlan { batch: arguments.batch, release, port, delay, ..SkeletonPlan::default() })
}

/// Formats the counters as JSON. They are the answer to SIGUSR1 and the first part of the final document.
fn so_far(counted: &Counted) -> serde_json::Value {
    json!({
        "received": counted.received,
        "sent": counted.sent,
        "dropped": counted.dropped,
        "failed": counted.failed,
        "oversize": counted.oversize,
    })
}

fn document(arguments: &ForwardArgs, counted: &Counted, more: serde_json::Value) -> serde_json::Value {
    let mut document = so_far(counted);
    document["in"] = arguments.input.to_string().into();
    document["out"] = arguments.output.to_string().into();
    document["both_directions"] = arguments.both_directions.into();
    document["delayed"] = counted.delayed.into();
    if let (Some(document), serde_json::Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}

fn print(arguments: &ForwardArgs, report: &Counted) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let arrow = if arguments.both_directions { "<->" } else { "->" };
    let (received, sent) = (format::count(report.received), format::count(report.sent));
    writeln!(out, "{} {arrow} {}: received {received}, sent {sent}", arguments.input, arguments.output)?;
    writeln!(out, "  ring full  {}", format::count(report.dropped))?;
    writeln!(out, "  not sent   {}", format::count(report.failed))?;
    writeln!(out, "  too long   {}", format::count(report.oversize))?;
    if arguments.delay.is_some() {
        writeln!(out, "  held back  {}", format::count(report.delayed))?;
    }
    Ok(())
}
