//! `wiretail capture`: taps into one pcapng file.
//!
//! A short capture stays in the kernel's rings until it ends, so that no reader is in the way of what is
//! measured. A longer one is read every [`READ_EVERY`] and written as it goes.

mod dpdk;
mod watch;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use wiretail_capture::write::{CaptureFile, PcapngWriter, TapCounts, TapInterface};
use wiretail_dataplane::timestamper::{
    BLOCK_TIMEOUT_MS, Direction, RingPlan, TapReport, TapSpec, TimestampSource, Timestamper,
};
use wiretail_report::format;

use self::watch::Watch;
use crate::cli::traffic::{CaptureArgs, CaptureSocket, TapPlace, TimestampChoice};
use crate::traffic::live::{self, OpenPlace, nanoseconds};

/// Between two looks at the rings while they are read.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Between two looks at the counters while nobody reads.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time for packets under way, once a tap has seen as many as were asked for.
const SETTLE: Duration = Duration::from_millis(300);
/// Most memory of a capture that nobody reads while it runs, all taps together, in bytes.
const MEMORY_MAX: u64 = 512 << 20;
/// Memory of each tap that is read all the time, in bytes: one second of 400,000 packets.
const STREAM_RING: u64 = 64 << 20;
/// What the ring needs for a packet, beside the bytes that are kept.
const PACKET_OVERHEAD: u64 = 90;
/// How long nobody reads a capture of so many packets that has no other end.
const MEMORY_TIME: Duration = Duration::from_secs(30);

/// Runs the command.
///
/// # Errors
/// Taps that can't be opened, a file that can't be written.
pub fn run(arguments: &CaptureArgs) -> Result<ExitCode> {
    live::stay_off(&arguments.thread);
    let stop = live::stop_on_signals()?;
    check_names(&arguments.taps)?;
    let end_ns = arguments.duration.map(|duration| nanoseconds("duration", duration)).transpose()?;
    let (reports, duration) = match arguments.socket {
        CaptureSocket::Packet => record(arguments, end_ns, &stop)?,
        CaptureSocket::Dpdk => dpdk::run(arguments, end_ns.map(Duration::from_nanos), &stop)?,
    };
    if arguments.json {
        live::print_json(&document(arguments, &reports, duration))?;
    } else {
        print(arguments, &reports, duration)?;
    }
    Ok(verdict(arguments, &reports))
}

/// Records by packet sockets.
fn record(
    arguments: &CaptureArgs,
    end_ns: Option<u64>,
    stop: &AtomicBool,
) -> Result<(Vec<TapReport>, Duration)> {
    let places: Vec<_> =
        arguments.taps.iter().map(|tap| OpenPlace::interface(&tap.place)).collect::<Result<_>>()?;
    let (ring, in_memory) = ring(arguments, end_ns);
    let specs = specs(&arguments.taps, &places);
    let timestamper = Timestamper::open(&specs, &ring)?;
    let file = Output::create(arguments, ring.source)?;
    if !arguments.json {
        let how = if in_memory { "into memory" } else { "read as it goes" };
        let taps: Vec<&str> = arguments.taps.iter().map(|tap| tap.name.as_str()).collect();
        eprintln!("capturing {}, {how}; Ctrl-C ends it", taps.join(" and "));
    }
    let recording = Recording { timestamper, file, in_memory, end: end_ns.map(Duration::from_nanos) };
    recording.run(arguments, stop)
}

fn check_names(taps: &[TapPlace]) -> Result<()> {
    for (at, tap) in taps.iter().enumerate() {
        if taps[..at].iter().any(|other| other.name == tap.name) {
            bail!(
                "two taps are called {}; expected a name for each, by which it is chosen later, such as \
                 pre={} post=...",
                tap.name,
                tap.place
            );
        }
    }
    Ok(())
}

