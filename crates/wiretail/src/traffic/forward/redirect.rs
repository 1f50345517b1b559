//! Implements `wiretail forward --socket xdp-redirect`. The kernel forwards packets. This process loads the
//! XDP programs and reads their counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use wiretail_dataplane::in_namespace;
use wiretail_dataplane::port::PortSpec;
use wiretail_dataplane::redirect::{Redirect, RedirectCounts};
use wiretail_host::takes_redirected_frames;
use wiretail_report::format;

use super::{Counted, so_far};
use crate::cli::traffic::ForwardArgs;
use crate::traffic::live::{self, OpenPlace, ProgressLine, Questions};

/// Interval between checks for the end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Lets the kernel forward packets until a signal arrives. Returns the counters, and further fields for the
/// final document.
pub(super) fn run(
    arguments: &ForwardArgs,
    stop: &AtomicBool,
    questions: Questions,
) -> Result<(Counted, Value)> {
    check(arguments)?;
    let (input, output) = (OpenPlace::interface(&arguments.input)?, OpenPlace::interface(&arguments.output)?);
    let mut forwarding_paths = vec![(input.port(), output.port())];
    if arguments.both_directions {
        forwarding_paths.push((output.port(), input.port()));
    }
    let redirect = Redirect::open(&forwarding_paths)?;
    super::say_ready(arguments);
    for ((interface, native), (_, to)) in redirect.modes().zip(&forwarding_paths) {
        eprintln!("  {interface}: {}", mode(native));
        if native && !takes_frames(to) {
            eprintln!("{}", none_arrives(to.interface));
        }
    }
    let answer = || {
        if let Ok(counts) = redirect.total() {
            live::print_json_line(&so_far(&counts.into()));
        }
    };
    questions.answered(answer, || watch(&redirect, stop));
    let mut counted = Vec::new();
    for (forwarding_path, (interface, native)) in redirect.modes().enumerate() {
        let counts = redirect.counts(forwarding_path)?;
        counted.push(json!({
            "interface": interface,
            "mode": mode(native),
            "received": counts.received,
            "sent": counts.sent,
            "failed": counts.failed,
            "failed_is_known": redirect.knows_failures(forwarding_path),
        }));
    }
    Ok((redirect.total()?.into(), json!({ "xdp": counted })))
}

/// Shows the progress until a signal arrives.
fn watch(redirect: &Redirect, stop: &AtomicBool) {
    let mut progress = ProgressLine::new();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
        redirect.settle();
        progress.show(&|| {
            let now = redirect.total().unwrap_or_default();
            format!("{} packets received, {} sent", format::count(now.received), format::count(now.sent))
        });
    }
    progress.clear();
}

/// XDP redirection uses no ring that could be full, and it has no limit on the frame size.
impl From<RedirectCounts> for Counted {
    fn from(counts: RedirectCounts) -> Self {
        let RedirectCounts { received, sent, failed } = counts;
        Self { received, sent, failed, ..Self::default() }
    }
}

fn check(arguments: &ForwardArgs) -> Result<()> {
    if arguments.delay.is_some() {
        bail!("--delay requires a socket; --socket xdp-redirect cannot delay packets");
    }
    if arguments.thread.cpu.is_some() || arguments.thread.fifo.is_some() {
        bail!(
            "--cpu and --fifo require a socket; with --socket xdp-redirect, the kernel forwards on the core \
             where packets arrive: the core of the interrupt or, for a veth, of the sender"
        );
    }
    Ok(())
}

fn mode(native: bool) -> &'static str {
    if native { "native XDP" } else { "generic XDP" }
}

/// Returns whether the interface can send redirected frames. Returns true if this is unknown.
fn takes_frames(port: &PortSpec<'_>) -> bool {
    let takes = in_namespace(port.netns, || takes_redirected_frames(port.interface));
    !matches!(takes, Ok(Ok(Some(false))))
}

fn none_arrives(interface: &str) -> String {
    format!(
        "warning: {interface} does not accept redirected frames now, so all of them will be lost; for a \
         veth, enable GRO at its other end (`ethtool -K PEER gro on`)"
    )
}
