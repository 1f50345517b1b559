//! Frames of the load generator: Ethernet, IPv4, UDP, and a signature that identifies the packet.
//!
//! The signature is at the start of the payload. All fields are little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | id, unique within a trial: the counter that MoonGen's MoonSniff writes there |
//! | 4 | 0x55 |
//! | 5..7 | stream |
//! | 7..15 | sequence number of the packet in its stream, from 0 |
//! | 15..23 | intended departure, CLOCK_MONOTONIC in ns |
//!
//! Frames of 60 to 64 bytes are too short for the whole signature and carry only its first five bytes.

use std::net::Ipv4Addr;

const IP_AT: usize = 14;
const UDP_AT: usize = IP_AT + 20;
const PAYLOAD_AT: usize = UDP_AT + 8;

/// Length of the whole signature in bytes.
pub const SIGNATURE_LEN: usize = 23;

/// Value of the byte after the id.
pub const SIGNATURE_MARK: u8 = 0x55;

/// Minimum frame length in bytes, without the frame check sequence (4 bytes, which the NIC adds): the
/// Ethernet minimum.
pub const FRAME_LEN_MIN: u16 = 60;

/// Maximum frame length in bytes, without the frame check sequence: an MTU of 1500.
pub const FRAME_LEN_MAX: u16 = 1514;

/// Minimum length of a frame with the whole signature.
pub const FRAME_LEN_SIGNED: u16 = (PAYLOAD_AT + SIGNATURE_LEN) as u16;

/// Minimum length of a frame with `text` after the signature.
pub fn mark_room(text: &[u8]) -> usize {
    PAYLOAD_AT + SIGNATURE_LEN + text.len()
}

/// First source port. The flows of a stream use this port and the following ones.
pub const PORT_FIRST: u16 = 1024;

/// The signature that the load generator writes into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signature {
    /// Unique within a trial.
    pub id: u32,
    /// Only present in frames of 65 bytes or more.
    pub long: Option<LongSignature>,
}

/// The part of the signature after its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LongSignature {
    /// Number of the stream.
    pub stream: u16,
    /// Sequence number of the packet in its stream, from 0.
    pub sequence: u64,
    /// Intended departure, CLOCK_MONOTONIC in ns.
    pub departure_ns: u64,
}

/// Reads the signature of a captured frame. `None` if the frame is not UDP over IPv4 without options, or not
/// signed. `wire_len` is the length on the wire in bytes; it distinguishes short frames from truncated ones.
/// For a truncated frame, only the id is returned.
#[inline]
pub fn read_signature(frame: &[u8], wire_len: u32) -> Option<Signature> {
    if !is_signed(frame) {
        return None;
    }
    let field = |at: usize| Some(u64::from_le_bytes(*frame.get(PAYLOAD_AT + at..)?.first_chunk()?));
    let long = || {
        let stream = u16::from_le_bytes([frame[PAYLOAD_AT + 5], frame[PAYLOAD_AT + 6]]);
        Some(LongSignature { stream, sequence: field(7)?, departure_ns: field(15)? })
    };
    let id = u32::from_le_bytes(*frame[PAYLOAD_AT..].first_chunk()?);
    Some(Signature { id, long: if wire_len >= u32::from(FRAME_LEN_SIGNED) { long() } else { None } })
}

/// Whether a frame has the mark of a signature in the right place.
#[inline]
pub fn is_signed(frame: &[u8]) -> bool {
    frame.len() > PAYLOAD_AT + 4
        && frame[12..15] == [0x08, 0x00, 0x45]
        && frame[IP_AT + 9] == 17
        && frame[PAYLOAD_AT + 4] == SIGNATURE_MARK
}

/// Source and destination of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub mac_from: [u8; 6],
    pub mac_to: [u8; 6],
    /// Source IP address.
    pub ip_from: Ipv4Addr,
    /// Destination IP address.
    pub ip_to: Ipv4Addr,
    /// Destination UDP port.
    pub port_to: u16,
}

/// A frame with all fields that are the same for all packets of a stream and length.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Sums of the constant 16-bit words, for the checksums (RFC 1071).
    ip_sum: u32,
    udp_sum: u32,
}

