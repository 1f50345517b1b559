//! Writes captures of several taps to one file: pcapng with nanosecond timestamps, little endian.
//!
//! The format is draft-ietf-opsawg-pcapng, <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>: a
//! section header, one interface description per tap, one enhanced packet block per packet, and at the end
//! one interface statistics block per tap with the number of packets that the tap lost. A capture thus
//! records its own gaps.

use std::io::{self, Write};

use super::pcap::{FRAME_LEN_MAX, LINK_TYPE_ETHERNET};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const ISB_STARTTIME: u16 = 2;
const ISB_ENDTIME: u16 = 3;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// Timestamps are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Longest name or description that can be written, in bytes.
const TEXT_MAX: usize = 4096;
const BUFFER_LEN: usize = 256 * 1024;
/// Type, length, five fields, padding and the second length.
const PACKET_OVERHEAD: usize = 32 + 3;

/// A tap as an interface of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapInterface {
    /// Its name (`if_name`), used by readers to select it.
    pub name: String,
    /// Its location and the source of its timestamps (`if_description`).
    pub description: String,
    /// Maximum number of bytes kept from each frame; 0 keeps all.
    pub snaplen: u32,
}

/// Counters of a tap over the whole capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapCounts {
    /// Number of packets that the tap saw (`isb_ifrecv`).
    pub received: u64,
    /// Number of those packets that are missing from the capture (`isb_ifdrop`).
    pub dropped: u64,
}

