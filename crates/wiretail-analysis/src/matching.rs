//! Finding each ingress packet again at egress, in one pass and with memory for the packets under way.
//!
//! Both captures are merged by time (at equal times ingress comes first) and fed to a [`Matcher`].
//! Almost every packet arrives in the order sent, so the packets under way wait in a queue and an
//! arriving one is compared with the queue's front: one comparison, no hashing. Only where that
//! fails, the packets that were passed over move to a hash table, each at most once.
//!
//! What counts as what, for a window W:
//!
//! - an ingress packet whose key is under way, sent no more than W before, is a *duplicate at
//!   ingress* of the packet under way. After more than W the earlier packet is given up as lost;
//! - an egress packet whose key is under way, sent no more than 2 W before, is the arrival of that
//!   packet: *matched* if the delay is shorter than W, *out of window* otherwise;
//! - an egress packet whose key is not under way is a *duplicate at egress* if the key is among the
//!   last [`RECENT`] that arrived. Otherwise it waits up to W for an ingress packet with its key, whose
//!   delay is then *negative*, and is *extra* when none comes;
//! - an ingress packet that has not arrived after 2 W, or when the captures end, is *lost*.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use wiretail_schema::packet::Record;

/// How many arrived packets are remembered to tell a further copy from a foreign packet.
pub const RECENT: usize = 1 << 16;

/// Packets under way beyond which the oldest is given up, so that captures that share no packet
/// do not fill the memory.
pub const UNDER_WAY_MAX: usize = 1 << 20;

/// Longest queue: beyond, comparing a new packet with those under way would take too long.
const QUEUE_MAX: usize = 1 << 12;

/// An ingress packet: what of it goes into every outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When it was seen at ingress, in ns.
    pub ts_ns: i64,
    /// Its key.
    pub key: u64,
    /// Position in the ingress capture, from 0.
    pub index: u64,
    /// Position among the ingress packets that are no duplicates, from 0: the sequence number that
    /// reordering, loss runs and delay variation go by.
    pub sequence: u64,
    /// Flow, as an index into the flow table of the ingress tap.
    pub flow: u32,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It arrived: the delay is 0 or more and shorter than the window. The egress stamp is `sent.ts_ns + delay_ns`.
    Matched {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It arrived after the window.
    OutOfWindow {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It was seen at egress before ingress.
    Negative {
        /// The packet.
        sent: Sent,
        /// Egress stamp minus ingress stamp, in ns.
        delay_ns: i64,
    },
    /// It never arrived.
    Lost {
        /// The packet.
        sent: Sent,
        /// Why it was given up, where that was not for its age.
        early: Option<GivenUp>,
    },
    /// A further copy at ingress of a packet under way.
    DuplicatePre {
        /// Its position in the ingress capture, from 0.
        index: u64,
        /// The copy.
        record: Record,
    },
    /// A further copy at egress of a packet that had arrived.
    DuplicatePost {
        /// The copy.
        record: Record,
    },
    /// Seen at egress only.
    Extra {
        /// The packet.
        record: Record,
        /// Whether it was given up because too many were waiting.
        evicted: bool,
    },
}

impl Outcome {
    /// When the packet was first seen: at ingress, or at egress where it was seen only there, in ns.
    pub fn seen_ns(&self) -> i64 {
        match self {
            Self::Matched { sent, .. }
            | Self::OutOfWindow { sent, .. }
            | Self::Negative { sent, .. }
            | Self::Lost { sent, .. } => sent.ts_ns,
            Self::DuplicatePre { record, .. }
            | Self::DuplicatePost { record }
            | Self::Extra { record, .. } => record.ts_ns,
        }
    }
}

/// Why a packet was given up before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// Its key came again, later than the window.
    KeyReused,
    /// More than [`UNDER_WAY_MAX`] packets were under way.
    TooMany,
}

