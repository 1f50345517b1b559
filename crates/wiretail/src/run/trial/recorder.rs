//! Records the packets seen by the taps: in memory during a short trial, or streamed to a store during a long
//! one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wiretail_dataplane::clock::realtime_ns;
use wiretail_dataplane::placement::Placement;
use wiretail_dataplane::timestamper::{BLOCK_TIMEOUT_MS, RingPlan, SNAPLEN, TapReport, TapSpec, Timestamper};

use crate::run::testbed::topology::Segment;
use crate::run::testbed::traffic;
use crate::run::trial::store::{SOURCE, Store};

/// Memory limit for the rings of all taps together, in bytes. If the packets of a trial need more memory,
/// they are streamed.
const MEMORY_MAX: u64 = 256 << 20;
/// Memory per packet in a ring, in bytes, including its share of the unused space in a block.
const PACKET_LEN: u64 = 160;
/// Duration of traffic for which the rings have space while streaming.
const HELD: Duration = Duration::from_secs(3);
/// Interval between reads while streaming. It is short because the reader may share the generator's core.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Maximum time that the kernel holds a packet back while streaming, in ms.
const STREAM_TIMEOUT_MS: u32 = 20;
/// Interval between updates of the packet counts.
const COUNT_EVERY: Duration = Duration::from_millis(50);

/// Taps that record until they are stopped.
pub struct Recorder<'scope, 'env> {
    thread: ScopedJoinHandle<'scope, Result<Vec<TapReport>>>,
    next: Sender<Box<dyn Store + 'env>>,
    reports: Receiver<Vec<TapReport>>,
}

/// Counts of the packets seen by the taps, updated by the recorder.
pub struct Watched {
    ways: Vec<Segment>,
    /// Packets at ingress minus packets at egress, over all directions.
    missing: AtomicI64,
    /// Packets at all taps.
    seen: AtomicU64,
}

impl Watched {
    /// Counts the packets of these segments, one for the whole path of each direction.
    pub fn new(ways: Vec<Segment>) -> Self {
        Self { ways, missing: AtomicI64::new(0), seen: AtomicU64::new(0) }
    }

    /// Number of packets that were seen at ingress and not yet at egress. These packets are in flight or
    /// lost.
    pub fn missing(&self) -> i64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Resets the counts for the next trial.
    fn restart(&self) {
        self.missing.store(0, Ordering::Relaxed);
        self.seen.store(0, Ordering::Relaxed);
    }

    /// Number of packets seen by the taps. While this number grows, the devices are still forwarding.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

/// Returns the size of each tap's ring, and whether the packets must be streamed. Each of the `taps` taps is
/// assumed to see `packets` packets in `duration_ns`.
pub fn ring(taps: usize, packets: u64, duration_ns: u64, force_streaming: bool) -> (RingPlan, bool) {
    let whole = RingPlan {
        packets: packets + packets / 10 + 1000,
        duration_ns: duration_ns + 3_000_000_000,
        snaplen: SNAPLEN,
        source: SOURCE,
        timeout_ms: BLOCK_TIMEOUT_MS,
    };
    if whole.bytes() * taps as u64 <= MEMORY_MAX && !force_streaming {
        return (whole, false);
    }
    let share = HELD.as_nanos() as f64 / duration_ns.max(1) as f64;
    let held = (packets as f64 * share.min(1.0)) as u64 + 10_000;
    let room = MEMORY_MAX / taps.max(1) as u64 / PACKET_LEN;
    let held = RingPlan {
        packets: held.min(room),
        duration_ns: HELD.as_nanos() as u64,
        timeout_ms: STREAM_TIMEOUT_MS,
        ..whole
    };
    (held, true)
}

/// Opens the taps, and records into `store` until [`Recorder::end`].
///
/// # Errors
/// Returns an error if a tap cannot be opened.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    taps: &[TapSpec<'_>],
    plan: (RingPlan, bool),
    store: Box<dyn Store + 'env>,
    placement: Placement,
    watched: &'env Watched,
) -> Result<Recorder<'scope, 'env>> {
    let (ring, streaming) = plan;
    let mut timestamper = Timestamper::open(taps, &ring)?;
    let (next, asked) = channel();
    let (tell, reports) = channel();
    let taps = taps.len();
    let thread = scope.spawn(move || {
        if streaming {
            placement.apply()?;
        }
        let mut store = store;
        loop {
            let mut intake = Intake { store, failure: Ok(()), probes: vec![0; taps] };
            let next = if streaming {
                stream(&mut timestamper, &mut intake, &asked, ring.handed_over_after(), watched)?
            } else {
                wait(&mut timestamper, &asked, watched)
            };
            let reports = intake.finish(&mut timestamper)?;
            watched.restart();
            // After the last trial, these reports have no receiver.
            let Some(next) = next else { return Ok(reports) };
            let _ = tell.send(reports);
            store = next;
        }
    });
    Ok(Recorder { thread, next, reports })
}

