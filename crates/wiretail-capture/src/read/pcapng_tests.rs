use crate::test_support::{PcapngBuilder, collect, open, open_with, udp4};
use crate::{CaptureError, CaptureReader, InterfaceChoice, LinkType, OpenOptions};

fn choose(choice: InterfaceChoice) -> OpenOptions {
    OpenOptions { interface: Some(choice), ..OpenOptions::default() }
}

fn timestamps(reader: &mut CaptureReader) -> Vec<(i64, u32)> {
    collect(reader).unwrap().iter().map(|frame| (frame.ts_ns, frame.interface)).collect()
}

#[test]
fn both_byte_orders_yield_the_same_frames() {
    for big_endian in [false, true] {
        let mut file = PcapngBuilder::new(big_endian);
        file.interface(1, &[(2, b"eth0"), (9, &[9])]);
        file.enhanced(0, 1_600_000_000_000_000_001, &udp4(1, 61), 61);
        file.block(5, &[0; 16]);
        file.enhanced(0, 1_600_000_000_000_000_002, &udp4(2, 62)[..50], 1500);
        file.obsolete(0, 3, &udp4(3, 60));
        let mut reader = open(&file.bytes).unwrap();
        let frames = collect(&mut reader).unwrap();
        assert_eq!(frames.len(), 3);
        assert_eq!((frames[0].ts_ns, frames[0].wire_len), (1_600_000_000_000_000_001, 61));
        assert_eq!(frames[0].data, udp4(1, 61));
        assert_eq!((frames[1].data.len(), frames[1].wire_len), (50, 1500));
        assert_eq!(frames[2].ts_ns, 3);
        let order = if big_endian { "big" } else { "little" };
        assert_eq!(reader.description(), format!("pcapng (ns, {order} endian), Ethernet"));
        assert!(reader.truncation().is_none());
        assert_eq!(reader.offset(), file.bytes.len() as u64);
    }
}

#[test]
fn one_file_with_both_taps() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[(2, b"pre\0"), (9, &[9])]);
    file.interface(1, &[(2, b"post"), (9, &[6]), (14, &(-1i64).to_le_bytes())]);
    file.enhanced(0, 100, &udp4(1, 60), 60);
    file.enhanced(1, 1_000_009, &udp4(1, 60), 60);
    let mut reader = open(&file.bytes).unwrap();
    assert_eq!(timestamps(&mut reader), [(100, 0), (9_000, 1)]);
    let names: Vec<_> = reader.interfaces().iter().map(|i| (i.name.as_deref(), i.resolution_ns)).collect();
    assert_eq!(names, [(Some("pre"), 1.0), (Some("post"), 1000.0)]);

    let by_name = choose(InterfaceChoice::Name("post".to_owned()));
    let mut reader = open_with(&file.bytes, &by_name).unwrap();
    assert_eq!(timestamps(&mut reader), [(9_000, 1)]);
    assert_eq!(reader.resolution_ns(), 1000.0);
    assert_eq!(reader.frames(), 2);
    let by_index = choose(InterfaceChoice::Index(0));
    assert_eq!(timestamps(&mut open_with(&file.bytes, &by_index).unwrap()), [(100, 0)]);
    let wrong = choose(InterfaceChoice::Name("eth7".to_owned()));
    let error = collect(&mut open_with(&file.bytes, &wrong).unwrap()).unwrap_err().to_string();
    assert!(error.contains("no interface 'eth7'; it has 0 (pre), 1 (post)"), "{error}");
}

#[test]
fn sections_restart_numbering_and_may_change_byte_order() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[(2, b"a"), (9, &[9])]);
    file.enhanced(0, 1, &udp4(1, 60), 60);
    let mut second = PcapngBuilder::new(true);
    second.interface(101, &[(2, b"b"), (9, &[9])]);
    second.interface(1, &[(2, b"a"), (9, &[6])]);
    second.enhanced(0, 2, &udp4(2, 60)[14..], 46);
    second.enhanced(1, 3, &udp4(3, 60), 60);
    file.bytes.extend(second.bytes);
    let mut reader = open(&file.bytes).unwrap();
    assert_eq!(timestamps(&mut reader), [(1, 0), (2, 1), (3_000, 0)]);
    assert_eq!(reader.interfaces()[1].link, Some(LinkType::RawIp));
}

#[test]
fn rejects_simple_packets_without_timestamp() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[]);
    let offset = file.bytes.len() as u64;
    file.block(3, &[60, 0, 0, 0, 1, 2, 3, 4]);
    let error = collect(&mut open(&file.bytes).unwrap()).unwrap_err();
    assert!(matches!(error, CaptureError::NoTimestamp { offset: at, .. } if at == offset), "{error}");
}

