//! The log reads back what was written, and skips and counts truncated or damaged lines.

use proptest::prelude::*;
use wiretail_schema::run::interval::{SegmentEnd, SegmentStart, TapStart, bucket};

use super::*;
use crate::write::TestFolder;

fn start() -> LogLine {
    let tap = |name: &str| TapStart {
        name: name.to_owned(),
        clock_source: "kernel software".to_owned(),
        resolution_ns: 1.0,
    };
    LogLine::Segment(Box::new(SegmentStart {
        schema: INTERVAL_SCHEMA.to_owned(),
        wiretail_version: "0".to_owned(),
        title: "a \"soak\"\n".to_owned(),
        window_ns: 1_000_000_000,
        trim_ns: 0,
        key: "signature".to_owned(),
        budgets: vec!["1ms@99.999%".to_owned()],
        pre: tap("pre"),
        post: tap("post"),
    }))
}

fn second(number: i64) -> LogLine {
    let delays = vec![(bucket(3000) as u16, 5), (bucket(3200) as u16, 90), (bucket(8_000_000) as u16, 1)];
    LogLine::Interval(Box::new(IntervalRecord {
        start_ns: number * 1_000_000_000,
        length_ns: 1_000_000_000,
        sent: 97,
        matched: 96,
        lost: 1,
        min_ns: 3000,
        max_ns: 8_000_123,
        jitter_ns: 0.1,
        over: vec![1],
        worst: vec![(8_000_123, -5, 17)],
        delays,
        ..IntervalRecord::default()
    }))
}

fn lines() -> Vec<LogLine> {
    let mut lines = vec![start()];
    lines.extend((0..4).map(second));
    lines.push(LogLine::End(SegmentEnd { end_ns: 4_000_000_000 }));
    lines
}

fn read(path: &Path) -> Result<(Vec<LogLine>, LogEnd), LogError> {
    let mut found = Vec::new();
    let end = read_log(path, |line| found.push(line))?;
    Ok((found, end))
}

#[test]
fn a_written_log_reads_back_and_can_be_extended() {
    let folder = TestFolder::new("interval-log");
    let path = folder.file("intervals.log");
    let lines = lines();
    for half in [&lines[..3], &lines[3..]] {
        let mut log = LogWriter::open(&path).unwrap();
        half.iter().for_each(|line| log.append(line).unwrap());
        assert_eq!(log.bytes(), std::fs::metadata(&path).unwrap().len());
    }
    assert_eq!(read(&path).unwrap(), (lines, LogEnd { torn: false, damaged: 0, lines: 6 }));
    let text = std::fs::read_to_string(&path).unwrap();
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["check"].as_str().unwrap().len(), 8);
    }
}

#[test]
fn a_truncated_log_keeps_complete_lines_and_can_be_continued() {
    let folder = TestFolder::new("interval-log-cut");
    let (path, lines) = (folder.file("intervals.log"), lines());
    let text: String = lines.iter().map(encode).collect();
    let first = encode(&lines[0]).len();
    for cut in 0..text.len() {
        std::fs::write(&path, &text.as_bytes()[..cut]).unwrap();
        let whole = text[..cut].matches('\n').count();
        match read(&path) {
            Ok((found, end)) => {
                assert!(cut >= first);
                assert_eq!(found, lines[..whole]);
                assert_eq!((end.torn, end.damaged), (!text[..cut].ends_with('\n'), 0));
            }
            Err(error) => assert!(cut < first && error.to_string().contains("not the log of a soak")),
        }
        // Reopening the log removes the torn line.
        if cut % 97 == 0 {
            LogWriter::open(&path).unwrap().append(&start()).unwrap();
            let (found, end) = read(&path).unwrap();
            assert_eq!((found.len(), end.torn, end.damaged), (whole + 1, false, 0));
        }
    }
}

#[test]
fn rejects_other_files_and_names_them() {
    let folder = TestFolder::new("interval-log-other");
    let path = folder.file("other");
    for bytes in [&b""[..], b"\n\n", b"{}\n", &[0; 10_000], b"{\"check\":\"00000000\",\"kind\":\"end\"}\n"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("other"));
    }
    let LogLine::Segment(mut newer) = start() else { unreachable!() };
    newer.schema = "wiretail.interval/2".to_owned();
    std::fs::write(&path, encode(&LogLine::Segment(newer))).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains(":1: written as 'wiretail.interval/2'"), "{error}");
    assert!(read(&folder.file("none")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn an_inconsistent_second_counts_as_damaged() {
    let LogLine::Interval(good) = second(1) else { unreachable!() };
    assert!(decode(encode(&LogLine::Interval(good.clone())).as_bytes()).is_some());
    for spoil in [
        |record: &mut IntervalRecord| record.matched += 1,
        |record: &mut IntervalRecord| record.min_ns = record.max_ns + 1,
        |record: &mut IntervalRecord| record.length_ns = -1,
        |record: &mut IntervalRecord| record.delays.clear(),
    ] {
        let mut record = good.clone();
        spoil(&mut record);
        assert_eq!(decode(encode(&LogLine::Interval(record)).as_bytes()), None);
    }
}

proptest! {
    #[test]
    fn any_delays_are_packed_and_unpacked(
        counts in prop::collection::btree_map(0..=bucket(i64::MAX) as u16, 1..=u64::MAX, 0..200),
    ) {
        let delays: Vec<(u16, u64)> = counts.into_iter().collect();
        prop_assert_eq!(packed::unpack(&packed::pack(&delays)), Some(delays));
    }

    #[test]
    fn unpacking_noise_does_not_panic(text in "[A-Za-z0-9+/]{0,200}") {
        let _ = packed::unpack(&text);
    }

    #[test]
    fn damage_anywhere_costs_the_lines_it_hits(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let folder = TestFolder::new("interval-log-damage");
        let (path, lines) = (folder.file("intervals.log"), lines());
        let mut bytes: Vec<u8> = lines.iter().map(encode).collect::<String>().into_bytes();
        for (at, value) in &hits {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok((found, end)) = read(&path) {
            prop_assert!(found.iter().all(|line| lines.contains(line)));
            prop_assert!(found.len() + 2 * hits.len() >= lines.len() || found.len() + end.damaged as usize + 1 >= lines.len());
        }
    }
}
