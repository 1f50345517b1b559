//! `wiretail forward --socket xdp-redirect`: the kernel forwards, this process loads the programs and reads their
//! counters.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use wiretail_dataplane::in_namespace;
use wiretail_dataplane::port::PortSpec;
use wiretail_dataplane::redirect::{Redirect, RedirectCounts};
use wiretail_host::takes_redirected_frames;
use wiretail_report::format;

use crate::cli::traffic::ForwardArgs;
use crate::live::{self, OpenPlace, ProgressLine};

/// How often it is looked whether the end is asked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the command until a signal ends it.
///
/// # Errors
/// An option that needs a loop of its own, interfaces without such programs.
pub fn run(arguments: &ForwardArgs) -> Result<ExitCode> {
    check(arguments)?;
    let (stop, questions) = (live::stop_on_signals()?, live::Questions::register()?);
    let (input, output) = (OpenPlace::interface(&arguments.input)?, OpenPlace::interface(&arguments.output)?);
    let mut ways = vec![(input.port(), output.port())];
    if arguments.both_ways {
        ways.push((output.port(), input.port()));
    }
    let redirect = Redirect::open(&ways)?;
    eprintln!("forwarding from {} to {}; Ctrl-C ends it", arguments.input, arguments.output);
    for ((interface, native), (_, to)) in redirect.modes().zip(&ways) {
        eprintln!("  {interface}: {}", mode(native));
        if native && !takes_frames(to) {
            eprintln!("{}", none_arrives(to.interface));
        }
    }
    let mut progress = ProgressLine::new();
    questions.answered(
        || {
            if let Ok(counts) = redirect.total() {
                live::print_json_line(&so_far(&counts));
            }
        },
        || {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK_EVERY);
                redirect.settle();
                progress.show(&|| {
                    let now = redirect.total().unwrap_or_default();
                    format!(
                        "{} packets received, {} sent",
                        format::count(now.received),
                        format::count(now.sent)
                    )
                });
            }
        },
    );
    progress.clear();
    if arguments.json {
        live::print_json(&document(arguments, &redirect)?)?;
    } else {
        print(arguments, &redirect.total()?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &ForwardArgs) -> Result<()> {
    if arguments.delay.is_some() {
        bail!("--delay is for sockets; --socket xdp-redirect holds no packet back");
    }
    if arguments.thread.cpu.is_some() || arguments.thread.fifo.is_some() {
        bail!(
            "--cpu and --fifo are for sockets; with --socket xdp-redirect the kernel forwards on the core \
             where packets arrive: that of the interrupt, or on veth the sender's"
        );
    }
    Ok(())
}

fn mode(native: bool) -> &'static str {
    if native { "native XDP" } else { "generic XDP" }
}

/// Whether redirected frames can leave there; true where that is not known.
fn takes_frames(port: &PortSpec<'_>) -> bool {
    let takes = in_namespace(port.netns, || takes_redirected_frames(port.interface));
    !matches!(takes, Ok(Ok(Some(false))))
}

fn none_arrives(interface: &str) -> String {
    format!(
        "warning: {interface} takes no redirected frames now, all will be lost; if it is a veth, switch GRO on at \
         its other end (`ethtool -K PEER gro on`)"
    )
}

/// The answer to SIGUSR1: keys as for sockets. There is no ring that could be full, and no frame too long.
fn so_far(counts: &RedirectCounts) -> Value {
    json!({
        "received": counts.received,
        "sent": counts.sent,
        "dropped": 0,
        "failed": counts.failed,
        "oversize": 0,
    })
}

fn document(arguments: &ForwardArgs, redirect: &Redirect) -> Result<Value> {
    let mut document = so_far(&redirect.total()?);
    document["in"] = arguments.input.to_string().into();
    document["out"] = arguments.output.to_string().into();
    document["both_ways"] = arguments.both_ways.into();
    let mut ways = Vec::new();
    for (way, (interface, native)) in redirect.modes().enumerate() {
        let counts = redirect.counts(way)?;
        ways.push(json!({
            "interface": interface,
            "mode": mode(native),
            "received": counts.received,
            "sent": counts.sent,
            "failed": counts.failed,
            "failed_is_known": redirect.knows_failures(way),
        }));
    }
    document["xdp"] = ways.into();
    Ok(document)
}

fn print(arguments: &ForwardArgs, counts: &RedirectCounts) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let arrow = if arguments.both_ways { "<->" } else { "->" };
    let (received, sent) = (format::count(counts.received), format::count(counts.sent));
    writeln!(out, "{} {arrow} {}: received {received}, sent {sent}", arguments.input, arguments.output)?;
    writeln!(out, "  not sent   {}", format::count(counts.failed))?;
    Ok(())
}