/// Streaming matcher. Feed both taps' records merged by time, then call [`Matcher::finish`].
pub struct Matcher {
    window_ns: i64,
    limit: usize,
    /// Latest stamp fed.
    now_ns: i64,
    index: u64,
    sequence: u64,
    /// Newest packets under way, in the order sent.
    queue: VecDeque<Sent>,
    /// How many packets in the queue fall on each slot: where a new packet's slot is empty, its key
    /// is not in the queue.
    slots: Box<[u16; SLOTS]>,
    /// Packets under way that a later one has overtaken.
    passed: HashMap<u64, Sent, KeyHasher>,
    /// Those in `passed` in the order sent; some have arrived since.
    passed_order: VecDeque<Sent>,
    /// Sequence numbers of packets whose key came again: lost, and reported in their turn.
    superseded: HashSet<u64, KeyHasher>,
    /// Egress packets that no ingress packet was there for yet.
    early: HashMap<u64, Record, KeyHasher>,
    /// Those in `early` in the order seen; some have been matched since.
    early_order: VecDeque<Record>,
    recent: Recent,
}

const SLOTS: usize = 1 << 14;

#[inline]
fn slot(key: u64) -> usize {
    (key ^ (key >> 32)) as usize & (SLOTS - 1)
}

impl Matcher {
    /// A matcher for delays up to `window_ns`.
    pub fn new(window_ns: i64) -> Self {
        Self::with_limit(window_ns, UNDER_WAY_MAX)
    }

    /// A matcher that gives up the oldest packet where more than `limit` are under way.
    pub fn with_limit(window_ns: i64, limit: usize) -> Self {
        Self {
            window_ns,
            limit: limit.max(1),
            now_ns: i64::MIN,
            index: 0,
            sequence: 0,
            queue: VecDeque::with_capacity(64),
            slots: Box::new([0; SLOTS]),
            passed: HashMap::default(),
            passed_order: VecDeque::new(),
            superseded: HashSet::default(),
            early: HashMap::default(),
            early_order: VecDeque::new(),
            recent: Recent::new(),
        }
    }

    /// Ingress packets fed that were no duplicates.
    pub fn sent(&self) -> u64 {
        self.sequence
    }

    /// Takes the next ingress packet.
    #[inline]
    pub fn pre(&mut self, record: &Record, sink: &mut impl FnMut(Outcome)) {
        self.advance(record.ts_ns, sink);
        let index = self.index;
        self.index += 1;
        if (self.slots[slot(record.key)] != 0 || !self.passed.is_empty()) && self.is_duplicate(record) {
            sink(Outcome::DuplicatePre { index, record: *record });
            return;
        }
        let sent =
            Sent { ts_ns: record.ts_ns, key: record.key, index, sequence: self.sequence, flow: record.flow };
        self.sequence += 1;
        if !self.early.is_empty()
            && let Some(arrived) = self.early.remove(&record.key)
        {
            self.recent.push(record.key);
            sink(outcome(sent, arrived.ts_ns.saturating_sub(sent.ts_ns), self.window_ns));
            return;
        }
        self.slots[slot(record.key)] += 1;
        self.queue.push_back(sent);
        if self.queue.len() > QUEUE_MAX {
            self.pass_over_front();
            self.keep_limit(sink);
        }
    }

    /// Takes the next egress packet.
    #[inline]
    pub fn post(&mut self, record: &Record, sink: &mut impl FnMut(Outcome)) {
        self.advance(record.ts_ns, sink);
        if let Some(front) = self.queue.front()
            && front.key == record.key
        {
            let sent = *front;
            self.pop_front();
            self.arrive(sent, record, sink);
            return;
        }
        self.post_out_of_order(record, sink);
    }

    #[inline(never)]
    fn post_out_of_order(&mut self, record: &Record, sink: &mut impl FnMut(Outcome)) {
        if let Some(sent) = self.passed.remove(&record.key) {
            self.arrive(sent, record, sink);
            return;
        }
        if self.slots[slot(record.key)] != 0 && self.queue.iter().any(|sent| sent.key == record.key) {
            while let Some(sent) = self.queue.front().copied() {
                if sent.key == record.key {
                    self.pop_front();
                    self.arrive(sent, record, sink);
                    return;
                }
                self.pass_over_front();
            }
        }
        if self.recent.contains(record.key) {
            sink(Outcome::DuplicatePost { record: *record });
        } else if self.early.contains_key(&record.key) {
            // The first of two copies that came before the packet itself keeps the place.
            sink(Outcome::DuplicatePost { record: *record });
        } else {
            self.early.insert(record.key, *record);
            self.early_order.push_back(*record);
            self.keep_limit(sink);
        }
    }

