//! MoonSniff's capture format: 12 bytes per packet, without a header.
//!
//! | offset | field, little endian |
//! |---|---|
//! | 0 | u64, timestamp in ns |
//! | 8 | u32, the packet's identifier |
//!
//! Source: MoonGen, `lua/moonsniff-io.lua` (`struct mscap`) and `src/moonsniff.cpp`
//! (<https://github.com/emmericp/MoonGen>). The Lua writer records full 64-bit timestamps. The C++ writer
//! (`ms_log_pkts`) computes seconds * 10^9 + nanoseconds in 32 bits, so its timestamps restart from zero
//! every 2^32 ns, 4.295 s; they are unwrapped here. A pause of more than half of 4.295 s between two packets
//! cannot be distinguished from a shorter one.

use super::{Decoded, Fault, Frame, Interface, LinkType};

const RECORD: usize = 12;
const WRAP: u64 = 1 << 32;
/// Largest timestamp that can be read (the year 2262).
const TIMESTAMP_MAX: u64 = i64::MAX as u64;
/// Limit for detection without a matching name (the year 2033). Larger timestamps are not accepted as
/// evidence of mscap, because text read as a timestamp always has a larger value.
const PROBE_TIMESTAMP_MAX: u64 = 2_000_000_000_000_000_000;
/// Number of records examined to detect the format.
const PROBES: usize = 64;
/// Longest pause between two records that detection accepts as plausible, in ns.
const PROBE_STEP_MAX: u64 = 10_000_000_000;

/// State of unwrapping.
#[derive(Debug, Clone)]
pub(crate) struct Mscap {
    /// The last timestamp as stored in the file.
    last: u64,
    /// Total offset added by the wraps so far, in ns.
    wrapped: u64,
    /// Whether a timestamp of more than 32 bits was seen. Timestamps of such a file do not wrap around.
    wide: bool,
    interfaces: [Interface; 1],
}

impl Mscap {
    pub(crate) fn new() -> Self {
        let link = Some(LinkType::MoonsniffId);
        let interfaces = [Interface { index: 0, name: None, link, resolution_ns: 1.0 }];
        Self { last: 0, wrapped: 0, wide: false, interfaces }
    }

    /// Whether a file that starts with `head` may be an mscap file. If `is_named_so` is set, the file name
    /// indicates mscap and only impossible values are rejected.
    pub(crate) fn is_plausible(head: &[u8], is_named_so: bool) -> bool {
        let (records, _) = head.as_chunks::<RECORD>();
        let mut timestamps = records.iter().take(PROBES).map(|record| split(record).0);
        let Some(mut last) = timestamps.next() else { return is_named_so && !head.is_empty() };
        if is_named_so {
            return last <= TIMESTAMP_MAX;
        }
        let is_zero = head.iter().all(|&byte| byte == 0);
        let count = records.len();
        !is_zero
            && count >= 2
            && last < PROBE_TIMESTAMP_MAX
            && timestamps.all(|timestamp| {
                let wraps = last < WRAP && timestamp < WRAP;
                let is_step =
                    timestamp < PROBE_TIMESTAMP_MAX && (wraps || timestamp.abs_diff(last) <= PROBE_STEP_MAX);
                last = timestamp;
                is_step
            })
    }

    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub(crate) fn clock_source(&self) -> String {
        match self.wrapped / WRAP {
            0 => "MoonSniff, NIC timestamps".to_owned(),
            wraps => format!("MoonSniff, NIC timestamps, {wraps} wraps at 4.295 s unwrapped"),
        }
    }

    #[inline]
    pub(crate) fn decode<S: FnMut(&Frame<'_>)>(&mut self, bytes: &[u8], sink: &mut S) -> Decoded {
        let mut decoded = Decoded { need: RECORD, ..Decoded::default() };
        for record in bytes.as_chunks::<RECORD>().0 {
            let (timestamp, id) = split(record);
            if timestamp > TIMESTAMP_MAX {
                let detail = format!("a timestamp of {timestamp} ns is beyond the year 2262");
                decoded.fault = Some(Fault::Damage(detail));
                break;
            }
            // The writer preallocates its file and truncates it on close.
            if timestamp == 0 && *id == [0; 4] && self.last != 0 {
                let detail = "a record of zeros: was the file preallocated and never closed?".to_owned();
                decoded.fault = Some(Fault::Damage(detail));
                break;
            }
            decoded.consumed += RECORD;
            decoded.frames += 1;
            let ts_ns = self.unwrap(timestamp) as i64;
            sink(&Frame { ts_ns, interface: 0, link: LinkType::MoonsniffId, wire_len: 0, data: id });
        }
        decoded
    }

