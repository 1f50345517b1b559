//! Reading, matching and tallying: one thread a capture, and this one for the matching.
//!
//! Records travel in batches of one read buffer, through channels that hold a few of them, so that
//! memory does not grow with the captures. The batches' vectors travel back to be filled again.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::{self, ScopedJoinHandle};

use anyhow::Result;
use wiretail_analysis::matching::{Matcher, Outcome, Sent, Sink, merge};
use wiretail_analysis::measurement::Measurement;
use wiretail_analysis::summarize::CaptureFacts;
use wiretail_analysis::tap::TapTally;
use wiretail_capture::error::CaptureError;
use wiretail_capture::flow::FlowTable;
use wiretail_capture::key::Keyer;
use wiretail_capture::read::{CaptureReader, InterfaceChoice};
use wiretail_capture::record::RecordReader;
use wiretail_schema::packet::{FlowRule, Record};

use crate::progress::Progress;

/// Batches that wait between a reader and the matcher: enough to bridge a short stall of either.
const BATCHES: usize = 8;

/// Records that a batch usually holds: a read buffer of small frames. A guess that saves copying.
const BATCH_RECORDS: usize = 1280;

/// How to measure.
pub struct Settings {
    /// Longest latency that counts as arrived, in ns.
    pub window_ns: i64,
    /// Packets sent in this first part are left out, in ns.
    pub trim_ns: i64,
    /// Added to every egress stamp, in ns.
    pub post_offset_ns: i64,
    /// How packets are recognised.
    pub keyer: Keyer,
    /// What tells flows apart.
    pub flows: FlowRule,
    /// How many of the worst packets to keep.
    pub worst: usize,
}

/// A capture to be read, and the name it goes by.
pub struct TapInput {
    /// The path as given, or `-`.
    pub name: String,
    /// At the start of the capture.
    pub reader: CaptureReader,
}

/// Takes every outcome, in order; its first error ends the measurement with that error.
pub type Each<'a> = &'a mut dyn FnMut(&Outcome) -> Result<()>;

/// What was measured.
pub struct Measured {
    /// The tallies of the matched packets.
    pub measurement: Measurement,
    /// The ingress tap by itself.
    pub pre: TapResult,
    /// The egress tap by itself.
    pub post: TapResult,
}

/// One tap by itself.
pub struct TapResult {
    /// Its statistics.
    pub tally: TapTally,
    /// What is known of the capture.
    pub facts: CaptureFacts,
    /// Names of its flows, by index.
    pub flow_names: Vec<String>,
}

/// Reads both captures to their ends. `each`, if given, is called with every outcome, in order.
///
/// # Errors
/// A capture that can't be read; the error of `each`.
pub fn measure(
    pre: TapInput,
    post: TapInput,
    settings: &Settings,
    progress: &Progress,
    each: Option<Each<'_>>,
) -> Result<Measured> {
    thread::scope(|scope| {
        let read = |input: TapInput, offset_ns: i64| {
            let (sender, batches) = sync_channel(BATCHES);
            let (back, returned) = channel();
            let task = move || read_tap(input, settings, offset_ns, progress, &sender, &returned);
            Feed { batches, back, batch: Vec::new(), next: 0, thread: scope.spawn(task) }
        };
        let mut pre = read(pre, 0);
        let mut post = read(post, settings.post_offset_ns);
        let mut bar = progress.bar();

        let first_ns = pre.peek().map_or(i64::MIN, |record| record.ts_ns);
        let cut_ns = if settings.trim_ns > 0 { first_ns.saturating_add(settings.trim_ns) } else { i64::MIN };
        let measurement = Measurement::new(settings.window_ns, settings.trim_ns, settings.worst, first_ns);
        let mut matcher = Matcher::new(settings.window_ns);
        let mut sink = Tally { measurement, cut_ns, each, failure: Ok(()) };
        loop {
            let (sent, arrived) = (pre.rest(), post.rest());
            let taken = match (sent.is_empty(), arrived.is_empty()) {
                (true, true) => break,
                (false, true) => {
                    sent.iter().for_each(|record| matcher.pre(record, &mut sink));
                    (sent.len(), 0)
                }
                (true, false) => {
                    arrived.iter().for_each(|record| matcher.post(record, &mut sink));
                    (0, arrived.len())
                }
                (false, false) => merge(&mut matcher, sent, arrived, &mut sink),
            };
            pre.next += taken.0;
            post.next += taken.1;
            bar.draw();
        }
        matcher.finish(&mut sink);
        sink.failure?;
        Ok(Measured { measurement: sink.measurement, pre: pre.finish()?, post: post.finish()? })
    })
}

