//! Reading, matching and tallying: one reader thread per capture, joined by the paired merge.

use std::thread;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use wiretail_analysis::matching::{Matcher, Observer, Trimmed, merge};
use wiretail_analysis::metrics::measurement::Measurement;
use wiretail_analysis::metrics::tap::TapTally;
use wiretail_analysis::summary::CaptureFacts;
use wiretail_capture::error::CaptureError;
use wiretail_capture::flow::FlowTable;
use wiretail_capture::key::Keyer;
use wiretail_capture::read::{CaptureReader, InterfaceChoice};
use wiretail_capture::record::RecordReader;
use wiretail_schema::packet::{FlowRule, Record};

use crate::analyze::merge::{PairedMerge, Producer, Side};
use crate::cli::progress::Progress;

/// Number of batches during which a reader is pinned to its core, which takes about 30 ms.
const PINNED_BATCHES: u64 = 512;

/// Typical number of records in a batch, which is one read buffer of small frames. The value only serves to
/// avoid reallocations.
const BATCH_RECORDS: usize = 1280;

/// Default window, in ns. A packet that takes longer is lost. The default of `analyze --window` is the same.
const WINDOW_NS: i64 = 5_000_000_000;

/// Measurement options.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Longest latency, in ns, of a packet that counts as arrived.
    pub window_ns: i64,
    /// Duration of the warm-up, in ns. Packets sent during the warm-up are left out.
    pub trim_ns: i64,
    /// Added to every egress timestamp, in ns.
    pub post_offset_ns: i64,
    /// Definition of a flow.
    pub flows: FlowRule,
    /// Number of worst packets to keep.
    pub worst: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { window_ns: WINDOW_NS, trim_ns: 0, post_offset_ns: 0, flows: FlowRule::None, worst: 1 }
    }
}

/// A capture to read, and its name.
pub struct TapInput {
    /// The path as given, or `-`.
    pub name: String,
    /// Reader at the start of the capture.
    pub reader: CaptureReader,
    pub keyer: Keyer,
}

pub struct Measured {
    /// Tallies of the matched packets.
    pub measurement: Measurement,
    /// Result for the ingress tap alone.
    pub pre: TapResult,
    /// Result for the egress tap alone.
    pub post: TapResult,
}

/// Result for one tap alone.
pub struct TapResult {
    pub tally: TapTally,
    /// Properties of the capture.
    pub facts: CaptureFacts,
    /// Names of the tap's flows, by index.
    pub flow_names: Vec<String>,
}

/// Reads both captures to their ends. `observer` receives every outcome after the warm-up.
///
/// # Errors
/// Returns an error if a capture can't be read.
pub fn measure(
    pre: TapInput,
    post: TapInput,
    settings: &Settings,
    progress: &Progress,
    observer: &mut (impl Observer + Send),
) -> Result<Measured> {
    let mut matcher = Matcher::new(settings.window_ns);
    let mut tally = None;
    let mut bar = progress.bar();
    let mut observer = Some(observer);
    let merge = |sent: &[Record], arrived: &[Record]| {
        let tally = tally.get_or_insert_with(|| observe(settings, sent.first(), observer.take()));
        bar.draw();
        match (sent.is_empty(), arrived.is_empty()) {
            (_, true) => {
                sent.iter().for_each(|record| matcher.pre(record, tally));
                (sent.len(), 0)
            }
            (true, false) => {
                arrived.iter().for_each(|record| matcher.post(record, tally));
                (0, arrived.len())
            }
            (false, false) => merge(&mut matcher, sent, arrived, tally),
        }
    };
    let paired_merge = PairedMerge::new(merge);
    let (pre, post) = thread::scope(|scope| {
        let producer = paired_merge.producer(Side::Pre);
        let [here, elsewhere] = two_cores();
        let pre = scope.spawn(move || read_tap(pre, settings, 0, progress, producer, Pin::to(elsewhere)));
        let (offset_ns, producer) = (settings.post_offset_ns, paired_merge.producer(Side::Post));
        let post = read_tap(post, settings, offset_ns, progress, producer, Pin::to(here));
        (pre.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), post)
    });
    drop(paired_merge);
    let (pre, post) = (pre?, post?);
    let mut tally = tally.unwrap_or_else(|| observe(settings, None, None));
    matcher.finish(&mut tally);
    Ok(Measured { measurement: tally.observer.0, pre, post })
}