    /// Returns the timestamp plus the offset of all previous wraps. The sum cannot overflow, because the
    /// offset is added to 32-bit timestamps only, and each wrap requires two records.
    #[inline(always)]
    fn unwrap(&mut self, timestamp: u64) -> u64 {
        if timestamp >= WRAP {
            self.wide = true;
            self.wrapped = 0;
        } else if !self.wide {
            if self.last > timestamp + WRAP / 2 {
                self.wrapped += WRAP;
            } else if timestamp > self.last + WRAP / 2 && self.wrapped > 0 {
                // This record is out of order: its timestamp is from before the wrap.
                self.wrapped -= WRAP;
            }
        }
        self.last = timestamp;
        self.wrapped + timestamp
    }
}

fn split(record: &[u8; RECORD]) -> (u64, &[u8; 4]) {
    let [a, b, c, d, e, f, g, h, id @ ..] = record;
    (u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::test_support::{collect, mscap, open};
    use crate::{CaptureError, CaptureReader, LinkType, OpenOptions};

    #[test]
    fn timestamps_and_identifiers_are_read() {
        let mut reader = open(&mscap(&[(5_000_000_000, 1), (5_000_100_000, 2)])).unwrap();
        assert_eq!(reader.description(), "mscap, MoonSniff identifiers");
        let frames = collect(&mut reader).unwrap();
        assert_eq!(frames[1].ts_ns, 5_000_100_000);
        assert_eq!((frames[1].link, frames[1].data.as_slice()), (LinkType::MoonsniffId, &[2, 0, 0, 0][..]));
        assert!(reader.truncation().is_none());
    }

    #[test]
    fn flags_a_size_that_is_not_a_multiple_of_12() {
        let bytes = mscap(&[(100, 1), (200, 2), (300, 3)]);
        let mut reader = open(&bytes[..31]).unwrap();
        assert_eq!(collect(&mut reader).unwrap().len(), 2);
        let truncation = reader.truncation().unwrap();
        assert_eq!(truncation.offset, 24);
        assert!(truncation.detail.contains("7 of its 12"), "{}", truncation.detail);
    }

    #[test]
    fn zeros_of_an_unclosed_file_are_not_packets() {
        let mut bytes = mscap(&[(100, 1), (200, 2)]);
        bytes.resize(100_000, 0);
        let mut reader = open(&bytes).unwrap();
        assert_eq!(collect(&mut reader).unwrap().len(), 2);
        assert_eq!(reader.truncation().unwrap().offset, 24);
    }

    #[test]
    fn one_record_needs_the_name() {
        let bytes = mscap(&[(100, 1)]);
        assert!(matches!(open(&bytes).err().unwrap(), CaptureError::UnknownFormat { .. }));
        let source = Box::new(std::io::Cursor::new(bytes));
        let mut reader = CaptureReader::from_reader("pre.mscap", source, &OpenOptions::default()).unwrap();
        assert_eq!(collect(&mut reader).unwrap().len(), 1);
    }

    #[test]
    fn full_timestamps_are_not_unwrapped() {
        let timestamps = [10, 3_500_000_000, 4_294_967_290, 4_294_967_300, 4_294_967_299, 9_000_000_000];
        let records: Vec<_> = timestamps.iter().map(|&timestamp| (timestamp, 7)).collect();
        let frames = collect(&mut open(&mscap(&records)).unwrap()).unwrap();
        assert!(frames.iter().map(|f| f.ts_ns as u64).eq(timestamps));
    }

    proptest! {
        /// Unwrapping restores the bits that the C++ writer cut off, even with small backward steps.
        #[test]
        fn timestamps_are_unwrapped(
            start in 1u64..1 << 32,
            steps in prop::collection::vec(-1_000_000i64..2_000_000_000, 1..200),
        ) {
            let mut time = start;
            let mut times = vec![time];
            for step in steps {
                time = time.saturating_add_signed(step).max(1 + (start >> 32 << 32));
                times.push(time);
            }
            let records: Vec<_> = times.iter().map(|&time| (time % (1 << 32), 9)).collect();
            let frames = collect(&mut open(&mscap(&records)).unwrap()).unwrap();
            prop_assert!(frames.iter().map(|f| f.ts_ns as u64).eq(times));
        }
    }
}
