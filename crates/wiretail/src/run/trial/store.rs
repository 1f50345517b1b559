//! What becomes of the packets that the taps record: every one is kept in a capture, or, in a soak, all are
//! matched on the way and what became of them is kept.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use wiretail_capture::write::{CaptureFile, PcapngWriter, TapCounts, TapInterface};
use wiretail_dataplane::timestamper::TimestampSource;
use wiretail_dataplane::timestamper::{SNAPLEN, TapReport};
use wiretail_schema::experiment::{PacketCapture, Trial};
use wiretail_schema::packet::KeyRule;
use wiretail_schema::run::interval::TapStart;

use crate::run::experiment::budgets;
use crate::run::testbed::topology::{TapPlace, Topology};
use crate::run::testbed::traffic;
use crate::run::trial::soak::{LiveStats, Soak, SoakSettings, WINDOW_NS};

/// Who makes the stamps: a veth has no clock of its own.
pub const SOURCE: TimestampSource = TimestampSource::KernelSoftware;

/// Packets up to which a trial whose `trial.capture` is "auto" keeps every one.
const KEPT_MAX: u64 = 20_000_000;

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

/// Whether a trial is a soak: its packets are not kept.
pub fn is_soak(trial: &Trial) -> bool {
    match trial.trial.capture {
        PacketCapture::None => true,
        PacketCapture::Full => false,
        PacketCapture::Auto => traffic::packets(trial) > KEPT_MAX,
    }
}

/// How the soaks of a trial stand, for whoever watches.
#[derive(Default)]
pub struct LiveView(Mutex<Option<LiveStats>>);

impl LiveView {
    /// The first segment's numbers; None before the first interval, and where the trial is no soak.
    pub fn get(&self) -> Option<LiveStats> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A soak for each segment.
pub struct Soaks<'a> {
    soaks: Vec<(Soak, usize, usize)>,
    view: &'a LiveView,
}

impl<'a> Soaks<'a> {
    /// Starts the log of each segment in its directory, or goes on with one that is there.
    ///
    /// # Errors
    /// A log that can't be written, or is of another trial.
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
                .with_context(|| format!("{}: cannot be made", folder.display()))?;
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
