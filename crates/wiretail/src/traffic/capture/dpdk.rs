//! Implements `wiretail capture --socket dpdk`. A loop polls DPDK ports and records packets into memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wiretail_dataplane::timestamper::dpdk::PortTaps;
use wiretail_dataplane::timestamper::{Direction, TapReport, TimestampSource};

use super::watch::Watch;
use super::{LOOK_EVERY, MEMORY_MAX, Output, PACKET_OVERHEAD};
use crate::cli::traffic::{CaptureArgs, TimestampChoice};
use crate::traffic::live;

/// Records until a signal, the duration, or the number of packets ends the capture.
pub(super) fn run(
    arguments: &CaptureArgs,
    end: Option<Duration>,
    stop: &AtomicBool,
) -> Result<(Vec<TapReport>, Duration)> {
    if arguments.stream {
        bail!(
            "--stream requires --socket packet: with --socket dpdk, the capture stays in memory until it ends"
        );
    }
    if let Some(tap) = arguments.taps.iter().find(|tap| tap.direction == Direction::Out) {
        bail!("{}: a DPDK port records only packets that it receives; expected the suffix :in", tap.place);
    }
    let source = match arguments.timestamps {
        TimestampChoice::Software => TimestampSource::Poll,
        TimestampChoice::Hardware => TimestampSource::Hardware,
    };
    let places: Vec<_> = arguments.taps.iter().map(|tap| &tap.place).collect();
    let started = crate::traffic::dpdk::start(&places, &arguments.dpdk, &arguments.thread)?;
    let taps = PortTaps::open(started.eal, &started.places(), source, arguments.snaplen, room(arguments))?;
    let mut file = Output::create(arguments, source)?;
    if !arguments.json {
        let names: Vec<&str> = arguments.taps.iter().map(|tap| tap.name.as_str()).collect();
        eprintln!("capturing {}, into memory; press Ctrl-C to stop", names.join(" and "));
    }
    let begun = Instant::now();
    let taps = record(arguments, taps, end, stop)?;
    let duration = begun.elapsed();
    let mut reports = taps.drain(&mut |tap, ts, len, frame| file.add(tap, ts, len, frame));
    for (report, written) in reports.iter_mut().zip(&file.written) {
        if report.packets >= file.most {
            // The packets that did not fit into memory arrived after the last requested packet.
            report.drops = 0;
        }
        report.packets = *written;
    }
    file.finish(&reports).map(|()| (reports, duration))
}

/// Memory per tap, in bytes.
fn room(arguments: &CaptureArgs) -> usize {
    let share = MEMORY_MAX / arguments.taps.len() as u64;
    let packet = u64::from(arguments.snaplen) + PACKET_OVERHEAD;
    let wanted = arguments.packets.map_or(u64::MAX, |packets| packets.get().saturating_mul(packet));
    wanted.min(share) as usize
}

/// Polls on a separate thread until the capture ends.
fn record(
    arguments: &CaptureArgs,
    mut taps: PortTaps,
    end: Option<Duration>,
    stop: &AtomicBool,
) -> Result<PortTaps> {
    let seen: Vec<AtomicU64> = arguments.taps.iter().map(|_| AtomicU64::new(0)).collect();
    let (enough, placement) = (AtomicBool::new(false), live::placement(&arguments.thread));
    let mut watch = Watch::begin(arguments, end, stop);
    thread::scope(|scope| {
        let polling = thread::Builder::new().name(live::LOOP_THREAD.to_owned());
        let polling = polling.spawn_scoped(scope, || {
            placement.apply()?;
            taps.record(&enough, &seen);
            anyhow::Ok(taps)
        });
        let polling = polling.context("cannot start a thread for the loop")?;
        while !polling.is_finished() {
            watch.sleep(LOOK_EVERY);
            let seen: Vec<u64> = seen.iter().map(|packets| packets.load(Ordering::Relaxed)).collect();
            if watch.is_over(&seen) {
                enough.store(true, Ordering::Relaxed);
                break;
            }
        }
        watch.finish();
        polling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