/// Tallies the packets after the warm-up, counted from the first ingress packet, and forwards their outcomes.
fn observe<O: Observer>(
    settings: &Settings,
    first: Option<&Record>,
    observer: O,
) -> Trimmed<(Measurement, O)> {
    let first_ns = first.map_or(i64::MIN, |record| record.ts_ns);
    let measurement = Measurement::new(settings.window_ns, settings.trim_ns, settings.worst, first_ns);
    Trimmed::new(first_ns, settings.trim_ns, (measurement, observer))
}

/// Returns this thread's core, and the other cores that it may use. Both are `None` if there are no others.
fn two_cores() -> [Option<CpuSet>; 2] {
    let Ok(mut others) = sched_getaffinity(None) else { return [None, None] };
    let here = sched_getcpu();
    others.unset(here);
    if others.count() == 0 {
        return [None, None];
    }
    let mut this = CpuSet::new();
    this.set(here);
    [Some(this), Some(others)]
}

/// Pins a thread to some cores until dropped.
///
/// The scheduler starts a thread on the core of its creator, and places a woken thread near its waker. The
/// scheduler takes some milliseconds to notice that the next core is idle, and a short capture is read within
/// these milliseconds. For the rest of a long capture, the scheduler's placement is better.
struct Pin {
    allowed: CpuSet,
}

impl Pin {
    /// Pins this thread; returns `None` if there is nothing to choose, or no permission.
    fn to(cores: Option<CpuSet>) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        sched_setaffinity(None, &cores?).ok()?;
        Some(Self { allowed })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // If this fails, the thread may still run on the same cores as before, which only takes longer.
        let _ = sched_setaffinity(None, &self.allowed);
    }
}

/// Reads one capture to its end. A failure also ends the reading of the other side.
fn read_tap<M: FnMut(&[Record], &[Record]) -> (usize, usize)>(
    input: TapInput,
    settings: &Settings,
    offset_ns: i64,
    progress: &Progress,
    producer: Producer<'_, M>,
    mut pin: Option<Pin>,
) -> Result<TapResult, CaptureError> {
    let mut records = RecordReader::new(input.reader, input.keyer, FlowTable::new(settings.flows));
    let mut tally = TapTally::default();
    let (mut offset, mut batches) = (0, 0);
    loop {
        let mut batch = producer.spare().unwrap_or_else(|| Vec::with_capacity(BATCH_RECORDS));
        batch.clear();
        if !records.read_batch(&mut batch).inspect_err(|_| producer.abandon())? {
            break;
        }
        if offset_ns != 0 {
            batch.iter_mut().for_each(|record| record.ts_ns = record.ts_ns.saturating_add(offset_ns));
        }
        tally.take(&batch);
        let now = records.reader().compressed_offset();
        progress.advance(now - offset);
        offset = now;
        batches += 1;
        if batches == PINNED_BATCHES {
            pin = None;
        }
        if !producer.push(batch) {
            break;
        }
    }
    drop(pin);
    Ok(TapResult { facts: facts(input.name, &records), flow_names: records.flows().names().to_vec(), tally })
}

fn facts(path: String, records: &RecordReader) -> CaptureFacts {
    let reader = records.reader();
    let interface = match &reader.options().interface {
        None => None,
        Some(InterfaceChoice::Index(index)) => Some(*index),
        Some(InterfaceChoice::Name(name)) => {
            let named =
                |interface: &&wiretail_capture::read::Interface| interface.name.as_ref() == Some(name);
            reader.interfaces().iter().find(named).map(|interface| interface.index)
        }
    };
    CaptureFacts {
        path,
        format: reader.description(),
        interface,
        clock_source: reader.clock_source(),
        resolution_ns: reader.resolution_ns(),
        packets_without_key: records.counts().packets_without_key,
        packets_without_time: reader.frames_without_trailer(),
        packets_dropped: reader.dropped(),
        wire_bytes: records.counts().wire_bytes,
        truncated: reader.truncation(),
    }
}
