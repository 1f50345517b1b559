//! From a file, pipe or standard input to frames.
//!
//! | format | recognised by | timestamps | module |
//! |---|---|---|---|
//! | pcap, µs and ns, both byte orders | its magic | 32-bit seconds and ticks | [`pcap`] |
//!
//! Every format decodes slices of one buffer ([`input`]). The format is looked at once a buffer, not
//! once a packet, and the caller's sink is inlined into each format's loop.

mod input;
mod pcap;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wiretail_schema::summary::Truncation;

use crate::error::CaptureError;
use input::Input;
use pcap::Pcap;

/// Largest captured length that is believed, in bytes: the largest snap length of tcpdump and dumpcap.
pub(crate) const MAX_FRAME: usize = 262_144;

/// Bytes that are looked at to tell the format.
const HEAD: usize = 4096;

/// One captured frame, borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the tap saw it, in ns since the capture clock's epoch.
    pub ts_ns: i64,
    /// Index of the interface, as in [`CaptureReader::interfaces`].
    pub interface: u32,
    /// What `data` starts with.
    pub link: LinkType,
    /// Length on the wire in bytes, without frame check sequence and timestamp trailer.
    pub wire_len: u32,
    /// What was captured of it, without frame check sequence and timestamp trailer.
    pub data: &'a [u8],
}

/// What a frame starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinkType {
    /// Ethernet, VLAN tags included.
    Ethernet,
    /// Linux "cooked" capture (`tcpdump -i any`), version 1.
    Sll,
    /// Linux "cooked" capture, version 2.
    Sll2,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Four bytes of address family, then an IP header: the BSD loopback.
    Loopback,
    /// No frame at all but MoonSniff's identifier: four bytes, little endian.
    MoonsniffId,
}

impl LinkType {
    /// Numbers: <https://www.tcpdump.org/linktypes.html>; 12 and 14 are what some systems write for 101.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            113 => Some(Self::Sll),
            276 => Some(Self::Sll2),
            12 | 14 | 101 | 228 | 229 => Some(Self::RawIp),
            0 | 108 => Some(Self::Loopback),
            _ => None,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "Ethernet",
            Self::Sll => "Linux SLL",
            Self::Sll2 => "Linux SLL2",
            Self::RawIp => "raw IP",
            Self::Loopback => "BSD loopback",
            Self::MoonsniffId => "MoonSniff identifiers",
        }
    }
}

const SUPPORTED_LINKS: &str =
    "Ethernet (1), raw IP (101), Linux SLL (113), Linux SLL2 (276) or loopback (0, 108)";

/// Where the time of a frame stands (`--timestamps`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamps {
    /// In the capture format's record header.
    #[default]
    Header,
    /// In the last eight bytes of each frame, as libmoon left them there; see the module `trailer`.
    Trailer,
}

/// An interface of a file that holds several (`--pre-interface`, `--post-interface`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceChoice {
    /// By its index, from 0 in the order of the file.
    Index(u32),
    /// By its name: `eth0`.
    Name(String),
}

impl std::fmt::Display for InterfaceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Name(name) => write!(f, "'{name}'"),
        }
    }
}

/// How to read a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Where the time of a frame stands.
    pub timestamps: Timestamps,
    /// Only frames of this interface; None for all.
    pub interface: Option<InterfaceChoice>,
}

/// An interface that frames were captured on.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// Position in the file, from 0.
    pub index: u32,
    /// Name, where the file has one.
    pub name: Option<String>,
    /// What its frames start with; None where that is not supported here.
    pub link: Option<LinkType>,
    /// Resolution of its timestamps, in ns.
    pub resolution_ns: f64,
}

/// What one call of a format's `decode` did.
#[derive(Debug, Default)]
struct Decoded {
    /// Bytes that are done with.
    consumed: usize,
    /// Bytes that the next record needs in all; 0 where not even that is known yet.
    need: usize,
    /// Whole packets found, those of other interfaces included.
    frames: u64,
    /// Why decoding can't go on behind `consumed`.
    damage: Option<String>,
}

