//! The same packets give the same numbers in every input format.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{WIRETAIL, analyze, fail, folder, synth};

/// Numbers that must not depend on the input format.
fn numbers(found: &Value) -> Vec<Value> {
    ["delay", "loss", "reordering", "variation", "curve", "intervals"]
        .iter()
        .map(|name| found[*name].clone())
        .collect()
}

fn packed(tool: &str, path: &Path) -> Option<std::path::PathBuf> {
    let to = path.with_extension(format!("pcap.{tool}"));
    let command = format!("{tool} -c \"$0\" > \"$1\"");
    let status = Command::new("bash").args(["-c", &command]).args([path, &to]).status();
    status.is_ok_and(|status| status.success()).then_some(to)
}

#[test]
fn reads_compressed_piped_and_byte_swapped_captures() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "20k", "--loss", "0.01", "--reorder", "0.01"]);
    let expected = numbers(&analyze([&pre, &post]));
    for tool in ["gzip", "zstd"] {
        match (packed(tool, &pre), packed(tool, &post)) {
            (Some(pre), Some(post)) => assert_eq!(numbers(&analyze([pre, post])), expected, "{tool}"),
            _ => println!("SKIPPED: no {tool}"),
        }
    }
    let big_endian = |path: &Path| {
        let mut bytes = fs::read(path).expect("a capture");
        let swap = |bytes: &mut [u8], widths: &[usize]| {
            let mut at = 0;
            for width in widths {
                bytes[at..at + width].reverse();
                at += width;
            }
        };
        swap(&mut bytes, &[4, 2, 2, 4, 4, 4, 4]);
        for record in bytes[24..].chunks_mut(116) {
            swap(record, &[4, 4, 4, 4]);
        }
        let to = path.with_extension("be.pcap");
        fs::write(&to, bytes).expect("a file");
        to
    };
    assert_eq!(numbers(&analyze([big_endian(&pre), big_endian(&post)])), expected);
    // Tests standard input for one capture, and process substitution for both captures.
    let run = |command: &str| -> Value {
        let output = Command::new("bash")
            .args(["-c", command, WIRETAIL])
            .args([&pre, &post])
            .output()
            .expect("bash starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    assert_eq!(numbers(&run("cat \"$2\" | \"$0\" analyze --json \"$1\" -")), expected);
    assert_eq!(numbers(&run("cat \"$1\" | \"$0\" analyze --json - \"$2\"")), expected);
    assert_eq!(numbers(&run("\"$0\" analyze --json <(cat \"$1\") <(cat \"$2\")")), expected);
}

/// A pcapng block: type, length, body padded to four bytes, length.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().div_ceil(4) * 4;
    let len = (12 + padded) as u32;
    let mut bytes = [kind.to_le_bytes(), len.to_le_bytes()].concat();
    bytes.extend_from_slice(body);
    bytes.resize(8 + padded, 0);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes
}

fn interface_block(name: &str) -> Vec<u8> {
    let mut body = [1u16.to_le_bytes(), 0u16.to_le_bytes()].concat();
    body.extend_from_slice(&0u32.to_le_bytes());
    let option = |code: u16, value: &[u8]| {
        let mut bytes = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(4 + value.len().div_ceil(4) * 4, 0);
        bytes
    };
    body.extend(option(2, name.as_bytes()));
    body.extend(option(9, &[9]));
    body.extend(option(0, &[]));
    block(1, &body)
}

/// Writes both captures to one pcapng file with two interfaces, in order of time or one after the other.
fn both_taps(pre: &Path, post: &Path, to: &Path, by_time: bool) {
    let mut packets = Vec::new();
    for (interface, path) in [(0u32, pre), (1, post)] {
        let bytes = fs::read(path).expect("a capture");
        for record in bytes[24..].chunks(116) {
            let field = |at: usize| u64::from(u32::from_le_bytes(record[at..at + 4].try_into().unwrap()));
            packets.push((field(0) * 1_000_000_000 + field(4), interface, record[16..].to_vec()));
        }
    }
    if by_time {
        packets.sort();
    }
    let mut section = 0x1A2B_3C4Du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend(u64::MAX.to_le_bytes());
    let mut bytes = block(0x0A0D_0D0A, &section);
    bytes.extend(interface_block("ingress"));
    bytes.extend(interface_block("egress"));
    for (ts, interface, data) in packets {
        let mut body = Vec::new();
        for word in [interface, (ts >> 32) as u32, ts as u32, data.len() as u32, data.len() as u32] {
            body.extend(word.to_le_bytes());
        }
        body.extend(data);
        bytes.extend(block(6, &body));
    }
    fs::write(to, bytes).expect("a file");
}

