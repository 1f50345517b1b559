//! Captures built byte by byte, for the tests of this crate.

use std::io::{self, Read, Write};

use crate::{CaptureError, CaptureReader, Frame, LinkType, OpenOptions};

/// A frame with its own copy of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedFrame {
    pub(crate) ts_ns: i64,
    pub(crate) interface: u32,
    pub(crate) link: LinkType,
    pub(crate) wire_len: u32,
    pub(crate) data: Vec<u8>,
}

impl From<&Frame<'_>> for OwnedFrame {
    fn from(frame: &Frame<'_>) -> Self {
        let Frame { ts_ns, interface, link, wire_len, data } = *frame;
        Self { ts_ns, interface, link, wire_len, data: data.to_vec() }
    }
}

/// Opens a capture in memory.
pub(crate) fn open(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    open_with(bytes, &OpenOptions::default())
}

/// Opens a capture in memory with options.
pub(crate) fn open_with(bytes: &[u8], options: &OpenOptions) -> Result<CaptureReader, CaptureError> {
    CaptureReader::from_reader("test", Box::new(io::Cursor::new(bytes.to_vec())), options)
}

/// All frames of a capture.
pub(crate) fn collect(reader: &mut CaptureReader) -> Result<Vec<OwnedFrame>, CaptureError> {
    let mut frames = Vec::new();
    while reader.read(&mut |frame: &Frame<'_>| frames.push(frame.into()))? {}
    Ok(frames)
}

/// A source that returns its bytes in pieces of the given sizes, repeatedly.
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Pieces {
    /// `sizes` must not be empty; a size of 0 counts as 1.
    pub(crate) fn new(bytes: &[u8], sizes: &[usize]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, sizes: sizes.to_vec(), turn: 0 }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()].max(1);
        self.turn += 1;
        let count = size.min(buffer.len()).min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// An Ethernet/IPv4/UDP frame of `len` bytes (43 or more) with the counter `id` as written by MoonSniff's
/// load generator: 10.0.0.1:1000 to 10.0.0.2:2000.
pub(crate) fn udp4(id: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
    let ip_len = (len - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(ip_len.to_be_bytes());
    frame.extend((id as u16).to_be_bytes());
    frame.extend([0, 0, 64, 17, 0xaa, 0xbb, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(1000u16.to_be_bytes());
    frame.extend(2000u16.to_be_bytes());
    frame.extend((ip_len - 20).to_be_bytes());
    frame.extend([0xcc, 0xdd]);
    frame.extend(id.to_le_bytes());
    frame.push(0x55);
    frame.resize(len, 0);
    frame
}

pub(crate) struct PcapBuilder {
    pub(crate) bytes: Vec<u8>,
    big_endian: bool,
    tick_ns: i64,
}

impl PcapBuilder {
    /// The file header: snap length 65535, Ethernet.
    pub(crate) fn new(big_endian: bool, nano: bool) -> Self {
        let tick_ns = if nano { 1 } else { 1000 };
        let mut builder = Self { bytes: Vec::new(), big_endian, tick_ns };
        builder.word(if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        builder.word(if big_endian { 0x0002_0004 } else { 0x0004_0002 });
        builder.word(0).word(0).word(65_535).word(1);
        builder
    }

    fn word(&mut self, word: u32) -> &mut Self {
        self.bytes.extend(if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
        self
    }

    pub(crate) fn frame(&mut self, ts_ns: i64, data: &[u8], wire_len: u32) -> &mut Self {
        self.word((ts_ns / 1_000_000_000) as u32);
        self.word((ts_ns % 1_000_000_000 / self.tick_ns) as u32);
        self.word(data.len() as u32).word(wire_len);
        self.bytes.extend(data);
        self
    }
}

pub(crate) struct PcapngBuilder {
    pub(crate) bytes: Vec<u8>,
    big_endian: bool,
}

impl PcapngBuilder {
    /// A section header, 28 bytes.
    pub(crate) fn new(big_endian: bool) -> Self {
        let mut builder = Self { bytes: Vec::new(), big_endian };
        let version = if big_endian { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
        let body = [&builder.word(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        builder.block(0x0a0d_0d0a, &body);
        builder
    }

    fn word(&self, word: u32) -> [u8; 4] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn half(&self, half: u16) -> [u8; 2] {
        if self.big_endian { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    /// Adds a block, its body padded to 4 bytes.
    pub(crate) fn block(&mut self, block_type: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let len = self.word(padded as u32 + 12);
        self.bytes.extend(self.word(block_type));
        self.bytes.extend(len);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(len);
        self
    }

    /// Adds an interface description with options (code and value).
    pub(crate) fn interface(&mut self, link: u16, options: &[(u16, &[u8])]) -> &mut Self {
        let mut body = [&self.half(link)[..], &[0; 2], &self.word(65_535)].concat();
        for (code, value) in options {
            body.extend(self.half(*code));
            body.extend(self.half(value.len() as u16));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.extend([0; 4]);
        }
        self.block(1, &body)
    }

    /// Adds an enhanced packet block.
    pub(crate) fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8], wire_len: u32) -> &mut Self {
        let mut body = Vec::new();
        for word in [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, wire_len] {
            body.extend(self.word(word));
        }
        body.extend(data);
        self.block(6, &body)
    }

    /// Adds a block of the obsolete type.
    pub(crate) fn obsolete(&mut self, interface: u16, ticks: u64, data: &[u8]) -> &mut Self {
        let mut body = [self.half(interface), [0xff; 2]].concat();
        for word in [(ticks >> 32) as u32, ticks as u32, data.len() as u32, data.len() as u32] {
            body.extend(self.word(word));
        }
        body.extend(data);
        self.block(2, &body)
    }
}

/// An mscap file with these timestamps and identifiers.
pub(crate) fn mscap(records: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (timestamp, id) in records {
        bytes.extend(timestamp.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// An ERF record. Ethernet types get their padding, and a wire length that includes the frame check sequence.
pub(crate) fn erf_record(
    record_type: u8,
    port: u8,
    timestamp: u64,
    extensions: &[[u8; 8]],
    data: &[u8],
) -> Vec<u8> {
    let is_ethernet = record_type == 2;
    let len = 16 + extensions.len() * 8 + usize::from(is_ethernet) * 2 + data.len();
    let wire_len = data.len() + usize::from(is_ethernet) * 4;
    let mut bytes = timestamp.to_le_bytes().to_vec();
    bytes.push(record_type | if extensions.is_empty() { 0 } else { 0x80 });
    bytes.push(4 | port);
    bytes.extend((len as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend((wire_len as u16).to_be_bytes());
    bytes.extend(extensions.as_flattened());
    if is_ethernet {
        bytes.extend([0, 0]);
    }
    bytes.extend(data);
    bytes
}

/// Compresses as one gzip member.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

/// Compresses as one zstd frame.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::stream::encode_all(bytes, 1).expect("writing to memory does not fail")
}

/// A frame of these bytes, captured completely.
pub(crate) fn frame(link: LinkType, data: &[u8]) -> Frame<'_> {
    Frame { ts_ns: 0, interface: 0, link, wire_len: data.len() as u32, data }
}

/// Inserts VLAN tags into an Ethernet frame.
pub(crate) fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    for tag in tags {
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0, 5]);
    }
    bytes.extend(&frame[12..]);
    bytes
}

/// An Ethernet/IPv4/TCP frame: 10.0.0.1:1000 to 10.0.0.2:2000.
pub(crate) fn tcp4(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = udp4(0, 43)[..38].to_vec();
    frame[16..18].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
    frame[23] = 6;
    frame.extend(sequence.to_be_bytes());
    frame.extend(7u32.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0xaa, 0xbb, 0, 0]);
    frame.extend(payload);
    frame
}

/// An IPv6/UDP packet, 2001:db8::1 port 1000 to 2001:db8::2 port 2000, with extension headers; `next` is the
/// protocol of the first one.
pub(crate) fn ipv6_udp(extensions: &[u8], next: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((extensions.len() as u16 + 15).to_be_bytes());
    packet.extend([next, 64]);
    for host in [1, 2] {
        packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(extensions);
    packet.extend([0x03, 0xe8, 0x07, 0xd0, 0, 15, 0xaa, 0xbb]);
    packet.extend(b"payload");
    packet
}

/// A valid capture of each format with the format's name; all packets have different lengths.
pub(crate) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut pcap = PcapBuilder::new(false, true);
    let mut pcapng = PcapngBuilder::new(true);
    pcapng.interface(1, &[(2, b"pre"), (9, &[9])]).interface(1, &[(2, b"post"), (9, &[0x9e])]);
    let mut erf = Vec::new();
    let mut records = Vec::new();
    for id in 0..40u32 {
        let data = match id % 4 {
            0 => tagged(&udp4(id, 60), &[0x8100]),
            1 => tcp4(id, 0x18, &vec![id as u8; id as usize]),
            _ => udp4(id, 50 + id as usize),
        };
        let time = 5_000_000_000 + u64::from(id) * 100_000;
        pcap.frame(time as i64, &data, data.len() as u32);
        pcapng.enhanced(id % 2, time, &data, data.len() as u32);
        erf.extend(erf_record(2, (id % 2) as u8, (time / 1000) << 20, &[[0; 8]], &data));
        records.push((time, id));
        if id == 20 {
            pcapng.block(5, &[0; 33]);
        }
    }
    vec![("pcap", pcap.bytes), ("pcapng", pcapng.bytes), ("erf", erf), ("mscap", mscap(&records))]
}