/// Takes the frame check sequence off; it differs at the two taps where a VLAN tag or a TTL does.
#[inline(always)]
fn strip_fcs(wire_len: u32, data: &[u8], fcs_len: u32) -> (u32, &[u8]) {
    if fcs_len == 0 {
        return (wire_len, data);
    }
    let wire_len = wire_len.saturating_sub(fcs_len);
    (wire_len, &data[..data.len().min(wire_len as usize)])
}

enum Format {
    Pcap(Pcap),
}

/// Counts what the file gave, beneath the decompressor, and remembers whether it was the file that failed.
#[derive(Debug, Default)]
struct SourceState {
    bytes: AtomicU64,
    failed: AtomicBool,
}

struct Counted {
    source: Box<dyn Read + Send>,
    state: Arc<SourceState>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.source.read(buffer);
        match &result {
            Ok(count) => _ = self.state.bytes.fetch_add(*count as u64, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.state.failed.store(true, Ordering::Relaxed),
        }
        result
    }
}

/// A capture that is being read.
pub struct CaptureReader {
    name: String,
    input: Input,
    format: Format,
    interfaces: Vec<Interface>,
    source: Arc<SourceState>,
    source_len: Option<u64>,
    options: OpenOptions,
    /// Bytes that the next record needs, as the last decoding said.
    need: usize,
    /// Whether the buffer holds bytes that were never decoded.
    primed: bool,
    frames: u64,
    truncation: Option<Truncation>,
    done: bool,
}

