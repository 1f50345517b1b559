//! Injected regular patterns are found with their frequency or period, and attributed to a clock or to the
//! packet count. Without injected patterns, no pattern is found.

use wiretail_analysis::causes::periodicity::{Numbers, POSITION, Series, find, kernel_ticks};
use wiretail_schema::causes::capture::{Follows, Recurrence};
use wiretail_schema::random::Random;

/// Packets with a gap of `gap_ns` and some jitter, or at random times if `poisson`. The delays have a tail, and
/// `more` is added to them.
fn series(packets: u64, gap_ns: f64, poisson: bool, seed: u64, more: impl Fn(u64, i64) -> i64) -> Series {
    let mut random = Random::new(seed);
    let mut series = Series::default();
    let mut positions = Numbers { name: POSITION.to_owned(), values: Vec::new() };
    let mut poisson_ns = 0.0;
    for place in 0..packets {
        poisson_ns += -gap_ns * (1.0 - random.uniform()).ln();
        let even_ns = place as f64 * gap_ns + 340.0 * random.uniform();
        let at_ns = if poisson { poisson_ns } else { even_ns } as i64;
        let tail = (300.0 * -(1.0 - random.uniform()).ln()) as i64;
        series.times_ns.push(at_ns);
        series.delays_ns.push(17_000 + tail + more(place, at_ns));
        positions.values.push(place);
    }
    series.numbers = vec![positions];
    series
}

/// Delay of a packet at `at_ns`, caused by a clock that stops packets for `stop_ns` in each period.
fn stopped(at_ns: i64, hz: f64, stop_ns: f64) -> i64 {
    let period_ns = 1e9 / hz;
    let since_ns = (at_ns as f64 + 1_234_567.0).rem_euclid(period_ns);
    (stop_ns - since_ns).max(0.0) as i64
}

fn best(series: &Series) -> Recurrence {
    let found = find(series, &kernel_ticks()).recurrences;
    found.into_iter().next().expect("a recurrence")
}

#[test]
fn finds_tick_of_250_hz_in_packets_at_10_kpps() {
    for (seed, hz) in [(1, 250.0), (2, 250.011), (3, 249.99)] {
        let found = best(&series(100_000, 99_921.75, false, seed, |_, at| stopped(at, hz, 24_000.0)));
        assert!((found.frequency_hz / hz - 1.0).abs() < 1e-4, "{hz}: {found:?}");
        assert!((found.frequency_hz - hz).abs() < 6.0 * found.frequency_error_hz, "{hz}: {found:?}");
        assert_eq!(found.follows, Follows::Clock, "{found:?}");
        assert_eq!(found.clock.as_deref(), Some("kernel tick, HZ=250"));
    }
}

#[test]
fn finds_unnamed_clock_at_its_frequency() {
    let found = best(&series(60_000, 100_000.0, false, 4, |_, at| stopped(at, 61.7, 90_000.0)));
    assert!((found.frequency_hz / 61.7 - 1.0).abs() < 1e-3, "{found:?}");
    assert_eq!((found.follows, found.clock), (Follows::Clock, None));
}

#[test]
fn distinguishes_every_128th_packet_from_a_clock() {
    let late = |place: u64, _| if place % 128 == 79 { 3_000 } else { 0 };
    let mut planted = series(60_000, 99_921.75, false, 5, late);
    planted.numbers.push(Numbers {
        name: "payload".to_owned(),
        values: planted.numbers[0].values.iter().map(|place| place + 945).collect(),
    });
    let found = best(&planted);
    assert_eq!((found.follows, found.period_packets), (Follows::Packets, 128.0), "{found:?}");
    let residues: Vec<(&str, u64)> =
        found.residues.iter().map(|residue| (residue.of.as_str(), residue.residue)).collect();
    assert_eq!(residues, [(POSITION, 79), ("payload", 0)]);
    assert!(found.reason.contains("multiples of 128 in payload"), "{}", found.reason);
}

#[test]
fn distinguishes_payload_from_position_if_packets_are_missing() {
    let mut planted = series(60_000, 99_921.75, false, 6, |_, _| 0);
    let mut random = Random::new(9);
    let mut number = 0;
    let values: Vec<u64> = (0..60_000)
        .map(|_| {
            number += 1 + u64::from(random.bits().is_multiple_of(50));
            number
        })
        .collect();
    for (delay, value) in planted.delays_ns.iter_mut().zip(&values) {
        *delay += if value % 64 == 3 { 3_000 } else { 0 };
    }
    planted.numbers.push(Numbers { name: "payload".to_owned(), values });
    let found = best(&planted);
    assert_eq!((found.follows, found.period_packets), (Follows::Packets, 64.0), "{found:?}");
    assert_eq!(found.residues.len(), 1);
    assert_eq!((found.residues[0].of.as_str(), found.residues[0].residue), ("payload", 3));
}

#[test]
fn cannot_distinguish_tick_of_a_whole_number_of_packets() {
    let found = best(&series(60_000, 100_000.0, false, 7, |_, at| stopped(at, 250.0, 90_000.0)));
    assert_eq!((found.follows, found.period_packets), (Follows::Indistinguishable, 40.0), "{found:?}");
    assert_eq!(found.clock.as_deref(), Some("kernel tick, HZ=250"));
}

#[test]
fn random_send_times_distinguish_clock_and_count() {
    let clock = best(&series(60_000, 100_000.0, true, 8, |_, at| stopped(at, 250.0, 90_000.0)));
    assert_eq!(clock.follows, Follows::Clock, "{clock:?}");
    assert!((clock.frequency_hz / 250.0 - 1.0).abs() < 1e-3);
    let late = |place: u64, _| if place % 40 == 3 { 3_000 } else { 0 };
    let count = best(&series(60_000, 100_000.0, true, 9, late));
    assert_eq!((count.follows, count.period_packets), (Follows::Packets, 40.0), "{count:?}");
    assert!(count.reason.contains("not sent evenly"), "{}", count.reason);
}

#[test]
fn finds_nothing_without_recurring_patterns() {
    // Each search has a false alarm rate of one in a thousand. Bursts and stalls at random times do not raise
    // it.
    let mut alarms = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed + 1000);
        let stalls: Vec<u64> = (0..10).map(|_| random.bits() % 12_000).collect();
        let late = |place: u64, _| {
            let stalled = stalls.iter().any(|stall| (*stall..stall + 8).contains(&place));
            if stalled { 50_000 } else { 0 }
        };
        let found = find(&series(12_000, 99_921.75, seed % 2 == 0, seed, late), &kernel_ticks());
        alarms += found.recurrences.len();
    }
    assert!(alarms <= 1, "{alarms} of 60");
    assert!(find(&Series::default(), &[]).recurrences.is_empty());
}
