//! Reads frames from a file, a pipe or standard input.
//!
//! | format | detected by | timestamps | module |
//! |---|---|---|---|
//! | pcap, µs and ns, both byte orders | its magic number | 32-bit seconds and ticks | `pcap` |
//! | pcapng, both byte orders, sections, interfaces | its magic number | 64-bit ticks of any size | `pcapng` |
//! | ERF of Ethernet or IP, extension headers | a plausible chain of records, or the name `.erf` | 2^-32 s | `erf` |
//! | MoonSniff `.mscap` | plausible timestamps, or the name `.mscap` | 64-bit ns, or 32-bit ns that wrap | `mscap` |
//!
//! Each format may be plain, gzip or zstd (`compression`). In captures of Ethernet frames, the timestamp may
//! instead be in the last eight bytes of each frame (`trailer`).
//!
//! Every format decodes slices of one buffer (`input`). The format is dispatched once per buffer and not once
//! per packet, and the caller's sink is inlined into each format's loop. Decoders keep no bytes between
//! calls. Incomplete data stays in the buffer, so a capture yields the same frames regardless of how many
//! bytes each read of the source returns.

mod compression;
mod detect;
mod erf;
mod input;
mod mscap;
mod pcap;
mod pcapng;
mod pcapng_interface;
mod reader;
mod trailer;

pub use reader::CaptureReader;

/// Largest accepted captured length, in bytes: the largest snap length of tcpdump and dumpcap.
pub(crate) const MAX_FRAME: usize = 262_144;

/// One captured frame, borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time at which the tap saw the frame, in ns since the capture clock's epoch.
    pub ts_ns: i64,
    /// Index of the interface, as in [`CaptureReader::interfaces`].
    pub interface: u32,
    /// First header in `data`.
    pub link: LinkType,
    /// Length on the wire in bytes, without frame check sequence and timestamp trailer; 0 in formats
    /// that do not record it (mscap).
    pub wire_len: u32,
    /// The captured bytes, without frame check sequence and timestamp trailer.
    pub data: &'a [u8],
}

/// The first header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinkType {
    /// Ethernet, including VLAN tags.
    Ethernet,
    /// Linux "cooked" capture (`tcpdump -i any`), version 1.
    Sll,
    /// Linux "cooked" capture, version 2.
    Sll2,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Four bytes of address family, then an IP header: the BSD loopback.
    Loopback,
    /// No frame, only MoonSniff's identifier: four bytes, little endian.
    MoonsniffId,
}

impl LinkType {
    /// Converts a link type number (<https://www.tcpdump.org/linktypes.html>). Some systems write 12 or 14
    /// instead of 101 for raw IP.
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

    /// Whether the header contains the ethertype of the next header.
    pub(crate) fn has_ethertype(self) -> bool {
        matches!(self, Self::Ethernet | Self::Sll | Self::Sll2)
    }

    /// Name for messages.
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

/// Location of a frame's timestamp (`--timestamps`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timestamps {
    /// In the capture format's record header.
    #[default]
    Header,
    /// In the last eight bytes of each frame, as written by libmoon: nanoseconds, then seconds, both u32
    /// little endian. Frames without a timestamp are skipped and counted.
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

/// Options for reading a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Location of a frame's timestamp.
    pub timestamps: Timestamps,
    /// Only frames of this interface; None for all.
    pub interface: Option<InterfaceChoice>,
}

/// An interface that frames were captured on.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// Position in the file, from 0.
    pub index: u32,
    /// Name, if the file has one.
    pub name: Option<String>,
    /// First header of its frames; `None` if the link type is not supported.
    pub link: Option<LinkType>,
    /// Resolution of its timestamps, in ns.
    pub resolution_ns: f64,
}

/// Result of one call of a format's `decode`.
#[derive(Debug, Default)]
struct Decoded {
    consumed: usize,
    /// Total number of bytes that the next record needs; 0 if that is not yet known.
    need: usize,
    /// Complete packets found, including packets of other interfaces.
    frames: u64,
    /// Why decoding cannot continue after `consumed`.
    fault: Option<Fault>,
}

/// Why a format stopped decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The bytes are invalid; frames decoded before are valid.
    Damage(String),
    /// A packet of a link type that is not supported.
    UnknownLinkType { number: u32, expected: &'static str, hint: &'static str },
    /// A packet without a timestamp.
    NoTimestamp,
}

/// Removes the frame check sequence, which differs between the taps if a VLAN tag or the TTL differs.
#[inline(always)]
fn strip_fcs(wire_len: u32, data: &[u8], fcs_len: u32) -> (u32, &[u8]) {
    if fcs_len == 0 {
        return (wire_len, data);
    }
    let wire_len = wire_len.saturating_sub(fcs_len);
    (wire_len, &data[..data.len().min(wire_len as usize)])
}
