//! Synthetic packets and the summary computed from them.

use wiretail_schema::packet::FlowRule;
use wiretail_schema::random::Random;
use wiretail_schema::summary::*;
use wiretail_schema::units::Budget;

const PACKETS: usize = 300_000;
const GRANULARITY_NS: f64 = 12.5;
const EPOCH_NS: i64 = 1_700_000_000_000_000_000;
const PERCENTILES: [f64; 9] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.999_9];
const HOSTILE: [&str; 4] = [
    "<img src=x onerror=alert(1)>.pcap",
    "\"><script>alert(1)</script>.pcap",
    "</script><svg onload=alert(3)>",
    "a' onmouseover='alert(4) & <b>bold</b>",
];

/// The matched packets, in order of time.
pub struct Packets {
    /// Ingress timestamps, from 0.
    pub pre_ns: Vec<i64>,
    pub delay_ns: Vec<i64>,
}

/// Standard normal distribution (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let (a, b) = (random.uniform().max(1e-300), random.uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Delays of a forwarder, with a body, a bend caused by interrupts, and periodic interference.
fn packets(seed: u64) -> Packets {
    let mut random = Random::new(seed);
    let slower = if seed == 1 { 1.0 } else { 1.25 };
    let mut pre_ns = Vec::with_capacity(PACKETS);
    let mut delay_ns = Vec::with_capacity(PACKETS);
    for index in 0..PACKETS {
        let jitter = 1500.0 * normal(&mut random).abs();
        let time = (index as f64 * 100_000.0 + jitter) / GRANULARITY_NS;
        let body = 11_400.0 * (0.07 * normal(&mut random)).exp() * slower;
        let extra = match random.uniform() {
            u if u < 0.000_04 => 90_000.0 + 180_000.0 * random.uniform(),
            u if u < 0.002 => 9_000.0 * random.uniform().powi(-1).min(6.0) * slower,
            _ => 0.0,
        };
        // Once per second, interference takes the core for a while.
        let phase = (index as f64 * 100_000.0) % 1e9;
        let periodic = if phase < 900_000.0 { 24_000.0 * (1.0 - phase / 900_000.0) * slower } else { 0.0 };
        pre_ns.push((time.floor() * GRANULARITY_NS) as i64);
        delay_ns.push((((body + extra + periodic) / GRANULARITY_NS).round() * GRANULARITY_NS) as i64);
    }
    Packets { pre_ns, delay_ns }
}

/// Nearest-rank percentiles. The ranks of their confidence intervals come from the normal approximation.
pub fn percentiles(sorted: &[i64], wanted: &[f64]) -> Vec<Percentile> {
    let n = sorted.len() as f64;
    let rank = |r: f64| (r.ceil().max(1.0) as usize).min(sorted.len()) - 1;
    wanted
        .iter()
        .map(|&percentile| {
            let p = percentile / 100.0;
            let half = 1.96 * (n * p * (1.0 - p)).sqrt();
            let upper = n * p + half + 1.0;
            Percentile {
                percentile,
                value_ns: sorted[rank(n * p - 1e-7)],
                low_ns: sorted[rank(n * p - half)],
                high_ns: (upper <= n).then(|| sorted[rank(upper)]),
                supported: n * (1.0 - p) >= 10.0 - 1e-6,
                effective_packets: None,
            }
        })
        .collect()
}

fn sorted(values: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut all: Vec<i64> = values.into_iter().collect();
    all.sort_unstable();
    all
}

fn mean_and_deviation(values: &[i64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
    let squares = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0)).sqrt())
}

