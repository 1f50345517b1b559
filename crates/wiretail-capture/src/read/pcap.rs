//! pcap, the format of tcpdump: draft-ietf-opsawg-pcap,
//! <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>.
//!
//! | offset | file header | record header |
//! |---|---|---|
//! | 0 | magic: 0xa1b2c3d4 (µs) or 0xa1b23c4d (ns), in the writer's byte order | seconds |
//! | 4 | version 2.4 | µs or ns |
//! | 8 | zero | captured length |
//! | 12 | zero | length on the wire |
//! | 16 | snap length | the frame, not padded |
//! | 20 | link type (16 bits), flags, length of the frame check sequence | |

use super::{Decoded, Fault, Frame, Interface, LinkType, MAX_FRAME, strip_fcs};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;

/// Contents of the file header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pcap {
    big_endian: bool,
    /// Nanoseconds per tick: 1 or 1000.
    tick_ns: u32,
    /// Largest plausible captured length.
    caplen_max: u32,
    link: LinkType,
    interfaces: [Interface; 1],
    /// Length of the frame check sequence of every frame, in bytes.
    fcs_len: u32,
}

/// Why a file header was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// Fewer than 24 bytes.
    Truncated,
    /// The link type's number.
    UnknownLinkType(u32),
}

/// Offset of the link type in the file header.
pub(crate) const LINK_TYPE_AT: u64 = 20;

impl Pcap {
    /// Whether the file starts with a pcap magic number.
    pub(crate) fn is_magic(head: &[u8]) -> bool {
        Self::magic(head).is_some()
    }

    fn magic(head: &[u8]) -> Option<(bool, u32)> {
        let bytes = *head.first_chunk::<4>()?;
        for (big_endian, magic) in [(false, u32::from_le_bytes(bytes)), (true, u32::from_be_bytes(bytes))] {
            match magic {
                MAGIC_US => return Some((big_endian, 1000)),
                MAGIC_NS => return Some((big_endian, 1)),
                _ => {}
            }
        }
        None
    }

