//! Fuzzing of every reader, key rule and flow table, and of the trace reader, on stable Rust.
//!
//! The inputs are generated from the structure of the formats, not from coverage feedback: valid captures are
//! modified by bit flips, truncation, wrong lengths, splicing and repetition.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Cursor;

use wiretail_capture::{
    AUTO_RULES, CaptureError, CaptureReader, FlowTable, Frame, InterfaceChoice, Keyer, LinkType, OpenOptions,
    Timestamps, published_key,
};
use wiretail_schema::packet::{FlowRule, KeyRule};
use wiretail_schema::random::Random;

#[path = "../../../tests/fuzz.rs"]
mod fuzz;
#[allow(dead_code, reason = "the unit tests use the rest")]
#[path = "../src/test_support.rs"]
mod test_support;
#[path = "fuzz/trace.rs"]
mod trace;

use fuzz::fuzz;
use test_support::{Pieces, gzip, ipv6_udp, samples, tagged, tcp4, udp4, zstd};

/// Largest buffer that a reader may allocate for any input, in bytes.
const BUFFER_MAX: usize = 1 << 20;

/// A random number below `bound`; 0 if `bound` is 0.
fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[below(random, choices.len())]
}

/// Numbers that often break the handling of lengths, offsets and exponents.
const LIES: &[u32] = &[
    0,
    1,
    3,
    4,
    7,
    8,
    11,
    12,
    13,
    16,
    27,
    28,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x3_ffff,
    0x4_0000,
    0x4_0001,
    0xf_ffff,
    0x10_0000,
    0x10_0004,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=below(random, 4) {
        let at = below(random, bytes.len());
        match below(random, 9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << below(random, 8),
            1 if !bytes.is_empty() => bytes[at] = pick(random, &[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes.truncate(at),
            // Fields are at even offsets, mostly at multiples of four.
            3 => overwrite(bytes, at & !3, &pick(random, LIES).to_le_bytes()),
            4 => overwrite(bytes, at & !3, &pick(random, LIES).to_be_bytes()),
            5 => overwrite(bytes, at & !1, &(pick(random, LIES) as u16).to_be_bytes()),
            6 => {
                let from = below(random, other.len());
                let len = below(random, other.len() - from).min(200);
                bytes.splice(at..at, other[from..from + len].iter().copied());
            }
            7 => {
                let end = (at + below(random, 100)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + below(random, 300)).min(bytes.len());
                let repeated = bytes[at..end].to_vec();
                bytes.splice(at..at, repeated);
            }
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

fn options(random: &mut Random) -> OpenOptions {
    let interface = match below(random, 8) {
        0 => Some(InterfaceChoice::Index(below(random, 3) as u32)),
        1 => Some(InterfaceChoice::Name(pick(random, &["pre", "port1", ""]).to_owned())),
        _ => None,
    };
    let timestamps = if below(random, 8) == 0 { Timestamps::Trailer } else { Timestamps::Header };
    OpenOptions { timestamps, interface }
}

/// Result of reading a capture: a hash of all frames and the final offset, or the error's text.
fn outcome(
    name: &str,
    source: Box<dyn std::io::Read + Send>,
    options: &OpenOptions,
) -> Result<(u64, u64, Option<u64>), String> {
    let explain = |error: CaptureError| {
        let text = error.to_string();
        assert!(
            text.starts_with(name) && text.contains(';'),
            "an error names the file and the next step: {text}"
        );
        text
    };
    let mut reader = CaptureReader::from_reader(name, source, options).map_err(explain)?;
    let (mut hash, mut frames, mut captured) = (DefaultHasher::new(), 0u64, 0u64);
    loop {
        let before = (frames, reader.frames());
        let more = reader.read(&mut |frame: &Frame<'_>| {
            let Frame { ts_ns, interface, link, wire_len, data } = *frame;
            (ts_ns, interface, link, wire_len, data).hash(&mut hash);
            frames += 1;
            captured += data.len() as u64;
        });
        // The smallest record has at least 4 bytes, and only bytes that were read can be delivered.
        assert!(captured <= reader.offset() && frames <= reader.offset() / 4, "more than was read");
        assert!(reader.buffer_capacity() <= BUFFER_MAX, "{} bytes of buffer", reader.buffer_capacity());
        if !more.map_err(explain)? {
            assert_eq!((frames, reader.frames()), before, "frames at the end");
            break;
        }
        assert!(reader.frames() > before.1, "no progress");
    }
    assert!(matches!(reader.read(&mut |_: &Frame<'_>| panic!("a frame after the end")), Ok(false)));
    assert!(!reader.description().is_empty() && !reader.clock_source().is_empty());
    assert!(reader.resolution_ns().is_finite() && reader.interfaces().len() <= 4096);
    Ok((hash.finish(), frames, reader.truncation().map(|truncation| truncation.offset)))
}

/// Reads mutants of the sample. Reading them at once and in pieces must have the same result.
fn fuzz_format(target: &str) {
    let samples = samples();
    let sample = &samples.iter().find(|(name, _)| *name == target).expect("a sample of each format").1;
    let name = format!("fuzz.{target}");
    fuzz(target, |random| {
        let mut bytes = sample.clone();
        let other = below(random, samples.len());
        mutate(&mut bytes, &samples[other].1, random);
        if below(random, 50) == 0 {
            // Long enough to cross the end of the buffer.
            bytes = bytes.repeat(1 + 300_000 / bytes.len().max(1));
        }
        let options = options(random);
        let whole = outcome(&name, Box::new(Cursor::new(bytes.clone())), &options);
        let sizes = [1 + below(random, 50), 1 + below(random, 5000), 1 + below(random, 20)];
        let pieces = outcome(&name, Box::new(Pieces::new(&bytes, &sizes)), &options);
        assert_eq!(whole, pieces, "the result depends on the sizes of the reads");
    });
}

#[test]
fn pcap() {
    fuzz_format("pcap");
}

#[test]
fn pcapng() {
    fuzz_format("pcapng");
}

#[test]
fn erf() {
    fuzz_format("erf");
}

#[test]
fn mscap() {
    fuzz_format("mscap");
}

/// Damage within the compressed stream, and compressed damaged captures.
fn fuzz_compression(target: &str, compress: fn(&[u8]) -> Vec<u8>) {
    let samples = samples();
    fuzz(target, |random| {
        let (_, sample) = &samples[below(random, samples.len())];
        let mut plain = sample.clone();
        if below(random, 2) == 0 {
            mutate(&mut plain, sample, random);
        }
        let mut bytes = compress(&plain);
        if below(random, 4) > 0 {
            let other = bytes.clone();
            mutate(&mut bytes, &other, random);
        }
        let options = options(random);
        let _ = outcome("fuzz", Box::new(Cursor::new(bytes)), &options);
    });
}

#[test]
fn compressed_by_gzip() {
    fuzz_compression("gzip", gzip);
}

#[test]
fn compressed_by_zstd() {
    fuzz_compression("zstd", zstd);
}

const LINKS: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::Sll,
    LinkType::Sll2,
    LinkType::RawIp,
    LinkType::Loopback,
    LinkType::MoonsniffId,
];

fn any_rule(random: &mut Random) -> KeyRule {
    let mut number = |bound| below(random, bound);
    match number(8) {
        rule @ 0..5 => AUTO_RULES[rule].clone(),
        5 => KeyRule::Offset { offset: number(60), len: number(10) },
        6 => KeyRule::Bytes { start: number(80), end: number(200), zero_checksums: number(2) == 0 },
        _ => KeyRule::Offset { offset: usize::MAX, len: usize::MAX },
    }
}

/// Applies every key rule and flow rule to frames of every link type: valid, damaged and arbitrary.
#[test]
fn keys_and_flows() {
    let ethernet = udp4(7, 90);
    let six = ipv6_udp(&[60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9], 0);
    let mut ethernet6 = ethernet[..12].to_vec();
    ethernet6.extend([0x86, 0xdd]);
    ethernet6.extend(&six);
    let valid = [
        tagged(&ethernet, &[0x88a8, 0x8100]),
        tcp4(1, 2, b"payload of a segment"),
        [&[0; 14][..], &[8, 0], &ethernet[14..]].concat(),
        [&[8, 0][..], &[0; 18], &ethernet[14..]].concat(),
        [&[2, 0, 0, 0], &ethernet[14..]].concat(),
        ethernet[14..].to_vec(),
        ethernet,
        ethernet6,
        six,
    ];
    let mut tables =
        [FlowRule::FiveTuple, FlowRule::Stream, FlowRule::None].map(|r| FlowTable::with_limit(r, 16));
    fuzz("keys and flows", |random| {
        let mut data = valid[below(random, valid.len())].clone();
        let other = below(random, valid.len());
        match below(random, 8) {
            0 => data = (0..below(random, 120)).map(|_| random.bits() as u8).collect(),
            1 => {}
            _ => mutate(&mut data, &valid[other], random),
        }
        let frame = Frame {
            ts_ns: 0,
            interface: 0,
            link: pick(random, &LINKS),
            wire_len: data.len() as u32,
            data: &data,
        };
        let rule = any_rule(random);
        let keyer = Keyer::with_payload_limit(&rule, pick(random, &[usize::MAX, 0, 1, 20, 1000]));
        assert_eq!(keyer.key(&frame), keyer.key(&frame), "{rule:?}");
        let (key, len) = published_key(&data);
        assert!(len == data.len().saturating_sub(12).min(52) && key[len..].iter().all(|&byte| byte == 0));
        for table in &mut tables {
            let index = table.index(&frame) as usize;
            assert!(index < table.names().len() && table.names().len() <= 17);
            assert_eq!(table.index(&frame) as usize, index);
        }
    });
}
