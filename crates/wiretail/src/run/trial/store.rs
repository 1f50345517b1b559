//! Stores for the packets that the taps record. A capture keeps every packet. A soak matches packets
//! immediately and keeps only their outcomes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use wiretail_capture::write::{CaptureFile, PcapngWriter, TapCounts, TapInterface};
use wiretail_dataplane::clock::pauses::PauseClock;
use wiretail_dataplane::timestamper::TimestampSource;
use wiretail_dataplane::timestamper::{SNAPLEN, TapReport};
use wiretail_schema::experiment::{PacketCapture, Trial};
use wiretail_schema::packet::KeyRule;
use wiretail_schema::run::interval::TapStart;

use crate::run::experiment::budgets;
use crate::run::testbed::topology::{TapPlace, Topology};
use crate::run::testbed::traffic;
use crate::run::trial::soak::{LiveStats, Soak, SoakSettings, WINDOW_NS};

/// Source of the timestamps. A veth has no clock, so the kernel takes them.
pub const SOURCE: TimestampSource = TimestampSource::KernelSoftware;

/// With `trial.capture = "auto"`, every packet is kept if a trial has at most this number of packets.
const KEPT_MAX: u64 = 20_000_000;

/// Receives the packets of the taps, in order per tap.
pub trait Store: Send {
    /// Adds one packet: the number of its tap, its timestamp in ns, its length on the wire and its first
    /// bytes.
    ///
    /// # Errors
    /// Returns an error if the packet cannot be written.
    fn packet(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> Result<()>;

    /// Declares that all packets with an earlier timestamp have been added.
    ///
    /// # Errors
    /// Returns an error if the result cannot be written.
    fn complete_until(&mut self, _ts_ns: i64) -> Result<()> {
        Ok(())
    }

    /// Completes the store after the last packet; `reports` are the counters of the taps.
    ///
    /// # Errors
    /// Returns an error if the result cannot be written.
    fn finish(&mut self, reports: &[TapReport]) -> Result<()>;
}

/// Path of a trial's capture.
pub fn capture_path(directory: &Path) -> PathBuf {
    directory.join("capture.pcapng.zst")
}

/// Stores every packet in one capture file, with an interface per tap. The file's header lists the pauses of the
/// trial. They are known when the first packet arrives.
pub struct Captures {
    path: PathBuf,
    interfaces: Vec<TapInterface>,
    pauses: PauseClock,
    /// The file before the first packet.
    file: Option<CaptureFile>,
    writer: Option<PcapngWriter<CaptureFile>>,
}

impl Captures {
    /// Creates the file in `directory`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(directory: &Path, topology: &Topology, pauses: PauseClock) -> Result<Self> {
        let path = capture_path(directory);
        let interface = |tap: &TapPlace| TapInterface {
            name: tap.name.clone(),
            description: format!("{}; {}", tap.describe(topology), SOURCE.name()),
            snaplen: SNAPLEN.into(),
        };
        let interfaces: Vec<TapInterface> = topology.taps().iter().map(interface).collect();
        Ok(Self { file: Some(CaptureFile::create(&path)?), path, interfaces, pauses, writer: None })
    }

    /// Starts the file.
    #[cold]
    fn begin(&mut self, file: CaptureFile) {
        let application = concat!("wiretail ", env!("CARGO_PKG_VERSION"));
        let pauses = self.pauses.announced().map(|pauses| pauses.to_string());
        let writer = PcapngWriter::with_comment(file, application, &self.interfaces, pauses.as_deref());
        self.writer = Some(writer);
    }

    fn name(&self) -> String {
        format!("{}: cannot write the capture", self.path.display())
    }
}

impl Store for Captures {
    fn packet(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> Result<()> {
        if let Some(file) = self.file.take() {
            self.begin(file);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.write(tap, ts_ns, wire_len, frame);
        written.with_context(|| self.name())
    }

    fn finish(&mut self, reports: &[TapReport]) -> Result<()> {
        if let Some(file) = self.file.take() {
            self.begin(file);
        }
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let count = |report: &TapReport| {
            let dropped = report.drops + report.missing;
            TapCounts { received: report.packets + dropped, dropped }
        };
        let counts: Vec<TapCounts> = reports.iter().map(count).collect();
        Ok(writer.finish(&counts).with_context(|| self.name())?.finish()?)
    }
}

/// Returns whether a trial is a soak, which does not keep its packets.
pub fn is_soak(trial: &Trial) -> bool {
    match trial.trial.capture {
        PacketCapture::None => true,
        PacketCapture::Full => false,
        PacketCapture::Auto => traffic::packets(trial) > KEPT_MAX,
    }
}

/// Current numbers of a trial's soaks, for the progress line.
#[derive(Default)]
pub struct LiveView(Mutex<Option<LiveStats>>);

impl LiveView {
    /// Returns the first segment's numbers; `None` before the first interval, or if the trial is not a soak.
    pub fn get(&self) -> Option<LiveStats> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a soak for each segment.
pub struct Soaks<'a> {
    soaks: Vec<(Soak, usize, usize)>,
    view: &'a LiveView,
}

impl<'a> Soaks<'a> {
    /// Starts the log of each segment in its directory, or continues an existing log.
    ///
    /// # Errors
    /// Returns an error if a log cannot be written or belongs to another trial.
    pub fn create(directory: &Path, trial: &Trial, topology: &Topology, view: &'a LiveView) -> Result<Self> {
        let taps = topology.taps();
        let tap = |place: usize| TapStart {
            name: taps[place].name.clone(),
            clock_source: SOURCE.name().to_owned(),
            resolution_ns: 1.0,
        };
        let mut soaks = Vec::new();
        for (number, segment) in topology.segments().into_iter().enumerate() {
            let folder = if number == 0 { directory.to_owned() } else { directory.join(&segment.name) };
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("{}: cannot be created", folder.display()))?;
            let settings = SoakSettings {
                title: trial.name.clone(),
                window_ns: WINDOW_NS,
                trim_ns: trial.trial.warm_up.ns,
                key: KeyRule::Signature,
                budgets: budgets(trial)?,
                taps: [tap(segment.pre), tap(segment.post)],
            };
            soaks.push((Soak::create(&folder, &settings)?, segment.pre, segment.post));
        }
        Ok(Self { soaks, view })
    }
}

impl Store for Soaks<'_> {
    #[inline]
    fn packet(&mut self, tap: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> Result<()> {
        for (soak, pre, post) in &mut self.soaks {
            if usize::from(tap) == *pre {
                soak.packet(0, ts_ns, wire_len, frame);
            } else if usize::from(tap) == *post {
                soak.packet(1, ts_ns, wire_len, frame);
            }
        }
        Ok(())
    }

    fn complete_until(&mut self, ts_ns: i64) -> Result<()> {
        for (soak, _, _) in &mut self.soaks {
            soak.advance(ts_ns);
            soak.tick()?;
        }
        if let Some((first, _, _)) = self.soaks.first() {
            *self.view.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(first.stats());
        }
        Ok(())
    }

    fn finish(&mut self, reports: &[TapReport]) -> Result<()> {
        for (mut soak, pre, post) in self.soaks.drain(..) {
            let drops = |tap: usize| reports.get(tap).map_or(0, |report| report.drops + report.missing);
            soak.dropped(0, drops(pre));
            soak.dropped(1, drops(post));
            soak.finish()?;
        }
        Ok(())
    }
}
