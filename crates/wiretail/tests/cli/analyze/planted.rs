//! The analysis finds all injected events, by kind and number.

use serde_json::Value;

use crate::support::{analyze, folder, shared_captures, synth};

fn number(document: &Value, pointer: &str) -> i64 {
    document.pointer(pointer).and_then(Value::as_i64).unwrap_or_else(|| panic!("no {pointer}"))
}

fn events<'a>(document: &'a Value, kind: &str) -> Vec<&'a Value> {
    let events = document.pointer("/matching/events").and_then(Value::as_array).expect("events");
    events.iter().filter(|event| event["kind"] == kind).collect()
}

fn delay(event: &Value) -> i64 {
    number(event, "/post_ns") - number(event, "/pre_ns")
}

/// The published pair of captures with injected events. Its counter starts at 945. The second copy of packet
/// 100 shifts the positions of all following packets by one.
#[test]
fn finds_published_mutations() {
    let Some(captures) = shared_captures() else { return };
    let pair = captures.join("mutated");
    let (pre, post) = (pair.join("pre.pcap.zst"), pair.join("post.pcap.zst"));
    let position = |i: i64| i + i64::from(i > 100);

    let found = analyze([&pre, &post]);
    assert_eq!(found["key"]["rule"], "moonsniff");
    let lost: Vec<i64> = events(&found, "lost").iter().map(|e| number(e, "/pre_index")).collect();
    assert_eq!(number(&found, "/matching/lost"), 10);
    assert_eq!(lost, (300..310).map(position).collect::<Vec<_>>());
    assert_eq!((number(&found, "/loss/longest_run"), number(&found, "/loss/runs")), (10, 1));
    assert_eq!(number(&found, "/matching/duplicates_pre"), 1);
    assert_eq!(events(&found, "duplicate-pre")[0]["pre_index"], 101);
    assert_eq!(number(&found, "/matching/duplicates_post"), 1);
    assert_eq!(events(&found, "duplicate-post")[0]["key"], format!("{:#x}", 945 + 200));
    // One packet has a latency of zero, and one has a negative latency. Two have latencies near 5 s: one
    // beyond the window and one just within it.
    assert_eq!((number(&found, "/matching/zero"), events(&found, "zero").len()), (1, 1));
    assert_eq!(number(events(&found, "zero")[0], "/pre_index"), position(400));
    let negative: Vec<(i64, i64)> =
        events(&found, "negative").iter().map(|e| (number(e, "/pre_index"), delay(e))).collect();
    // Packet 1001 departed in place of packet 1000, before it had arrived itself, so its latency is also
    // negative.
    assert_eq!(negative, [(position(500), -100), (position(1001), -83_287)]);
    assert_eq!(number(&found, "/matching/out_of_window"), 1);
    let late = events(&found, "out-of-window");
    assert_eq!((number(late[0], "/pre_index"), delay(late[0])), (position(600), 5_000_000_000));
    assert_eq!(number(&found, "/worst/0/pre_index"), position(601));
    assert_eq!(number(&found, "/worst/0/delay_ns"), 4_999_999_999);
    // The packet with the foreign counter does not affect other packets.
    assert_eq!(number(&found, "/matching/extra"), 1);
    assert_eq!(events(&found, "extra")[0]["key"], format!("{:#x}", 9_000_000));
    assert_eq!(number(&found, "/reordering/reordered"), 3);
    let reordered: Vec<i64> = events(&found, "reordered").iter().map(|e| number(e, "/pre_index")).collect();
    assert_eq!(reordered, [600, 601, 1000].map(position));
    // Packet 602 overtook packets 600 and 601 by nearly 5 s.
    assert!((4_999_000_000..5_000_000_000).contains(&number(&found, "/reordering/max_late_time_ns")));
    assert_eq!(number(&found, "/reordering/late_time_unknown"), 0);
}

/// In packets 800, 900 and 901, the TTL, byte 63 and byte 64 differ between the taps. The published rule does
/// not recognize 800 and 900, but recognizes 901. The invariant key ignores the TTL.
#[test]
fn finds_published_mutations_with_other_keys() {
    let Some(captures) = shared_captures() else { return };
    let pair = captures.join("mutated");
    let (pre, post) = (pair.join("pre.pcap.zst"), pair.join("post.pcap.zst"));
    let lost_under = |options: &[&str]| -> Vec<i64> {
        let mut arguments = vec![pre.as_os_str(), post.as_os_str()];
        arguments.extend(options.iter().map(std::ffi::OsStr::new));
        let found = analyze(arguments);
        events(&found, "lost")
            .iter()
            .map(|e| number(e, "/pre_index") - 1)
            .filter(|i| !(300..310).contains(i))
            .collect()
    };
    assert_eq!(lost_under(&["--key", "bytes:12-64", "--zero-checksums"]), [800, 900]);
    assert_eq!(lost_under(&["--key", "invariant"]), [900, 901]);
    assert!(lost_under(&["--key", "moonsniff"]).is_empty());
}