impl CaptureReader {
    /// Opens a file, or standard input where `path` is `-`, and reads its head: compression and
    /// format are told by their magic, not by the name.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        if name == "-" {
            return Self::start(name, Box::new(io::stdin()), None, options);
        }
        let error = |source| CaptureError::Io { file: name.clone(), offset: 0, source };
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        let source_len = metadata.is_file().then_some(metadata.len());
        Self::start(name, Box::new(file), source_len, options)
    }

    /// Reads from any source; `name` is what errors call it.
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &OpenOptions,
    ) -> Result<Self, CaptureError> {
        Self::start(name.to_owned(), reader, None, options)
    }

    fn start(
        name: String,
        reader: Box<dyn Read + Send>,
        source_len: Option<u64>,
        options: &OpenOptions,
    ) -> Result<Self, CaptureError> {
        let source = Arc::new(SourceState::default());
        let mut input = Input::new(Box::new(Counted { source: reader, state: Arc::clone(&source) }));
        let io_error = |source| CaptureError::Io { file: name.clone(), offset: 0, source };
        input.fill_to(HEAD).map_err(io_error)?;
        if input.bytes().is_empty() {
            return Err(CaptureError::Empty { file: name });
        }
        let (format, head_len) = detect(&name, input.bytes())?;
        input.consume(head_len);
        let mut reader = Self {
            name,
            input,
            format,
            interfaces: Vec::new(),
            source,
            source_len,
            options: options.clone(),
            need: 0,
            primed: true,
            frames: 0,
            truncation: None,
            done: false,
        };
        let Format::Pcap(pcap) = &reader.format;
        reader.interfaces.push(Interface {
            index: 0,
            name: None,
            link: Some(pcap.link),
            resolution_ns: pcap.resolution_ns(),
        });
        Ok(reader)
    }

    /// Decodes the next buffer-full (about 256 KiB) of frames into `sink`. Ok(false) when the end
    /// has been reached; that call delivers no frame.
    ///
    /// A file that ends within a record or is damaged after good frames is not an error: reading
    /// stops there and [`truncation`](Self::truncation) tells where and why.
    ///
    /// # Errors
    /// The source cannot be read, or the file is damaged so that not one frame could be had.
    pub fn read<S: FnMut(&Frame<'_>)>(&mut self, sink: &mut S) -> Result<bool, CaptureError> {
        while !self.done {
            if self.primed {
                self.primed = false;
            } else if let Err(error) = self.input.fill(self.need) {
                return self.source_failed(error);
            }
            let decoded = match &mut self.format {
                Format::Pcap(pcap) => pcap.decode(self.input.bytes(), sink),
            };
            self.input.consume(decoded.consumed);
            self.need = decoded.need;
            self.frames += decoded.frames;
            if let Some(detail) = decoded.damage {
                self.stop(detail)?;
            } else if self.input.ended() && decoded.consumed == 0 {
                self.finish()?;
            }
            if decoded.frames > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The source has ended and nothing more can be decoded.
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.done = true;
        let left = self.input.bytes().len();
        if left == 0 {
            return Ok(());
        }
        let detail = match self.need {
            0 => format!("the file ends within a record's header, {left} bytes into it"),
            need => format!("the file ends within a record: {left} of its {need} bytes are there"),
        };
        self.stop(detail)
    }

    /// Ends reading at the current offset: a flag where there is something to analyse, an error otherwise.
    fn stop(&mut self, detail: String) -> Result<(), CaptureError> {
        self.done = true;
        let offset = self.input.consumed();
        if self.frames == 0 {
            return Err(CaptureError::Damaged { file: self.name.clone(), offset, detail });
        }
        self.truncation = Some(Truncation { offset, detail });
        Ok(())
    }

    fn source_failed(&mut self, source: io::Error) -> Result<bool, CaptureError> {
        self.done = true;
        Err(CaptureError::Io { file: self.name.clone(), offset: self.compressed_offset(), source })
    }

    /// Format, compression and link types, for people: "pcap (ns, little endian), zstd, Ethernet".
    pub fn description(&self) -> String {
        let Format::Pcap(pcap) = &self.format;
        format!("{}, {}", pcap.describe(), pcap.link.name())
    }

    /// Resolution of the timestamps that the format gives, in ns.
    pub fn resolution_ns(&self) -> f64 {
        let Format::Pcap(pcap) = &self.format;
        pcap.resolution_ns()
    }

    /// Where the timestamps come from, as far as the file says.
    pub fn clock_source(&self) -> String {
        "pcap file, source not recorded".to_owned()
    }

    /// Where and why reading stopped before the end; None as long as all is well.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation.clone()
    }

    /// The interfaces seen so far, in the order of the file.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Frames read so far, those of other interfaces included.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Bytes consumed of the (decompressed) capture.
    pub fn offset(&self) -> u64 {
        self.input.consumed()
    }

    /// Bytes read from the file, as it is stored.
    pub fn compressed_offset(&self) -> u64 {
        self.source.bytes.load(Ordering::Relaxed)
    }

    /// Length of the file as it is stored, where it is known: not of a pipe.
    pub fn total_len(&self) -> Option<u64> {
        self.source_len
    }

    /// How the capture was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Bytes of memory that the read buffer holds; bounded whatever the file claims.
    pub fn buffer_capacity(&self) -> usize {
        self.input.capacity()
    }
}

fn detect(name: &str, head: &[u8]) -> Result<(Format, usize), CaptureError> {
    let file = || name.to_owned();
    if Pcap::is_magic(head) {
        return match Pcap::open(head) {
            Ok((pcap, len)) => Ok((Format::Pcap(pcap), len)),
            Err(pcap::HeadError::Truncated) => Err(CaptureError::Damaged {
                file: file(),
                offset: 0,
                detail: format!("{} of the 24 bytes of a pcap file header", head.len()),
            }),
            Err(pcap::HeadError::UnknownLinkType { offset, number }) => Err(CaptureError::UnknownLinkType {
                file: file(),
                offset,
                number,
                expected: SUPPORTED_LINKS,
                hint: "record on an Ethernet interface or with tcpdump -i any",
            }),
        };
    }
    let found = head.iter().take(8).map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    Err(CaptureError::UnknownFormat { file: file(), found, hint: String::new() })
}
