//! From a file, pipe or standard input to frames.
//!
//! | format | recognised by | timestamps | module |
//! |---|---|---|---|
//! | pcap, µs and ns, both byte orders | its magic | 32-bit seconds and ticks | `pcap` |
//! | pcapng, both byte orders, several sections and interfaces | its magic | 64-bit ticks of any size | `pcapng` |
//! | ERF of Ethernet or IP, with extension headers | a chain of records that makes sense, or the name `.erf` | 2^-32 s | `erf` |
//! | MoonSniff `.mscap` | stamps that make sense, or the name `.mscap` | 64-bit ns, or 32-bit ns that wrap | `mscap` |
//!
//! Each of them plain, gzip or zstd (`compression`), and each of Ethernet frames also with the stamp in
//! the frame's last eight bytes (`trailer`).
//!
//! Every format decodes slices of one buffer (`input`). The format is looked at once a buffer, not
//! once a packet, and the caller's sink is inlined into each format's loop. A format keeps no bytes
//! back: what it can't decode yet stays in the buffer, so a capture gives the same frames however
//! the source cuts it.

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

/// Largest captured length that is believed, in bytes: the largest snap length of tcpdump and dumpcap.
pub(crate) const MAX_FRAME: usize = 262_144;

/// One captured frame, borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the tap saw it, in ns since the capture clock's epoch.
    pub ts_ns: i64,
    /// Index of the interface, as in [`CaptureReader::interfaces`].
    pub interface: u32,
    /// What `data` starts with.
    pub link: LinkType,
    /// Length on the wire in bytes, without frame check sequence and timestamp trailer; 0 in formats
    /// that do not record it (mscap).
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

    /// Whether the header names the protocol behind it.
    pub(crate) fn has_ethertype(self) -> bool {
        matches!(self, Self::Ethernet | Self::Sll | Self::Sll2)
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
    /// In the last eight bytes of each frame, as libmoon left them there: nanoseconds, then seconds,
    /// both u32 little endian. Frames without one are left out and counted.
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
    fault: Option<Fault>,
}

/// Why a format stopped decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The bytes make no sense; what was decoded before is good.
    Damage(String),
    /// A packet of a link type that is not supported.
    UnknownLinkType { number: u32, expected: &'static str, hint: &'static str },
    /// A packet without a time.
    NoTimestamp,
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
