//! Interface descriptions of pcapng: names, clocks, and the identity of interfaces across sections.

use super::{Interface, InterfaceChoice, LinkType};

/// Maximum number of interface descriptions in a file, over all sections.
const INTERFACES_MAX: usize = 4096;

const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;

/// Conversion from ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ticks {
    /// Nanoseconds per tick.
    Multiply(u64),
    /// Ticks per nanosecond.
    Divide(u64),
    /// A tick is 2^-n s.
    Shift(u32),
    /// A tick is so short that even 2^64 ticks take less than a nanosecond.
    Nothing,
}

/// An interface's clock: `if_tsresol` and `if_tsoffset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    ticks: Ticks,
    offset_ns: i64,
}

impl Clock {
    /// `resolution` as stored in the option: bit 7 selects 2^-n s instead of 10^-n s.
    fn new(resolution: u8, offset_s: i64) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        let ticks = match resolution {
            0x80.. => Ticks::Shift(exponent),
            0..=9 => Ticks::Multiply(10u64.pow(9 - exponent)),
            _ => 10u64.checked_pow(exponent - 9).map_or(Ticks::Nothing, Ticks::Divide),
        };
        Self { ticks, offset_ns: offset_s.saturating_mul(1_000_000_000) }
    }

    fn resolution_ns(self) -> f64 {
        match self.ticks {
            Ticks::Multiply(factor) => factor as f64,
            Ticks::Divide(divisor) => 1.0 / divisor as f64,
            Ticks::Shift(exponent) => 1e9 / 2f64.powi(exponent as i32),
            Ticks::Nothing => 0.0,
        }
    }

    /// Rounds down to nanoseconds. A time that does not fit into 64 bits of ns is clamped to the last time
    /// that does.
    #[inline(always)]
    pub(super) fn to_ns(self, ticks: u64) -> i64 {
        let ns = match self.ticks {
            Ticks::Multiply(factor) => ticks.saturating_mul(factor),
            Ticks::Divide(divisor) => ticks / divisor,
            // 10^9 is less than 2^30, so the product fits.
            Ticks::Shift(exponent) => {
                u64::try_from((u128::from(ticks) * 1_000_000_000) >> exponent).unwrap_or(u64::MAX)
            }
            Ticks::Nothing => 0,
        };
        i64::try_from(ns).unwrap_or(i64::MAX).saturating_add(self.offset_ns)
    }
}

/// An interface description of a section.
#[derive(Debug, Clone)]
pub(super) struct Description {
    /// Index of the interface in the file.
    pub(super) index: u32,
    pub(super) link: Option<LinkType>,
    pub(super) link_number: u32,
    pub(super) clock: Clock,
    /// Length of the frame check sequence of every frame, in bytes.
    pub(super) fcs_len: u32,
    /// Whether its frames are delivered.
    pub(super) is_wanted: bool,
    /// Packets that the tap lost, from the section's last statistics block.
    dropped: u64,
}

/// The interfaces of the current section and of the whole file.
pub(super) struct Sections {
    choice: Option<InterfaceChoice>,
    current: Vec<Description>,
    interfaces: Vec<Interface>,
    described: usize,
    /// Packets that the taps lost in earlier sections.
    dropped_before: u64,
}

impl Sections {
    pub(super) fn new(choice: Option<InterfaceChoice>) -> Self {
        Self { choice, current: Vec::new(), interfaces: Vec::new(), described: 0, dropped_before: 0 }
    }