impl Template {
    /// Creates a template of `len` bytes, which must be at least [`FRAME_LEN_MIN`].
    pub(crate) fn new(addresses: &Addresses, len: u16) -> Self {
        let mut bytes = vec![0; usize::from(len)];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &addresses.mac_to);
        put(6, &addresses.mac_from);
        // EtherType IPv4; version and header length; DSCP 0.
        put(12, &[0x08, 0x00, 0x45, 0]);
        put(IP_AT + 2, &(len - IP_AT as u16).to_be_bytes());
        // Time to live 64, protocol UDP.
        put(IP_AT + 8, &[64, 17]);
        put(IP_AT + 12, &addresses.ip_from.octets());
        put(IP_AT + 16, &addresses.ip_to.octets());
        put(UDP_AT + 2, &addresses.port_to.to_be_bytes());
        put(UDP_AT + 4, &(len - UDP_AT as u16).to_be_bytes());
        put(PAYLOAD_AT + 4, &[SIGNATURE_MARK]);
        // The pseudo header: addresses, protocol and length of the datagram.
        let pseudo_sum = sum(&bytes[IP_AT + 12..UDP_AT]) + 17 + sum(&bytes[UDP_AT + 4..UDP_AT + 6]);
        let (ip_sum, udp_sum) = (sum(&bytes[IP_AT..UDP_AT]), pseudo_sum + sum(&bytes[UDP_AT..]));
        Self { bytes, ip_sum, udp_sum }
    }

    /// Creates a template with `text` after the signature. The frame must have [`mark_room`] for it.
    pub(crate) fn marked(addresses: &Addresses, len: u16, text: &[u8]) -> Self {
        let mut template = Self::new(addresses, len);
        let at = PAYLOAD_AT + SIGNATURE_LEN;
        template.bytes[at..at + text.len()].copy_from_slice(text);
        // The signature's length is odd, so the text starts with the low byte of a word.
        template.udp_sum += sum(&template.bytes[at - 1..at + text.len()]);
        template
    }

    /// The frame with all variable fields unset.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the variable fields of a packet into `frame`, which must be a copy of [`Template::bytes`].
    #[inline]
    pub(crate) fn fill(&self, frame: &mut [u8], port_from: u16, id: u32, long: &LongSignature) {
        let frame = &mut frame[..self.bytes.len()];
        let identification = id as u16;
        frame[IP_AT + 4..IP_AT + 6].copy_from_slice(&identification.to_be_bytes());
        let ip_checksum = checksum(self.ip_sum + u32::from(identification));
        frame[IP_AT + 10..IP_AT + 12].copy_from_slice(&ip_checksum.to_be_bytes());
        frame[UDP_AT..UDP_AT + 2].copy_from_slice(&port_from.to_be_bytes());
        let mut signature = [0; SIGNATURE_LEN];
        signature[0..4].copy_from_slice(&id.to_le_bytes());
        signature[4] = SIGNATURE_MARK;
        signature[5..7].copy_from_slice(&long.stream.to_le_bytes());
        signature[7..15].copy_from_slice(&long.sequence.to_le_bytes());
        signature[15..23].copy_from_slice(&long.departure_ns.to_le_bytes());
        let written = if frame.len() >= usize::from(FRAME_LEN_SIGNED) { SIGNATURE_LEN } else { 5 };
        frame[PAYLOAD_AT..PAYLOAD_AT + written].copy_from_slice(&signature[..written]);
        // The template's sum already includes the mark.
        signature[4] = 0;
        // RFC 768: a checksum of zero is sent as all ones, because zero means that there is no checksum.
        let udp_checksum = match checksum(self.udp_sum + u32::from(port_from) + sum(&signature[..written])) {
            0 => 0xffff,
            other => other,
        };
        frame[UDP_AT + 6..UDP_AT + 8].copy_from_slice(&udp_checksum.to_be_bytes());
    }
}

/// Sum of the big-endian 16-bit words. An odd last byte is the high byte of a word.
#[inline]
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// The Internet checksum (RFC 1071) for a sum of words.
#[inline]
fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: Addresses = Addresses {
        mac_from: [2, 0, 0, 0, 0, 1],
        mac_to: [2, 0, 0, 0, 0, 2],
        ip_from: Ipv4Addr::new(10, 0, 0, 1),
        ip_to: Ipv4Addr::new(10, 0, 0, 2),
        port_to: 53,
    };

    fn built(len: u16, id: u32) -> Vec<u8> {
        let template = Template::new(&ADDRESSES, len);
        let mut frame = template.bytes().to_vec();
        let long =
            LongSignature { stream: 0x1234, sequence: u64::MAX - 1, departure_ns: 0x0102_0304_0506_0708 };
        template.fill(&mut frame, 1030, id, &long);
        frame
    }

    #[test]
    fn signature_round_trips() {
        for len in [60, 64, 65, 66, 100, 1514] {
            let frame = built(len, 0xdead_beef);
            assert_eq!(frame.len(), usize::from(len));
            let signature = read_signature(&frame, len.into()).unwrap();
            assert_eq!(signature.id, 0xdead_beef);
            assert_eq!(signature.long.is_some(), len >= 65);
            if let Some(long) = signature.long {
                assert_eq!((long.stream, long.sequence), (0x1234, u64::MAX - 1));
                assert_eq!(long.departure_ns, 0x0102_0304_0506_0708);
            }
        }
    }

    #[test]
    fn checksums_are_valid() {
        for len in [60, 61, 65, 99, 1514] {
            for id in [0, 1, 0xffff, 0xfffe_ffff] {
                let frame = built(len, id);
                assert_eq!(checksum(sum(&frame[IP_AT..UDP_AT])), 0);
                let pseudo = sum(&frame[IP_AT + 12..UDP_AT]) + 17 + sum(&frame[UDP_AT + 4..UDP_AT + 6]);
                assert_eq!(checksum(pseudo + sum(&frame[UDP_AT..])), 0, "{len} {id}");
            }
        }
    }

    #[test]
    fn mark_follows_signature_with_valid_checksum() {
        for text in [&b"EVEN"[..], b"ODD"] {
            let len = mark_room(text) as u16;
            let template = Template::marked(&ADDRESSES, len, text);
            let mut frame = template.bytes().to_vec();
            template.fill(&mut frame, 1030, 7, &LongSignature::default());
            assert!(frame.ends_with(text));
            assert_eq!(read_signature(&frame, len.into()).unwrap().id, 7);
            let pseudo = sum(&frame[IP_AT + 12..UDP_AT]) + 17 + sum(&frame[UDP_AT + 4..UDP_AT + 6]);
            assert_eq!(checksum(pseudo + sum(&frame[UDP_AT..])), 0);
        }
    }

    #[test]
    fn reads_id_of_truncated_frame() {
        let frame = built(100, 7);
        assert_eq!(read_signature(&frame[..64], 100), Some(Signature { id: 7, long: None }));
        assert_eq!(read_signature(&frame[..46], 100), None);
        assert_eq!(read_signature(&[0; 100], 100), None);
    }
}
