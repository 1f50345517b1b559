//! Output of the published PostgreSQL pipeline for a pair of captures, byte for byte.
//!
//! The authors of the low-latency NFV papers evaluate their captures with a few SQL queries
//! (<https://github.com/gallenmu/latency-limbo>, `_includes/experiment/dbscripts`). Results can be compared
//! with their figures only if the nine tables and the number of decimals are the same. This module therefore
//! restates those queries and must not improve on them. The rest of the crate has its own, stricter
//! definition of matching. Unlike the rest, this module needs both captures in memory.
//!
//! Layers: [`Key`] is the part of a frame that the import keeps; [`mod@numeric`] is PostgreSQL's decimal
//! division; [`mod@percentiles`] computes the 275 percentiles; [`tables`] puts them together.
//!
//! # Semantics
//!
//! - If a key occurs twice in `pre`, all its matches are dropped. If a key occurs twice in `post`, it yields
//!   two matches.
//! - A match is used if 0 < latency < 5 s.
//! - The latency tables keep matches with `post.ts >= min(post.ts) + trim`. The counts, rates and gaps trim
//!   each side from its own first timestamp and do not depend on matches.
//! - Mean rates are taken over the seconds that contain a packet.
//!
//! # Degenerate input
//!
//! Results of the published queries on PostgreSQL 15:
//!
//! - Without matches, `hist.csv` and `worst.csv` have only their header, and `percentiles.csv` has all 275
//!   rows with an empty value.
//! - Without `pre` packets after trimming, the transfer rate is a division by zero. The query fails after its
//!   header, so `transferrate.csv` contains only the header.
//! - Without `post` packets, the transfer rate is `0.00000000000000000000` and the mean rate is empty.
//! - An empty key (a frame of at most twelve bytes) is a valid key, written `""`.
//!
//! Two definitions go beyond the SQL. Matches with equal latency and equal timestamps are ordered by key.
//! Timestamp differences that need more than 63 bits make PostgreSQL fail; here, they are computed exactly.

pub mod key;
pub mod numeric;
pub mod percentiles;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::num::NonZeroU64;

pub use key::Key;
use numeric::{Decimal, numeric_div};

/// Packets with latencies at or above this limit are treated as unmatched, in ns.
const LATENCY_LIMIT_NS: i64 = 5_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// A packet as the pipeline imports it: 64 bytes, a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Timestamp of the tap, in ns since the epoch of the capture clock.
    pub ts_ns: i64,
    pub key: Key,
}

/// The pipeline's three parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Time left out after the first timestamp of each side, in ns.
    pub trim_ns: i64,
    /// Width of the buckets of latencies and gaps, in ns.
    pub bucket_ns: NonZeroU64,
    /// Number of the highest latencies to list.
    pub worst: usize,
}

impl Default for Parameters {
    /// The published defaults: no trim, buckets of 100 ns, the 5000 worst packets.
    fn default() -> Self {
        Self { trim_ns: 0, bucket_ns: NonZeroU64::MIN.saturating_add(99), worst: 5000 }
    }
}

/// A packet found at both taps.
#[derive(Debug, Clone, Copy)]
struct Match {
    latency_ns: i64,
    pre_ns: i64,
    post_ns: i64,
    key: Key,
}