fn capture(path: &str, timestamps: &[i64]) -> Capture {
    let gaps = sorted(timestamps.windows(2).map(|w| w[1] - w[0]));
    let (mean_ns, stddev_ns) = mean_and_deviation(&gaps);
    let seconds = (timestamps[timestamps.len() - 1] - timestamps[0]) as f64 / 1e9;
    let mut rate: Vec<Second> = Vec::new();
    for timestamp in timestamps {
        let second = (timestamp - timestamps[0]).div_euclid(1_000_000_000);
        match rate.last_mut() {
            Some(last) if last.second == second => last.packets += 1,
            _ => rate.push(Second { second, packets: 1 }),
        }
    }
    Capture {
        path: path.to_owned(),
        format: "pcap (ns, little endian), zstd, Ethernet".to_owned(),
        interface: None,
        packets: timestamps.len() as u64 + 12,
        packets_without_key: 2,
        packets_without_time: 0,
        packets_dropped: 0,
        wire_bytes: timestamps.len() as u64 * 98,
        first_ns: EPOCH_NS + timestamps[0],
        last_ns: EPOCH_NS + timestamps[timestamps.len() - 1],
        mean_rate_pps: timestamps.len() as f64 / seconds,
        rate,
        gaps: Gaps {
            count: gaps.len() as u64,
            min_ns: gaps[0],
            mean_ns,
            max_ns: gaps[gaps.len() - 1],
            stddev_ns,
            percentiles: percentiles(&gaps, &[50.0, 99.0, 99.9]),
        },
        clock: Clock {
            source: "pcap file, source not recorded".to_owned(),
            resolution_ns: 1.0,
            granularity_ns: GRANULARITY_NS,
            granularity_timestamps: 100_000,
            identical: 0,
            backward: 0,
            max_backward_ns: 0,
        },
        truncated: None,
    }
}

fn delay(values: &[i64]) -> Delay {
    let all = sorted(values.iter().copied());
    let (mean_ns, stddev_ns) = mean_and_deviation(&all);
    Delay {
        count: all.len() as u64,
        min_ns: all[0],
        mean_ns,
        max_ns: all[all.len() - 1],
        stddev_ns,
        percentiles: percentiles(&all, &PERCENTILES),
        resolution: None,
        drift_ns_per_s: Some(0.42),
        drift_error_ns_per_s: Some(0.61),
    }
}

fn curve(values: &[i64]) -> Vec<CurvePoint> {
    let all = sorted(values.iter().copied());
    let n = all.len();
    let mut ranks: Vec<usize> =
        (0..400).map(|i| n - (n as f64).powf(1.0 - f64::from(i) / 399.0) as usize + 1).collect();
    ranks.push(n);
    let mut points: Vec<CurvePoint> = Vec::new();
    for rank in ranks {
        let delay_ns = all[rank.clamp(1, n) - 1];
        let cumulative = all.partition_point(|&v| v <= delay_ns) as u64;
        if points.last().is_none_or(|p| p.delay_ns != delay_ns) {
            points.push(CurvePoint { delay_ns, cumulative });
        }
    }
    points
}

fn intervals(packets: &Packets) -> Vec<Interval> {
    const LENGTH_NS: i64 = 250_000_000;
    let mut all: Vec<Interval> = Vec::new();
    for (pre, &delay) in packets.pre_ns.iter().zip(&packets.delay_ns) {
        let start_ns = pre.div_euclid(LENGTH_NS) * LENGTH_NS;
        match all.last_mut() {
            Some(last) if last.start_ns == start_ns => {
                last.packets += 1;
                (last.min_ns, last.max_ns) = (last.min_ns.min(delay), last.max_ns.max(delay));
            }
            _ => all.push(Interval {
                start_ns,
                length_ns: LENGTH_NS,
                packets: 1,
                min_ns: delay,
                max_ns: delay,
            }),
        }
    }
    all
}

fn worst(packets: &Packets) -> Vec<Worst> {
    let mut order: Vec<usize> = (0..packets.delay_ns.len()).collect();
    order.sort_by_key(|&i| (-packets.delay_ns[i], i));
    let one = |i: &usize| {
        let (pre, delay_ns) = (EPOCH_NS + packets.pre_ns[*i], packets.delay_ns[*i]);
        let flow = (i % 4 != 3).then_some((i % 3) as u32);
        Worst { delay_ns, pre_ns: pre, post_ns: pre + delay_ns, pre_index: *i as u64, flow }
    };
    order.iter().take(5000).map(one).collect()
}

