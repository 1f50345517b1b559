//! `wiretail forward`: the smallest possible device under test.

mod redirect;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use serde_json::json;
use wiretail_dataplane::counters::{CounterReading, SharedCounters};
use wiretail_dataplane::port::PortKind;
use wiretail_dataplane::skeleton::{Delay, Release, Skeleton, SkeletonPlan, SkeletonReport};
use wiretail_report::format;

use crate::cli::traffic::{ForwardArgs, ForwardSocket, ReleaseChoice};
use crate::live::{self, OpenPlace, nanoseconds};

/// Runs the command until a signal ends it.
///
/// # Errors
/// A plan that can't be carried out, ports that can't be opened.
pub fn run(arguments: &ForwardArgs) -> Result<ExitCode> {
    if arguments.socket == ForwardSocket::XdpRedirect {
        return redirect::run(arguments);
    }
    let (stop, questions) = (live::stop_on_signals()?, live::Questions::register()?);
    let (input, output) = (OpenPlace::open(&arguments.input)?, OpenPlace::open(&arguments.output)?);
    let mut ways = vec![(input.port(), output.port())];
    if arguments.both_ways {
        ways.push((output.port(), input.port()));
    }
    let skeleton = Skeleton::open(&ways, plan(arguments)?)?;
    let modes: Vec<(String, String)> =
        skeleton.xdp_modes().iter().map(|(name, mode)| (name.clone(), mode.to_string())).collect();
    eprintln!("forwarding from {} to {}; Ctrl-C ends it", arguments.input, arguments.output);
    modes.iter().for_each(|(interface, mode)| eprintln!("  {interface}: {mode}"));
    let counters = SharedCounters::default();
    let (stop, shared): (&AtomicBool, _) = (&stop, &counters);
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
    let report = questions.answered(|| live::print_json_line(&so_far(&shared.ask())), run)?;
    if arguments.json {
        live::print_json(&document(arguments, &report, &modes))?;
    } else {
        print(arguments, &report)?;
    }
    Ok(ExitCode::SUCCESS)
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
    let port = match arguments.socket {
        ForwardSocket::Xdp => PortKind::Xdp,
        ForwardSocket::Packet | ForwardSocket::XdpRedirect => PortKind::default(),
    };
    Ok(SkeletonPlan { batch: arguments.batch, release, port, delay, ..SkeletonPlan::default() })
}

/// The answer to SIGUSR1: keys as in the document of the end.
fn so_far(counters: &CounterReading) -> serde_json::Value {
    json!({
        "received": counters.received,
        "sent": counters.sent,
        "dropped": counters.dropped,
        "failed": counters.failed,
        "oversize": counters.oversize,
    })
}

fn document(
    arguments: &ForwardArgs,
    report: &SkeletonReport,
    modes: &[(String, String)],
) -> serde_json::Value {
    json!({
        "in": arguments.input.to_string(),
        "out": arguments.output.to_string(),
        "both_ways": arguments.both_ways,
        "received": report.received,
        "sent": report.sent,
        "dropped": report.dropped,
        "failed": report.failed,
        "oversize": report.oversize,
        "delayed": report.delayed,
        "xdp": modes.iter().map(|(interface, mode)| json!({ "interface": interface, "mode": mode })).collect::<Vec<_>>(),
        "stalls": report.stalls.count(),
        "stalls_ns": report.stalls.total_ns(),
    })
}

fn print(arguments: &ForwardArgs, report: &SkeletonReport) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let arrow = if arguments.both_ways { "<->" } else { "->" };
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
