//! Compares the ground truth with a naive reader that is independent of the generator.

use std::collections::{HashMap, HashSet};

use super::*;

/// A record as read by the naive reader.
struct Seen {
    time_ns: u64,
    counter: u32,
    frame: Vec<u8>,
}

fn read(file: &[u8]) -> Vec<Seen> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!([word(0), word(4), word(20)], [0xa1b23c4d, 0x00040002, 1], "header");
    let mut records = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let length = word(at + 8) as usize;
        assert_eq!(length, word(at + 12) as usize, "captured and original length");
        let frame = file[at + 16..at + 16 + length].to_vec();
        let counter = u32::from_le_bytes(frame[42..46].try_into().unwrap());
        let time_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        records.push(Seen { time_ns, counter, frame });
        at += 16 + length;
    }
    assert_eq!(at, file.len(), "complete records");
    records
}

fn pair(options: &SynthOptions) -> (GroundTruth, Vec<u8>, Vec<u8>) {
    let (mut pre, mut post) = (Vec::new(), Vec::new());
    let ground_truth = synthesize(options, &mut pre, &mut post).unwrap();
    (ground_truth, pre, post)
}

fn busy() -> SynthOptions {
    SynthOptions {
        packets: 50_000,
        rate_pps: 1_000_000,
        seed: 7,
        loss: 0.01,
        duplicate_pre: 0.002,
        duplicate_post: 0.003,
        reorder: 0.004,
        flows: 5,
        ..SynthOptions::default()
    }
}

/// Counts everything from the files alone, with maps and without a memory limit.
fn recount(pre: &[Seen], post: &[Seen]) -> GroundTruth {
    let mut sent = HashMap::new();
    for record in pre {
        sent.entry(record.counter).or_insert(record.time_ns);
    }
    let mut arrived = HashSet::new();
    let mut delays = Vec::new();
    let mut ground_truth = GroundTruth {
        pre_records: pre.len() as u64,
        post_records: post.len() as u64,
        ..GroundTruth::default()
    };
    for (position, record) in post.iter().enumerate() {
        if !arrived.insert(record.counter) {
            ground_truth.duplicates_post += 1;
            continue;
        }
        delays.push(record.time_ns - sent[&record.counter]);
        // Here, a packet is in flight for at most a few thousand records.
        let before = &post[position.saturating_sub(5_000)..position];
        ground_truth.reordered += u64::from(before.iter().any(|other| other.counter > record.counter));
    }
    let last = sent.keys().max().unwrap();
    let lost: String =
        (0..=*last).map(|counter| if arrived.contains(&counter) { ' ' } else { 'x' }).collect();
    ground_truth.packets = sent.len() as u64;
    ground_truth.duplicates_pre = (pre.len() - sent.len()) as u64;
    ground_truth.arrived = arrived.len() as u64;
    ground_truth.lost = ground_truth.packets - ground_truth.arrived;
    ground_truth.longest_loss_run = lost.split(' ').map(str::len).max().unwrap() as u64;
    ground_truth.min_delay_ns = delays.iter().copied().min().unwrap_or(0);
    ground_truth.max_delay_ns = delays.iter().copied().max().unwrap_or(0);
    ground_truth.delay_ns_sum = delays.iter().sum();
    ground_truth
}

#[test]
fn ground_truth_matches_recount_of_files() {
    let nothing = SynthOptions { packets: 20_000, ..SynthOptions::default() };
    let all_lost = SynthOptions { packets: 100, loss: 1.0, ..SynthOptions::default() };
    let all_copied =
        SynthOptions { packets: 1_000, duplicate_pre: 1.0, duplicate_post: 1.0, ..SynthOptions::default() };
    for options in [busy(), nothing, all_lost, all_copied, SynthOptions { reorder: 1.0, ..busy() }] {
        let (ground_truth, pre, post) = pair(&options);
        let mut counted = recount(&read(&pre), &read(&post));
        // The files do not contain this number, so it is taken from the generator.
        counted.stalls = ground_truth.stalls;
        counted.in_flight_max = ground_truth.in_flight_max;
        assert_eq!(ground_truth, counted, "{options:?}");
    }
}

#[test]
fn injects_about_the_requested_shares() {
    let (ground_truth, _, _) = pair(&busy());
    let near = |count: u64, expected: f64| {
        // Five standard deviations of a Poisson count.
        assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{count}, expected {expected}");
    };
    near(ground_truth.lost, 500.0);
    near(ground_truth.duplicates_pre, 49_500.0 * 0.002);
    near(ground_truth.duplicates_post, 49_500.0 * 0.003);
    near(ground_truth.stalls, 49_500.0 * 1e-4);
    assert!(ground_truth.reordered > 100, "{ground_truth:?}");
    let (ground_truth, pre, post) = pair(&SynthOptions { packets: 5_000, ..SynthOptions::default() });
    let zero = [
        ground_truth.lost,
        ground_truth.longest_loss_run,
        ground_truth.duplicates_pre,
        ground_truth.duplicates_post,
        ground_truth.reordered,
    ];
    assert_eq!(zero, [0; 5]);
    assert_eq!(pre.len(), post.len());
}