    /// Gives up all that is still under way.
    pub fn finish(mut self, sink: &mut impl FnMut(Outcome)) {
        while !self.queue.is_empty() {
            self.pass_over_front();
        }
        while let Some(sent) = self.passed_order.pop_front() {
            self.give_up(sent, None, sink);
        }
        while let Some(record) = self.early_order.pop_front() {
            self.give_up_early(&record, false, sink);
        }
    }

    #[inline]
    fn arrive(&mut self, sent: Sent, record: &Record, sink: &mut impl FnMut(Outcome)) {
        self.recent.push(sent.key);
        sink(outcome(sent, record.ts_ns.saturating_sub(sent.ts_ns), self.window_ns));
    }

    #[inline]
    fn pop_front(&mut self) {
        if let Some(sent) = self.queue.pop_front() {
            self.slots[slot(sent.key)] -= 1;
        }
    }

    /// Moves the oldest packet of the queue to the hash table.
    fn pass_over_front(&mut self) {
        if let Some(sent) = self.queue.pop_front() {
            self.slots[slot(sent.key)] -= 1;
            self.passed.insert(sent.key, sent);
            self.passed_order.push_back(sent);
        }
        // Most of those passed over arrive soon after: their entries must not pile up.
        if self.passed_order.len() > 2 * self.passed.len() + 4096 {
            let (passed, superseded) = (&self.passed, &self.superseded);
            self.passed_order
                .retain(|sent| passed.get(&sent.key) == Some(sent) || superseded.contains(&sent.sequence));
        }
    }

    /// Whether a packet with the key of `record` is under way, sent within the window. One sent
    /// earlier is given up: its key is used anew.
    #[inline(never)]
    fn is_duplicate(&mut self, record: &Record) -> bool {
        let queued = (self.slots[slot(record.key)] != 0)
            .then(|| self.queue.iter().position(|sent| sent.key == record.key))
            .flatten();
        if let Some(position) = queued {
            if record.ts_ns.saturating_sub(self.queue[position].ts_ns) <= self.window_ns {
                return true;
            }
            for _ in 0..=position {
                self.pass_over_front();
            }
        }
        let Some(sent) = self.passed.get(&record.key).copied() else { return false };
        if record.ts_ns.saturating_sub(sent.ts_ns) <= self.window_ns {
            return true;
        }
        self.passed.remove(&record.key);
        self.superseded.insert(sent.sequence);
        false
    }

    /// Gives up what is too old at time `ts_ns`.
    #[inline]
    fn advance(&mut self, ts_ns: i64, sink: &mut impl FnMut(Outcome)) {
        if ts_ns > self.now_ns {
            self.now_ns = ts_ns;
        }
        let sent_before = self.now_ns.saturating_sub(2 * self.window_ns);
        if self.queue.front().is_some_and(|sent| sent.ts_ns < sent_before)
            || self.passed_order.front().is_some_and(|sent| sent.ts_ns < sent_before)
            || self
                .early_order
                .front()
                .is_some_and(|record| record.ts_ns < self.now_ns.saturating_sub(self.window_ns))
        {
            self.expire(sent_before, sink);
        }
    }

    #[cold]
    fn expire(&mut self, sent_before: i64, sink: &mut impl FnMut(Outcome)) {
        while self.queue.front().is_some_and(|sent| sent.ts_ns < sent_before) {
            self.pass_over_front();
        }
        while let Some(sent) = self.passed_order.front().copied()
            && sent.ts_ns < sent_before
        {
            self.passed_order.pop_front();
            self.give_up(sent, None, sink);
        }
        let seen_before = self.now_ns.saturating_sub(self.window_ns);
        while let Some(record) = self.early_order.front().copied()
            && record.ts_ns < seen_before
        {
            self.early_order.pop_front();
            self.give_up_early(&record, false, sink);
        }
    }

