//! Compares the streaming matcher with brute force and with a plain join.

use super::*;
use proptest::prelude::*;

fn outcome(sent: Sent, delay_ns: i64, window_ns: i64) -> Outcome {
    match delay_ns {
        ..0 => Outcome::Negative { sent, delay_ns },
        _ if delay_ns < window_ns => Outcome::Matched { sent, delay_ns },
        _ => Outcome::OutOfWindow { sent, delay_ns },
    }
}

/// The module's rules implemented literally on plain lists: no queue, no hash, no lazy expiry.
#[derive(Default)]
struct BruteForce {
    in_flight: Vec<Sent>,
    given_up: Vec<Sent>,
    arrived: Vec<u64>,
    early: Vec<Record>,
    outcomes: Vec<Outcome>,
    duplicates: u32,
    sequence: u64,
}

impl BruteForce {
    fn run(pre: &[Record], post: &[Record], window: i64) -> Vec<Outcome> {
        let mut brute = Self::default();
        let mut events: Vec<(i64, usize, usize)> = Vec::new();
        events.extend(pre.iter().enumerate().map(|(i, r)| (r.ts_ns, 0, i)));
        events.extend(post.iter().enumerate().map(|(i, r)| (r.ts_ns, 1, i)));
        events.sort_unstable();
        for (now, side, i) in events {
            brute.expire(now, window);
            if side == 0 { brute.pre(pre[i], window) } else { brute.post(post[i], window) }
        }
        brute.expire(i64::MAX, window);
        brute.outcomes
    }

    fn expire(&mut self, now: i64, window: i64) {
        let mut old: Vec<Sent> = Vec::new();
        let too_old = |ts: i64, reach: i64| now == i64::MAX || ts < now - reach;
        for list in [&mut self.in_flight, &mut self.given_up] {
            old.extend(list.extract_if(.., |sent| too_old(sent.ts_ns, 2 * window)));
        }
        self.outcomes.extend(old.into_iter().map(|sent| Outcome::Lost { sent, early: None }));
        for record in self.early.extract_if(.., |record| too_old(record.ts_ns, window)) {
            self.outcomes.push(Outcome::Extra { record, evicted: false });
        }
    }

    fn pre(&mut self, record: Record, window: i64) {
        if let Some(i) = self.in_flight.iter().position(|sent| sent.key == record.key) {
            if record.ts_ns - self.in_flight[i].ts_ns <= window {
                let index = self.sequence + u64::from(self.duplicates);
                self.duplicates += 1;
                self.outcomes.push(Outcome::DuplicatePre { index, record });
                return;
            }
            self.given_up.push(self.in_flight.remove(i));
        }
        let sequence = self.sequence;
        self.sequence += 1;
        let sent = Sent {
            ts_ns: record.ts_ns,
            key: record.key,
            sequence,
            duplicates_before: self.duplicates,
            flow: record.flow,
        };
        match self.early.iter().position(|early| early.key == record.key) {
            Some(i) => {
                let early = self.early.remove(i);
                self.arrived.push(record.key);
                self.outcomes.push(outcome(sent, early.ts_ns - sent.ts_ns, window));
            }
            None => self.in_flight.push(sent),
        }
    }

    fn post(&mut self, record: Record, window: i64) {
        if let Some(i) = self.in_flight.iter().position(|sent| sent.key == record.key) {
            let sent = self.in_flight.remove(i);
            self.arrived.push(record.key);
            self.outcomes.push(outcome(sent, record.ts_ns - sent.ts_ns, window));
        } else if self.arrived.iter().rev().take(RECENT).any(|key| *key == record.key)
            || self.early.iter().any(|early| early.key == record.key)
        {
            self.outcomes.push(Outcome::DuplicatePost { record });
        } else {
            self.early.push(record);
        }
    }
}

fn run(pre: &[Record], post: &[Record], window: i64) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut observer = |outcome: &Outcome| outcomes.push(*outcome);
    let mut matcher = Matcher::new(window);
    // Feeds the captures in pieces, like batches from two readers.
    let (mut i, mut j) = (0, 0);
    while i < pre.len() && j < post.len() {
        let taken = merge(
            &mut matcher,
            &pre[i..pre.len().min(i + 1 + i % 7)],
            &post[j..post.len().min(j + 1 + j % 5)],
            &mut observer,
        );
        i += taken.0;
        j += taken.1;
    }
    pre[i..].iter().for_each(|record| matcher.pre(record, &mut observer));
    post[j..].iter().for_each(|record| matcher.post(record, &mut observer));
    matcher.finish(&mut observer);
    outcomes
}

/// Brings the outcomes of both matchers into a comparable order and form. Only the streaming matcher reports
/// why a packet was given up, so that reason is dropped.
fn sorted(mut outcomes: Vec<Outcome>) -> Vec<String> {
    for outcome in &mut outcomes {
        if let Outcome::Lost { early, .. } = outcome {
            *early = None;
        }
    }
    let mut lines: Vec<String> = outcomes.iter().map(|outcome| format!("{outcome:?}")).collect();
    lines.sort();
    lines
}