/// The nine tables of the published pipeline, each as the suffix of its file name and its CSV text.
pub fn tables(pre: &[Packet], post: &[Packet], parameters: &Parameters) -> [(&'static str, String); 9] {
    let Parameters { trim_ns, bucket_ns, worst } = *parameters;
    let mut matches = matched(pre, post, trim_ns);
    let mut latencies: Vec<u64> = matches.iter().map(|m| m.latency_ns.unsigned_abs()).collect();
    latencies.sort_unstable();
    let (pre_timestamps, post_timestamps) =
        (trimmed_timestamps(pre, trim_ns), trimmed_timestamps(post, trim_ns));
    let (pre_rates, post_rates) = (rates(&pre_timestamps), rates(&post_timestamps));

    let hist = runs(latencies.iter().map(|latency| floor_to(*latency, bucket_ns)));
    let stats = format!(
        "pre_received,post_received,pre_received_trimmed,post_received_trimmed\n{},{},{},{}\n",
        pre.len(),
        post.len(),
        pre_timestamps.len(),
        post_timestamps.len()
    );
    [
        ("hist.csv", two_columns("latency_bucket,count", &hist)),
        ("worst.csv", worst_table(&mut matches, worst)),
        ("percentiles.csv", percentiles::table(&latencies)),
        ("transferrate.csv", transfer_rate(&pre_rates, &post_rates)),
        ("stats.csv", stats),
        ("packetratepre.csv", two_columns("ts,count", &pre_rates)),
        ("packetratepost.csv", two_columns("ts,count", &post_rates)),
        ("jitterpre.csv", two_columns("bucket,count", &gaps(&pre_timestamps, bucket_ns))),
        ("jitterpost.csv", two_columns("bucket,count", &gaps(&post_timestamps, bucket_ns))),
    ]
}

/// Egress packets with a key that occurs exactly once at ingress, in the order of `post`.
fn matched(pre: &[Packet], post: &[Packet], trim_ns: i64) -> Vec<Match> {
    let mut unique: HashMap<&Key, Option<i64>> = HashMap::with_capacity(pre.len());
    for packet in pre {
        unique.entry(&packet.key).and_modify(|ts| *ts = None).or_insert(Some(packet.ts_ns));
    }
    let is_kept = trim(post, trim_ns);
    let find = |packet: &Packet| {
        let pre_ns = (*unique.get(&packet.key)?)?;
        // A difference that overflows is also out of range.
        let latency_ns = packet.ts_ns.checked_sub(pre_ns)?;
        (1..LATENCY_LIMIT_NS).contains(&latency_ns).then_some(Match {
            latency_ns,
            pre_ns,
            post_ns: packet.ts_ns,
            key: packet.key,
        })
    };
    post.iter().filter(|packet| is_kept(packet)).filter_map(find).collect()
}

/// Selects packets at or after the first timestamp plus `trim_ns`.
fn trim(packets: &[Packet], trim_ns: i64) -> impl Fn(&Packet) -> bool {
    let first = packets.iter().map(|packet| packet.ts_ns).min().unwrap_or(0);
    let start = i128::from(first) + i128::from(trim_ns);
    move |packet| i128::from(packet.ts_ns) >= start
}

fn trimmed_timestamps(packets: &[Packet], trim_ns: i64) -> Vec<i64> {
    let is_kept = trim(packets, trim_ns);
    let mut timestamps: Vec<i64> = packets.iter().filter(|p| is_kept(p)).map(|p| p.ts_ns).collect();
    timestamps.sort_unstable();
    timestamps
}

/// Number of packets in each second that contains any, counted from the first of the sorted timestamps.
fn rates(timestamps: &[i64]) -> Vec<(i64, u64)> {
    let Some(&first) = timestamps.first() else { return Vec::new() };
    let start_of_second = |ts: &i64| {
        let since_first = ts.abs_diff(first);
        first.saturating_add_unsigned(since_first - since_first % SECOND_NS)
    };
    runs(timestamps.iter().map(start_of_second))
}

/// Histogram of the gaps between consecutive sorted timestamps.
fn gaps(timestamps: &[i64], bucket_ns: NonZeroU64) -> Vec<(u64, u64)> {
    let gap = |pair: &[i64]| floor_to(pair[1].abs_diff(pair[0]), bucket_ns);
    let mut buckets: Vec<u64> = timestamps.windows(2).map(gap).collect();
    buckets.sort_unstable();
    runs(buckets.into_iter())
}

fn floor_to(value: u64, bucket: NonZeroU64) -> u64 {
    value - value % bucket
}

/// Number of occurrences of each value in a sorted sequence.
fn runs<T: PartialEq>(sorted: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut runs: Vec<(T, u64)> = Vec::new();
    for value in sorted {
        match runs.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => runs.push((value, 1)),
        }
    }
    runs
}

fn two_columns<T: Display>(header: &str, rows: &[(T, u64)]) -> String {
    let mut csv = format!("{header}\n");
    for (value, count) in rows {
        push_line(&mut csv, format_args!("{value},{count}"));
    }
    csv
}

fn push_line(csv: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(csv, "{line}");
}

fn worst_table(matches: &mut [Match], worst: usize) -> String {
    let order = |m: &Match| (Reverse(m.latency_ns), m.pre_ns, m.post_ns, m.key);
    let worst = worst.min(matches.len());
    if worst < matches.len() {
        matches.select_nth_unstable_by_key(worst, order);
    }
    let listed = &mut matches[..worst];
    listed.sort_unstable_by_key(order);

    let mut csv = String::from("latency,prets,postts,encode\n");
    for m in listed {
        // In CSV, quotes distinguish an empty text from a missing value.
        let quotes = if m.key.as_bytes().is_empty() { "\"\"" } else { "" };
        push_line(&mut csv, format_args!("{},{},{},{}{quotes}", m.latency_ns, m.pre_ns, m.post_ns, m.key));
    }
    csv
}

/// Share of packets that arrived, and the mean rate over the seconds that contain a packet.
fn transfer_rate(pre: &[(i64, u64)], post: &[(i64, u64)]) -> String {
    let packets = |rates: &[(i64, u64)]| rates.iter().map(|(_, count)| count).sum::<u64>();
    let mean = |rates: &[(i64, u64)]| {
        numeric_div(Decimal::from(packets(rates)), Decimal::from(rates.len() as u64)).unwrap_or_default()
    };
    let mut csv =
        String::from("pre_received,post_received,transferrate,pre_pkts_per_second,post_pkts_per_second\n");
    if let Some(rate) = numeric_div(Decimal::from(packets(post)), Decimal::from(packets(pre))) {
        let (pre_packets, post_packets) = (packets(pre), packets(post));
        push_line(&mut csv, format_args!("{pre_packets},{post_packets},{rate},{},{}", mean(pre), mean(post)));
    }
    csv
}
