//! Identifies packets: computes a number that a packet has at both taps.
//!
//! | rule | reads | unaffected by |
//! |---|---|---|
//! | `moonsniff` | 4 bytes after the UDP header, then 0x55: the number itself | all changes outside of the payload |
//! | `signature` | after those bytes, stream and number; in short frames as `moonsniff` | the same as `moonsniff` |
//! | `offset:OFF+LEN` | 1 to 8 payload bytes: the number itself, little endian | the same as `moonsniff` |
//! | `bytes:A-B` | frame bytes A to B (exclusive), hashed | changes of other bytes and of zeroed checksums |
//! | `invariant` | protocol, identification, lengths, sequences, payload, hashed | routing, NAT, VLAN, TTL, DSCP |
//! | `payload` | the transport payload, hashed | the same as `invariant`, and new identifications |
//! | `ip-id` | IPv4 identification, protocol, length: the number itself | routing, NAT, VLAN tagging |
//!
//! Hashes are the 64 bits of XXH3 (<https://github.com/Cyan4973/xxHash>).

pub mod published;

use std::ops::Range;

use wiretail_schema::packet::KeyRule;
use wiretail_schema::units::UnitError;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use self::published::PUBLISHED;
pub use self::published::published_key;
use crate::layers::{self, Ip, protocol};
use crate::read::{Frame, LinkType};

/// Default maximum number of payload bytes read by `invariant`.
pub const INVARIANT_PAYLOAD: usize = 128;

/// Value of the byte after MoonSniff's identifier.
pub(crate) const SIGNATURE: u8 = 0x55;

/// Rules tried by `--key auto`, in this order. The first rule reads the counter that a load generator writes
/// to identify packets. The rule used in the published evaluations comes next. The rules for arbitrary
/// traffic follow, from the strongest to the weakest: a strong rule reads bytes that most devices leave
/// unchanged, and distinguishes many packets.
pub const AUTO_RULES: [KeyRule; 5] = [
    KeyRule::Moonsniff,
    KeyRule::Bytes { start: 12, end: 64, zero_checksums: true },
    KeyRule::Invariant,
    KeyRule::Payload,
    KeyRule::IpId,
];

const RULE: &str = "a key rule: moonsniff, signature, invariant, payload, ip-id, bytes:A-B (such as bytes:12-64) or \
                    offset:OFF+LEN with LEN from 1 to 8 (such as offset:0+4)";
const ZEROING_RULE: &str = "a key rule of the form bytes:A-B, which --zero-checksums requires";
const ZEROED: &str = ",zero-checksums";

/// Parses a rule in the syntax of `--key`. `zero_checksums` (the flag `--zero-checksums`) is only allowed for
/// `bytes:A-B`. The text may also contain it: `bytes:12-64,zero-checksums`.
pub fn parse_key_rule(text: &str, zero_checksums: bool) -> Result<KeyRule, UnitError> {
    let error = |expected| UnitError { text: text.to_owned(), expected };
    let rule = match text.trim() {
        "moonsniff" => KeyRule::Moonsniff,
        "signature" => KeyRule::Signature,
        "invariant" => KeyRule::Invariant,
        "payload" => KeyRule::Payload,
        "ip-id" => KeyRule::IpId,
        other => parse_range(other, zero_checksums).ok_or_else(|| error(RULE))?,
    };
    match rule {
        KeyRule::Bytes { .. } => Ok(rule),
        _ if zero_checksums => Err(error(ZEROING_RULE)),
        _ => Ok(rule),
    }
}

fn parse_range(text: &str, zero_checksums: bool) -> Option<KeyRule> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<usize>().ok()).flatten().filter(|&n| n <= crate::read::MAX_FRAME)
    };
    if let Some(range) = text.strip_prefix("bytes:") {
        let (range, zeroed) = match range.strip_suffix(ZEROED) {
            Some(range) => (range, true),
            None => (range, zero_checksums),
        };
        let (start, end) = range.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        return (start < end).then_some(KeyRule::Bytes { start, end, zero_checksums: zeroed });
    }
    let (offset, len) = text.strip_prefix("offset:")?.split_once('+')?;
    let (offset, len) = (number(offset)?, number(len)?);
    (1..=8).contains(&len).then_some(KeyRule::Offset { offset, len })
}

