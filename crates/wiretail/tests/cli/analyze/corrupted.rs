//! Damaged captures give a clear error or a flagged result, and never a panic, a hang or excessive memory
//! use.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use wiretail_schema::random::Random;

use crate::support::{WIRETAIL, fail, folder, synth};

/// Maximum size of the program's address space. The kernel enforces this limit, which bounds memory use.
const MEMORY_KIB: u32 = 256 * 1024;
const SECONDS: u32 = 60;

/// Returns a number below `limit`; 0 if `limit` is 0.
fn below(random: &mut Random, limit: usize) -> usize {
    random.below(limit as u64) as usize
}

/// Flips bits, truncates, corrupts lengths, and repeats or removes a part.
fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=below(random, 3) {
        let at = below(random, bytes.len());
        match below(random, 6) {
            0 => bytes[at] ^= 1 << below(random, 8),
            1 => bytes.truncate(at),
            2 => {
                // A length field in the record header, which recurs every 116 bytes in a run of records.
                let field = 24 + below(random, bytes.len() / 116) * 116 + 8 + 4 * below(random, 2);
                let lie = [0u32, 1, 15, 65_535, 262_145, 0x7fff_ffff, 0xffff_ffff][below(random, 7)];
                if let Some(place) = bytes.get_mut(field..field + 4) {
                    place.copy_from_slice(&lie.to_le_bytes());
                }
            }
            3 => {
                let end = (at + below(random, 5000)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + below(random, 500)).min(bytes.len());
                let stretch = bytes[at..end].to_vec();
                bytes.splice(at..at, stretch);
            }
            _ => {
                // The file header: magic number, version, link type, first timestamp.
                let at = below(random, bytes.len().min(40));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = below(random, 256) as u8;
                }
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn check(pre: &Path, post: &Path, what: &str) -> bool {
    let command =
        format!("ulimit -v {MEMORY_KIB}; exec timeout -k 1 {SECONDS} \"$0\" analyze \"$1\" \"$2\" --json");
    let output = Command::new("bash")
        .args(["-c", &command, WIRETAIL])
        .args([pre, post])
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    let message = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {
            let found: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
            assert!(found.is_ok_and(|found| found["schema"] == "wiretail.summary/1"), "{what}");
            true
        }
        Some(2) => {
            assert!(message.starts_with("wiretail: "), "{what}: {message}");
            let named = [pre, post].iter().any(|path| message.contains(&path.display().to_string()));
            assert!(named, "{what}: the message names no file: {message}");
            false
        }
        code => panic!("{what}: exit code {code:?}: {message}"),
    }
}

#[test]
fn damaged_captures_give_error_or_flag() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "2000", "--loss", "0.01", "--reorder", "0.01"]);
    let plain = fs::read(&pre).expect("the capture");
    let packed = {
        let packed = folder.path().join("pre.pcap.zst");
        let status = Command::new("zstd").arg("-q").arg(&pre).arg("-o").arg(&packed).status();
        status.is_ok_and(|status| status.success()).then(|| fs::read(&packed).expect("the packed capture"))
    };
    let mut random = Random::new(0x5eed);
    let (mut results, mut errors) = (0, 0);
    for variant in 0..200 {
        let compress = variant % 4 == 3;
        let original = if compress { packed.as_ref().unwrap_or(&plain) } else { &plain };
        let damaged = folder.path().join(format!("damaged-{variant}"));
        fs::write(&damaged, damage(original, &mut random)).expect("a damaged capture");
        let what = format!("variant {variant}");
        // Damages one of the two captures.
        let ended_well =
            if variant % 2 == 0 { check(&damaged, &post, &what) } else { check(&post, &damaged, &what) };
        if ended_well { results += 1 } else { errors += 1 }
    }
    // Both outcomes must occur; otherwise, the damage has no effect.
    assert!(results >= 20 && errors >= 20, "{results} results, {errors} errors");
}