    /// Starts a section, whose interfaces are numbered from 0 again.
    pub(super) fn start(&mut self) {
        self.dropped_before = self.dropped();
        self.current.clear();
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Number of interfaces of the current section.
    pub(super) fn count(&self) -> usize {
        self.current.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, interface: u32) -> Option<&Description> {
        self.current.get(interface as usize)
    }

    pub(super) fn wants(&self, interface: u32) -> bool {
        self.get(interface).is_none_or(|description| description.is_wanted)
    }

    /// Number of packets lost so far on the requested interfaces, according to the file.
    pub(super) fn dropped(&self) -> u64 {
        let wanted = self.current.iter().filter(|description| description.is_wanted);
        wanted.fold(self.dropped_before, |sum, description| sum.saturating_add(description.dropped))
    }

    /// Parses the body of an interface statistics block. Invalid content is ignored.
    pub(super) fn count_dropped(&mut self, body: &[u8], big_endian: bool) {
        let half = |at: usize| {
            let bytes = *body.get(at..)?.first_chunk::<2>()?;
            Some(if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
        };
        let Some(number) = body.first_chunk::<4>() else { return };
        let number = if big_endian { u32::from_be_bytes(*number) } else { u32::from_le_bytes(*number) };
        let Some(description) = self.current.get_mut(number as usize) else { return };
        // Interface and 64-bit time are followed by the options, each padded to 4 bytes.
        let mut at = 12;
        while let (Some(code @ 1..), Some(len)) = (half(at), half(at + 2)) {
            if code == ISB_IFDROP
                && len == 8
                && let Some(bytes) = body.get(at + 4..).and_then(|rest| rest.first_chunk::<8>())
            {
                description.dropped =
                    if big_endian { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) };
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
    }

    /// Parses the body of an interface description block.
    pub(super) fn add(&mut self, body: &[u8], big_endian: bool) -> Result<(), String> {
        self.described += 1;
        if self.described > INTERFACES_MAX {
            return Err(format!("more than {INTERFACES_MAX} interface descriptions"));
        }
        let half = |at: usize| match body.get(at..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(bytes) if big_endian => u16::from_be_bytes(*bytes),
            Some(bytes) => u16::from_le_bytes(*bytes),
            None => 0,
        };
        let link_number = u32::from(half(0));
        let (mut name, mut resolution, mut offset_s, mut fcs_len) = (None, 6, 0, 0);
        // Link type, reserved field and snap length are followed by the options, each padded to 4 bytes.
        let mut at = 8;
        while at + 4 <= body.len() {
            let (code, len) = (half(at), usize::from(half(at + 2)));
            let Some(value) = body.get(at + 4..at + 4 + len) else {
                return Err(format!("an option of an interface description claims {len} bytes"));
            };
            match (code, value) {
                (0, _) => break,
                (IF_NAME, text) => {
                    name = Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
                }
                (IF_TSRESOL, &[byte, ..]) => resolution = byte,
                (IF_FCSLEN, &[byte, ..]) => fcs_len = u32::from(byte),
                (IF_TSOFFSET, &[a, b, c, d, e, f, g, h, ..]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    offset_s = if big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                }
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        let clock = Clock::new(resolution, offset_s);
        let link = LinkType::from_number(link_number);
        let resolution_ns = clock.resolution_ns();
        let index = self.index_of(Interface { index: 0, name, link, resolution_ns });
        let is_wanted = self.choice.as_ref().is_none_or(|choice| choice.is(&self.interfaces[index as usize]));
        self.current.push(Description { index, link, link_number, clock, fcs_len, is_wanted, dropped: 0 });
        Ok(())
    }

    /// Returns the index of an interface in the file. A file with several sections usually results from
    /// concatenation. Interfaces of different sections are therefore treated as the same if they have the
    /// same name or, if they have no names, the same position.
    fn index_of(&mut self, interface: Interface) -> u32 {
        let position = self.current.len();
        let is_taken = |index: u32| self.current.iter().any(|description| description.index == index);
        let same = self.interfaces.iter().find(|known| {
            let is_same = match &interface.name {
                Some(_) => known.name == interface.name,
                None => known.name.is_none() && known.index as usize == position,
            };
            is_same && known.link == interface.link && !is_taken(known.index)
        });
        if let Some(known) = same {
            return known.index;
        }
        let index = self.interfaces.len() as u32;
        self.interfaces.push(Interface { index, ..interface });
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_rounds_down_to_nanoseconds() {
        let ns = |resolution, ticks| Clock::new(resolution, 0).to_ns(ticks);
        assert_eq!(ns(0, 7), 7_000_000_000);
        assert_eq!(ns(6, 1_234_567), 1_234_567_000);
        assert_eq!(ns(9, 1_234_567), 1_234_567);
        assert_eq!(ns(10, 19), 1);
        assert_eq!(ns(12, 1_999), 1);
        assert_eq!(ns(28, u64::MAX), 1);
        assert_eq!(ns(29, u64::MAX), 0);
        assert_eq!(ns(127, u64::MAX), 0);
        assert_eq!(ns(0x80, 3), 3_000_000_000);
        assert_eq!(ns(0x80 | 32, 3 << 31), 1_500_000_000);
        assert_eq!(ns(0x80 | 32, 1), 0);
        assert_eq!(ns(0xff, u64::MAX), 0);
        assert_eq!(ns(0x80 | 94, u64::MAX), 0);
        assert_eq!(ns(0, u64::MAX), i64::MAX);
        assert_eq!(ns(0x80, u64::MAX), i64::MAX);
        assert_eq!(Clock::new(0x80 | 10, 0).resolution_ns(), 976_562.5);
        assert_eq!(Clock::new(12, 0).resolution_ns(), 0.001);
    }

    #[test]
    fn offsets_are_seconds() {
        assert_eq!(Clock::new(9, -2).to_ns(5), -1_999_999_995);
        assert_eq!(Clock::new(9, i64::MAX).to_ns(5), i64::MAX);
        assert_eq!(Clock::new(9, i64::MIN).to_ns(0), i64::MIN);
    }
}