impl<'env> Recorder<'_, 'env> {
    /// Switches to another store between two trials, while there is no traffic. Returns the counters of each
    /// tap for the previous store.
    ///
    /// # Errors
    /// Returns an error if the recorder cannot write; [`Recorder::end`] returns the reason.
    pub fn next(&self, store: Box<dyn Store + 'env>) -> Result<Vec<TapReport>> {
        let asked = self.next.send(store).is_ok();
        let reports = self.reports.recv().ok().filter(|_| asked);
        reports.context("the recorder has ended")
    }

    /// Stops recording after the traffic has ended. Returns the counters of each tap.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be written.
    pub fn end(self) -> Result<Vec<TapReport>> {
        drop(self.next);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Returns whether the recorder has ended early, for example because the disk is full.
    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The next store; `None` to stop.
type Next<'a> = Option<Box<dyn Store + 'a>>;

/// Waits without reading, because the rings hold all packets.
fn wait<'a>(
    timestamper: &mut Timestamper,
    asked: &Receiver<Box<dyn Store + 'a>>,
    watched: &Watched,
) -> Next<'a> {
    loop {
        match asked.recv_timeout(COUNT_EVERY) {
            Err(RecvTimeoutError::Timeout) => count(timestamper, watched),
            asked => return asked.ok(),
        }
    }
}

/// Reads complete packets repeatedly.
fn stream<'a>(
    timestamper: &mut Timestamper,
    intake: &mut Intake<'_>,
    asked: &Receiver<Box<dyn Store + 'a>>,
    handed_over_after: Duration,
    watched: &Watched,
) -> Result<Next<'a>> {
    let mut counted = Instant::now();
    loop {
        match asked.recv_timeout(READ_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            asked => return Ok(asked.ok()),
        }
        // The clock is read before the taps. By then, the kernel has delivered every packet that is older
        // than this time minus the handover time.
        let complete_ns = realtime_ns() as i64 - handed_over_after.as_nanos() as i64;
        timestamper.collect(&mut |tap, ts_ns, wire_len, frame| intake.take(tap, ts_ns, wire_len, frame));
        std::mem::replace(&mut intake.failure, Ok(()))?;
        intake.store.complete_until(complete_ns)?;
        if counted.elapsed() >= COUNT_EVERY {
            counted = Instant::now();
            count(timestamper, watched);
        }
    }
}

fn count(timestamper: &mut Timestamper, watched: &Watched) {
    let seen = timestamper.seen();
    let at = |tap: usize| seen.get(tap).map_or(0, |packets| *packets as i64);
    let missing = watched.ways.iter().map(|way| at(way.pre) - at(way.post)).sum();
    watched.missing.store(missing, Ordering::Relaxed);
    watched.seen.store(seen.iter().sum(), Ordering::Relaxed);
}

/// Passes packets that are not probes to the store, and keeps the first error.
struct Intake<'a> {
    store: Box<dyn Store + 'a>,
    failure: Result<()>,
    /// Number of probes, by tap.
    probes: Vec<u64>,
}

impl Intake<'_> {
    fn take(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) {
        if traffic::is_probe(frame) {
            self.probes[usize::from(tap)] += 1;
        } else if self.failure.is_ok() {
            self.failure = self.store.packet(tap, ts_ns, wire_len, frame);
        }
    }

    /// Reads the remaining packets after the traffic has stopped, and completes the store.
    fn finish(mut self, timestamper: &mut Timestamper) -> Result<Vec<TapReport>> {
        let mut reports =
            timestamper.drain(&mut |tap, ts_ns, wire_len, frame| self.take(tap, ts_ns, wire_len, frame));
        self.failure?;
        for (report, probes) in reports.iter_mut().zip(self.probes) {
            report.packets -= probes;
        }
        self.store.finish(&reports)?;
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_long_trials() {
        let (short, streaming) = ring(2, 20_000, 2_000_000_000, false);
        assert!(!streaming && short.packets >= 20_000);
        let (long, streaming) = ring(2, 60_000_000, 600_000_000_000, false);
        assert!(streaming && long.bytes() * 2 < MEMORY_MAX, "{} MiB", long.bytes() >> 20);
        assert!(ring(2, 100, 1_000, true).1);
        let (flood, _) = ring(2, 100_000_000, 1_000_000_000, true);
        assert!(flood.bytes() * 2 < MEMORY_MAX + (64 << 20), "{} MiB", flood.bytes() >> 20);
    }
}
