//! Implements `wiretail forward --socket dpdk`.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use serde_json::json;
use wiretail_dataplane::port::dpdk::{Forwarder, ForwarderConfig, Port, Watcher};
use wiretail_report::format;

use super::{Counted, so_far};
use crate::cli::traffic::ForwardArgs;
use crate::traffic::live::{self, Questions, nanoseconds};

/// Forwards until a signal arrives. Returns the counters, and the ports for the final document.
pub(super) fn run(
    arguments: &ForwardArgs,
    stop: &AtomicBool,
    questions: Questions,
) -> Result<(Counted, serde_json::Value)> {
    if arguments.delay.is_some() {
        bail!(
            "--delay requires --socket packet or xdp: with --socket dpdk, every packet is sent immediately"
        );
    }
    // The output port is opened before the input port, so that packets can leave as soon as they arrive.
    let mut ports = crate::traffic::dpdk::open(
        &[&arguments.output, &arguments.input],
        &arguments.dpdk,
        &arguments.thread,
    )?;
    ports.swap(0, 1);
    let forwarding_paths: &[(usize, usize)] =
        if arguments.both_directions { &[(0, 1), (1, 0)] } else { &[(0, 1)] };
    let mut forwarder = Forwarder::new(ports, forwarding_paths, config(arguments)?)?;
    let watcher = forwarder.watcher();
    super::say_ready(arguments);
    for port in watcher.ports().iter().filter(|port| !port.is_link_up()) {
        eprintln!("  {}: no link yet", port.driver());
    }
    let watched = || {
        live::run_watched(
            live::placement(&arguments.thread),
            move || forwarder.run(stop),
            || {
                let now = count(&watcher);
                format!("{} packets received, {} sent", format::count(now.received), format::count(now.sent))
            },
        )
    };
    questions.answered(|| live::print_json_line(&so_far(&count(&watcher))), watched)?;
    let forwarding_paths = watcher.forwarding_paths();
    let bursts: u64 = forwarding_paths.iter().map(|forwarding_path| forwarding_path.bursts).sum();
    let burst_max = forwarding_paths.iter().map(|forwarding_path| forwarding_path.burst_max).max();
    let ports: Vec<_> = watcher.ports().iter().map(port).collect();
    Ok((count(&watcher), json!({ "bursts": bursts, "burst_max": burst_max, "ports": ports })))
}

fn config(arguments: &ForwardArgs) -> Result<ForwarderConfig> {
    let ns = |name, duration: Option<_>| duration.map_or(Ok(0), |duration| nanoseconds(name, duration));
    Ok(ForwarderConfig {
        batch: arguments.batch,
        work_ns: ns("work", arguments.work)?,
        quiet_ns: ns("coalesce", arguments.coalesce)?,
    })
}

/// Combines the counters of the directions with the drivers' counters.
fn count(watcher: &Watcher) -> Counted {
    let mut counted = Counted::default();
    for forwarding_path in watcher.forwarding_paths() {
        counted.received += forwarding_path.received;
        counted.sent += forwarding_path.taken;
        counted.failed += forwarding_path.refused;
    }
    for port in watcher.ports().iter().map(Port::counts) {
        counted.dropped += port.missed + port.no_buffer;
        // Drivers may accept packets and later fail to send them.
        counted.failed += port.tx_errors;
        counted.sent = counted.sent.saturating_sub(port.tx_errors);
    }
    counted
}

fn port(port: &Port) -> serde_json::Value {
    let counts = port.counts();
    json!({
        "driver": port.driver(),
        "missed": counts.missed,
        "no_buffer": counts.no_buffer,
        "rx_errors": counts.rx_errors,
        "tx_errors": counts.tx_errors,
    })
}