fn specs<'a>(taps: &'a [TapPlace], places: &'a [OpenPlace<'_>]) -> Vec<TapSpec<'a>> {
    let spec = |(number, (tap, place)): (usize, (&'a TapPlace, &'a OpenPlace<'_>))| {
        let port = place.port();
        TapSpec { netns: port.netns, interface: port.interface, direction: tap.direction, tap: number as u16 }
    };
    taps.iter().zip(places).enumerate().map(spec).collect()
}

/// What each tap's ring has to hold, and whether that is all of the capture.
fn ring(arguments: &CaptureArgs, end_ns: Option<u64>) -> (RingPlan, bool) {
    let source = match arguments.timestamps {
        TimestampChoice::Software => TimestampSource::KernelSoftware,
        TimestampChoice::Hardware => TimestampSource::Hardware,
    };
    let plan = |packets, duration_ns| RingPlan {
        packets,
        duration_ns,
        snaplen: arguments.snaplen,
        source,
        timeout_ms: BLOCK_TIMEOUT_MS,
    };
    if let (Some(packets), false) = (arguments.packets, arguments.stream) {
        let whole = plan(packets.get(), end_ns.unwrap_or(MEMORY_TIME.as_nanos() as u64));
        if whole.bytes().saturating_mul(arguments.taps.len() as u64) <= MEMORY_MAX {
            return (whole, true);
        }
    }
    (plan(STREAM_RING / (u64::from(arguments.snaplen) + PACKET_OVERHEAD), 1_000_000_000), false)
}

/// The file, and how much of each tap went into it.
struct Output<'a> {
    path: &'a Path,
    writer: PcapngWriter<CaptureFile>,
    /// Packets of each tap that were written.
    written: Vec<u64>,
    /// No more than so many of each tap.
    most: u64,
    failure: Option<std::io::Error>,
}

impl<'a> Output<'a> {
    /// Opens the file and writes its head, so that a full disk shows before anything is recorded.
    fn create(arguments: &'a CaptureArgs, source: TimestampSource) -> Result<Self> {
        let interface = |tap: &TapPlace| TapInterface {
            name: tap.name.clone(),
            description: format!("{}, {} stamps", place(tap), source.name()),
            snaplen: arguments.snaplen.into(),
        };
        let interfaces: Vec<_> = arguments.taps.iter().map(interface).collect();
        let path = arguments.write.as_path();
        let file = CaptureFile::create(path)?;
        let application = concat!("wiretail ", env!("CARGO_PKG_VERSION"));
        let mut writer = PcapngWriter::new(file, application, &interfaces);
        writer.flush().map_err(|error| cannot_write(path, error))?;
        let most = arguments.packets.map_or(u64::MAX, Into::into);
        Ok(Self { path, writer, written: vec![0; interfaces.len()], most, failure: None })
    }

    fn add(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) {
        let written = &mut self.written[usize::from(tap)];
        if *written == self.most || self.failure.is_some() {
            return;
        }
        *written += 1;
        self.failure = self.writer.write(tap, ts_ns, wire_len, frame).err();
    }

    /// Hands over what was added; an error of any packet before, too.
    fn flush(&mut self) -> Result<()> {
        let result = match self.failure.take() {
            Some(error) => Err(error),
            None => self.writer.flush(),
        };
        result.map_err(|error| cannot_write(self.path, error))
    }

    fn finish(mut self, reports: &[TapReport]) -> Result<()> {
        self.flush()?;
        let counts = |report: &TapReport| {
            let dropped = lost(report);
            TapCounts { received: report.packets + dropped, dropped }
        };
        let counts: Vec<_> = reports.iter().map(counts).collect();
        let file = self.writer.finish(&counts).map_err(|error| cannot_write(self.path, error))?;
        file.finish().map_err(Into::into)
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow!("{}: the capture can't be written: {error}; it ends there; is there space left?", path.display())
}

/// Taps that record, and where what they record goes.
struct Recording<'a> {
    timestamper: Timestamper,
    file: Output<'a>,
    in_memory: bool,
    end: Option<Duration>,
}

