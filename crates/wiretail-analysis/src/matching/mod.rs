//! Finds each ingress packet at egress, in one pass, with memory proportional to the packets in flight.
//!
//! Both captures are merged by time (ingress first at equal times) and fed to a [`Matcher`]. Almost all
//! packets arrive in the order in which they were sent. Packets in flight therefore wait in a queue, and an
//! arriving packet is compared with the front of the queue: one comparison, no hashing. If they differ, the
//! packets that were overtaken move to a hash table, each at most once.
//!
//! Classification, for a window W:
//!
//! - If an ingress packet has the key of a packet in flight that was sent at most W earlier, it is a
//!   *duplicate at ingress* of that packet. If the packet in flight was sent more than W earlier, it is given
//!   up as lost.
//! - If an egress packet has the key of a packet in flight that was sent at most 2 W earlier, that packet has
//!   arrived. It is *matched* if the delay is shorter than W, and *out of window* otherwise.
//! - An egress packet whose key is not in flight is a *duplicate at egress* if the key is among the last
//!   [`RECENT`] arrivals. Otherwise it waits up to W for an ingress packet with its key, whose delay is then
//!   *negative*. If no such packet comes, it is *extra*.
//! - An ingress packet that has not arrived after 2 W, or when the captures end, is *lost*.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use wiretail_schema::packet::Record;

pub use self::outcome::{GivenUp, Observer, Outcome, Sent, Trimmed};

/// Number of arrived packets that are remembered, to distinguish their copies from foreign packets.
pub const RECENT: usize = 1 << 14;

/// Maximum number of packets in flight. If there are more, the oldest packet is given up, so that captures
/// without common packets do not fill the memory.
pub const IN_FLIGHT_MAX: usize = 1 << 20;

/// Maximum queue length. If the queue is longer, the oldest packet moves to the hash table.
const QUEUE_MAX: usize = 1 << 12;

/// Maximum queue length for a linear search. For longer queues, a filter rules out most keys that are absent.
const SCAN_MAX: usize = 16;

/// Streaming matcher. Feed both taps' records merged by time, then call [`Matcher::finish`].
pub struct Matcher {
    window_ns: i64,
    limit: usize,
    /// Latest timestamp fed.
    now_ns: i64,
    sequence: u64,
    duplicates: u32,
    /// Newest packets in flight, in the order sent.
    queue: VecDeque<Sent>,
    filter: Filter,
    /// Packets in flight that were overtaken by a later one.
    passed: HashMap<u64, Sent, KeyHasher>,
    /// Entries of `passed` in the order sent. Some of these packets may have arrived since.
    passed_order: VecDeque<Sent>,
    /// Sequence numbers of packets that were lost because their key was reused. They are reported in the
    /// order sent.
    superseded: HashSet<u64, KeyHasher>,
    /// Egress packets for which no ingress packet has been seen yet.
    early: HashMap<u64, Record, KeyHasher>,
    /// Entries of `early` in the order seen. Some of these packets may have been matched since.
    early_order: VecDeque<Record>,
    recent: Recent,
}

impl Matcher {
    /// Creates a matcher for delays up to `window_ns`.
    pub fn new(window_ns: i64) -> Self {
        Self::with_limit(window_ns, IN_FLIGHT_MAX)
    }

    /// Creates a matcher that gives up the oldest packet if more than `limit` are in flight.
    pub fn with_limit(window_ns: i64, limit: usize) -> Self {
        Self {
            window_ns,
            limit: limit.max(1),
            now_ns: i64::MIN,
            sequence: 0,
            duplicates: 0,
            queue: VecDeque::with_capacity(64),
            filter: Filter::default(),
            passed: HashMap::default(),
            passed_order: VecDeque::new(),
            superseded: HashSet::default(),
            early: HashMap::default(),
            early_order: VecDeque::new(),
            recent: Recent::new(),
        }
    }

    /// Number of ingress packets fed, without duplicates.
    pub fn sent(&self) -> u64 {
        self.sequence
    }