#[test]
fn recovers_synthetic_ground_truth() {
    let folder = folder();
    let (pre, post, ground_truth) = synth(
        folder.path(),
        &[
            "--packets",
            "50k",
            "--rate",
            "100kpps",
            "--loss",
            "0.003",
            "--duplicate-pre",
            "0.001",
            "--duplicate-post",
            "0.002",
            "--reorder",
            "0.004",
            "--flows",
            "7",
            "--stall-share",
            "0.001",
        ],
    );
    for key in ["auto", "bytes:12-64,zero-checksums", "invariant", "payload", "offset:0+4"] {
        let found = analyze([pre.as_os_str(), post.as_os_str(), "--key".as_ref(), key.as_ref()]);
        let pairs = [
            ("/loss/sent", "packets"),
            ("/matching/lost", "lost"),
            ("/matching/matched", "arrived"),
            ("/matching/duplicates_pre", "duplicates_pre"),
            ("/matching/duplicates_post", "duplicates_post"),
            ("/reordering/reordered", "reordered"),
            ("/delay/min_ns", "min_delay_ns"),
            ("/delay/max_ns", "max_delay_ns"),
            ("/loss/longest_run", "longest_loss_run"),
            ("/pre/packets", "pre_records"),
            ("/post/packets", "post_records"),
        ];
        for (ours, planted) in pairs {
            assert_eq!(number(&found, ours), number(&ground_truth, &format!("/{planted}")), "{key} {ours}");
        }
        for nothing in ["extra", "negative", "out_of_window", "reused", "evicted"] {
            assert_eq!(number(&found, &format!("/matching/{nothing}")), 0, "{nothing}");
        }
        assert!(number(&ground_truth, "/lost") > 50 && number(&ground_truth, "/reordered") > 50);
        let mean = found.pointer("/delay/mean_ns").and_then(Value::as_f64).expect("a mean");
        let sum = number(&ground_truth, "/delay_ns_sum") as f64;
        assert!((mean * number(&ground_truth, "/arrived") as f64 - sum).abs() < 1e-9 * sum);
        assert_eq!(found.pointer("/flows/largest").and_then(Value::as_array).map(Vec::len), Some(7));
    }
}

/// Regression tests for errors of early versions.
#[test]
fn handles_many_flows_long_queues_and_trim() {
    let folder = folder();
    let (pre, post, ground_truth) = synth(
        folder.path(),
        &["--packets", "40k", "--flows", "100", "--rate", "1Mpps", "--base", "10ms", "--loss", "0.01"],
    );
    let found = analyze([&pre, &post]);
    // Ten thousand packets are in flight at a time, which is far more than the queue can hold.
    assert!(number(&ground_truth, "/in_flight_max") > 9000);
    assert_eq!(number(&found, "/matching/lost"), number(&ground_truth, "/lost"));
    assert_eq!(number(&found, "/matching/matched"), number(&ground_truth, "/arrived"));
    let flows = found.pointer("/flows/largest").and_then(Value::as_array).expect("flows");
    assert_eq!((number(&found, "/flows/count"), flows.len()), (100, 33));
    let sent: i64 = flows.iter().map(|flow| number(flow, "/sent")).sum();
    assert_eq!(sent, 40_000);
    assert_eq!((&flows[32]["name"], &flows[32]["number"]), (&Value::from("others"), &Value::Null));
    let largest = number(&flows[0], "/sent");
    assert!(flows[..32].iter().all(|flow| number(flow, "/sent") <= largest));

    let arguments = [pre.as_os_str(), post.as_os_str(), "--trim".as_ref(), "20ms".as_ref()];
    let trimmed = analyze(arguments);
    assert_eq!(number(&trimmed, "/matching/trim_ns"), 20_000_000);
    // The number may differ by one packet, depending on the jitter of the first packet.
    assert!((19_995..=20_005).contains(&number(&trimmed, "/loss/sent")));
    let message = crate::support::fail([
        "analyze".as_ref(),
        pre.as_os_str(),
        post.as_os_str(),
        "--trim".as_ref(),
        "1h".as_ref(),
    ]);
    assert!(message.contains("--trim 3600s leaves no packet"), "{message}");
    let message = crate::support::fail([
        "analyze".as_ref(),
        pre.as_os_str(),
        post.as_os_str(),
        "--window".as_ref(),
        "5ms".as_ref(),
    ]);
    assert!(message.contains("too short (--window)"), "{message}");
}
