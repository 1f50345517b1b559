//! The rule of the published evaluations: the frame's bytes 12 to 64 without their checksums.
//!
//! This rule has its own file and hash implementation because it is used for comparisons with published
//! results and should be fast. Zeroing two bytes in memory before hashing costs more than the hash itself,
//! because a processor cannot forward a narrow store to the wider loads of the hash. The words are therefore
//! masked and hashed in registers.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::layers::protocol;
use crate::read::{Frame, LinkType};

/// Range of the frame that the published rule reads.
pub(crate) const PUBLISHED: Range<usize> = 12..64;

/// Returns the frame's bytes 12 to 64 as compared by the published evaluations, and how many of these bytes
/// the frame has. In untagged TCP or UDP frames over IPv4 without options, the IPv4 header checksum and the
/// TCP or UDP checksum are zeroed.
pub fn published_key(data: &[u8]) -> ([u8; 52], usize) {
    let mut key = [0; 52];
    let found = data.get(PUBLISHED.start..data.len().min(PUBLISHED.end)).unwrap_or_default();
    key[..found.len()].copy_from_slice(found);
    zero_checksums(&mut key);
    (key, found.len())
}

/// `key` starts at the frame's byte 12.
fn zero_checksums(key: &mut [u8; 52]) {
    if key[..3] == [0x08, 0x00, 0x45] {
        match key[11] {
            protocol::UDP => key[28..30].fill(0),
            protocol::TCP => key[38..40].fill(0),
            _ => return,
        }
        key[12..14].fill(0);
    }
}

/// The published rule as a hash: XXH3 of the output of [`published_key`]; `None` for frames that end before
/// byte 13.
#[inline(always)]
pub(crate) fn key(frame: &Frame<'_>) -> Option<u64> {
    match frame.data.first_chunk::<64>() {
        Some(head) => Some(hash(head)),
        None => key_of_short(frame),
    }
}

#[cold]
fn key_of_short(frame: &Frame<'_>) -> Option<u64> {
    let (key, len) = published_key(frame.data);
    (len > 0 && frame.link != LinkType::MoonsniffId).then(|| xxh3_64(&key[..len]))
}

/// The first 64 bytes of XXH3's default secret, as little-endian words
/// (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>).
const SECRET: [u64; 8] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
];

/// 64-bit XXH3 of the 52 bytes at offset 12 of a frame, with its checksums zeroed. This is the
/// specification's "medium input": for 33 to 64 bytes, four folded products of the first, last and inner 16
/// bytes.
#[inline(always)]
fn hash(head: &[u8; 64]) -> u64 {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[PUBLISHED.start + at..PUBLISHED.start + at + 8]);
        u64::from_le_bytes(bytes)
    };
    let fold = |low: u64, high: u64, secret: usize| {
        let product = u128::from(low ^ SECRET[secret]) * u128::from(high ^ SECRET[secret + 1]);
        product as u64 ^ (product >> 64) as u64
    };
    // Offsets from byte 12: the header checksum is at 12, UDP's at 28, TCP's at 38.
    let is_plain_ipv4 = head[12..15] == [0x08, 0x00, 0x45];
    let when = |condition: bool, mask: u64| if is_plain_ipv4 && condition { mask } else { u64::MAX };
    let is_udp = head[23] == protocol::UDP;
    let is_tcp = head[23] == protocol::TCP;
    let ip = when(is_udp || is_tcp, 0xffff_0000_ffff_ffff);
    let udp_at_24 = when(is_udp, 0xffff_0000_ffff_ffff);
    let udp_at_28 = when(is_udp, 0xffff_ffff_ffff_0000);
    let tcp_at_36 = when(is_tcp, 0xffff_ffff_0000_ffff);
    let mut sum = 52u64.wrapping_mul(0x9e37_79b1_85eb_ca87);
    sum = sum.wrapping_add(fold(word(16), word(24) & udp_at_24, 4));
    sum = sum.wrapping_add(fold(word(20), word(28) & udp_at_28, 6));
    sum = sum.wrapping_add(fold(word(0), word(8) & ip, 0));
    sum = sum.wrapping_add(fold(word(36) & tcp_at_36, word(44), 2));
    sum ^= sum >> 37;
    sum = sum.wrapping_mul(0x1656_6791_9e37_79f9);
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{frame, tagged, tcp4, udp4};

    #[test]
    fn the_published_rule_ignores_checksums_and_nothing_else() {
        for data in [udp4(1, 80), tcp4(1, 0x10, b"the payload of a segment, and some more")] {
            let is_udp = data[23] == 17;
            let expected = key_of(&data);
            for at in 0..data.len() {
                let mut changed = data.clone();
                changed[at] ^= 0x80;
                let checksums = if is_udp { 40..42 } else { 50..52 };
                let is_ignored =
                    !PUBLISHED.contains(&at) || (24..26).contains(&at) || checksums.contains(&at);
                // If the changed byte makes the frame something other than IPv4 with IHL 5 and UDP, the
                // checksums are not zeroed either.
                assert_eq!(key_of(&changed) == expected, is_ignored, "{at}");
            }
        }
        let short = udp4(1, 50);
        let (bytes, len) = published_key(&short);
        assert_eq!((len, &bytes[..12], &bytes[12..14]), (38, &short[12..24], &[0, 0][..]));
        assert_eq!(published_key(&short[..12]).1, 0);
        assert_eq!(key_of(&short[..12]), None);
        // Frames with VLAN tags or IP options keep their checksums, as in the published evaluations.
        let tagged = tagged(&udp4(1, 80), &[0x8100]);
        assert_eq!(published_key(&tagged).0, tagged[12..64]);
    }

    proptest! {
        /// The hash in registers equals the hash of the bytes.
        #[test]
        fn the_hash_is_xxh3_of_the_published_bytes(
            mut data in prop::collection::vec(any::<u8>(), 0..80),
            kind in 0usize..4,
        ) {
            if kind > 0 && data.len() > 24 {
                data[12..15].copy_from_slice(&[8, 0, 0x45]);
                data[23] = [1, 17, 6][kind - 1];
            }
            let (bytes, len) = published_key(&data);
            prop_assert_eq!(key_of(&data), (len > 0).then(|| xxh3_64(&bytes[..len])));
        }
    }

    fn key_of(data: &[u8]) -> Option<u64> {
        key(&frame(LinkType::Ethernet, data))
    }
}