    /// Takes the next ingress packet.
    #[inline]
    pub fn pre(&mut self, record: &Record, observer: &mut impl Observer) {
        self.advance(record.ts_ns, observer);
        let queued = self.may_be_queued(record.key);
        if (queued || !self.passed.is_empty()) && self.is_duplicate(record, queued) {
            let index = self.sequence + u64::from(self.duplicates);
            self.duplicates = self.duplicates.saturating_add(1);
            observer.outcome(&Outcome::DuplicatePre { index, record: *record });
            return;
        }
        let sent = self.next_sent(record);
        if !self.early.is_empty()
            && let Some(arrived) = self.early.remove(&record.key)
        {
            self.arrive(&sent, &arrived, observer);
            return;
        }
        self.queue.push_back(sent);
        if self.filter.on || self.queue.len() > SCAN_MAX {
            self.enqueue_in_filter(record.key, observer);
        }
    }

    /// Whether `arrived` is the arrival of `sent` within the window, and no packet that is in flight or early
    /// can interfere with either of them.
    #[inline]
    fn is_alone(&self, sent: &Record, arrived: &Record) -> bool {
        sent.key == arrived.key
            && arrived.ts_ns.saturating_sub(sent.ts_ns) < self.window_ns
            && self.queue.is_empty()
            && self.early.is_empty()
            && (self.passed.is_empty() || !self.passed.contains_key(&sent.key))
    }

    /// Does the work of [`pre`](Self::pre) and [`post`](Self::post) for a packet that is the only one in
    /// flight.
    #[inline]
    fn hand_over(&mut self, record: &Record, arrived: &Record, observer: &mut impl Observer) {
        self.advance(record.ts_ns, observer);
        let sent = self.next_sent(record);
        self.advance(arrived.ts_ns, observer);
        self.arrive_in_order(&sent, arrived, observer);
    }

    #[inline]
    fn next_sent(&mut self, record: &Record) -> Sent {
        let sequence = self.sequence;
        self.sequence += 1;
        Sent {
            ts_ns: record.ts_ns,
            key: record.key,
            sequence,
            duplicates_before: self.duplicates,
            flow: record.flow,
        }
    }

    #[inline]
    fn arrive_in_order(&mut self, sent: &Sent, arrived: &Record, observer: &mut impl Observer) {
        let delay_ns = arrived.ts_ns.saturating_sub(sent.ts_ns);
        if delay_ns >= 0 && delay_ns < self.window_ns {
            self.recent.push(sent.key);
            observer.matched(sent, delay_ns);
        } else {
            self.arrive(sent, arrived, observer);
        }
    }

    /// Takes the next egress packet.
    #[inline]
    pub fn post(&mut self, record: &Record, observer: &mut impl Observer) {
        self.advance(record.ts_ns, observer);
        if let Some(front) = self.queue.front()
            && front.key == record.key
        {
            let sent = *front;
            self.pop_front();
            self.arrive_in_order(&sent, record, observer);
            return;
        }
        self.post_out_of_order(record, observer);
    }

    #[inline(never)]
    fn post_out_of_order(&mut self, record: &Record, observer: &mut impl Observer) {
        if let Some(sent) = self.passed.remove(&record.key) {
            self.arrive(&sent, record, observer);
            return;
        }
        if self.may_be_queued(record.key) && self.queue_position(record.key).is_some() {
            while let Some(sent) = self.queue.front().copied() {
                if sent.key == record.key {
                    self.pop_front();
                    self.arrive(&sent, record, observer);
                    return;
                }
                self.pass_over_front();
            }
        }
        // If two copies arrive before the packet itself, the first one is kept.
        if self.recent.contains(record.key) || self.early.contains_key(&record.key) {
            observer.outcome(&Outcome::DuplicatePost { record: *record });
        } else {
            self.early.insert(record.key, *record);
            self.early_order.push_back(*record);
            self.keep_limit(observer);
        }
    }

    /// Gives up all packets that are still in flight.
    pub fn finish(mut self, observer: &mut impl Observer) {
        while !self.queue.is_empty() {
            self.pass_over_front();
        }
        while let Some(sent) = self.passed_order.pop_front() {
            self.give_up(sent, None, observer);
        }
        while let Some(record) = self.early_order.pop_front() {
            self.give_up_early(&record, false, observer);
        }
    }