#[test]
fn reads_both_taps_from_one_file() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "5000", "--loss", "0.01", "--reorder", "0.01"]);
    let expected = numbers(&analyze([&pre, &post]));
    let both = folder.path().join("both.pcapng");
    both_taps(&pre, &post, &both, true);
    let path = both.to_str().unwrap();
    assert_eq!(numbers(&analyze([path, "--pre-interface", "0", "--post-interface", "1"])), expected);
    let found = analyze([path, "--pre-interface", "ingress", "--post-interface", "egress"]);
    assert_eq!(numbers(&found), expected);
    assert_eq!((found["pre"]["interface"].as_u64(), found["post"]["interface"].as_u64()), (Some(0), Some(1)));
    // The file is read from a pipe, which can be read only once for both taps.
    let command = "cat \"$1\" | \"$0\" analyze --json - --pre-interface ingress --post-interface egress";
    let output =
        Command::new("bash").args(["-c", command, WIRETAIL, path]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(numbers(&serde_json::from_slice(&output.stdout).expect("JSON")), expected);
    let message = fail(["analyze", path, "--pre-interface", "0", "--post-interface", "eth7"]);
    assert!(message.contains("eth7") && message.contains("ingress"), "{message}");
}

/// A recorder may write the taps one after the other after the trial. Long parts of the file then contain no
/// packets of one tap. The reader must not mistake such a part for the end of the tap.
#[test]
fn reads_taps_stored_one_after_the_other() {
    let folder = folder();
    let options = ["--packets", "200k", "--loss", "0.01", "--reorder", "0.01", "--duplicate-post", "0.01"];
    let (pre, post, _) = synth(folder.path(), &options);
    let expected = numbers(&analyze([&pre, &post]));
    let both = folder.path().join("both.pcapng");
    both_taps(&pre, &post, &both, false);
    let mut forms = vec![both.clone()];
    forms.extend(["gzip", "zstd"].iter().filter_map(|tool| packed(tool, &both)));
    for path in forms {
        let path = path.to_str().unwrap();
        let found = analyze([path, "--pre-interface", "ingress", "--post-interface", "egress"]);
        assert_eq!(numbers(&found), expected, "{path}");
    }
}

#[test]
fn mscap_gives_same_numbers_as_pcap() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "20k", "--loss", "0.01"]);
    let expected = numbers(&analyze([&pre, &post]));
    let convert = |path: &Path| {
        let bytes = fs::read(path).expect("a capture");
        let mut records = Vec::new();
        for record in bytes[24..].chunks(116) {
            let field = |at: usize| u64::from(u32::from_le_bytes(record[at..at + 4].try_into().unwrap()));
            records.extend((field(0) * 1_000_000_000 + field(4)).to_le_bytes());
            records.extend(&record[16 + 42..16 + 46]);
        }
        let to = path.with_extension("mscap");
        fs::write(&to, records).expect("a file");
        to
    };
    assert_eq!(numbers(&analyze([convert(&pre), convert(&post)])), expected);
}

#[test]
fn post_offset_corrects_disagreeing_clocks() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "3000"]);
    let expected = numbers(&analyze([&pre, &post]));
    let mut bytes = fs::read(&post).expect("a capture");
    for record in bytes[24..].chunks_mut(116) {
        let seconds = u32::from_le_bytes(record[0..4].try_into().unwrap()) + 3600;
        record[0..4].copy_from_slice(&seconds.to_le_bytes());
    }
    let ahead = folder.path().join("ahead.pcap");
    fs::write(&ahead, bytes).expect("a file");
    let message = fail(["analyze".as_ref(), pre.as_os_str(), ahead.as_os_str()]);
    assert!(message.contains("clocks disagree") && message.contains("--post-offset -3600"), "{message}");
    let found = analyze([pre.as_os_str(), ahead.as_os_str(), "--post-offset".as_ref(), "-1h".as_ref()]);
    assert_eq!(numbers(&found), expected);
}

#[test]
fn finds_tap_that_started_late() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "60k"]);
    let bytes = fs::read(&post).expect("a capture");
    let late = folder.path().join("late.pcap");
    fs::write(&late, [&bytes[..24], &bytes[24 + 116 * 30_000..]].concat()).expect("a file");
    let found = analyze([&pre, &late]);
    assert_eq!(
        (found["matching"]["matched"].as_u64(), found["matching"]["lost"].as_u64()),
        (Some(30_000), Some(30_000))
    );
}