/// Tallies the outcomes, and passes them on to whoever wants every packet.
struct Tally<'a> {
    measurement: Measurement,
    /// Packets seen before are left out.
    cut_ns: i64,
    each: Option<Each<'a>>,
    failure: Result<()>,
}

impl Tally<'_> {
    #[inline(never)]
    fn pass_on(&mut self, outcome: &Outcome) {
        if let Some(each) = &mut self.each
            && self.failure.is_ok()
        {
            self.failure = each(outcome);
        }
    }
}

impl Sink for Tally<'_> {
    #[inline]
    fn matched(&mut self, sent: &Sent, delay_ns: i64) {
        if sent.ts_ns < self.cut_ns {
            return;
        }
        self.measurement.matched(sent, delay_ns);
        if self.each.is_some() {
            self.pass_on(&Outcome::Matched { sent: *sent, delay_ns });
        }
    }

    fn irregular(&mut self, outcome: &Outcome) {
        if outcome.seen_ns() < self.cut_ns {
            return;
        }
        self.measurement.irregular(outcome);
        self.pass_on(outcome);
    }
}

/// The matcher's end of a reading thread.
struct Feed<'scope> {
    batches: Receiver<Vec<Record>>,
    back: Sender<Vec<Record>>,
    batch: Vec<Record>,
    next: usize,
    thread: ScopedJoinHandle<'scope, Result<TapResult, CaptureError>>,
}

impl Feed<'_> {
    /// The records at hand; waits for more where there are none. Empty at the end.
    fn rest(&mut self) -> &[Record] {
        while self.next >= self.batch.len() {
            let Some(batch) = receive(&self.batches) else { return &[] };
            let used = std::mem::replace(&mut self.batch, batch);
            self.next = 0;
            if used.capacity() > 0 {
                // The reader may have ended: then nobody needs the vector.
                let _ = self.back.send(used);
            }
        }
        &self.batch[self.next..]
    }

    fn peek(&mut self) -> Option<Record> {
        self.rest().first().copied()
    }

    fn finish(self) -> Result<TapResult, CaptureError> {
        drop(self.batches);
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Times that a thread lets others run before it sleeps. A batch takes some 50 µs, and sleeping and
/// being woken for each cost as much again; worse, the scheduler then tends to put all three
/// threads on one core.
const YIELDS: u32 = 400;

/// The next batch; None at the end.
fn receive(batches: &Receiver<Vec<Record>>) -> Option<Vec<Record>> {
    for _ in 0..YIELDS {
        match batches.try_recv() {
            Ok(batch) => return Some(batch),
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
    batches.recv().ok()
}

/// Whether somebody still wants batches.
fn send(batches: &SyncSender<Vec<Record>>, mut batch: Vec<Record>) -> bool {
    for _ in 0..YIELDS {
        match batches.try_send(batch) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) => batch = back,
            Err(TrySendError::Disconnected(_)) => return false,
        }
        thread::yield_now();
    }
    batches.send(batch).is_ok()
}

fn read_tap(
    input: TapInput,
    settings: &Settings,
    offset_ns: i64,
    progress: &Progress,
    batches: &SyncSender<Vec<Record>>,
    returned: &Receiver<Vec<Record>>,
) -> Result<TapResult, CaptureError> {
    let mut records = RecordReader::new(input.reader, settings.keyer.clone(), FlowTable::new(settings.flows));
    let mut tally = TapTally::default();
    let mut offset = 0;
    loop {
        let mut batch = returned.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_RECORDS));
        batch.clear();
        if !records.read_batch(&mut batch)? {
            break;
        }
        if offset_ns != 0 {
            batch.iter_mut().for_each(|record| record.ts_ns = record.ts_ns.saturating_add(offset_ns));
        }
        tally.take(&batch);
        let now = records.reader().compressed_offset();
        progress.advance(now - offset);
        offset = now;
        if !send(batches, batch) {
            break;
        }
    }
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
        wire_bytes: records.counts().wire_bytes,
        truncated: reader.truncation(),
    }
}
