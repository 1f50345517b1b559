//! Implements `wiretail capture`: records taps into one pcapng file.
//!
//! A short capture stays in the kernel's rings until it ends, so that no reader disturbs the measurement. A
//! longer capture is read every [`READ_EVERY`] and written while it runs.

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

/// Interval between reads of the rings.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Interval between reads of the counters while the rings are not read.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time for packets in flight, after a tap has seen the requested number of packets.
const SETTLE: Duration = Duration::from_millis(300);
/// Memory limit for a capture that is read only when it ends, over all taps, in bytes.
const MEMORY_MAX: u64 = 512 << 20;
/// Ring size for each tap that is read continuously, in bytes. The ring holds one second of traffic at 400
/// kpps.
const STREAM_RING: u64 = 64 << 20;
/// Memory in the ring per packet, in addition to the captured bytes.
const PACKET_OVERHEAD: u64 = 90;
/// Time after which a capture limited only by a number of packets is read while it runs.
const MEMORY_TIME: Duration = Duration::from_secs(30);

/// Runs `wiretail capture`.
///
/// # Errors
/// Returns an error if a tap cannot be opened or the file cannot be written.
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

/// Records with packet sockets.
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
        let how = if in_memory { "into memory" } else { "written while it runs" };
        let taps: Vec<&str> = arguments.taps.iter().map(|tap| tap.name.as_str()).collect();
        eprintln!("capturing {}, {how}; press Ctrl-C to stop", taps.join(" and "));
    }
    let recording = Recording { timestamper, file, in_memory, end: end_ns.map(Duration::from_nanos) };
    recording.run(arguments, stop)
}

fn check_names(taps: &[TapPlace]) -> Result<()> {
    for (at, tap) in taps.iter().enumerate() {
        if taps[..at].iter().any(|other| other.name == tap.name) {
            bail!(
                "two taps have the name {}; expected a different name for each tap, such as \
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

/// Returns the size of each tap's ring, and whether it holds the complete capture.
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

/// The capture file, and the number of packets written to it.
struct Output<'a> {
    path: &'a Path,
    writer: PcapngWriter<CaptureFile>,
    /// Number of packets written, by tap.
    written: Vec<u64>,
    /// Maximum number of packets per tap.
    most: u64,
    failure: Option<std::io::Error>,
}

impl<'a> Output<'a> {
    /// Opens the file and writes its header, so that a full disk is reported before the recording starts.
    fn create(arguments: &'a CaptureArgs, source: TimestampSource) -> Result<Self> {
        let interface = |tap: &TapPlace| TapInterface {
            name: tap.name.clone(),
            description: format!("{}, {} timestamps", place(tap), source.name()),
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

    /// Flushes the file, and returns an error if a packet could not be written.
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
    anyhow!(
        "{}: cannot write the capture: {error}; the file ends there; check the free disk space",
        path.display()
    )
}

/// Recording taps and their output file.
struct Recording<'a> {
    timestamper: Timestamper,
    file: Output<'a>,
    in_memory: bool,
    end: Option<Duration>,
}

impl Recording<'_> {
    /// Records until a signal, the duration, or the number of packets ends the capture. Returns the reports
    /// of the taps and the duration.
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
        // Traffic may continue, but later packets are not part of the capture.
        self.timestamper.stop()?;
        let mut file = self.file;
        let mut reports = self.timestamper.drain(&mut |tap, ts, len, frame| file.add(tap, ts, len, frame));
        if self.in_memory {
            // The rings were not read, so they hold the first packets. Any dropped packets arrived later.
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

/// Describes a tap's location and direction for display.
fn place(tap: &TapPlace) -> String {
    let direction = match tap.direction {
        Direction::In => "incoming",
        Direction::Out => "outgoing",
    };
    format!("{} {direction}", tap.place)
}

/// Returns exit code 1 and prints the reason if the capture is incomplete.
fn verdict(arguments: &CaptureArgs, reports: &[TapReport]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (tap, report) in arguments.taps.iter().zip(reports) {
        if lost(report) > 0 {
            eprintln!(
                "wiretail: {}: {} packets are missing from the capture because they arrived faster than they \
                 could be recorded; keep fewer bytes (--snaplen), write to a faster disk, or record fewer \
                 packets",
                tap.name,
                format::count(lost(report))
            );
            code = ExitCode::from(1);
        }
        if report.source == TimestampSource::Hardware && report.other_timestamps > 0 {
            eprintln!(
                "wiretail: {}: {} packets have no NIC timestamp; their timestamps are from the kernel \
                 and use another clock",
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
            "  {}  {} packets, {} dropped, {} missing, {} with other timestamps; {}, {} timestamps",
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
