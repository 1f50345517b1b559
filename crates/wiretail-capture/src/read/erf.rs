//! ERF, the format of Endace's capture cards: a chain of records without a file header.
//!
//! | offset | field |
//! |---|---|
//! | 0 | u64 little endian: seconds in the upper half, 2^-32 s in the lower |
//! | 8 | type; bit 7: extension headers follow |
//! | 9 | flags; bits 0 and 1: the port |
//! | 10 | u16 big endian: length of the record, including this header |
//! | 12 | u16 big endian: loss counter or colour |
//! | 14 | u16 big endian: length on the wire |
//! | 16 | extension headers, 8 bytes each, bit 7 of the first byte: another follows |
//! | | Ethernet: 2 bytes of padding; then the packet, possibly padded |
//!
//! Source: Endace, "Extensible Record Format types", and <https://wiki.wireshark.org/ERF>. The wire length of
//! an Ethernet record includes the frame check sequence, which is subtracted here.

use super::{Decoded, Fault, Frame, Interface, InterfaceChoice, LinkType, strip_fcs};

const HEADER: usize = 16;
const EXTENSION: usize = 8;
const ETHERNET_PADDING: usize = 2;
const ETHERNET_FCS: u32 = 4;
const RESOLUTION_NS: f64 = 1e9 / 4_294_967_296.0;
/// Number of records examined to detect the format.
const PROBES: usize = 16;
/// Longest gap between two records that detection accepts as plausible, in seconds.
const PROBE_STEP_MAX: u64 = 86_400;

const SUPPORTED: &str = "ERF record type Ethernet (2, 11, 16, 20), IPv4 (22) or IPv6 (23)";

/// Content of a record type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ethernet,
    Ip,
    /// Counters, metadata, padding.
    NoPacket,
    /// HDLC, ATM, InfiniBand and the like.
    Unsupported,
    Unknown,
}