    fn keep_limit(&mut self, sink: &mut impl FnMut(Outcome)) {
        while self.passed.len() > self.limit
            && let Some(sent) = self.passed_order.pop_front()
        {
            self.give_up(sent, Some(GivenUp::TooMany), sink);
        }
        while self.early.len() > self.limit
            && let Some(record) = self.early_order.pop_front()
        {
            self.give_up_early(&record, true, sink);
        }
        if self.early_order.len() > 2 * self.early.len() + 4096 {
            let early = &self.early;
            self.early_order.retain(|record| early.get(&record.key).is_some_and(|e| e.ts_ns == record.ts_ns));
        }
    }

    /// Reports `sent` as lost unless it has arrived since.
    fn give_up(&mut self, sent: Sent, early: Option<GivenUp>, sink: &mut impl FnMut(Outcome)) {
        if self.superseded.remove(&sent.sequence) {
            sink(Outcome::Lost { sent, early: Some(GivenUp::KeyReused) });
        } else if self.passed.get(&sent.key) == Some(&sent) {
            self.passed.remove(&sent.key);
            sink(Outcome::Lost { sent, early });
        }
    }

    fn give_up_early(&mut self, record: &Record, evicted: bool, sink: &mut impl FnMut(Outcome)) {
        if self.early.get(&record.key).is_some_and(|early| early.ts_ns == record.ts_ns) {
            self.early.remove(&record.key);
            sink(Outcome::Extra { record: *record, evicted });
        }
    }
}

/// Feeds both captures, in memory, to `matcher`: by time, ingress first where times are equal.
pub fn merge(matcher: &mut Matcher, pre: &[Record], post: &[Record], sink: &mut impl FnMut(Outcome)) {
    let mut post = post.iter().peekable();
    for sent in pre {
        while let Some(arrived) = post.next_if(|arrived| arrived.ts_ns < sent.ts_ns) {
            matcher.post(arrived, sink);
        }
        matcher.pre(sent, sink);
    }
    for arrived in post {
        matcher.post(arrived, sink);
    }
}

#[inline]
fn outcome(sent: Sent, delay_ns: i64, window_ns: i64) -> Outcome {
    if delay_ns < 0 {
        Outcome::Negative { sent, delay_ns }
    } else if delay_ns < window_ns {
        Outcome::Matched { sent, delay_ns }
    } else {
        Outcome::OutOfWindow { sent, delay_ns }
    }
}

/// The keys of the last [`RECENT`] packets that arrived. They are hashed only when somebody asks,
/// which in a capture without foreign packets and duplicates nobody does.
struct Recent {
    ring: Vec<u64>,
    /// Keys pushed so far; the ring holds the last of them.
    pushed: u64,
    /// Keys hashed so far.
    hashed: u64,
    /// When each key was last pushed.
    pushed_at: HashMap<u64, u64, KeyHasher>,
}

impl Recent {
    fn new() -> Self {
        Self { ring: vec![0; RECENT], pushed: 0, hashed: 0, pushed_at: HashMap::default() }
    }

    #[inline]
    fn push(&mut self, key: u64) {
        self.ring[self.pushed as usize & (RECENT - 1)] = key;
        self.pushed += 1;
    }

    fn contains(&mut self, key: u64) -> bool {
        let oldest = self.pushed.saturating_sub(RECENT as u64);
        if self.pushed_at.len() > 4 * RECENT {
            self.pushed_at.retain(|_, at| *at >= oldest);
        }
        for at in self.hashed.max(oldest)..self.pushed {
            self.pushed_at.insert(self.ring[at as usize & (RECENT - 1)], at);
        }
        self.hashed = self.pushed;
        self.pushed_at.get(&key).is_some_and(|at| *at >= oldest)
    }
}

/// Hashes a key that is a counter or a hash already: one multiplication spreads either.
#[derive(Default, Clone, Copy)]
pub struct KeyHash(u64);