    #[inline(never)]
    fn arrive(&mut self, sent: &Sent, record: &Record, observer: &mut impl Observer) {
        self.recent.push(sent.key);
        let (sent, delay_ns) = (*sent, record.ts_ns.saturating_sub(sent.ts_ns));
        if delay_ns < 0 {
            observer.outcome(&Outcome::Negative { sent, delay_ns });
        } else if delay_ns < self.window_ns {
            observer.matched(&sent, delay_ns);
        } else {
            observer.outcome(&Outcome::OutOfWindow { sent, delay_ns });
        }
    }

    /// Returns false only if the key is not in the queue. Searches a short queue, and uses a filter for a long
    /// one.
    #[inline]
    fn may_be_queued(&self, key: u64) -> bool {
        if self.filter.on { self.filter.may_hold(key) } else { self.queue_position(key).is_some() }
    }

    /// Position of a key in the queue. Searches the two halves of the ring separately, because the deque's
    /// own iterator is not inlined.
    #[inline]
    fn queue_position(&self, key: u64) -> Option<usize> {
        let (front, back) = self.queue.as_slices();
        let find = |half: &[Sent]| half.iter().position(|sent| sent.key == key);
        find(front).or_else(|| find(back).map(|position| front.len() + position))
    }

    #[inline(never)]
    fn enqueue_in_filter(&mut self, key: u64, observer: &mut impl Observer) {
        if self.filter.on {
            self.filter.add(key);
        } else {
            self.filter.on = true;
            self.queue.iter().for_each(|sent| self.filter.add(sent.key));
        }
        if self.queue.len() > QUEUE_MAX {
            self.pass_over_front();
            self.keep_limit(observer);
        }
    }

    #[inline]
    fn pop_front(&mut self) -> Option<Sent> {
        let sent = self.queue.pop_front()?;
        if self.filter.on {
            self.leave_filter(sent.key);
        }
        Some(sent)
    }

    #[inline(never)]
    fn leave_filter(&mut self, key: u64) {
        self.filter.remove(key);
        if self.queue.len() < SCAN_MAX / 2 {
            self.queue.iter().for_each(|sent| self.filter.remove(sent.key));
            self.filter.on = false;
        }
    }

    /// Moves the oldest packet of the queue to the hash table.
    fn pass_over_front(&mut self) {
        if let Some(sent) = self.pop_front() {
            self.passed.insert(sent.key, sent);
            self.passed_order.push_back(sent);
        }
        // Most overtaken packets arrive soon after, so their entries are removed from time to time.
        if self.passed_order.len() > 2 * self.passed.len() + 4096 {
            let (passed, superseded) = (&self.passed, &self.superseded);
            self.passed_order
                .retain(|sent| passed.get(&sent.key) == Some(sent) || superseded.contains(&sent.sequence));
        }
    }