fn record(ts_ns: i64, key: u64) -> Record {
    Record { ts_ns, key, flow: 0, wire_len: 100 }
}

/// Ingress packets with few or many distinct keys, and what arrives at egress after a path that loses,
/// duplicates, reorders and injects packets.
fn captures() -> impl Strategy<Value = (Vec<Record>, Vec<Record>)> {
    let packet = (0..40i64, 0..400u64, prop_oneof![6 => -3..30i64, 1 => -200..400i64], 0..12u8);
    (prop::collection::vec(packet, 0..400), 1..400u64).prop_map(|(packets, keys)| {
        let (mut pre, mut post, mut now) = (Vec::new(), Vec::new(), 0);
        for (position, (gap, key, delay, fate)) in packets.into_iter().enumerate() {
            now += gap;
            let key = if fate % 2 == 0 { position as u64 } else { key % keys };
            pre.push(record(now, key));
            match fate {
                0 => {}
                1 => post.extend([record(now + delay, key), record(now + delay + gap, key)]),
                2 => pre.push(record(now, key)),
                3 => post.push(record(now, key + 1_000_000)),
                _ => post.push(record(now + delay, key)),
            }
        }
        post.sort_by_key(|r| r.ts_ns);
        (pre, post)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn streaming_matcher_equals_brute_force((pre, post) in captures(), window in 1..200i64) {
        let fast = run(&pre, &post, window);
        prop_assert_eq!(sorted(fast.clone()), sorted(BruteForce::run(&pre, &post, window)));
        // Losses are reported in the order sent, as the loss runs require.
        let lost: Vec<u64> = fast.iter().filter_map(|o| match o {
            Outcome::Lost { sent, .. } => Some(sent.sequence),
            _ => None,
        }).collect();
        prop_assert!(lost.is_sorted());
    }

    /// If keys do not repeat, matching is a join, without state or order.
    #[test]
    fn unique_keys_match_like_a_join(
        delays in prop::collection::vec((1..40i64, prop::option::of(-150..500i64)), 0..300),
        window in 1..200i64,
    ) {
        let (mut pre, mut post, mut now) = (Vec::new(), Vec::new(), 0);
        for (key, (gap, delay)) in delays.iter().enumerate() {
            now += gap;
            pre.push(record(now, key as u64));
            post.extend(delay.map(|delay| record(now + delay, key as u64)));
        }
        post.sort_by_key(|r| r.ts_ns);
        let mut counts = [0usize; 5];
        for outcome in run(&pre, &post, window) {
            let (place, sent, delay) = match outcome {
                Outcome::Matched { sent, delay_ns } => (0, sent, Some(delay_ns)),
                Outcome::OutOfWindow { sent, delay_ns } => (1, sent, Some(delay_ns)),
                Outcome::Negative { sent, delay_ns } => (2, sent, Some(delay_ns)),
                Outcome::Lost { sent, .. } => (3, sent, None),
                Outcome::Extra { .. } => { counts[4] += 1; continue }
                other => panic!("{other:?}"),
            };
            counts[place] += 1;
            if delay.is_some() {
                prop_assert_eq!(delay, delays[sent.key as usize].1);
            }
        }
        let joined = |range: std::ops::RangeInclusive<i64>| delays.iter().filter(|d| d.1.is_some_and(|d| range.contains(&d))).count();
        let none = delays.iter().filter(|d| d.1.is_none()).count();
        let too_early = joined(-150..=-window - 1);
        let too_late = joined(2 * window + 1..=500);
        prop_assert_eq!(counts, [
            joined(0..=window - 1), joined(window..=2 * window), joined(-window..=-1),
            none + too_early + too_late, too_early + too_late,
        ]);
    }
}

#[test]
fn memory_is_bounded_by_packets_in_flight() {
    let mut matcher = Matcher::with_limit(1_000_000, 1000);
    let mut lost = 0;
    let mut observer = |outcome: &Outcome| lost += u64::from(matches!(outcome, Outcome::Lost { .. }));
    // 5 million packets, 100 ns apart, every tenth one lost: at most 2000 lost packets within twice the
    // window.
    for i in 0..5_000_000i64 {
        matcher.pre(&record(i * 100, i as u64), &mut observer);
        if i % 10 != 0 {
            matcher.post(&record(i * 100 + 50, i as u64), &mut observer);
        }
    }
    assert!(matcher.passed.capacity() < 10_000 && matcher.passed_order.capacity() < 20_000);
    assert!(matcher.queue.capacity() < 10_000 && matcher.early_order.capacity() < 1000);
    matcher.finish(&mut observer);
    assert_eq!(lost, 500_000);
}