impl Recording<'_> {
    /// Records until a signal, the time, or the number of packets ends it. Returns what each tap did, and
    /// how long it took.
    fn run(mut self, arguments: &CaptureArgs, stop: &AtomicBool) -> Result<(Vec<TapReport>, Duration)> {
        let most = arguments.packets.map_or(u64::MAX, Into::into);
        let mut watch = Watch::begin(arguments, self.end, stop);
        loop {
            let reading = !self.in_memory || (self.end.is_none() && watch.elapsed() > MEMORY_TIME);
            watch.sleep(if reading { READ_EVERY } else { LOOK_EVERY });
            if reading {
                let file = &mut self.file;
                self.timestamper.collect(&mut |tap, ts, len, frame| file.add(tap, ts, len, frame));
                file.flush()?;
            }
            if watch.is_over(&self.timestamper.seen()) {
                break;
            }
        }
        let duration = watch.finish();
        // Traffic may go on: what comes now is not part of the capture.
        self.timestamper.stop()?;
        let mut file = self.file;
        let mut reports = self.timestamper.drain(&mut |tap, ts, len, frame| file.add(tap, ts, len, frame));
        if self.in_memory {
            // Nobody read, so the first packets are all there, and what found the ring full came behind.
            reports.iter_mut().filter(|report| report.packets >= most).for_each(|report| {
                (report.drops, report.missing) = (0, 0);
            });
        }
        for (report, written) in reports.iter_mut().zip(&file.written) {
            report.packets = *written;
        }
        file.finish(&reports).map(|()| (reports, duration))
    }
}

fn lost(report: &TapReport) -> u64 {
    report.drops + report.missing
}

/// Where a tap is and what it sees, for people.
fn place(tap: &TapPlace) -> String {
    let direction = match tap.direction {
        Direction::In => "incoming",
        Direction::Out => "outgoing",
    };
    format!("{} {direction}", tap.place)
}

/// 1 where the capture is not whole, and says so.
fn verdict(arguments: &CaptureArgs, reports: &[TapReport]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (tap, report) in arguments.taps.iter().zip(reports) {
        if lost(report) > 0 {
            eprintln!(
                "wiretail: {}: {} packets are missing in the capture, which came faster than they could be \
                 recorded; keep fewer bytes (--snaplen), write to a faster disk, or record fewer packets",
                tap.name,
                format::count(lost(report))
            );
            code = ExitCode::from(1);
        }
        if report.source == TimestampSource::Hardware && report.other_timestamps > 0 {
            eprintln!(
                "wiretail: {}: {} packets were not stamped by the network card; their stamps are the kernel's \
                 and of another clock",
                tap.name,
                format::count(report.other_timestamps)
            );
            code = ExitCode::from(1);
        }
    }
    code
}

fn document(arguments: &CaptureArgs, reports: &[TapReport], duration: Duration) -> serde_json::Value {
    let tap = |(tap, report): (&TapPlace, &TapReport)| {
        json!({
            "name": tap.name,
            "place": place(tap),
            "timestamp_source": report.source.name(),
            "packets": report.packets,
            "drops": report.drops,
            "missing": report.missing,
            "other_stamps": report.other_timestamps,
        })
    };
    json!({
        "file": arguments.write.display().to_string(),
        "duration_ns": duration.as_nanos() as u64,
        "taps": arguments.taps.iter().zip(reports).map(tap).collect::<Vec<_>>(),
    })
}

fn print(arguments: &CaptureArgs, reports: &[TapReport], duration: Duration) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let took = format::duration(duration.as_nanos() as f64);
    writeln!(out, "{}: {took}", arguments.write.display())?;
    for (tap, report) in arguments.taps.iter().zip(reports) {
        writeln!(
            out,
            "  {}  {} packets, {} dropped, {} missing, {} with other stamps; {}, {} stamps",
            tap.name,
            format::count(report.packets),
            format::count(report.drops),
            format::count(report.missing),
            format::count(report.other_timestamps),
            place(tap),
            report.source.name()
        )?;
    }
    Ok(())
}