#[test]
fn unsupported_interfaces_matter_only_if_requested() {
    let mut file = PcapngBuilder::new(false);
    file.interface(189, &[(2, b"usbmon1")]);
    file.interface(1, &[(2, b"eth0")]);
    file.enhanced(1, 1, &udp4(1, 60), 60);
    file.enhanced(0, 2, &[0; 64], 64);
    let error = collect(&mut open(&file.bytes).unwrap()).unwrap_err();
    assert!(matches!(error, CaptureError::UnknownLinkType { number: 189, .. }), "{error}");
    let options = choose(InterfaceChoice::Name("eth0".to_owned()));
    assert_eq!(timestamps(&mut open_with(&file.bytes, &options).unwrap()), [(1_000, 1)]);
}

#[test]
fn frame_check_sequences_are_removed() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[(13, &[4])]);
    file.enhanced(0, 1, &udp4(1, 64), 64);
    file.enhanced(0, 2, &udp4(1, 64)[..62], 64);
    let frames = collect(&mut open(&file.bytes).unwrap()).unwrap();
    assert!(frames.iter().all(|frame| frame.data.len() == 60 && frame.wire_len == 60));
}

#[test]
fn irrelevant_blocks_are_skipped_without_buffering() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[]);
    file.block(0x0bad, &vec![1; 3 << 20]);
    file.enhanced(0, 7, &udp4(1, 60), 60);
    let mut reader = open(&file.bytes).unwrap();
    assert_eq!(timestamps(&mut reader), [(7_000, 0)]);
    assert_eq!(reader.buffer_capacity(), super::super::input::BUFFER_LEN);
    // Truncated within such a block: no packet is known to be missing, but the truncation is reported.
    let mut cut = PcapngBuilder::new(false);
    cut.interface(1, &[]).enhanced(0, 7, &udp4(1, 60), 60).block(0x0bad, &[1; 100]);
    let len = cut.bytes.len();
    let mut reader = open(&cut.bytes[..len - 40]).unwrap();
    assert_eq!(timestamps(&mut reader).len(), 1);
    assert!(reader.truncation().unwrap().detail.contains("40 bytes before the end"));
}

#[test]
fn wrong_lengths_stop_the_reader_at_their_offset() {
    // Offsets within an enhanced packet block, and the wrong values written there.
    for (at, lie) in [(4, 13u32), (4, 8), (4, 2 << 20), (8, 9), (20, 61), (20, u32::MAX), (92 - 4, 96)] {
        let mut file = PcapngBuilder::new(false);
        file.interface(1, &[]);
        file.enhanced(0, 1, &udp4(1, 60), 60);
        let start = file.bytes.len();
        file.enhanced(0, 2, &udp4(2, 60), 60).enhanced(0, 3, &udp4(3, 60), 60);
        file.bytes[start + at..start + at + 4].copy_from_slice(&lie.to_le_bytes());
        let mut reader = open(&file.bytes).unwrap();
        assert_eq!(timestamps(&mut reader).len(), 1, "{at} {lie}");
        let damage = reader.truncation().unwrap();
        assert_eq!(damage.offset, start as u64);
        assert!(reader.buffer_capacity() <= 1 << 20);
    }
}

#[test]
fn every_truncation_is_flagged() {
    let mut file = PcapngBuilder::new(false);
    file.interface(1, &[(2, b"eth0")]);
    file.enhanced(0, 1, &udp4(1, 60), 60);
    let start = file.bytes.len();
    file.enhanced(0, 2, &udp4(2, 60), 60);
    for len in 1..file.bytes.len() {
        let result = open(&file.bytes[..len]).and_then(|mut reader| Ok((collect(&mut reader)?, reader)));
        match result {
            Ok((frames, reader)) if len > start => {
                assert_eq!(frames.len(), 1);
                assert_eq!(reader.truncation().unwrap().offset, start as u64);
            }
            // The section header alone, a whole description, or a whole packet: nothing is truncated.
            Ok((_, reader)) => assert!(reader.truncation().is_none(), "{len}"),
            Err(error) => assert!(len < start, "{len}: {error}"),
        }
    }
}

#[test]
fn a_packet_before_any_interface_description_is_damage() {
    let mut file = PcapngBuilder::new(false);
    file.enhanced(0, 1, &udp4(1, 60), 60);
    let error = collect(&mut open(&file.bytes).unwrap()).unwrap_err();
    assert!(matches!(error, CaptureError::Damaged { offset: 28, .. }), "{error}");
}
