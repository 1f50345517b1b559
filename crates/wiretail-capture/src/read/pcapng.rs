//! pcapng, the format of dumpcap and Wireshark: draft-ietf-opsawg-pcapng,
//! <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.
//!
//! A file is a chain of blocks: u32 type, u32 length, body, the length again.
//!
//! | type | block | content used |
//! |---|---|---|
//! | 0x0a0d0d0a | section header | byte order; interface numbers restart from 0 |
//! | 1 | interface description | link type, `if_name`, `if_tsresol`, `if_tsoffset`, `if_fcslen` |
//! | 6 | enhanced packet | interface, 64-bit ticks, lengths, the frame |
//! | 2 | packet (obsolete) | the same |
//! | 5 | interface statistics | `isb_ifdrop`: packets that the tap lost |
//! | 3 | simple packet | none: it has no timestamp, which is an error |
//! | other | names, secrets, custom | none: skipped without buffering |

use super::pcapng_interface::{Description, Sections};
use super::{Decoded, Fault, Frame, Interface, InterfaceChoice, MAX_FRAME, SUPPORTED_LINKS, strip_fcs};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Length of the type and of both length fields.
const BLOCK_MIN: usize = 12;
/// Largest block that is buffered as a whole. It has room for a frame of the maximum size with many options.
const BLOCK_MAX: usize = 1 << 20;
/// Longer statistics blocks contain comments, which are not used.
const STATISTICS_MAX: usize = 4096;
/// Length of the type, the block length and the fields of an enhanced packet.
const PACKET_HEADER: usize = 28;

/// State between blocks.
pub(crate) struct Pcapng {
    big_endian: bool,
    sections: Sections,
    /// Number of bytes of an irrelevant block that still have to be skipped.
    skip: u64,
}

/// Next step after a block.
enum Next {
    /// The block is consumed.
    Done,
    /// The rest of the block is irrelevant: skip this many bytes.
    Skip(u64),
    /// The block needs this many bytes in total.
    Need(usize),
    Fault(Fault),
}

impl Pcapng {
    pub(crate) fn new(choice: Option<InterfaceChoice>) -> Self {
        Self { big_endian: false, sections: Sections::new(choice), skip: 0 }
    }

    /// Whether the file starts with a section header, in either byte order.
    pub(crate) fn is_magic(head: &[u8]) -> bool {
        head.starts_with(&SECTION_HEADER.to_be_bytes())
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        self.sections.interfaces()
    }

    /// Number of packets lost so far on the requested interfaces, according to the file.
    pub(crate) fn dropped(&self) -> u64 {
        self.sections.dropped()
    }

    pub(crate) fn skipping(&self) -> u64 {
        self.skip
    }

