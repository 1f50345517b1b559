//! The key by which the published pipeline identifies a packet.

use std::fmt;

/// The bytes of a frame after its MAC addresses, up to the 64th, with checksums set to zero.
///
/// Keys are ordered as PostgreSQL orders `bytea`: byte by byte, and a prefix of a longer key comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Zero after `len`, so that comparing these bytes and then `len` compares the byte strings.
    bytes: [u8; Key::LEN_MAX],
    len: u8,
}

/// Frame offsets of the checksums, two bytes each, for an IPv4 header without options.
const IPV4_CHECKSUM: usize = 24;
const UDP_CHECKSUM: usize = 40;
const TCP_CHECKSUM: usize = 50;

impl Key {
    /// Maximum length of a key, in bytes.
    pub const LEN_MAX: usize = 52;

    /// Creates a key from these bytes; `None` if there are more than [`Key::LEN_MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut key = Self { bytes: [0; Self::LEN_MAX], len: u8::try_from(bytes.len()).ok()? };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// Creates the key of an Ethernet frame as the pipeline's import does.
    ///
    /// The IPv4 header checksum and the TCP or UDP checksum are set to zero in untagged IPv4 TCP or UDP
    /// frames without options. Other frames, including ICMP, are not changed. The import cuts the checksums
    /// out and inserts zeros, so a frame that ends before or within a checksum becomes *longer* by the
    /// missing bytes. This behavior is reproduced.
    pub fn from_frame(frame: &[u8]) -> Self {
        let frame = &frame[..frame.len().min(64)];
        let transport_checksum = match (frame.get(12..15), frame.get(23)) {
            (Some([0x08, 0x00, 0x45]), Some(6)) => TCP_CHECKSUM,
            (Some([0x08, 0x00, 0x45]), Some(17)) => UDP_CHECKSUM,
            _ => {
                let mut key = Self { bytes: [0; Self::LEN_MAX], len: 0 };
                key.push(tail(frame, 12));
                return key;
            }
        };
        let mut key = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        key.push(&frame[12..IPV4_CHECKSUM]);
        key.push(&[0; 2]);
        let until = transport_checksum.min(frame.len());
        key.push(frame.get(IPV4_CHECKSUM + 2..until).unwrap_or_default());
        key.push(&[0; 2]);
        key.push(tail(frame, transport_checksum + 2));
        key
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Appends as many bytes as fit. For 64 bytes of a frame, all of them fit.
    fn push(&mut self, bytes: &[u8]) {
        let free = &mut self.bytes[usize::from(self.len)..];
        let count = bytes.len().min(free.len());
        free[..count].copy_from_slice(&bytes[..count]);
        self.len += count as u8;
    }
}

fn tail(frame: &[u8], start: usize) -> &[u8] {
    frame.get(start..).unwrap_or_default()
}

impl fmt::Display for Key {
    /// Lowercase hex, as printed by PostgreSQL's `encode(…, 'hex')`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 2 * Self::LEN_MAX];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.as_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        let hex = &hex[..2 * usize::from(self.len)];
        f.write_str(std::str::from_utf8(hex).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame whose byte i is i + 1, except for the fields that the import reads.
    fn frame(protocol: u8, len: usize) -> Vec<u8> {
        let mut frame: Vec<u8> = (1..=len as u8).collect();
        for (at, byte) in [(12, 0x08), (13, 0x00), (14, 0x45), (23, protocol)] {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame
    }

    #[test]
    fn checksums_are_set_to_zero() {
        for (protocol, checksum) in [(17, 40), (6, 50)] {
            let mut frame = frame(protocol, 70);
            let key = Key::from_frame(&frame);
            frame[24..26].fill(0);
            frame[checksum..checksum + 2].fill(0);
            assert_eq!(key.as_bytes(), &frame[12..64]);
        }
    }

    #[test]
    fn other_frames_are_not_changed() {
        let mut with_options = frame(17, 70);
        with_options[14] = 0x46;
        for frame in [frame(1, 70), with_options, vec![7; 70], vec![7; 20]] {
            assert_eq!(Key::from_frame(&frame).as_bytes(), &frame[12..frame.len().min(64)]);
        }
        assert!(Key::from_frame(&[1; 12]).as_bytes().is_empty());
        assert!(Key::from_frame(&[]).as_bytes().is_empty());
    }

    #[test]
    fn short_frames_grow_by_missing_checksum_bytes() {
        // Result of the import's slices: f[:24] + 00 + f[26:40] + 00 + f[42:], without f[:12].
        for len in 24..64 {
            for (protocol, checksum) in [(17, 40), (6, 50)] {
                let frame = frame(protocol, len);
                let part = |from: usize, to: usize| frame.get(from..to.min(len)).unwrap_or_default();
                let parts = [part(12, 24), &[0; 2], part(26, checksum), &[0; 2], part(checksum + 2, 64)];
                assert_eq!(Key::from_frame(&frame).as_bytes(), parts.concat());
            }
        }
    }

    #[test]
    fn keys_order_like_byte_strings() {
        let key = |bytes: &[u8]| Key::new(bytes).unwrap();
        assert!(key(&[1]) < key(&[1, 0]));
        assert!(key(&[1, 0]) < key(&[1, 0, 0]));
        assert!(key(&[1, 255]) < key(&[2]));
        assert_ne!(key(&[0]), key(&[]));
        assert_eq!(Key::new(&[0; 53]), None);
        assert_eq!(key(&[0xab, 0x01]).to_string(), "ab01");
        assert_eq!(std::mem::size_of::<crate::published::Packet>(), 64);
    }
}