/// Formats a rule in the syntax of `--key`.
pub fn key_rule_text(rule: &KeyRule) -> String {
    match rule {
        KeyRule::Moonsniff => "moonsniff".to_owned(),
        KeyRule::Signature => "signature".to_owned(),
        KeyRule::Invariant => "invariant".to_owned(),
        KeyRule::Payload => "payload".to_owned(),
        KeyRule::IpId => "ip-id".to_owned(),
        KeyRule::Bytes { start, end, zero_checksums } => {
            format!("bytes:{start}-{end}{}", if *zero_checksums { ZEROED } else { "" })
        }
        KeyRule::Offset { offset, len } => format!("offset:{offset}+{len}"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyer {
    rule: KeyRule,
    payload_limit: usize,
}

impl Keyer {
    /// Creates a keyer whose payload limit is that of its rule.
    pub fn new(rule: &KeyRule) -> Self {
        Self::with_payload_limit(rule, usize::MAX)
    }

    /// Creates a keyer whose `invariant` and `payload` rules read at most `limit` bytes of transport payload,
    /// for captures with different snap lengths.
    pub fn with_payload_limit(rule: &KeyRule, limit: usize) -> Self {
        Self { rule: rule.clone(), payload_limit: limit }
    }

    pub fn rule(&self) -> &KeyRule {
        &self.rule
    }

    /// Returns the frame's key; `None` if the rule does not apply to the frame.
    #[inline]
    pub fn key(&self, frame: &Frame<'_>) -> Option<u64> {
        match self.rule {
            KeyRule::Moonsniff => moonsniff(frame),
            KeyRule::Signature => signature(frame),
            KeyRule::Bytes { start: 12, end: 64, zero_checksums: true } => published::key(frame),
            KeyRule::Bytes { start, end, zero_checksums } => bytes(frame, start, end, zero_checksums),
            KeyRule::Offset { offset, len } => offset_number(frame, offset, len),
            KeyRule::Invariant => invariant(frame, self.payload_limit.min(INVARIANT_PAYLOAD)),
            KeyRule::Payload => payload(frame, self.payload_limit),
            KeyRule::IpId => ip_id(frame),
        }
    }
}

/// Reads MoonSniff's identifier: `id` as little-endian u32 after the UDP header, then 0x55.
#[inline(always)]
pub(crate) fn moonsniff(frame: &Frame<'_>) -> Option<u64> {
    match layers::udp4(frame) {
        Some((_, payload)) => signed_number(payload),
        None => moonsniff_elsewhere(frame),
    }
}

#[cold]
pub(crate) fn moonsniff_elsewhere(frame: &Frame<'_>) -> Option<u64> {
    if frame.link == LinkType::MoonsniffId {
        return frame.data.first_chunk::<4>().map(|id| u64::from(u32::from_le_bytes(*id)));
    }
    let ip = layers::parse(frame)?;
    if ip.protocol != protocol::UDP {
        return None;
    }
    signed_number(ip.transport()?.payload)
}

#[inline(always)]
pub(crate) fn signed_number(payload: &[u8]) -> Option<u64> {
    let [a, b, c, d, SIGNATURE] = *payload.first_chunk::<5>()? else { return None };
    Some(u64::from(u32::from_le_bytes([a, b, c, d])))
}

/// Length of the full signature of Wiretail's load generator, in bytes. Frames of 60 to 64 bytes only contain
/// its first five bytes.
const SIGNATURE_LEN: usize = 23;

/// Reads the identity in the signature of Wiretail's load generator, after the UDP header, little endian: id
/// (u32), 0x55, stream (u16), number of the packet in its stream (u64), departure (u64).
///
/// The number is unique within a run, but the id repeats after 2^32 packets. The key combines the stream with
/// the upper bits of the number. Its highest bit distinguishes it from the key of a frame that contains only
/// the id.
#[inline]
fn signature(frame: &Frame<'_>) -> Option<u64> {
    let payload = match layers::udp4(frame) {
        Some((_, payload)) => payload,
        None => {
            let ip = layers::parse(frame).filter(|ip| ip.protocol == protocol::UDP)?;
            ip.transport()?.payload
        }
    };
    let id = signed_number(payload)?;
    let Some(long) = payload.first_chunk::<SIGNATURE_LEN>() else { return Some(id | 1 << 63) };
    let [_, _, _, _, _, low, high, sequence @ .., _, _, _, _, _, _, _, _] = *long;
    let stream = u64::from(u16::from_le_bytes([low, high]));
    Some((u64::from_le_bytes(sequence) ^ stream << 47) & (u64::MAX >> 1))
}

/// Hashes the bytes `start..end` of the frame, clipped to its length; `None` if the clipped range is empty.
fn bytes(frame: &Frame<'_>, start: usize, end: usize, zeroed: bool) -> Option<u64> {
    let data = frame.data.get(..end).unwrap_or(frame.data);
    if frame.link == LinkType::MoonsniffId || data.len() <= start {
        return None;
    }
    // Checksums are only zeroed within the published range; bytes outside of it are hashed in place.
    let Range { start: first, end: past } = PUBLISHED;
    if !zeroed || start >= past || data.len() <= first {
        return Some(xxh3_64(&data[start..]));
    }
    let (middle, _) = published_key(frame.data);
    let mut hash = Xxh3::new();
    hash.update(&data[start.min(first)..first]);
    hash.update(&middle[start.max(first) - first..data.len().min(past) - first]);
    hash.update(data.get(past..).unwrap_or_default());
    Some(hash.digest())
}

/// Reads `len` payload bytes at `offset` as a little-endian number.
#[inline(always)]
pub(crate) fn offset_number(frame: &Frame<'_>, offset: usize, len: usize) -> Option<u64> {
    let payload = match layers::udp4(frame) {
        Some((_, payload)) => payload,
        None => layers::parse(frame)?.transport()?.payload,
    };
    let bytes = payload.get(offset..)?.get(..len)?;
    let mut number = [0; 8];
    number.get_mut(..len)?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(number))
}

/// Hashes the fields that routers, NAT and VLAN tagging do not change. A later fragment has no transport
/// header, so its offset in the datagram is used instead.
fn invariant(frame: &Frame<'_>, payload_limit: usize) -> Option<u64> {
    let ip = layers::parse(frame)?;
    let mut text = [0u8; 32 + INVARIANT_PAYLOAD];
    text[0] = ip.protocol;
    // IPv6 has an identification only in fragments.
    text[1..5].copy_from_slice(&ip.identification.to_le_bytes());
    text[5..7].copy_from_slice(&ip.fragment.to_le_bytes());
    let (payload, payload_len) = match ip.transport() {
        Some(transport) => {
            let header = transport.header;
            match ip.protocol {
                // Sequence and acknowledgment numbers, then the flags.
                protocol::TCP => {
                    text[7..15].copy_from_slice(&header[4..12]);
                    text[15] = header[13];
                }
                // Type and code, then identifier and sequence number.
                protocol::ICMP | protocol::ICMP6 => {
                    text[7..9].copy_from_slice(&header[..2]);
                    text[9..13].copy_from_slice(&header[4..8]);
                }
                _ => {}
            }
            (transport.payload, transport.payload_len)
        }
        None if ip.is_later_fragment() => (ip.body, ip.body_len),
        // The transport header was cut by the capture.
        None => return None,
    };
    text[16..20].copy_from_slice(&payload_len.to_le_bytes());
    let payload = &payload[..payload.len().min(payload_limit)];
    let end = 20 + payload.len();
    text.get_mut(20..end)?.copy_from_slice(payload);
    Some(xxh3_64(&text[..end]))
}

/// Hashes the transport payload; `None` if it is empty, because bare acknowledgments would all have the same
/// key.
fn payload(frame: &Frame<'_>, limit: usize) -> Option<u64> {
    let payload = match layers::udp4(frame) {
        Some((_, payload)) => payload,
        None => layers::parse(frame)?.transport()?.payload,
    };
    let payload = &payload[..payload.len().min(limit)];
    (!payload.is_empty()).then(|| xxh3_64(payload))
}

/// Combines protocol, fragment, total length and identification. IPv6 has no identification.
fn ip_id(frame: &Frame<'_>) -> Option<u64> {
    let ip: Ip<'_> = layers::parse(frame)?;
    ip.is_v4().then(|| {
        u64::from(ip.protocol) << 48
            | u64::from(ip.fragment) << 32
            | u64::from(ip.len) << 16
            | u64::from(ip.identification)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{frame, ipv6_udp, tagged, tcp4, udp4};

    fn key(rule: &str, data: &[u8]) -> Option<u64> {
        Keyer::new(&parse_key_rule(rule, false).unwrap()).key(&frame(LinkType::Ethernet, data))
    }

    #[test]
    fn rules_round_trip_through_text() {
        for text in [
            "moonsniff",
            "invariant",
            "payload",
            "ip-id",
            "bytes:12-64",
            "bytes:0-1,zero-checksums",
            "offset:3+8",
        ] {
            assert_eq!(key_rule_text(&parse_key_rule(text, false).unwrap()), text);
        }
        assert_eq!(key_rule_text(&AUTO_RULES[1]), "bytes:12-64,zero-checksums");
        assert_eq!(parse_key_rule("bytes:12-64", true).unwrap(), AUTO_RULES[1]);
        let wrong = [
            "",
            "auto",
            "bytes",
            "bytes:",
            "bytes:5-5",
            "bytes:6-5",
            "bytes:-5",
            "bytes:1-99999999",
            "bytes:+1-5",
            "offset:1",
            "offset:1+0",
            "offset:1+9",
            "offset:+4",
            "bytes:1-5,zero",
        ];
        for text in wrong {
            assert!(parse_key_rule(text, false).is_err(), "{text}");
        }
        let error = parse_key_rule("payload", true).unwrap_err().to_string();
        assert!(error.contains("--zero-checksums requires"), "{error}");
    }

    #[test]
    fn number_rules_return_the_number() {
        let data = udp4(0x0102_0304, 60);
        assert_eq!(key("moonsniff", &data), Some(0x0102_0304));
        assert_eq!(key("moonsniff", &tagged(&data, &[0x8100])), Some(0x0102_0304));
        assert_eq!(key("offset:0+4", &data), Some(0x0102_0304));
        assert_eq!(key("offset:1+2", &data), Some(0x0203));
        assert_eq!(key("offset:10+8", &data), Some(0));
        assert_eq!(key("offset:11+8", &data), None);
        assert_eq!(key("ip-id", &data), Some(17 << 48 | 46 << 16 | 0x0304));
        let mut unsigned = data.clone();
        unsigned[46] = 0x54;
        assert_eq!(key("moonsniff", &unsigned), None);
        let id = frame(LinkType::MoonsniffId, &[4, 3, 2, 1]);
        assert_eq!(Keyer::new(&KeyRule::Moonsniff).key(&id), Some(0x0102_0304));
        assert!(AUTO_RULES[1..].iter().all(|rule| Keyer::new(rule).key(&id).is_none()));
    }

    #[test]
    fn invariant_ignores_changes_by_devices() {
        let before = tcp4(9, 0x18, b"hello");
        let mut after = before.clone();
        after[0..12].fill(0xaa); // MAC addresses
        after[15] = 0xff; // DSCP, ECN
        after[22] = 3; // TTL
        after[24..34].fill(0x11); // header checksum, addresses
        after[34..38].fill(0x22); // ports
        after[50..52].fill(0x33); // TCP checksum
        let expected = key("invariant", &before).unwrap();
        assert_eq!(key("invariant", &tagged(&after, &[0x88a8, 0x8100])), Some(expected));
        assert_eq!(key("payload", &after), key("payload", &before));
        // Identification, sequence number, acknowledgement, flags, payload.
        for at in [19, 41, 45, 47, 54] {
            let mut other = before.clone();
            other[at] ^= 1;
            assert_ne!(key("invariant", &other), Some(expected), "{at}");
        }
        assert_eq!(key("invariant", &[0xff; 60]), None);
        assert_eq!(key("payload", &tcp4(9, 0x10, b"")), None);
        assert!(key("invariant", &tcp4(9, 0x10, b"")).is_some());
    }

    #[test]
    fn invariant_distinguishes_fragments_and_ipv6_packets() {
        let mut first = udp4(7, 60);
        first[20] = 0x20;
        let mut later = first.clone();
        later[21] = 5;
        assert!(key("invariant", &later).is_some());
        assert_ne!(key("invariant", &first), key("invariant", &later));
        assert_eq!([key("payload", &later), key("moonsniff", &later), key("offset:0+4", &later)], [None; 3]);
        let six = ipv6_udp(&[], 17);
        let keyer = |rule| Keyer::new(&rule).key(&frame(LinkType::RawIp, &six));
        assert!(keyer(KeyRule::Invariant).is_some());
        assert_eq!(keyer(KeyRule::IpId), None);
    }

    #[test]
    fn a_payload_limit_makes_different_snap_lengths_agree() {
        let whole = udp4(3, 300);
        let cut = &whole[..100];
        for rule in [KeyRule::Invariant, KeyRule::Payload] {
            let limited = Keyer::with_payload_limit(&rule, 100 - 42);
            let key = |keyer: &Keyer, data| keyer.key(&frame(LinkType::Ethernet, data));
            assert_ne!(key(&Keyer::new(&rule), &whole), key(&Keyer::new(&rule), cut));
            assert_eq!(key(&limited, &whole), key(&limited, cut));
        }
    }

    proptest! {
        /// The general hash of a range equals the optimized one for the published range.
        #[test]
        fn both_hash_paths_agree_on_ranges(
            data in prop::collection::vec(any::<u8>(), 0..120),
            kind in 0usize..3,
            range in (0usize..100, 1usize..100),
        ) {
            let mut data = data;
            if kind > 0 && data.len() > 24 {
                data[12..15].copy_from_slice(&[8, 0, 0x45]);
                data[23] = [17, 6][kind - 1];
            }
            let frame = frame(LinkType::Ethernet, &data);
            prop_assert_eq!(bytes(&frame, 12, 64, true), published::key(&frame));
            // Reference implementation: zero the checksums, then cut the range.
            let (start, end) = (range.0, range.0 + range.1);
            let mut zeroed = data.clone();
            let (key, len) = published_key(&data);
            let middle = 12.min(data.len())..(12 + len).min(data.len());
            zeroed[middle].copy_from_slice(&key[..len]);
            let expected = (start < data.len()).then(|| xxh3_64(&zeroed[start..end.min(data.len())]));
            prop_assert_eq!(bytes(&frame, start, end, true), expected);
        }
    }

    #[test]
    fn signature_reads_stream_and_number_or_the_id_in_short_frames() {
        let key = |data: &[u8]| Keyer::new(&KeyRule::Signature).key(&frame(LinkType::Ethernet, data));
        let mut long = udp4(7, 80);
        long[47..49].copy_from_slice(&3u16.to_le_bytes());
        long[49..57].copy_from_slice(&(5_000_000_000u64).to_le_bytes());
        assert_eq!(key(&long), Some(5_000_000_000 ^ 3 << 47));
        assert_eq!(key(&long[..70]), key(&long));
        assert_eq!(key(&tagged(&long, &[0x8100])), key(&long));
        assert_eq!(key(&udp4(7, 60)), Some(7 | 1 << 63));
        long[46] = 0;
        assert_eq!(key(&long), None);
    }
}