    /// Parses the file header; returns it and its length.
    pub(crate) fn open(head: &[u8]) -> Result<(Self, usize), HeadError> {
        let (big_endian, tick_ns) = Self::magic(head).ok_or(HeadError::Truncated)?;
        let header = head.first_chunk::<FILE_HEADER>().ok_or(HeadError::Truncated)?;
        let word = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (snaplen, network) = (word(16), word(20));
        // The upper bits are not part of the link type. If bit 26 is set, bits 28 to 31 are the length of the
        // frame check sequence in 16-bit units.
        let number = network & 0xffff;
        let fcs_len = if network & 0x0400_0000 != 0 { (network >> 28) * 2 } else { 0 };
        let link = LinkType::from_number(number).ok_or(HeadError::UnknownLinkType(number))?;
        // Some writers record frames that exceed the snap length of their file header, up to the maximum
        // length of an IP packet.
        let caplen_max = snaplen.clamp(65_535, MAX_FRAME as u32);
        let resolution_ns = f64::from(tick_ns);
        let interfaces = [Interface { index: 0, name: None, link: Some(link), resolution_ns }];
        Ok((Self { big_endian, tick_ns, caplen_max, link, interfaces, fcs_len }, FILE_HEADER))
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub(crate) fn describe(&self) -> String {
        let unit = if self.tick_ns == 1 { "ns" } else { "µs" };
        let order = if self.big_endian { "big endian" } else { "little endian" };
        format!("pcap ({unit}, {order})")
    }

    #[inline]
    pub(crate) fn decode<S: FnMut(&Frame<'_>)>(&self, bytes: &[u8], sink: &mut S) -> Decoded {
        if self.big_endian {
            self.decode_in::<true, S>(bytes, sink)
        } else {
            self.decode_in::<false, S>(bytes, sink)
        }
    }

    /// The hot loop: decodes the complete records of `bytes` in order.
    #[inline]
    fn decode_in<const BIG: bool, S: FnMut(&Frame<'_>)>(&self, bytes: &[u8], sink: &mut S) -> Decoded {
        let word = |header: &[u8; RECORD_HEADER], at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            if BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let ticks_a_second = 1_000_000_000 / self.tick_ns;
        let mut decoded = Decoded::default();
        let mut left = bytes;
        while let Some((header, rest)) = left.split_first_chunk::<RECORD_HEADER>() {
            let (seconds, ticks) = (word(header, 0), word(header, 4));
            let (caplen, wire_len) = (word(header, 8), word(header, 12));
            // A file that was preallocated and never closed contains empty records.
            if caplen > self.caplen_max || ticks >= ticks_a_second || (caplen | wire_len) == 0 {
                decoded.fault = Some(Fault::Damage(self.damage(caplen, ticks)));
                break;
            }
            let Some((data, next)) = rest.split_at_checked(caplen as usize) else {
                decoded.need = RECORD_HEADER + caplen as usize;
                break;
            };
            left = next;
            decoded.frames += 1;
            let ts_ns = i64::from(seconds) * 1_000_000_000 + i64::from(ticks) * i64::from(self.tick_ns);
            // Some writers record a captured length greater than the wire length. The captured bytes exist,
            // so the larger length is used.
            let (wire_len, data) = strip_fcs(wire_len.max(caplen), data, self.fcs_len);
            sink(&Frame { ts_ns, interface: 0, link: self.link, wire_len, data });
        }
        decoded.consumed = bytes.len() - left.len();
        decoded
    }

    #[cold]
    fn damage(&self, caplen: u32, ticks: u32) -> String {
        if caplen > self.caplen_max {
            format!("a record claims {caplen} captured bytes; the maximum is {}", self.caplen_max)
        } else if caplen == 0 {
            "a record of an empty packet; does the rest of the file contain only zeros?".to_owned()
        } else {
            let unit = if self.tick_ns == 1 { "ns" } else { "µs" };
            format!("the fraction of a record's timestamp is {ticks} {unit}, which is more than a second")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PcapBuilder, collect, open, udp4};
    use crate::{CaptureError, CaptureReader};

    fn timestamps(reader: &mut CaptureReader) -> Vec<(i64, usize, u32)> {
        collect(reader).unwrap().iter().map(|f| (f.ts_ns, f.data.len(), f.wire_len)).collect()
    }

    #[test]
    fn all_four_variants_yield_the_same_frames() {
        for (big_endian, nano) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut file = PcapBuilder::new(big_endian, nano);
            file.frame(1_600_000_000_000_001_000, &udp4(1, 60), 60);
            file.frame(4_294_967_295_999_999_000, &udp4(2, 60)[..50], 1500);
            let mut reader = open(&file.bytes).unwrap();
            let expected = vec![(1_600_000_000_000_001_000, 60, 60), (4_294_967_295_999_999_000, 50, 1500)];
            assert_eq!(timestamps(&mut reader), expected);
            assert!(reader.truncation().is_none());
            assert_eq!(reader.resolution_ns(), if nano { 1.0 } else { 1000.0 });
            let order = if big_endian { "big" } else { "little" };
            let unit = if nano { "ns" } else { "µs" };
            assert_eq!(reader.description(), format!("pcap ({unit}, {order} endian), Ethernet"));
        }
    }

    #[test]
    fn upper_bits_of_the_link_type_give_the_fcs_length() {
        let mut file = PcapBuilder::new(false, true);
        file.bytes[20..24].copy_from_slice(&0x2400_0001u32.to_le_bytes());
        file.frame(5, &udp4(1, 64), 64);
        assert_eq!(timestamps(&mut open(&file.bytes).unwrap()), vec![(5, 60, 60)]);
    }

    #[test]
    fn unknown_link_type_is_reported_with_its_offset() {
        let mut file = PcapBuilder::new(false, true);
        file.bytes[20] = 147;
        let error = open(&file.bytes).err().unwrap();
        assert!(matches!(error, CaptureError::UnknownLinkType { offset: 20, number: 147, .. }), "{error}");
    }

    #[test]
    fn flags_a_truncated_record_and_keeps_the_others() {
        let mut file = PcapBuilder::new(false, true);
        file.frame(1, &udp4(1, 60), 60).frame(2, &udp4(2, 60), 60);
        for cut in 1..76 {
            let mut reader = open(&file.bytes[..file.bytes.len() - cut]).unwrap();
            assert_eq!(timestamps(&mut reader).len(), 1, "{cut}");
            assert_eq!(reader.truncation().unwrap().offset, 24 + 76);
        }
    }

    #[test]
    fn a_file_without_readable_packets_is_an_error() {
        let mut file = PcapBuilder::new(false, true);
        file.frame(1, &udp4(1, 60), 60);
        let whole = file.bytes.len();
        for len in [1, 3, 4, 23, 25, whole - 1] {
            let result = open(&file.bytes[..len]).and_then(|mut reader| collect(&mut reader));
            assert!(result.is_err(), "{len}");
        }
        assert!(collect(&mut open(&file.bytes[..24]).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn wrong_lengths_stop_the_reader_at_their_offset() {
        for (at, lie) in [(8, 0xffff_fff0u32), (8, 300_000), (4, 1_000_000_000)] {
            let mut file = PcapBuilder::new(false, true);
            file.frame(1, &udp4(1, 60), 60).frame(2, &udp4(2, 60), 60).frame(3, &udp4(3, 60), 60);
            let record = 24 + 76;
            file.bytes[record + at..record + at + 4].copy_from_slice(&lie.to_le_bytes());
            let mut reader = open(&file.bytes).unwrap();
            assert_eq!(timestamps(&mut reader).len(), 1);
            let damage = reader.truncation().unwrap();
            assert_eq!(damage.offset, record as u64);
            assert!(damage.detail.contains(&lie.to_string()), "{}", damage.detail);
            assert_eq!(reader.buffer_capacity(), super::super::input::BUFFER_LEN);
        }
    }

    #[test]
    fn a_frame_of_the_largest_size_fits() {
        let mut file = PcapBuilder::new(false, true);
        file.bytes[16..20].copy_from_slice(&(MAX_FRAME as u32).to_le_bytes());
        file.frame(1, &vec![7; MAX_FRAME], MAX_FRAME as u32).frame(2, &udp4(1, 60), 60);
        assert_eq!(timestamps(&mut open(&file.bytes).unwrap()).len(), 2);
    }
}