#[test]
fn errors_name_file_and_next_step() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "1000"]);
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    let whole = fs::read(&pre).expect("the capture");
    let empty = write("empty.pcap", b"");
    let text = write("notes.txt", b"These are notes, not packets.\n");
    let mut link = whole.clone();
    link[20] = 99;
    let link = write("link.pcap", &link);
    let message = |bad: &Path| fail(["analyze".as_ref(), bad.as_os_str(), post.as_os_str()]);
    for (path, expected) in [
        (&empty, "empty (0 bytes)"),
        (&text, "not a capture"),
        (&link, "link type 99"),
        (&folder.path().join("missing.pcap"), "No such file"),
        (&folder.path().to_path_buf(), "directory"),
    ] {
        let message = message(path);
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert_eq!(message.matches(expected).count(), 1, "{message}");
    }
    // Two captures of different traffic.
    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    let (other_pre, _, _) = synth(&other, &["--packets", "1000", "--frame-len", "300", "--seed", "9"]);
    let mut shifted = fs::read(&other_pre).expect("the capture");
    for record in shifted[24..].chunks_mut(316) {
        record[16 + 42..16 + 46].iter_mut().for_each(|byte| *byte ^= 0x5a);
        record[16 + 18] ^= 0x77;
    }
    let foreign = write("foreign.pcap", &shifted);
    let message = fail(["analyze".as_ref(), pre.as_os_str(), foreign.as_os_str()]);
    assert!(message.contains("the captures have no packet in common"), "{message}");
    // Swapped captures.
    let message = fail(["analyze".as_ref(), post.as_os_str(), pre.as_os_str()]);
    assert!(message.contains("every latency is negative") && message.contains("swapped?"), "{message}");
}

#[test]
fn flags_truncated_capture() {
    let folder = folder();
    let (pre, post, _) = synth(folder.path(), &["--packets", "1000"]);
    let whole = fs::read(&post).expect("the capture");
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, &whole[..24 + 116 * 500 + 50]).expect("a file");
    let found = crate::support::analyze([&pre, &cut]);
    assert_eq!(found["matching"]["matched"], 500);
    assert_eq!(found["post"]["truncated"]["offset"], 24 + 116 * 500);
    let codes: Vec<&str> =
        found["findings"].as_array().unwrap().iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(codes.contains(&"truncated") && codes.contains(&"lost-at-end"), "{codes:?}");
    assert_eq!(found["matching"]["lost_at_end"], 500);
}

/// Packets in flight at the end of a truncated capture are not counted as lost.
#[test]
fn truncated_egress_capture_misses_no_budget() {
    let folder = folder();
    let options = ["--packets", "200k", "--rate", "1Mpps", "--base", "300us", "--stall-share", "0"];
    let (pre, post, _) = synth(folder.path(), &options);
    let cut = folder.path().join("cut.pcap");
    fs::write(&cut, &fs::read(&post).expect("the capture")[..12_000_000]).expect("a file");
    let found = crate::support::analyze([&pre, &cut]);
    assert!(found["matching"]["lost"].as_u64() > Some(90_000));
    for verdict in found["verdicts"].as_array().unwrap() {
        assert_eq!(
            (&verdict["failures"], &verdict["outcome"]),
            (&0.into(), &"UNDECIDED".into()),
            "{verdict}"
        );
    }
}

/// A megabyte that decompresses to a gigabyte of zeros is either read as a stream or rejected. It is never
/// held in memory as a whole.
#[test]
fn decompression_bomb_uses_little_memory() {
    let folder = folder();
    let (_, post, _) = synth(folder.path(), &["--packets", "1000"]);
    let bomb = folder.path().join("bomb.zst");
    let head = folder.path().join("head");
    fs::write(&head, &fs::read(&post).expect("the capture")[..24 + 116]).expect("a file");
    let made = Command::new("bash")
        .args(["-c", "(cat \"$0\"; head -c 1G /dev/zero) | zstd -q -o \"$1\""])
        .args([&head, &bomb])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIPPED: zstd is not installed");
        return;
    }
    check(&bomb, &post, "bomb");
}