    /// Whether a packet with the key of `record` is in flight and was sent within the window. A packet that
    /// was sent before the window is given up, because its key has been reused.
    #[inline(never)]
    fn is_duplicate(&mut self, record: &Record, queued: bool) -> bool {
        if queued && let Some(position) = self.queue_position(record.key) {
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

    /// Gives up packets that are too old at time `ts_ns`. `pre` and `post` call this with the timestamp of
    /// their packet. When no packets arrive, call it as soon as no packet with an earlier timestamp can
    /// follow.
    #[inline]
    pub fn advance(&mut self, ts_ns: i64, observer: &mut impl Observer) {
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
            self.expire(sent_before, observer);
        }
    }

    #[cold]
    fn expire(&mut self, sent_before: i64, observer: &mut impl Observer) {
        while self.queue.front().is_some_and(|sent| sent.ts_ns < sent_before) {
            self.pass_over_front();
        }
        while let Some(sent) = self.passed_order.front().copied()
            && sent.ts_ns < sent_before
        {
            self.passed_order.pop_front();
            self.give_up(sent, None, observer);
        }
        let seen_before = self.now_ns.saturating_sub(self.window_ns);
        while let Some(record) = self.early_order.front().copied()
            && record.ts_ns < seen_before
        {
            self.early_order.pop_front();
            self.give_up_early(&record, false, observer);
        }
    }

    fn keep_limit(&mut self, observer: &mut impl Observer) {
        while self.passed.len() > self.limit
            && let Some(sent) = self.passed_order.pop_front()
        {
            self.give_up(sent, Some(GivenUp::TooMany), observer);
        }
        while self.early.len() > self.limit
            && let Some(record) = self.early_order.pop_front()
        {
            self.give_up_early(&record, true, observer);
        }
        if self.early_order.len() > 2 * self.early.len() + 4096 {
            let early = &self.early;
            self.early_order.retain(|record| early.get(&record.key).is_some_and(|e| e.ts_ns == record.ts_ns));
        }
    }

    /// Reports `sent` as lost unless it has arrived since.
    fn give_up(&mut self, sent: Sent, early: Option<GivenUp>, observer: &mut impl Observer) {
        if self.superseded.remove(&sent.sequence) {
            observer.outcome(&Outcome::Lost { sent, early: Some(GivenUp::KeyReused) });
        } else if self.passed.get(&sent.key) == Some(&sent) {
            self.passed.remove(&sent.key);
            observer.outcome(&Outcome::Lost { sent, early });
        }
    }

    fn give_up_early(&mut self, record: &Record, evicted: bool, observer: &mut impl Observer) {
        if self.early.get(&record.key).is_some_and(|early| early.ts_ns == record.ts_ns) {
            self.early.remove(&record.key);
            observer.outcome(&Outcome::Extra { record: *record, evicted });
        }
    }
}

/// Feeds both sides by time, ingress first at equal times, until one side is exhausted. Returns the number of
/// records taken from each side. The remaining records of the other side may have to wait for the next batch.
pub fn merge(
    matcher: &mut Matcher,
    pre: &[Record],
    post: &[Record],
    observer: &mut impl Observer,
) -> (usize, usize) {
    let (mut i, mut j) = (0, 0);
    while let (Some(sent), Some(arrived)) = (pre.get(i), post.get(j)) {
        if sent.ts_ns > arrived.ts_ns {
            matcher.post(arrived, observer);
            j += 1;
            continue;
        }
        // A packet that arrives before the next one is sent does not need to enter the queue.
        let is_last = pre.get(i + 1).is_some_and(|next| next.ts_ns > arrived.ts_ns);
        i += 1;
        if is_last && matcher.is_alone(sent, arrived) {
            matcher.hand_over(sent, arrived, observer);
            j += 1;
        } else {
            matcher.pre(sent, observer);
        }
    }
    (i, j)
}

/// Counts the queue's keys per slot of a hash table. If a slot is empty, no key that maps to it is in the
/// queue.
struct Filter {
    on: bool,
    slots: Vec<u16>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { on: false, slots: vec![0; Self::SLOTS] }
    }
}

impl Filter {
    /// The filter has 32 slots for each entry of the longest queue, so about 3 % of keys share a slot with
    /// another key.
    const SLOTS: usize = 1 << 17;

    fn slot(&mut self, key: u64) -> &mut u16 {
        &mut self.slots[Self::place(key)]
    }

    /// Keys are counters or hashes, and the low bits of both are well distributed.
    fn place(key: u64) -> usize {
        (key ^ (key >> 32)) as usize & (Self::SLOTS - 1)
    }

    fn add(&mut self, key: u64) {
        *self.slot(key) += 1;
    }

    fn remove(&mut self, key: u64) {
        *self.slot(key) -= 1;
    }

    fn may_hold(&self, key: u64) -> bool {
        self.slots[Self::place(key)] != 0
    }
}

/// The keys of the last [`RECENT`] packets that arrived. They are hashed only on lookup. A capture without
/// foreign packets and duplicates never needs a lookup.
struct Recent {
    ring: Vec<u64>,
    /// Number of keys pushed. The ring holds the last of them.
    pushed: u64,
    /// Number of keys hashed.
    hashed: u64,
    /// Push count at which each key was last pushed.
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

/// Hashes a key that is already a counter or a hash. One multiplication spreads both.
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

/// Builds [`KeyHash`]es for maps indexed by key.
pub type KeyHasher = BuildHasherDefault<KeyHash>;

mod outcome;
pub mod recognition;
#[cfg(test)]
mod tests;
