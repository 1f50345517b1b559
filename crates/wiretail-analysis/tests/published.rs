//! Tables of the published pipeline: a pair of captures small enough to work out by hand, degenerate pairs,
//! and PostgreSQL's results for the arithmetic.

use std::num::NonZeroU64;

use proptest::prelude::*;
use wiretail_analysis::published::numeric::numeric_div;
use wiretail_analysis::published::percentiles::percentile_disc_rank;
use wiretail_analysis::published::{Key, Packet, Parameters, tables};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

fn packet(ts_ns: i64, key: &[u8]) -> Packet {
    Packet { ts_ns, key: Key::new(key).expect("a short key") }
}

fn parameters(trim_ns: i64, bucket_ns: u64, worst: usize) -> Parameters {
    Parameters { trim_ns, bucket_ns: NonZeroU64::new(bucket_ns).expect("a bucket"), worst }
}

/// Rows of the table with this file name suffix, without the header.
fn rows(tables: &[(&'static str, String); 9], name: &str) -> Vec<String> {
    let (_, csv) = tables.iter().find(|(suffix, _)| *suffix == name).expect("one of the nine tables");
    assert!(csv.ends_with('\n'), "{name}: {csv:?}");
    csv.lines().skip(1).map(String::from).collect()
}

/// Packets by key, with latencies in ns. a: 250. b: twice in pre. c: twice in post, 260 and 1000. d: 0. e:
/// negative. f: 5 s. g: 5 s minus 1 ns. h: lost. i: post only.
fn example() -> (Vec<Packet>, Vec<Packet>) {
    let pre = [
        (1000, b"a"),
        (1100, b"b"),
        (1150, b"b"),
        (1300, b"c"),
        (1400, b"d"),
        (1500, b"e"),
        (1000 + SECOND, b"f"),
        (1001 + SECOND, b"g"),
        (1100 + 3 * SECOND, b"h"),
    ];
    let post = [
        (1250, b"a"),
        (1350, b"b"),
        (1560, b"c"),
        (2300, b"c"),
        (1400, b"d"),
        (1450, b"e"),
        (2000 + SECOND, b"i"),
        (1000 + 6 * SECOND, b"f"),
        (1000 + 6 * SECOND, b"g"),
    ];
    (pre.map(|(ts, key)| packet(ts, key)).to_vec(), post.map(|(ts, key)| packet(ts, key)).to_vec())
}

#[test]
fn example_equals_hand_computed_tables() {
    let (pre, post) = example();
    let tables = tables(&pre, &post, &parameters(0, 100, 3));
    assert_eq!(rows(&tables, "hist.csv"), ["200,2", "1000,1", "4999999900,1"]);
    assert_eq!(
        rows(&tables, "worst.csv"),
        ["4999999999,1000001001,6000001000,67", "1000,1300,2300,63", "260,1300,1560,63"]
    );
    assert_eq!(rows(&tables, "stats.csv"), ["9,9,9,9"]);
    // Seconds with packets: pre 0, 1 (1000 + 1 s is exactly one second later), 3; post 0, 1, 5.
    assert_eq!(rows(&tables, "packetratepre.csv"), ["1000,6", "1000001000,2", "3000001000,1"]);
    assert_eq!(rows(&tables, "packetratepost.csv"), ["1250,6", "1000001250,1", "5000001250,2"]);
    assert_eq!(
        rows(&tables, "transferrate.csv"),
        ["9,9,1.00000000000000000000,3.0000000000000000,3.0000000000000000"]
    );
    // Sorted: 1000 1100 1150 1300 1400 1500 +1 s, 1 ns, 1.999999999+ s.
    assert_eq!(rows(&tables, "jitterpre.csv"), ["0,2", "100,4", "999999500,1", "2000000000,1"]);
    // Sorted: 1250 1350 1400 1450 1560 2300, 1 s + 2000, 6 s + 1000 twice.
    assert_eq!(rows(&tables, "jitterpost.csv"), ["0,3", "100,2", "700,1", "999999700,1", "4999999000,1"]);
    // Latencies 250 260 1000 4999999999: p = 0.5 selects the second, p = 0.75 the third.
    let percentiles = rows(&tables, "percentiles.csv");
    assert_eq!(percentiles.len(), 275);
    assert!(percentiles.contains(&"0.0,250,1.00000000000000000000".into()));
    assert!(percentiles.contains(&"0.5,260,2.0000000000000000".into()));
    assert!(percentiles.contains(&"0.75,1000,4.0000000000000000".into()));
    assert!(percentiles.contains(&"0.7674418604651162,4999999999,4.2999999999999985".into()));
}

#[test]
fn trimming_is_inclusive_and_separate_for_each_side() {
    let pre: Vec<_> = [(0, b"a"), (10 * MS, b"b"), (20 * MS, b"c")].map(|(ts, k)| packet(ts, k)).to_vec();
    let post: Vec<_> =
        [(5 * MS, b"a"), (15 * MS, b"b"), (40 * MS, b"c")].map(|(ts, k)| packet(ts, k)).to_vec();
    let tables = tables(&pre, &post, &parameters(10 * MS, 1, 10));
    // Packet b leaves the DuT exactly at the first egress timestamp plus 10 ms.
    assert_eq!(rows(&tables, "hist.csv"), ["5000000,1", "20000000,1"]);
    assert_eq!(rows(&tables, "stats.csv"), ["3,3,2,2"]);
    assert_eq!(rows(&tables, "packetratepre.csv"), ["10000000,2"]);
    assert_eq!(rows(&tables, "jitterpost.csv"), ["25000000,1"]);
}

/// Output of PostgreSQL 15.18 for the published queries on the same rows.
#[test]
fn degenerate_pairs_equal_postgresql_output() {
    let some = [packet(100, b"\xaa"), packet(2_000_000_100, b"\xbb")];
    let others = [packet(150, b"\xcc"), packet(3_000_000_100, b"\xdd")];
    let default = Parameters::default();

    let nothing = tables(&[], &[], &default);
    assert_eq!(rows(&nothing, "stats.csv"), ["0,0,0,0"]);
    assert!(rows(&nothing, "transferrate.csv").is_empty());
    for name in [
        "hist.csv",
        "worst.csv",
        "packetratepre.csv",
        "packetratepost.csv",
        "jitterpre.csv",
        "jitterpost.csv",
    ] {
        assert!(rows(&nothing, name).is_empty(), "{name}");
    }
    assert_eq!(rows(&nothing, "percentiles.csv")[1], "0.05,,1.0526315789473684");

    assert!(rows(&tables(&[], &some, &default), "transferrate.csv").is_empty());
    assert_eq!(
        rows(&tables(&some, &[], &default), "transferrate.csv"),
        ["2,0,0.00000000000000000000,1.00000000000000000000,"]
    );

    let unmatched = tables(&some, &others, &default);
    assert!(rows(&unmatched, "hist.csv").is_empty());
    assert_eq!(rows(&unmatched, "packetratepost.csv"), ["150,1", "2000000150,1"]);
    assert_eq!(
        rows(&unmatched, "transferrate.csv"),
        ["2,2,1.00000000000000000000,1.00000000000000000000,1.00000000000000000000"]
    );

    let trimmed = tables(&some, &others, &parameters(9 * SECOND, 100, 10));
    assert_eq!(rows(&trimmed, "stats.csv"), ["2,2,0,0"]);
    assert!(rows(&trimmed, "transferrate.csv").is_empty());

    let signed = [packet(1, b""), packet(-100, b"\xaa")];
    let signed = tables(&signed, &[packet(3, b""), packet(-97, b"\xaa")], &parameters(0, 10, 10));
    assert_eq!(rows(&signed, "worst.csv"), ["3,-100,-97,aa", "2,1,3,\"\""]);
    assert_eq!(rows(&signed, "packetratepre.csv"), ["-100,2"]);
    assert_eq!(rows(&signed, "hist.csv"), ["0,2"]);
    assert!(rows(&tables(&some, &some, &parameters(0, 100, 0)), "worst.csv").is_empty());
}

#[test]
fn divisions_equal_postgresql_output() {
    let lines = include_str!("published/numeric.csv").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let [dividend, divisor, quotient] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let result = numeric_div(dividend.parse().unwrap(), divisor.parse().unwrap());
        assert_eq!(result.as_deref(), Some(quotient), "{line}");
        count += 1;
    }
    assert_eq!(count, 150);
}

#[test]
fn ranks_equal_percentile_disc() {
    let lines = include_str!("published/percentile_disc.csv").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let [count, percentile, rank] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let result = percentile_disc_rank(percentile.parse().unwrap(), count.parse().unwrap());
        assert_eq!(result.to_string(), rank, "{line}");
    }
    assert_eq!(percentile_disc_rank(0.5, 0), 0);
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let timestamp =
        prop_oneof![4 => 0..20_000i64, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    let key = proptest::collection::vec(0..4u8, 0..3);
    proptest::collection::vec((timestamp, key).prop_map(|(ts, key)| packet(ts, &key)), 0..30)
}

proptest! {
    /// Any timestamps and parameters yield nine tables. The listed latencies are those of the join of all
    /// pairs.
    #[test]
    fn matches_equal_sql_join(
        pre in packets(), post in packets(), trim in prop_oneof![Just(0i64), -5..20_000i64, Just(i64::MAX)],
        bucket in prop_oneof![1..300u64, Just(u64::MAX)], worst in 0..40usize,
    ) {
        let tables = tables(&pre, &post, &parameters(trim, bucket, worst));
        let start = post.iter().map(|p| i128::from(p.ts_ns)).min().unwrap_or(0) + i128::from(trim);
        let mut expected = Vec::new();
        for a in pre.iter().filter(|a| pre.iter().filter(|b| b.key == a.key).count() == 1) {
            for b in post.iter().filter(|b| b.key == a.key && i128::from(b.ts_ns) >= start) {
                let latency = i128::from(b.ts_ns) - i128::from(a.ts_ns);
                if latency > 0 && latency < 5_000_000_000 {
                    expected.push((-latency, a.ts_ns, b.ts_ns, a.key));
                }
            }
        }
        expected.sort();
        let listed: Vec<String> = expected.iter().take(worst).map(|(latency, pre, post, key)| {
            let quoted = if key.as_bytes().is_empty() { "\"\"".into() } else { key.to_string() };
            format!("{},{pre},{post},{quoted}", -latency)
        }).collect();
        prop_assert_eq!(rows(&tables, "worst.csv"), listed);
        let total: u64 = rows(&tables, "hist.csv").iter().map(|row| row.split_once(',').unwrap().1.parse::<u64>().unwrap()).sum();
        prop_assert_eq!(total, expected.len() as u64);
    }
}
