//! Converts frames to the 24-byte records used by the analysis. This is the hot path.

use wiretail_schema::packet::{FlowRule, KeyRule, Record};

use crate::error::CaptureError;
use crate::flow::FlowTable;
use crate::key::published;
use crate::key::{self, Keyer};
use crate::layers;
use crate::read::{CaptureReader, Frame};

/// Counters of the frames read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of frames read.
    pub packets: u64,
    /// Number of frames to which the key rule does not apply; they yield no record.
    pub packets_without_key: u64,
    /// Bytes on the wire of all frames, without frame check sequences.
    pub wire_bytes: u64,
    /// Shortest captured length, in bytes; `u32::MAX` before the first frame.
    pub caplen_min: u32,
    /// Longest captured length, in bytes.
    pub caplen_max: u32,
    /// Number of frames that are longer on the wire than in the capture.
    pub cut_by_snaplen: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            packets: 0,
            packets_without_key: 0,
            wire_bytes: 0,
            caplen_min: u32::MAX,
            caplen_max: 0,
            cut_by_snaplen: 0,
        }
    }
}

impl Counts {
    #[inline(always)]
    fn count(&mut self, frame: &Frame<'_>) {
        let caplen = frame.data.len() as u32;
        self.packets += 1;
        self.wire_bytes += u64::from(frame.wire_len);
        self.caplen_min = self.caplen_min.min(caplen);
        self.caplen_max = self.caplen_max.max(caplen);
        self.cut_by_snaplen += u64::from(caplen < frame.wire_len);
    }
}

/// Converts the frames of one tap to records. [`RecordReader`] uses it for a capture of one tap. For a file
/// that contains both taps, the caller passes each frame to the value for its interface's tap.
#[derive(Debug, Clone)]
pub struct Tap {
    keyer: Keyer,
    flows: FlowTable,
    counts: Counts,
}

impl Tap {
    pub fn new(keyer: Keyer, flows: FlowTable) -> Self {
        Self { keyer, flows, counts: Counts::default() }
    }

    /// Returns the frame's record; `None` if it has no key.
    #[inline]
    pub fn record(&mut self, frame: &Frame<'_>) -> Option<Record> {
        self.counts.count(frame);
        let Some(key) = self.keyer.key(frame) else {
            self.counts.packets_without_key += 1;
            return None;
        };
        let flow = self.flows.index(frame);
        Some(Record { ts_ns: frame.ts_ns, key, flow, wire_len: frame.wire_len })
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn flows(&self) -> &FlowTable {
        &self.flows
    }

    pub fn keyer(&self) -> &Keyer {
        &self.keyer
    }

    /// Processes one buffer of frames with the key and flow rules fixed in the loop. `both` returns a frame's
    /// key and flow, or `None` if it has no key.
    #[inline(always)]
    fn batch<B>(
        &mut self,
        reader: &mut CaptureReader,
        out: &mut Vec<Record>,
        both: B,
    ) -> Result<bool, CaptureError>
    where
        B: Fn(&Keyer, &mut FlowTable, &Frame<'_>) -> Option<(u64, u32)>,
    {
        let Self { keyer, flows, counts } = self;
        // A local copy lets the compiler keep the counters in registers.
        let mut seen = *counts;
        let more = reader.read(&mut |frame: &Frame<'_>| {
            seen.count(frame);
            match both(keyer, flows, frame) {
                Some((key, flow)) => {
                    out.push(Record { ts_ns: frame.ts_ns, key, flow, wire_len: frame.wire_len });
                }
                None => seen.packets_without_key += 1,
            }
        });
        *counts = seen;
        more
    }
}

/// Reads a capture as records, one buffer at a time.
pub struct RecordReader {
    reader: CaptureReader,
    tap: Tap,
}

impl RecordReader {
    pub fn new(reader: CaptureReader, keyer: Keyer, flows: FlowTable) -> Self {
        Self { reader, tap: Tap::new(keyer, flows) }
    }

    /// Appends the records of the next buffer of frames (a few thousand records). Returns `Ok(false)` at the
    /// end, without appending anything.
    ///
    /// # Errors
    /// Same as [`CaptureReader::read`].
    pub fn read_batch(&mut self, out: &mut Vec<Record>) -> Result<bool, CaptureError> {
        let Self { reader, tap } = self;
        // The common rules have their own loops, without a branch per packet.
        match (tap.keyer.rule(), tap.flows.rule()) {
            (KeyRule::Moonsniff, FlowRule::FiveTuple) => {
                tap.batch(reader, out, |_, flows, frame| match layers::udp4(frame) {
                    Some((headers, payload)) => Some((key::signed_number(payload)?, flows.udp4(headers))),
                    None => Some((key::moonsniff_elsewhere(frame)?, flows.five_tuple(frame))),
                })
            }
            (KeyRule::Bytes { start: 12, end: 64, zero_checksums: true }, FlowRule::FiveTuple) => {
                tap.batch(reader, out, |_, flows, frame| {
                    Some((published::key(frame)?, flows.five_tuple(frame)))
                })
            }
            _ => tap.batch(reader, out, |keyer, flows, frame| Some((keyer.key(frame)?, flows.index(frame)))),
        }
    }

    pub fn reader(&self) -> &CaptureReader {
        &self.reader
    }

    pub fn counts(&self) -> &Counts {
        self.tap.counts()
    }

    pub fn flows(&self) -> &FlowTable {
        self.tap.flows()
    }

    pub fn keyer(&self) -> &Keyer {
        self.tap.keyer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PcapBuilder, open, udp4};
    use crate::{AUTO_RULES, FlowTable, Keyer};

    #[test]
    fn every_loop_agrees_with_single_frames() {
        let mut file = PcapBuilder::new(false, true);
        for id in 0..10_000 {
            file.frame(i64::from(id) * 1000, &udp4(id, 60 + id as usize % 50), 200);
        }
        file.frame(9, &[0xff; 60], 60);
        for rule in AUTO_RULES {
            for flows in [FlowRule::FiveTuple, FlowRule::Stream, FlowRule::None] {
                let mut tap = Tap::new(Keyer::new(&rule), FlowTable::new(flows));
                let mut expected = Vec::new();
                let mut reader = open(&file.bytes).unwrap();
                while reader.read(&mut |frame: &Frame<'_>| expected.extend(tap.record(frame))).unwrap() {}

                let mut records = Vec::new();
                let reader = open(&file.bytes).unwrap();
                let mut reader = RecordReader::new(reader, Keyer::new(&rule), FlowTable::new(flows));
                while reader.read_batch(&mut records).unwrap() {}
                assert!(records == expected);
                assert_eq!(reader.counts(), tap.counts());
                assert_eq!(reader.flows().names(), tap.flows().names());
                let counts = reader.counts();
                assert_eq!((counts.packets, counts.wire_bytes), (10_001, 2_000_060));
                assert_eq!((counts.caplen_min, counts.caplen_max, counts.cut_by_snaplen), (60, 109, 10_000));
                assert_eq!(counts.packets_without_key, 10_001 - records.len() as u64);
            }
        }
    }
}
