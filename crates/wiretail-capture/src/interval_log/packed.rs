//! Encodes the delays of one second as text: base64 of the deflated counts.
//!
//! Before compression, the bytes are LEB128 numbers. The first number is the index of the first bucket. The
//! number of packets in each bucket follows, in order. A run of empty buckets is encoded as 0 and the length
//! of the run. Neighboring counts are similar, so deflate compresses them well.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use wiretail_schema::run::interval::bucket;

/// Maximum number of bytes for the counts of all buckets.
const BYTES_MAX: u64 = 10 * 3 * (1 << 16);

/// Encodes ascending buckets with their numbers of packets.
pub(super) fn pack(delays: &[(u16, u64)]) -> String {
    if delays.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::with_capacity(2 * delays.len());
    let mut next = 0;
    for &(bucket, packets) in delays {
        let bucket = u64::from(bucket);
        if bytes.is_empty() {
            put(&mut bytes, bucket);
        } else if bucket > next {
            bytes.push(0);
            put(&mut bytes, bucket - next);
        }
        put(&mut bytes, packets);
        next = bucket + 1;
    }
    // Writing to memory cannot fail.
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    STANDARD_NO_PAD.encode(deflated)
}

/// Decodes the buckets; `None` if the text is not an output of [`pack`].
pub(super) fn unpack(text: &str) -> Option<Vec<(u16, u64)>> {
    let mut delays = Vec::new();
    if text.is_empty() {
        return Some(delays);
    }
    let deflated = STANDARD_NO_PAD.decode(text).ok()?;
    let mut bytes = Vec::new();
    DeflateDecoder::new(&deflated[..]).take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let mut rest = bytes.as_slice();
    let last = bucket(i64::MAX) as u64;
    let mut next = take(&mut rest)?;
    while !rest.is_empty() {
        match take(&mut rest)? {
            0 => next = next.checked_add(take(&mut rest)?)?,
            packets if next <= last => {
                delays.push((next as u16, packets));
                next += 1;
            }
            _ => return None,
        }
    }
    Some(delays)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