#[test]
fn times_ascend_and_copies_are_recorded_in_flight() {
    let (_, pre, post) = pair(&busy());
    let (pre, post) = (read(&pre), read(&post));
    assert!(pre.is_sorted_by_key(|record| record.time_ns));
    assert!(post.is_sorted_by_key(|record| record.time_ns));
    let mut arrivals = HashMap::new();
    for record in &post {
        arrivals.entry(record.counter).or_insert(record.time_ns);
    }
    for copies in pre.windows(2).filter(|two| two[0].counter == two[1].counter) {
        assert!(copies[1].time_ns < arrivals[&copies[1].counter]);
    }
}

#[test]
fn frames_are_valid_and_differ_in_one_byte() {
    for frame_len in [60, 61, 100, 1514] {
        // There are more than 2^16 of the shorter frames, so that the identification field wraps around.
        let packets = 7_000_000 / frame_len as u64;
        let (_, pre, post) = pair(&SynthOptions { packets, frame_len, flows: 3, ..SynthOptions::default() });
        let (pre, post) = (read(&pre), read(&post));
        for (ingress, egress) in pre.iter().zip(&post) {
            let frame = &ingress.frame;
            assert_eq!(frame.len(), frame_len);
            let changed: Vec<usize> = (0..frame_len).filter(|&i| frame[i] != egress.frame[i]).collect();
            assert_eq!(changed, [5], "last byte of the destination address");
            assert_eq!(frame[46], 0x55);
            assert_eq!(u16::from_be_bytes([frame[34], frame[35]]), 1024 + (ingress.counter % 3) as u16);
            // A receiver adds up all words, including the checksum. The sum must be all ones.
            assert_eq!(checksum(sum(&frame[14..34])), 0, "IPv4");
            let udp = sum(&frame[26..34]) + 17 + (frame_len as u32 - 34) + sum(&frame[34..]);
            assert_eq!(checksum(udp), 0, "UDP");
            assert_ne!(frame[40..42], [0, 0], "zero would mean no checksum");
        }
    }
}

#[test]
fn same_seed_gives_same_bytes() {
    let (ground_truth, pre, post) = pair(&busy());
    assert_eq!((ground_truth, pre, post.clone()), pair(&busy()));
    assert_ne!(post, pair(&SynthOptions { seed: 8, ..busy() }).2);
}

#[test]
fn memory_is_bounded_by_packets_in_flight() {
    let (ground_truth, _, _) = pair(&SynthOptions { packets: 200_000, ..busy() });
    // At one packet per microsecond, this limit is the longest delay in microseconds, plus some copies.
    assert!(ground_truth.in_flight_max < ground_truth.max_delay_ns / 1_000 + 100, "{ground_truth:?}");
}

#[test]
fn rejects_options_out_of_range() {
    let good = SynthOptions::default();
    let latency = LatencyModel { base_ns: 1, ..good.latency.clone() };
    for bad in [
        SynthOptions { packets: 0, ..good.clone() },
        SynthOptions { packets: (1 << 32) + 1, ..good.clone() },
        SynthOptions { rate_pps: 0, ..good.clone() },
        SynthOptions { loss: 1.1, ..good.clone() },
        SynthOptions { reorder: f64::NAN, ..good.clone() },
        SynthOptions { frame_len: 59, ..good.clone() },
        SynthOptions { flows: 0, ..good.clone() },
        SynthOptions { start_ns: u64::MAX, ..good.clone() },
        SynthOptions { latency, ..good.clone() },
    ] {
        let error = synthesize(&bad, io::sink(), io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad:?}");
    }
}

#[test]
fn random_numbers_match_published_generator() {
    // First outputs of the authors' C code from the states 1234567 and {1, 2, 3, 4}.
    let splitmix64 = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
    ];
    assert_eq!(Random::new(1_234_567).0, splitmix64);
    let mut random = Random([1, 2, 3, 4]);
    let outputs: [u64; 4] = std::array::from_fn(|_| random.next());
    assert_eq!(outputs, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
}

#[test]
fn delay_body_has_requested_median() {
    let mut device = Device::new(&SynthOptions::default());
    let mut bodies: Vec<u64> = (0..20_001).map(|_| device.body_ns()).collect();
    bodies.sort_unstable();
    assert!((970..1_030).contains(&bodies[10_000]), "median {}", bodies[10_000]);
    assert!(bodies[0] >= 250 && bodies[20_000] <= 4_000);
}