impl Hasher for KeyHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

type KeyHasher = BuildHasherDefault<KeyHash>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The module's rules word by word, on plain lists: no queue, no hash, no laziness.
    #[derive(Default)]
    struct BruteForce {
        under_way: Vec<Sent>,
        given_up: Vec<Sent>,
        arrived: Vec<u64>,
        early: Vec<Record>,
        outcomes: Vec<Outcome>,
        index: u64,
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
            for list in [&mut self.under_way, &mut self.given_up] {
                old.extend(list.extract_if(.., |sent| too_old(sent.ts_ns, 2 * window)));
            }
            self.outcomes.extend(old.into_iter().map(|sent| Outcome::Lost { sent, early: None }));
            for record in self.early.extract_if(.., |record| too_old(record.ts_ns, window)) {
                self.outcomes.push(Outcome::Extra { record, evicted: false });
            }
        }

        fn pre(&mut self, record: Record, window: i64) {
            let index = self.index;
            self.index += 1;
            if let Some(i) = self.under_way.iter().position(|sent| sent.key == record.key) {
                if record.ts_ns - self.under_way[i].ts_ns <= window {
                    self.outcomes.push(Outcome::DuplicatePre { index, record });
                    return;
                }
                self.given_up.push(self.under_way.remove(i));
            }
            let sequence = self.sequence;
            self.sequence += 1;
            let sent = Sent { ts_ns: record.ts_ns, key: record.key, index, sequence, flow: record.flow };
            match self.early.iter().position(|early| early.key == record.key) {
                Some(i) => {
                    let early = self.early.remove(i);
                    self.arrived.push(record.key);
                    self.outcomes.push(outcome(sent, early.ts_ns - sent.ts_ns, window));
                }
                None => self.under_way.push(sent),
            }
        }

        fn post(&mut self, record: Record, window: i64) {
            if let Some(i) = self.under_way.iter().position(|sent| sent.key == record.key) {
                let sent = self.under_way.remove(i);
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
        let mut sink = |outcome| outcomes.push(outcome);
        let mut matcher = Matcher::new(window);
        merge(&mut matcher, pre, post, &mut sink);
        matcher.finish(&mut sink);
        outcomes
    }

    /// In an order and a form in which both matchers' outcomes compare: why a packet was given up
    /// is the fast one's own knowledge.
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

    /// Ingress packets with few keys or many, and what a rough path makes of them.
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
        fn streaming_equals_brute_force((pre, post) in captures(), window in 1..200i64) {
            let fast = run(&pre, &post, window);
            prop_assert_eq!(sorted(fast.clone()), sorted(BruteForce::run(&pre, &post, window)));
            // Losses are reported in the order sent, which the loss runs rely on.
            let lost: Vec<u64> = fast.iter().filter_map(|o| match o {
                Outcome::Lost { sent, .. } => Some(sent.sequence),
                _ => None,
            }).collect();
            prop_assert!(lost.is_sorted());
        }

        /// Where keys do not repeat, matching is a join: no state, no order.
        #[test]
        fn unique_keys_are_joined(
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
    fn memory_follows_the_packets_under_way() {
        let mut matcher = Matcher::with_limit(1_000_000, 1000);
        let mut lost = 0;
        let mut sink = |outcome| lost += u64::from(matches!(outcome, Outcome::Lost { .. }));
        // 5 million packets of which every tenth is lost, 100 ns apart: at most 2000 lost ones within twice the window.
        for i in 0..5_000_000i64 {
            matcher.pre(&record(i * 100, i as u64), &mut sink);
            if i % 10 != 0 {
                matcher.post(&record(i * 100 + 50, i as u64), &mut sink);
            }
        }
        assert!(matcher.passed.capacity() < 10_000 && matcher.passed_order.capacity() < 20_000);
        assert!(matcher.queue.capacity() < 10_000 && matcher.early_order.capacity() < 1000);
        matcher.finish(&mut sink);
        assert_eq!(lost, 500_000);
    }
}
