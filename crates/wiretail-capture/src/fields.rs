//! Numbers in packets that may be counters. If delays depend on the packets' content, a periodic delay may
//! follow one of these counters.

use crate::layers;
use crate::read::Frame;

/// Names of the values returned by [`counters`].
pub const COUNTERS: [&str; 3] = [
    "the IPv4 identification",
    "the first four payload bytes, little-endian",
    "the first four payload bytes, big-endian",
];

/// Returns a frame's values for [`COUNTERS`]; `None` for values that the frame does not contain.
pub fn counters(frame: &Frame<'_>) -> [Option<u64>; 3] {
    let Some(ip) = layers::parse(frame) else { return [None; 3] };
    let identification = ip.is_v4().then_some(u64::from(ip.identification));
    let start = ip.transport().and_then(|transport| transport.payload.first_chunk::<4>().copied());
    [
        identification,
        start.map(|bytes| u64::from(u32::from_le_bytes(bytes))),
        start.map(|bytes| u64::from(u32::from_be_bytes(bytes))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkType;

    #[test]
    fn reads_counters_and_ignores_short_packets() {
        let mut bytes = vec![0_u8; 60];
        bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
        bytes[16..18].copy_from_slice(&46_u16.to_be_bytes());
        bytes[18..20].copy_from_slice(&0x03b1_u16.to_be_bytes());
        bytes[23] = layers::protocol::UDP;
        bytes[38..40].copy_from_slice(&26_u16.to_be_bytes());
        bytes[42..46].copy_from_slice(&[0xb1, 0x03, 0, 0]);
        let frame = |data| Frame { ts_ns: 0, interface: 0, link: LinkType::Ethernet, wire_len: 60, data };
        assert_eq!(counters(&frame(&bytes)), [Some(0x3b1), Some(0x3b1), Some(0xb103_0000)]);
        assert_eq!(counters(&frame(&bytes[..20])), [None; 3]);
    }
}
