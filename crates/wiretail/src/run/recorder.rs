//! Records what the taps see: into memory while a short trial runs, and along the way in a long one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wiretail_capture::write::{CaptureFile, PcapngWriter, TapCounts, TapInterface};
use wiretail_dataplane::placement::Placement;
use wiretail_dataplane::timestamper::{RingPlan, SNAPLEN, StampSource, TapReport, TapSpec, Timestamper};

use super::topology::{Segment, TapPlace, Topology};

/// Memory that the rings of all taps may take together, in bytes; what needs more is read along the way.
const MEMORY_MAX: u64 = 256 << 20;
/// Traffic that the rings hold when they are read along the way.
const HELD: Duration = Duration::from_secs(3);
/// How often they are read then. Often, so that one reading is short: it may share the generator's core.
const READ_EVERY: Duration = Duration::from_millis(10);
/// How often the taps are counted for whoever watches.
const COUNT_EVERY: Duration = Duration::from_millis(50);
/// For experiments on a local network (IEEE 802, "Local Experimental Ethertype 1"): what probes carry.
pub const ETHERTYPE_PROBE: u16 = 0x88b5;
/// Who makes the stamps: a veth has no clock of its own.
const SOURCE: StampSource = StampSource::KernelSoftware;

/// Takes packets as the taps saw them, tap by tap in order.
pub trait Store: Send {
    /// One packet: the tap's number, stamp in ns, length on the wire, first bytes.
    ///
    /// # Errors
    /// A full disk.
    fn packet(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> Result<()>;

    /// All packets that were stamped before this time have been given.
    ///
    /// # Errors
    /// A full disk.
    fn complete_until(&mut self, _ts_ns: i64) -> Result<()> {
        Ok(())
    }

    /// No packet comes any more; what the taps counted is this.
    ///
    /// # Errors
    /// A full disk.
    fn finish(&mut self, reports: &[TapReport]) -> Result<()>;
}

/// Taps that record until they are told to end.
pub struct Recorder<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Vec<TapReport>>>,
    end: Sender<()>,
}

/// What the taps have seen so far, for whoever watches; written by the recorder.
pub struct Watched {
    segment: Segment,
    /// Packets at ingress minus packets at egress.
    missing: AtomicI64,
}

impl Watched {
    /// Watches this segment.
    pub fn new(segment: Segment) -> Self {
        Self { segment, missing: AtomicI64::new(0) }
    }

    /// Packets that were seen at ingress and not yet at egress: under way, or lost.
    pub fn missing(&self) -> i64 {
        self.missing.load(Ordering::Relaxed)
    }
}

/// The ring that each of `taps` taps needs for `packets` packets in `duration_ns`, and whether it has to
/// be read along the way.
pub fn ring(taps: usize, packets: u64, duration_ns: u64, force_streaming: bool) -> (RingPlan, bool) {
    let whole = RingPlan {
        packets: packets + packets / 10 + 1000,
        duration_ns: duration_ns + 3_000_000_000,
        snaplen: SNAPLEN,
        source: SOURCE,
    };
    if whole.bytes() * taps as u64 <= MEMORY_MAX && !force_streaming {
        return (whole, false);
    }
    let share = HELD.as_nanos() as f64 / duration_ns.max(1) as f64;
    let held = RingPlan {
        packets: (packets as f64 * share.min(1.0)) as u64 + 10_000,
        duration_ns: HELD.as_nanos() as u64,
        ..whole
    };
    (held, true)
}

/// Opens the taps, and records into `store` until [`Recorder::end`].
///
/// # Errors
/// A tap that can't be opened.
pub fn start<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    taps: &[TapSpec<'_>],
    plan: (RingPlan, bool),
    mut store: Box<dyn Store + 'env>,
    placement: Placement,
    watched: &'env Watched,
) -> Result<Recorder<'scope>> {
    let (ring, streaming) = plan;
    let mut timestamper = Timestamper::open(taps, &ring)?;
    let (end, ended) = channel();
    let thread = scope.spawn(move || {
        if streaming {
            placement.apply()?;
            stream(&mut timestamper, &mut *store, &ended, watched)?;
        } else {
            wait(&mut timestamper, &ended, watched);
        }
        let mut failure = Ok(());
        let reports = timestamper.drain(&mut |tap, ts_ns, wire_len, frame| {
            pass(&mut *store, &mut failure, tap, ts_ns, wire_len, frame);
        });
        failure?;
        store.finish(&reports)?;
        Ok(reports)
    });
    Ok(Recorder { thread, end })
}