impl Kind {
    fn of(record_type: u8) -> Self {
        match record_type & 0x7f {
            2 | 11 | 16 | 20 => Self::Ethernet,
            22 | 23 => Self::Ip,
            13 | 14 | 27 | 48 => Self::NoPacket,
            1 | 3..=10 | 12 | 15 | 17..=19 | 21 | 24..=26 | 28 => Self::Unsupported,
            _ => Self::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Header {
    seconds: u64,
    fraction: u64,
    record_type: u8,
    port: u32,
    len: usize,
    wire_len: u32,
}

impl Header {
    #[inline(always)]
    fn read(bytes: &[u8; HEADER]) -> Self {
        let [a, b, c, d, e, f, g, h, record_type, flags, len @ .., _, _, wire_high, wire_low] = *bytes;
        let timestamp = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        Self {
            seconds: timestamp >> 32,
            fraction: timestamp & 0xffff_ffff,
            record_type,
            port: u32::from(flags & 3),
            len: usize::from(u16::from_be_bytes(len)),
            wire_len: u32::from(u16::from_be_bytes([wire_high, wire_low])),
        }
    }

    /// Rounds down. All timestamps with sub-nanosecond resolution are rounded in this way in this crate.
    #[inline(always)]
    fn ts_ns(&self) -> i64 {
        (self.seconds * 1_000_000_000 + ((self.fraction * 1_000_000_000) >> 32)) as i64
    }

    /// The bytes after the extension headers of a complete record; `None` if the headers exceed the record.
    #[inline(always)]
    fn content<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = record.get(HEADER..)?;
        let mut more = self.record_type & 0x80 != 0;
        while more {
            more = *rest.first()? & 0x80 != 0;
            rest = rest.get(EXTENSION..)?;
        }
        match Kind::of(self.record_type) {
            Kind::Ethernet => rest.get(ETHERNET_PADDING..),
            _ => Some(rest),
        }
    }
}

/// The ports seen so far, and the requested port.
#[derive(Debug, Clone)]
pub(crate) struct Erf {
    interfaces: Vec<Interface>,
    choice: Option<InterfaceChoice>,
    /// Whether frames of each port are delivered; `None` before the port's first frame.
    ports: [Option<bool>; 4],
}

impl Erf {
    pub(crate) fn new(choice: Option<InterfaceChoice>) -> Self {
        Self { interfaces: Vec::new(), choice, ports: [None; 4] }
    }

    /// Whether a file that starts with `head` may be an ERF file. ERF has no magic number, so the first
    /// records must form a chain. If `is_named_so` is set, the file name indicates ERF and one record is
    /// enough.
    pub(crate) fn is_plausible(head: &[u8], is_named_so: bool) -> bool {
        let mut left = head;
        let mut last = None;
        for probe in 0..PROBES {
            let Some(bytes) = left.first_chunk::<HEADER>() else { return probe > 0 };
            let header = Header::read(bytes);
            let steps = last.map_or(0, |last: u64| header.seconds.abs_diff(last));
            let is_known = Kind::of(header.record_type) != Kind::Unknown;
            if !is_known || header.len < HEADER || steps > PROBE_STEP_MAX {
                return is_named_so && probe > 0;
            }
            last = Some(header.seconds);
            let Some((record, rest)) = left.split_at_checked(header.len) else {
                return is_named_so || probe > 0;
            };
            // A record is not longer than its packet, except for padding to a multiple of 8 bytes.
            let fits = header.content(record).is_some_and(|c| c.len() <= header.wire_len as usize + 8);
            if !fits && Kind::of(header.record_type) == Kind::Ethernet {
                return is_named_so;
            }
            left = rest;
        }
        true
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    #[inline]
    pub(crate) fn decode<S: FnMut(&Frame<'_>)>(&mut self, bytes: &[u8], sink: &mut S) -> Decoded {
        let mut decoded = Decoded::default();
        let mut left = bytes;
        while let Some(header) = left.first_chunk::<HEADER>() {
            let header = Header::read(header);
            let kind = Kind::of(header.record_type);
            if header.len < HEADER || matches!(kind, Kind::Unknown | Kind::Unsupported) {
                decoded.fault = Some(fault(&header, kind));
                break;
            }
            let Some((record, rest)) = left.split_at_checked(header.len) else {
                decoded.need = header.len;
                break;
            };
            let Some(content) = header.content(record) else {
                let detail = format!("a record of {} bytes is too short for its headers", header.len);
                decoded.fault = Some(Fault::Damage(detail));
                break;
            };
            left = rest;
            if kind == Kind::NoPacket {
                continue;
            }
            decoded.frames += 1;
            let link = if kind == Kind::Ethernet { LinkType::Ethernet } else { LinkType::RawIp };
            let is_wanted = match self.ports[header.port as usize] {
                Some(is_wanted) => is_wanted,
                None => self.add_port(header.port, link),
            };
            if is_wanted {
                let data = &content[..content.len().min(header.wire_len as usize)];
                let fcs_len = if kind == Kind::Ethernet { ETHERNET_FCS } else { 0 };
                let (wire_len, data) = strip_fcs(header.wire_len, data, fcs_len);
                sink(&Frame { ts_ns: header.ts_ns(), interface: header.port, link, wire_len, data });
            }
        }
        decoded.consumed = bytes.len() - left.len();
        decoded
    }

    #[cold]
    fn add_port(&mut self, port: u32, link: LinkType) -> bool {
        let name = Some(format!("port{port}"));
        let interface = Interface { index: port, name, link: Some(link), resolution_ns: RESOLUTION_NS };
        let is_wanted = self.choice.as_ref().is_none_or(|choice| choice.is(&interface));
        self.interfaces.push(interface);
        self.ports[port as usize] = Some(is_wanted);
        is_wanted
    }
}

#[cold]
fn fault(header: &Header, kind: Kind) -> Fault {
    if header.len < HEADER {
        return Fault::Damage(format!(
            "a record has a length of {} bytes, but its header alone has 16",
            header.len
        ));
    }
    let number = header.record_type & 0x7f;
    if kind == Kind::Unknown {
        return Fault::Damage(format!("record type {number} does not exist"));
    }
    let hint = "convert the packets of the file to Ethernet, or record on an Ethernet port";
    Fault::UnknownLinkType { number: u32::from(number), expected: SUPPORTED, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{collect, erf_record, open, open_with, udp4};
    use crate::{CaptureError, OpenOptions};

    #[test]
    fn records_with_and_without_extension_headers_are_read() {
        let mut file = erf_record(2, 0, 10 << 32 | 1 << 31, &[], &udp4(1, 60));
        file.extend(erf_record(2, 1, 11 << 32 | 1, &[[0x83, 0, 0, 0, 0, 0, 0, 0], [3; 8]], &udp4(2, 61)));
        file.extend(erf_record(27, 0, 11 << 32, &[], &[0; 24]));
        file.extend(erf_record(22, 1, 12 << 32, &[], &udp4(3, 60)[14..]));
        let mut reader = open(&file).unwrap();
        let frames = collect(&mut reader).unwrap();
        assert!(reader.truncation().is_none());
        let timestamps: Vec<_> = frames.iter().map(|f| (f.ts_ns, f.interface, f.wire_len)).collect();
        assert_eq!(timestamps, [(10_500_000_000, 0, 60), (11_000_000_000, 1, 61), (12_000_000_000, 1, 46)]);
        assert_eq!(frames[0].data, udp4(1, 60));
        assert_eq!(frames[1].data, udp4(2, 61));
        assert_eq!((frames[2].link, frames[2].data.as_slice()), (LinkType::RawIp, &udp4(3, 60)[14..]));
        assert_eq!(reader.description(), "ERF, Ethernet");

        let choice = Some(InterfaceChoice::Name("port1".to_owned()));
        let options = OpenOptions { interface: choice, ..OpenOptions::default() };
        assert_eq!(collect(&mut open_with(&file, &options).unwrap()).unwrap().len(), 2);
    }

    #[test]
    fn distinguishes_other_media_from_invalid_records() {
        let mut file = erf_record(2, 0, 10 << 32, &[], &udp4(1, 60));
        let good = file.len();
        file.extend(erf_record(1, 0, 10 << 32, &[], &udp4(1, 60)));
        let error = collect(&mut open(&file).unwrap()).unwrap_err();
        let is_at = |offset| move |error: &CaptureError| matches!(error, CaptureError::UnknownLinkType { number: 1, offset: at, .. } if *at == offset);
        assert!(is_at(good as u64)(&error), "{error}");

        for (at, byte) in [(8, 99), (10, 1), (11, 3)] {
            let mut file = erf_record(2, 0, 10 << 32, &[], &udp4(1, 60));
            file.extend(erf_record(2, 0, 10 << 32, &[], &udp4(2, 60)));
            file.extend(erf_record(2, 0, 10 << 32, &[], &udp4(3, 60)));
            file[good + at] = byte;
            if at == 11 {
                file[good + 10] = 0;
            }
            let source = Box::new(std::io::Cursor::new(file));
            let mut reader =
                crate::CaptureReader::from_reader("a.erf", source, &OpenOptions::default()).unwrap();
            // A length that is wrong but possible is detected at the next record.
            assert!(!collect(&mut reader).unwrap().is_empty());
            assert!(reader.truncation().unwrap().offset >= good as u64);
        }
    }

    #[test]
    fn flags_a_truncated_record() {
        let mut file = erf_record(2, 0, 10 << 32, &[], &udp4(1, 60));
        let good = file.len();
        file.extend(erf_record(2, 0, 10 << 32, &[], &udp4(2, 60)));
        for len in good + 1..file.len() {
            let mut reader = open(&file[..len]).unwrap();
            assert_eq!(collect(&mut reader).unwrap().len(), 1);
            assert_eq!(reader.truncation().unwrap().offset, good as u64);
        }
    }
}
