//! Writes pcap captures with nanosecond timestamps, little endian.
//!
//! The format is described in draft-ietf-opsawg-pcap: a header of 24 bytes, and 16 bytes before each packet.
//! Records are buffered, so the sink does not need a buffer.

use std::io::{self, Write};

/// Magic number of pcap with timestamps in ns.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Longest frame that can be written, in bytes: the limit of readers (libpcap's `MAXIMUM_SNAPLEN`).
pub const FRAME_LEN_MAX: usize = 262_144;

/// LINKTYPE_ETHERNET: frames from the destination address on, without frame check sequence.
pub const LINK_TYPE_ETHERNET: u32 = 1;

const BUFFER_LEN: usize = 256 * 1024;
const SECOND_NS: u64 = 1_000_000_000;

/// Writes a capture record by record. Call [`PcapWriter::finish`] at the end, or records may be lost.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    sink: W,
    buffer: Vec<u8>,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a capture of frames with this link type (`LINKTYPE_…`).
    pub fn new(sink: W, link_type: u32) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        buffer.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        // Version 2.4, two reserved fields.
        buffer.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        buffer.extend_from_slice(&(FRAME_LEN_MAX as u32).to_le_bytes());
        buffer.extend_from_slice(&link_type.to_le_bytes());
        Self { sink, buffer }
    }

    /// Adds a packet of `wire_len` bytes that was seen `ts_ns` ns after the epoch. `frame` contains its first
    /// bytes.
    ///
    /// Returns an error of kind `InvalidInput` for a timestamp before the epoch or 2^32 s or more after it,
    /// and for a frame longer than [`FRAME_LEN_MAX`] or than `wire_len`.
    #[inline]
    pub fn write(&mut self, ts_ns: i64, wire_len: u32, frame: &[u8]) -> io::Result<()> {
        let timestamp = u64::try_from(ts_ns).ok().and_then(|ns| {
            let seconds = u32::try_from(ns / SECOND_NS).ok()?;
            Some((seconds, (ns % SECOND_NS) as u32))
        });
        let Some((seconds, nanoseconds)) = timestamp else { return Err(timestamp_out_of_range(ts_ns)) };
        if frame.len() > FRAME_LEN_MAX || frame.len() > wire_len as usize {
            return Err(wrong_length(frame.len(), wire_len));
        }
        if self.buffer.len() + 16 + frame.len() > BUFFER_LEN {
            self.empty_buffer()?;
        }
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&nanoseconds.to_le_bytes());
        header[8..12].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&wire_len.to_le_bytes());
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frame);
        Ok(())
    }

    /// Writes the remaining records to the sink, flushes the sink and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.empty_buffer()?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn empty_buffer(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cold]
fn timestamp_out_of_range(ts_ns: i64) -> io::Error {
    let message =
        format!("a pcap timestamp must be between 0 and 2^32 s after the epoch; this one is {ts_ns} ns");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cold]
fn wrong_length(frame_len: usize, wire_len: u32) -> io::Error {
    let message = format!(
        "a frame of {frame_len} bytes ({wire_len} on the wire) cannot be written; \
         expected at most {FRAME_LEN_MAX} bytes, and no more than on the wire"
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{collect, open};

    #[test]
    fn records_follow_the_format() {
        let mut writer = PcapWriter::new(Vec::new(), LINK_TYPE_ETHERNET);
        writer.write(0x0102_0304 * 1_000_000_000 + 5, 60, &[0xaa, 0xbb]).unwrap();
        let bytes = writer.finish().unwrap();
        let header = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        let record = [4, 3, 2, 1, 5, 0, 0, 0, 2, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb];
        assert_eq!(bytes, [&header[..], &record[..]].concat());
    }

    #[test]
    fn written_captures_read_back() {
        let frames: [(i64, u32, &[u8]); 3] =
            [(0, 60, &[1; 60]), (1_500_000_000, 1514, &[2; 96]), (7, 1, &[3])];
        let mut writer = PcapWriter::new(Vec::new(), LINK_TYPE_ETHERNET);
        for (ts_ns, wire_len, frame) in frames {
            writer.write(ts_ns, wire_len, frame).unwrap();
        }
        let mut reader = open(&writer.finish().unwrap()).unwrap();
        let read = collect(&mut reader).unwrap();
        let read: Vec<_> = read.iter().map(|f| (f.ts_ns, f.wire_len, &f.data[..])).collect();
        assert_eq!(read, frames);
    }

    #[test]
    fn a_capture_without_packets_is_only_a_header() {
        assert_eq!(PcapWriter::new(Vec::new(), LINK_TYPE_ETHERNET).finish().unwrap().len(), 24);
    }

    #[test]
    fn writes_records_longer_than_the_buffer() {
        let mut writer = PcapWriter::new(Vec::new(), LINK_TYPE_ETHERNET);
        let frame = vec![7; FRAME_LEN_MAX];
        for _ in 0..3 {
            writer.write(1, frame.len() as u32, &frame).unwrap();
            writer.write(2, 1, &[1]).unwrap();
        }
        assert_eq!(writer.finish().unwrap().len(), 24 + 3 * (16 + FRAME_LEN_MAX + 17));
    }

    #[test]
    fn rejects_values_outside_the_format() {
        let mut writer = PcapWriter::new(Vec::new(), LINK_TYPE_ETHERNET);
        let frame = vec![0; FRAME_LEN_MAX + 1];
        let last = (1_i64 << 32) * 1_000_000_000 - 1;
        writer.write(last, 1, &[0]).unwrap();
        for (ts, wire_len, frame) in
            [(-1, 1, &frame[..1]), (last + 1, 1, &frame[..1]), (0, 1, &frame[..2]), (0, u32::MAX, &frame[..])]
        {
            let error = writer.write(ts, wire_len, frame).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert_eq!(writer.finish().unwrap().len(), 24 + 17);
    }
}