fn flows(values: &[i64], names: [&str; 3]) -> Flows {
    let flow = |(k, name): (usize, &str)| {
        let own = sorted(values.iter().copied().skip(k).step_by(3));
        let (mean_ns, _) = mean_and_deviation(&own);
        Flow {
            number: Some(k as u32),
            name: name.to_owned(),
            sent: own.len() as u64 + if k == 0 { 10 } else { 0 },
            lost: if k == 0 { 10 } else { 0 },
            reordered: if k == 1 { 3 } else { 0 },
            delay: Some(FlowDelay {
                count: own.len() as u64,
                min_ns: own[0],
                mean_ns,
                max_ns: own[own.len() - 1],
                percentiles: percentiles(&own, &[50.0, 99.0, 99.9, 99.99, 99.999]),
            }),
        }
    };
    let mut largest: Vec<Flow> = names.into_iter().enumerate().map(flow).collect();
    largest.push(Flow {
        name: "others".to_owned(),
        number: None,
        sent: 2,
        lost: 2,
        reordered: 0,
        delay: None,
    });
    Flows { rule: FlowRule::FiveTuple, count: 5, largest }
}

fn verdict(budget: &str, values: &[i64]) -> Verdict {
    let parsed: Budget = budget.parse().expect("a budget");
    let packets = values.len() as u64 + 10;
    let failures = values.iter().filter(|&&v| v > parsed.limit.ns).count() as u64 + 10;
    let allowed = packets as f64 * (1.0 - parsed.share.fraction());
    let spread = 2.0 * (failures as f64).sqrt();
    let (low, high) = ((failures as f64 - spread).max(0.0), failures as f64 + spread + 3.0);
    let outcome = match () {
        () if high < allowed => Outcome::Pass,
        () if low > allowed => Outcome::Fail,
        () => Outcome::Undecided,
    };
    let reason = match outcome {
        Outcome::Pass => {
            format!("At least {} % of the packets arrived within {}.", parsed.share, parsed.limit)
        }
        Outcome::Fail => {
            format!("Fewer than {} % of the packets arrived within {}.", parsed.share, parsed.limit)
        }
        Outcome::Undecided => format!("{packets} packets are too few to decide whether {budget} is met."),
    };
    Verdict {
        budget: budget.to_owned(),
        limit_ns: parsed.limit.ns,
        percentile: parsed.share.percent(),
        outcome,
        packets,
        failures,
        failures_allowed: allowed,
        dispersion: 1.0,
        failure_ratio_low: low / packets as f64,
        failure_ratio_high: high / packets as f64,
        reason,
    }
}

fn findings(hostile: bool) -> Vec<Finding> {
    let finding = |severity, code: &str, message: &str| Finding {
        severity,
        code: code.to_owned(),
        message: message.to_owned(),
    };
    let mut all = vec![
        finding(
            Severity::Warning,
            "loss-burst",
            "10 consecutive packets were lost: look for a queue that overflowed or a link that went down.",
        ),
        finding(
            Severity::Note,
            "coarse-granularity",
            "The timestamp granularity is 12.5 ns; smaller differences are not visible.",
        ),
    ];
    if hostile {
        all.insert(0, finding(Severity::Error, "hostile", HOSTILE[2]));
    }
    all
}

fn matching(count: usize) -> Matching {
    let event = |kind, index: u64, pre: Option<i64>, post: Option<i64>| Event {
        kind,
        key: format!("{:016x}", 0x3b1_u64 + index),
        pre_index: pre.map(|_| index),
        pre_ns: pre.map(|p| EPOCH_NS + p),
        post_ns: post.map(|p| EPOCH_NS + p),
    };
    let at = |index: u64| index as i64 * 100_000;
    let mut events: Vec<Event> = (300..310).map(|i| event(EventKind::Lost, i, Some(at(i)), None)).collect();
    events.push(event(EventKind::DuplicatePre, 100, Some(at(100) + 1000), None));
    events.push(event(EventKind::Negative, 500, Some(at(500)), Some(at(500) - 100)));
    events.push(event(EventKind::Extra, 1100, None, Some(at(1100) + 20_000)));
    events
        .extend([600, 601, 1000].map(|i| event(EventKind::Reordered, i, Some(at(i)), Some(at(i) + 250_000))));
    Matching {
        window_ns: 5_000_000_000,
        matched: count as u64,
        negative: 1,
        lost: 10,
        extra: 1,
        duplicates_pre: 1,
        events,
        ..Matching::default()
    }
}