impl Recorder<'_> {
    /// Ends recording when traffic has stopped; returns what each tap saw.
    ///
    /// # Errors
    /// What was recorded can't be written.
    pub fn end(self) -> Result<Vec<TapReport>> {
        let _ = self.end.send(());
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Whether it has ended before its time, as for a full disk.
    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Nobody reads: the rings hold everything.
fn wait(timestamper: &mut Timestamper, ended: &Receiver<()>, watched: &Watched) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(COUNT_EVERY) {
        count(timestamper, watched);
    }
}

/// Reads what is complete, again and again.
fn stream(
    timestamper: &mut Timestamper,
    store: &mut dyn Store,
    ended: &Receiver<()>,
    watched: &Watched,
) -> Result<()> {
    let mut counted = Instant::now();
    let mut until = Watermark::default();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(READ_EVERY) {
        let mut failure = Ok(());
        timestamper.collect(&mut |tap, ts_ns, wire_len, frame| {
            until.saw(tap, ts_ns);
            pass(store, &mut failure, tap, ts_ns, wire_len, frame);
        });
        failure?;
        store.complete_until(until.get())?;
        if counted.elapsed() >= COUNT_EVERY {
            counted = Instant::now();
            count(timestamper, watched);
        }
    }
    Ok(())
}

/// Until when all taps have been read.
#[derive(Default)]
struct Watermark {
    last_ns: Vec<i64>,
}

impl Watermark {
    fn saw(&mut self, tap: u16, ts_ns: i64) {
        let tap = usize::from(tap);
        if self.last_ns.len() <= tap {
            self.last_ns.resize(tap + 1, i64::MIN);
        }
        self.last_ns[tap] = self.last_ns[tap].max(ts_ns);
    }

    fn get(&self) -> i64 {
        self.last_ns.iter().copied().min().unwrap_or(i64::MIN)
    }
}

fn count(timestamper: &mut Timestamper, watched: &Watched) {
    let seen = timestamper.seen();
    let at = |tap: usize| seen.get(tap).map_or(0, |packets| *packets as i64);
    watched.missing.store(at(watched.segment.pre) - at(watched.segment.post), Ordering::Relaxed);
}

/// Gives a packet to the store, unless it is a probe; the first error is kept.
fn pass(store: &mut dyn Store, failure: &mut Result<()>, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) {
    if failure.is_ok() && frame.get(12..14) != Some(&ETHERTYPE_PROBE.to_be_bytes()) {
        *failure = store.packet(tap, ts_ns, wire_len, frame);
    }
}

/// Where the capture of a trial is.
pub fn capture_path(directory: &Path) -> PathBuf {
    directory.join("capture.pcapng.zst")
}

/// Every packet, in one capture file with an interface a tap.
pub struct Captures {
    path: PathBuf,
    writer: Option<PcapngWriter<CaptureFile>>,
}

impl Captures {
    /// Starts the file in `directory`.
    ///
    /// # Errors
    /// It can't be made.
    pub fn create(directory: &Path, topology: &Topology) -> Result<Self> {
        let path = capture_path(directory);
        let interface = |tap: &TapPlace| TapInterface {
            name: tap.name.clone(),
            description: format!("{}; {}", tap.describe(topology), SOURCE.name()),
            snaplen: SNAPLEN.into(),
        };
        let interfaces: Vec<TapInterface> = topology.taps().iter().map(interface).collect();
        let application = concat!("wiretail ", env!("CARGO_PKG_VERSION"));
        let writer = PcapngWriter::new(CaptureFile::create(&path)?, application, &interfaces);
        Ok(Self { path, writer: Some(writer) })
    }

    fn name(&self) -> String {
        format!("{}: the capture can't be written", self.path.display())
    }
}

impl Store for Captures {
    fn packet(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.write(tap, ts_ns, wire_len, frame);
        written.with_context(|| self.name())
    }

    fn finish(&mut self, reports: &[TapReport]) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let count = |report: &TapReport| {
            let dropped = report.drops + report.missing;
            TapCounts { received: report.packets + dropped, dropped }
        };
        let counts: Vec<TapCounts> = reports.iter().map(count).collect();
        Ok(writer.finish(&counts).with_context(|| self.name())?.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_trials_are_read_along_the_way() {
        let (short, streaming) = ring(2, 20_000, 2_000_000_000, false);
        assert!(!streaming && short.packets >= 20_000);
        let (long, streaming) = ring(2, 60_000_000, 600_000_000_000, false);
        assert!(streaming && long.bytes() * 2 < MEMORY_MAX, "{} MiB", long.bytes() >> 20);
        assert!(ring(2, 100, 1_000, true).1);
    }

    #[test]
    fn the_slowest_tap_says_what_is_complete() {
        let mut until = Watermark::default();
        until.saw(1, 50);
        assert_eq!(until.get(), i64::MIN);
        until.saw(0, 20);
        until.saw(1, 40);
        assert_eq!(until.get(), 20);
    }
}