/// Writes a capture of several taps. Call [`PcapngWriter::finish`] at the end, or packets may be lost.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    sink: W,
    buffer: Vec<u8>,
    /// First and last timestamp of each interface.
    spans: Vec<Option<(u64, u64)>>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture of Ethernet frames. `application` is the name of the writer ("wiretail 0.1.0"). The
    /// interfaces are numbered from 0 in the given order.
    pub fn new(sink: W, application: &str, interfaces: &[TapInterface]) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        let mut header = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
        // Version 1.0; the section's length is unspecified.
        header.extend_from_slice(&[1, 0, 0, 0]);
        header.extend_from_slice(&[0xff; 8]);
        option(&mut header, SHB_USERAPPL, text(application));
        end_of_options(&mut header);
        block(&mut buffer, SECTION_HEADER, &header);
        for interface in interfaces {
            let mut body = (LINK_TYPE_ETHERNET as u16).to_le_bytes().to_vec();
            body.extend_from_slice(&[0, 0]);
            body.extend_from_slice(&interface.snaplen.to_le_bytes());
            option(&mut body, IF_NAME, text(&interface.name));
            option(&mut body, IF_DESCRIPTION, text(&interface.description));
            option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
            end_of_options(&mut body);
            block(&mut buffer, INTERFACE_DESCRIPTION, &body);
        }
        Self { sink, buffer, spans: vec![None; interfaces.len()] }
    }

    /// Adds a packet of `wire_len` bytes that an interface saw `ts_ns` ns after the epoch. `frame` contains
    /// its first bytes.
    ///
    /// # Errors
    /// Returns an error of kind `InvalidInput` for a timestamp before the epoch, for a frame longer than
    /// [`FRAME_LEN_MAX`] or than `wire_len`, and for an unknown interface. Returns other errors of the sink.
    #[inline]
    pub fn write(&mut self, interface: u16, ts_ns: i64, wire_len: u32, frame: &[u8]) -> io::Result<()> {
        let fits = frame.len() <= FRAME_LEN_MAX && frame.len() <= wire_len as usize;
        let (Ok(ts), Some(span), true) =
            (u64::try_from(ts_ns), self.spans.get_mut(usize::from(interface)), fits)
        else {
            return Err(refused(interface, ts_ns, wire_len, frame.len()));
        };
        let first = span.map_or(ts, |(first, _)| first.min(ts));
        *span = Some((first, span.map_or(ts, |(_, last)| last.max(ts))));
        if self.buffer.len() + PACKET_OVERHEAD + frame.len() > BUFFER_LEN {
            self.empty_buffer()?;
        }
        let padded = frame.len().next_multiple_of(4);
        let len = (32 + padded) as u32;
        let mut header = [0; 28];
        let fields = [
            ENHANCED_PACKET,
            len,
            u32::from(interface),
            (ts >> 32) as u32,
            ts as u32,
            frame.len() as u32,
            wire_len,
        ];
        for (place, field) in header.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frame);
        self.buffer.extend_from_slice(&[0; 3][..padded - frame.len()]);
        self.buffer.extend_from_slice(&len.to_le_bytes());
        Ok(())
    }

    /// Writes the buffered data to the sink and flushes it, so that readers can see it.
    ///
    /// # Errors
    /// Returns errors of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.empty_buffer()?;
        self.sink.flush()
    }

    /// Writes the counters of each interface in order, then all buffered data, to the sink. Flushes the sink
    /// and returns it.
    ///
    /// # Errors
    /// Returns errors of the sink.
    pub fn finish(mut self, counts: &[TapCounts]) -> io::Result<W> {
        let timestamp = |ts: u64| [((ts >> 32) as u32).to_le_bytes(), (ts as u32).to_le_bytes()].concat();
        let spans = std::mem::take(&mut self.spans);
        for (interface, (span, counts)) in (0u32..).zip(spans.iter().zip(counts)) {
            let (first, last) = span.unwrap_or_default();
            let mut body = interface.to_le_bytes().to_vec();
            body.extend_from_slice(&timestamp(last));
            if span.is_some() {
                option(&mut body, ISB_STARTTIME, &timestamp(first));
                option(&mut body, ISB_ENDTIME, &timestamp(last));
            }
            option(&mut body, ISB_IFRECV, &counts.received.to_le_bytes());
            option(&mut body, ISB_IFDROP, &counts.dropped.to_le_bytes());
            end_of_options(&mut body);
            block(&mut self.buffer, INTERFACE_STATISTICS, &body);
        }
        self.flush()?;
        Ok(self.sink)
    }

    fn empty_buffer(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Appends a block: type, length, body, length. Bodies must be multiples of four bytes.
fn block(buffer: &mut Vec<u8>, block_type: u32, body: &[u8]) {
    let len = (body.len() as u32 + 12).to_le_bytes();
    buffer.extend_from_slice(&block_type.to_le_bytes());
    buffer.extend_from_slice(&len);
    buffer.extend_from_slice(body);
    buffer.extend_from_slice(&len);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend_from_slice(&[0; 4]);
}

/// Truncates a text to the maximum length of an option.
fn text(text: &str) -> &[u8] {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

#[cold]
fn refused(interface: u16, ts_ns: i64, wire_len: u32, frame_len: usize) -> io::Error {
    let message = format!(
        "a packet of interface {interface} at {ts_ns} ns, {frame_len} of {wire_len} bytes: expected an interface \
         of this file, a timestamp of 0 or more, and at most {FRAME_LEN_MAX} bytes and no more than on the wire"
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::InterfaceChoice;
    use crate::read::OpenOptions;
    use crate::test_support::{collect, open, open_with};

    fn taps(names: &[&str]) -> Vec<TapInterface> {
        let tap = |name: &&str| TapInterface {
            name: (*name).to_owned(),
            description: format!("{name}: kernel software timestamps"),
            snaplen: 70,
        };
        names.iter().map(tap).collect()
    }

    #[test]
    fn blocks_follow_the_format() {
        let mut writer = PcapngWriter::new(Vec::new(), "w 1", &taps(&["a"]));
        writer.write(0, 0x0102_0304_0506_0708, 60, &[0xaa, 0xbb, 0xcc, 0xdd, 0xee]).unwrap();
        let counts = TapCounts { received: 9, dropped: 8 };
        let bytes = writer.finish(&[counts]).unwrap();
        let section = [
            0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255,
            255, 255, 255, 4, 0, 3, 0, b'w', b' ', b'1', 0, 0, 0, 0, 0, 40, 0, 0, 0,
        ];
        assert_eq!(bytes[..40], section);
        let packet = [
            6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb,
            0xcc, 0xdd, 0xee, 0, 0, 0, 40, 0, 0, 0,
        ];
        let at = bytes.len() - 76 - 40;
        assert_eq!(bytes[at..at + 40], packet);
        let statistics = &bytes[bytes.len() - 76..];
        assert_eq!(statistics[..16], [5, 0, 0, 0, 76, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1]);
        let dropped = [5, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 76, 0, 0, 0];
        assert_eq!(statistics[56..], dropped);
    }

    #[test]
    fn losses_of_each_tap_read_back() {
        let mut writer = PcapngWriter::new(Vec::new(), "w", &taps(&["a", "b"]));
        writer.write(1, 5, 60, &[7; 60]).unwrap();
        let counts = [3, 1 << 40].map(|dropped| TapCounts { received: 1, dropped });
        let bytes = writer.finish(&counts).unwrap();
        for (choice, dropped) in [(None, 3 + (1 << 40)), (Some(0), 3), (Some(1), 1 << 40)] {
            let options = OpenOptions { interface: choice.map(InterfaceChoice::Index), ..Default::default() };
            let mut twice = bytes.clone();
            for factor in 1..=2 {
                let mut reader = open_with(&twice, &options).unwrap();
                collect(&mut reader).unwrap();
                assert_eq!(reader.dropped(), factor * dropped);
                twice.extend_from_slice(&bytes);
            }
        }
    }

    #[test]
    fn reads_a_capture_without_packets() {
        let bytes = PcapngWriter::new(Vec::new(), "", &taps(&["a", "b"])).finish(&[TapCounts::default(); 2]);
        let mut reader = open(&bytes.unwrap()).unwrap();
        assert!(collect(&mut reader).unwrap().is_empty());
        assert_eq!(reader.interfaces().len(), 2);
        assert!(reader.truncation().is_none());
    }

    #[test]
    fn writes_packets_longer_than_the_buffer() {
        let mut writer = PcapngWriter::new(Vec::new(), "w", &taps(&["a"]));
        let frame = vec![7; FRAME_LEN_MAX];
        for ts in 0..3 {
            writer.write(0, ts, frame.len() as u32, &frame).unwrap();
            writer.write(0, ts, 1, &[1]).unwrap();
        }
        let frames = collect(&mut open(&writer.finish(&[TapCounts::default()]).unwrap()).unwrap()).unwrap();
        assert_eq!(frames.iter().map(|frame| frame.data.len()).sum::<usize>(), 3 * (FRAME_LEN_MAX + 1));
    }

    #[test]
    fn rejects_values_outside_the_format() {
        let mut writer = PcapngWriter::new(Vec::new(), "w", &taps(&["a"]));
        for (interface, ts, wire_len) in [(1, 0, 1), (0, -1, 1), (0, 0, 0)] {
            let error = writer.write(interface, ts, wire_len, &[0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        let long = vec![0; FRAME_LEN_MAX + 1];
        assert!(writer.write(0, 0, u32::MAX, &long).is_err());
        let long_name = "ä".repeat(TEXT_MAX);
        let bytes = PcapngWriter::new(Vec::new(), &long_name, &taps(&[&long_name])).finish(&[]).unwrap();
        collect(&mut open(&bytes).unwrap()).unwrap();
    }

    proptest! {
        #[test]
        fn this_crates_reader_reads_what_was_written(
            packets in prop::collection::vec(
                (0u16..3, 0..i64::MAX, prop::collection::vec(any::<u8>(), 1..100), 0u32..2000), 0..60),
        ) {
            let names = ["pre", "middle", "post"];
            let mut writer = PcapngWriter::new(Vec::new(), "wiretail", &taps(&names));
            for (interface, ts_ns, frame, more) in &packets {
                writer.write(*interface, *ts_ns, frame.len() as u32 + more, frame).unwrap();
            }
            let bytes = writer.finish(&[TapCounts { received: 60, dropped: 0 }; 3]).unwrap();
            for (number, name) in names.iter().enumerate() {
                let interface = Some(InterfaceChoice::Name((*name).to_owned()));
                let options = OpenOptions { interface, ..OpenOptions::default() };
                let read = collect(&mut open_with(&bytes, &options).unwrap()).unwrap();
                let read: Vec<_> = read.iter().map(|f| (f.ts_ns, f.wire_len, f.data.clone())).collect();
                let written: Vec<_> = packets
                    .iter()
                    .filter(|(interface, ..)| usize::from(*interface) == number)
                    .map(|(_, ts_ns, frame, more)| (*ts_ns, frame.len() as u32 + more, frame.clone()))
                    .collect();
                prop_assert_eq!(read, written);
            }
        }
    }
}