fn reordering(count: usize) -> Reordering {
    Reordering {
        arrived: count as u64,
        reordered: 3,
        ratio: 3.0 / count as f64,
        extent_max: 2,
        extent_mean: 4.0 / 3.0,
        max_late_time_ns: 50_012,
        late_time_unknown: 0,
        n_reordering_max: 2,
        n_reordering: vec![NReordering { n: 1, packets: 3 }, NReordering { n: 2, packets: 1 }],
    }
}

fn variation(values: &[i64]) -> Variation {
    let differences: Vec<i64> = values.windows(2).map(|w| w[1] - w[0]).collect();
    let absolute = sorted(differences.iter().map(|d| d.abs()));
    let all = sorted(values.iter().copied());
    Variation {
        ipdv: Some(Ipdv {
            count: differences.len() as u64,
            min_ns: differences.iter().copied().min().unwrap_or(0),
            max_ns: differences.iter().copied().max().unwrap_or(0),
            mean_abs_ns: absolute.iter().sum::<i64>() as f64 / absolute.len() as f64,
            percentiles_abs: percentiles(&absolute, &[50.0, 99.0, 99.9]),
        }),
        pdv: percentiles(&sorted(all.iter().map(|v| v - all[0])), &[50.0, 99.0, 99.9, 99.999]),
        rfc3550_jitter_ns: 812.4,
        max_rfc3550_jitter_ns: 21_950.8,
    }
}

fn key() -> Key {
    let tried = |rule: &str, repeated, matched, outcome: &str| KeyTrial {
        rule: rule.to_owned(),
        packets: 10_000,
        with_key: 10_000,
        repeated,
        matched,
        outcome: outcome.to_owned(),
    };
    Key {
        rule: "invariant".to_owned(),
        chosen_automatically: true,
        tried: vec![
            tried("bytes:12-64", 0, 3, "rejected: few keys are found at egress"),
            tried("invariant", 0, 9_998, "taken: unique and matches"),
        ],
    }
}

/// A summary and the packets from which it is computed.
pub fn summary(seed: u64, hostile: bool) -> (Summary, Packets) {
    let packets = packets(seed);
    let (pre, post) = if hostile {
        (HOSTILE[0], HOSTILE[1])
    } else {
        ("captures/l2fwd/pre.pcap.zst", "captures/l2fwd/post.pcap.zst")
    };
    let names = if hostile {
        [HOSTILE[2], HOSTILE[3], HOSTILE[0]]
    } else {
        [
            "10.0.0.16:1024 > 192.168.1.2:53 udp",
            "10.0.0.17:1024 > 192.168.1.2:53 udp",
            "10.0.0.18:1024 > 192.168.1.2:443 tcp",
        ]
    };
    let values = &packets.delay_ns;
    let post_ns: Vec<i64> = packets.pre_ns.iter().zip(values).map(|(pre, delay)| pre + delay).collect();
    let sent = values.len() as u64 + 10;
    let summary = Summary {
        schema: SUMMARY_SCHEMA.to_owned(),
        wiretail_version: env!("CARGO_PKG_VERSION").to_owned(),
        title: format!("{pre} {post}"),
        pre: capture(pre, &packets.pre_ns),
        post: capture(post, &sorted(post_ns)),
        key: key(),
        matching: matching(values.len()),
        verdicts: ["1ms@99.9%", "350us@99.999%", "40us@99.9%"].map(|b| verdict(b, values)).to_vec(),
        findings: findings(hostile),
        delay: delay(values),
        loss: Loss {
            sent,
            lost: 10,
            late: 0,
            ratio: 10.0 / sent as f64,
            ratio_low: 4.8 / sent as f64,
            ratio_high: 18.4 / sent as f64,
            longest_run: 10,
            longest_run_start: Some(300),
            runs: 1,
        },
        reordering: reordering(values.len()),
        variation: variation(values),
        flows: flows(values, names),
        steady_state: None,
        intervals: intervals(&packets),
        worst: worst(&packets),
        curve: curve(values),
    };
    (summary, packets)
}