    pub(crate) fn describe(&self) -> String {
        let mut units: Vec<String> = Vec::new();
        for interface in self.interfaces() {
            let unit = match interface.resolution_ns {
                1.0 => "ns".to_owned(),
                1e3 => "µs".to_owned(),
                1e6 => "ms".to_owned(),
                other => format!("{other} ns"),
            };
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        units.push(if self.big_endian { "big endian" } else { "little endian" }.to_owned());
        format!("pcapng ({})", units.join(", "))
    }

    #[inline]
    pub(crate) fn decode<S: FnMut(&Frame<'_>)>(&mut self, bytes: &[u8], sink: &mut S) -> Decoded {
        let mut decoded = Decoded::default();
        loop {
            let before = decoded.consumed;
            let section_ended = if self.big_endian {
                self.decode_section::<true, S>(bytes, &mut decoded, sink)
            } else {
                self.decode_section::<false, S>(bytes, &mut decoded, sink)
            };
            // Another section may have another byte order.
            if !section_ended || decoded.consumed == before {
                return decoded;
            }
        }
    }

    /// Decodes blocks from `decoded.consumed` on. Stops at the end of the bytes, at a fault, or after a
    /// section header, and returns true in the last case.
    #[inline]
    fn decode_section<const BIG: bool, S: FnMut(&Frame<'_>)>(
        &mut self,
        bytes: &[u8],
        decoded: &mut Decoded,
        sink: &mut S,
    ) -> bool {
        loop {
            let mut left = &bytes[decoded.consumed..];
            if self.skip > 0 {
                let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(left.len());
                self.skip -= skipped as u64;
                decoded.consumed += skipped;
                left = &left[skipped..];
            }
            let Some(start) = left.first_chunk::<BLOCK_MIN>() else { return false };
            let block_type = word::<BIG>(start, 0);
            if block_type == SECTION_HEADER {
                return self.section(left, decoded);
            }
            let len = word::<BIG>(start, 4) as usize;
            let next = match block_type {
                _ if len < BLOCK_MIN || !len.is_multiple_of(4) => senseless(len),
                ENHANCED_PACKET | PACKET => self.packet::<BIG, S>(left, block_type, len, sink),
                STATISTICS if len <= STATISTICS_MAX => self.statistics::<BIG>(left, len),
                INTERFACE => self.interface::<BIG>(left, len),
                SIMPLE_PACKET if self.sections.wants(0) => Next::Fault(Fault::NoTimestamp),
                _ => Next::Skip(len as u64),
            };
            match next {
                Next::Done => decoded.consumed += len,
                Next::Skip(count) => self.skip = count,
                Next::Need(need) => {
                    decoded.need = need;
                    return false;
                }
                Next::Fault(fault) => {
                    decoded.fault = Some(fault);
                    return false;
                }
            }
            decoded.frames +=
                u64::from(matches!(next, Next::Done) && matches!(block_type, ENHANCED_PACKET | PACKET));
        }
    }

    /// Parses a section header. Its length can only be read after its byte order.
    fn section(&mut self, left: &[u8], decoded: &mut Decoded) -> bool {
        let Some(start) = left.first_chunk::<BLOCK_MIN>() else { return false };
        let big_endian = match BYTE_ORDER_MAGIC {
            magic if word::<false>(start, 8) == magic => false,
            magic if word::<true>(start, 8) == magic => true,
            _ => {
                let found = word::<true>(start, 8);
                let detail = format!("a section header's byte-order magic is {found:08x}, not 1a2b3c4d");
                decoded.fault = Some(Fault::Damage(detail));
                return false;
            }
        };
        let len = if big_endian { word::<true>(start, 4) } else { word::<false>(start, 4) };
        // 28 bytes are the fixed fields and the second length field.
        if len < 28 || !len.is_multiple_of(4) {
            decoded.fault = Some(Fault::Damage(format!("a section header claims {len} bytes")));
            return false;
        }
        self.big_endian = big_endian;
        self.sections.start();
        // The options (hardware, operating system, comment) are not used.
        decoded.consumed += BLOCK_MIN;
        self.skip = u64::from(len) - BLOCK_MIN as u64;
        true
    }

    #[inline(always)]
    fn packet<const BIG: bool, S: FnMut(&Frame<'_>)>(
        &self,
        left: &[u8],
        block_type: u32,
        len: usize,
        sink: &mut S,
    ) -> Next {
        if !(PACKET_HEADER + 4..=BLOCK_MAX).contains(&len) {
            return senseless(len);
        }
        let (Some(block), Some(header)) = (left.get(..len), left.first_chunk::<PACKET_HEADER>()) else {
            return Next::Need(len);
        };
        let interface = match block_type {
            PACKET if BIG => word::<BIG>(header, 8) >> 16,
            PACKET => word::<BIG>(header, 8) & 0xffff,
            _ => word::<BIG>(header, 8),
        };
        let ticks = u64::from(word::<BIG>(header, 12)) << 32 | u64::from(word::<BIG>(header, 16));
        let (caplen, wire_len) = (word::<BIG>(header, 20), word::<BIG>(header, 24));
        let Some(data) = block[PACKET_HEADER..len - 4].get(..caplen as usize) else {
            return too_long(caplen, len);
        };
        if caplen as usize > MAX_FRAME || word_at::<BIG>(block, len - 4) as usize != len {
            return contradiction(caplen, len);
        }
        let Some(description) = self.sections.get(interface) else {
            return self.unknown_interface(interface);
        };
        if !description.is_wanted {
            return Next::Done;
        }
        let Some(link) = description.link else { return unknown_link(description) };
        let ts_ns = description.clock.to_ns(ticks);
        let (wire_len, data) = strip_fcs(wire_len.max(caplen), data, description.fcs_len);
        sink(&Frame { ts_ns, interface: description.index, link, wire_len, data });
        Next::Done
    }

    fn interface<const BIG: bool>(&mut self, left: &[u8], len: usize) -> Next {
        if !(20..=BLOCK_MAX).contains(&len) {
            return senseless(len);
        }
        let Some(block) = left.get(..len) else { return Next::Need(len) };
        if word_at::<BIG>(block, len - 4) as usize != len {
            return contradiction(0, len);
        }
        match self.sections.add(&block[8..len - 4], BIG) {
            Ok(()) => Next::Done,
            Err(detail) => Next::Fault(Fault::Damage(detail)),
        }
    }

    fn statistics<const BIG: bool>(&mut self, left: &[u8], len: usize) -> Next {
        let Some(block) = left.get(..len) else { return Next::Need(len) };
        self.sections.count_dropped(&block[8..len - 4], BIG);
        Next::Done
    }

    #[cold]
    fn unknown_interface(&self, interface: u32) -> Next {
        let known = self.sections.count();
        let detail = format!("a packet of interface {interface}, but the section describes {known}");
        Next::Fault(Fault::Damage(detail))
    }
}

#[cold]
fn senseless(len: usize) -> Next {
    Next::Fault(Fault::Damage(format!("a block claims {len} bytes, which is invalid for its type")))
}

#[cold]
fn too_long(caplen: u32, len: usize) -> Next {
    Next::Fault(Fault::Damage(format!("a packet claims {caplen} captured bytes in a block of {len}")))
}

#[cold]
fn contradiction(caplen: u32, len: usize) -> Next {
    let detail = if caplen as usize > MAX_FRAME {
        format!("a packet claims {caplen} captured bytes; the maximum is {MAX_FRAME}")
    } else {
        format!("a block's length at its end differs from the {len} at its start")
    };
    Next::Fault(Fault::Damage(detail))
}

#[cold]
fn unknown_link(description: &Description) -> Next {
    Next::Fault(Fault::UnknownLinkType {
        number: description.link_number,
        expected: SUPPORTED_LINKS,
        hint: "choose another interface of the file (--pre-interface, --post-interface)",
    })
}

#[inline(always)]
fn word<const BIG: bool>(bytes: &[u8], at: usize) -> u32 {
    let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// Like [`word`], for offsets that are not known at compile time.
#[inline(always)]
fn word_at<const BIG: bool>(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |bytes| word::<BIG>(bytes, 0))
}

#[cfg(test)]
#[path = "pcapng_tests.rs"]
mod tests;
