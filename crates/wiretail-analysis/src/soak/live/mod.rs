//! Live measurement: the matcher is fed in steps and yields one record per half second.
//!
//! Each tap's packets come in order, but the taps are read one after the other, in chunks. A chunk waits
//! until the caller declares both taps complete up to a time ([`LiveMeasurement::advance`]). Up to that time
//! the packets are merged as in the offline analysis, so every packet has the same outcome.
//!
//! Records start at multiples of their length on the taps' clock. Memory holds the waiting packets, the
//! packets in flight in the matcher (sent within twice the window, up to the matcher's limit), and the
//! buckets of one record. Memory does not grow with time, and packets cause no allocations.

mod second;

use wiretail_schema::packet::Record;
use wiretail_schema::run::interval::IntervalRecord;

use crate::matching::{Matcher, merge};
use second::{SecondTally, TapSecond};

/// Length of a record, in ns. A record is written only after the taps have delivered its packets. It covers
/// half a second, so that at most about one second is lost if the process is killed.
pub const INTERVAL_NS: i64 = 500_000_000;

/// Maximum number of consecutive records without packets. After a longer silence, the log has a gap instead.
/// Otherwise, a clock that is set forward by a year would fill the disk.
const EMPTY_MAX: u32 = 60;

/// The wire on which a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tap {
    Pre,
    Post,
}

/// Settings of a live measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSettings {
    /// Window, in ns. Packets with a shorter delay are matched. After twice this time, a packet is known to
    /// be lost.
    pub window_ns: i64,
    /// Initial time, in ns; packets sent during it are excluded.
    pub trim_ns: i64,
    /// Limits of the budgets, in ns. Packets beyond each limit are counted exactly.
    pub limits_ns: Vec<i64>,
    /// Number of worst packets to keep per record.
    pub worst: usize,
}

/// A measurement that runs while packets arrive.
pub struct LiveMeasurement {
    matcher: Matcher,
    tally: SecondTally,
    pre: Side,
    post: Side,
    /// Start of the current record; `None` before the first packet.
    start_ns: Option<i64>,
    empty: u32,
    closed: Vec<IntervalRecord>,
}

#[derive(Default)]
struct Side {
    waiting: Vec<Record>,
    second: TapSecond,
}

impl Side {
    /// Number of waiting packets with timestamps before a given time.
    fn before(&self, until_ns: i64) -> usize {
        // Timestamps ascend except for rare backward steps. A packet after such a step waits for the previous
        // one.
        match self.waiting.last() {
            Some(last) if last.ts_ns >= until_ns => {
                self.waiting.iter().position(|record| record.ts_ns >= until_ns).unwrap_or(0)
            }
            _ => self.waiting.len(),
        }
    }
}

impl LiveMeasurement {
    pub fn new(settings: &LiveSettings) -> Self {
        Self {
            matcher: Matcher::new(settings.window_ns),
            tally: SecondTally::new(settings),
            pre: Side::default(),
            post: Side::default(),
            start_ns: None,
            empty: 0,
            closed: Vec::new(),
        }
    }

    /// Adds the next packet of a tap.
    #[inline]
    pub fn packet(&mut self, tap: Tap, record: Record) {
        match tap {
            Tap::Pre => {
                self.tally.first_sent(record.ts_ns);
                self.pre.waiting.push(record);
            }
            Tap::Post => self.post.waiting.push(record),
        }
    }

    /// Counts a packet without a key, of `wire_len` bytes on the wire. It is not analyzed.
    pub fn packet_without_key(&mut self, tap: Tap, wire_len: u32) {
        match tap {
            Tap::Pre => self.pre.second.without_key(wire_len),
            Tap::Post => self.post.second.without_key(wire_len),
        }
    }

    /// Adds the number of packets that a tap lost since the last call, as counted by the tap.
    pub fn dropped(&mut self, tap: Tap, packets: u64) {
        match tap {
            Tap::Pre => self.pre.second.dropped(packets),
            Tap::Post => self.post.second.dropped(packets),
        }
    }

    /// Declares that all packets of both taps with timestamps before `complete_ns` have been added.
    pub fn advance(&mut self, complete_ns: i64) {
        let mut start_ns = match self.start_ns {
            Some(start_ns) => start_ns,
            None => {
                let waiting = [self.pre.waiting.first(), self.post.waiting.first()];
                let Some(first_ns) = waiting.into_iter().flatten().map(|record| record.ts_ns).min() else {
                    return;
                };
                second_of(first_ns)
            }
        };
        loop {
            let end_ns = start_ns.saturating_add(INTERVAL_NS);
            let until_ns = end_ns.min(complete_ns);
            self.merge_before(until_ns);
            self.matcher.advance(until_ns, &mut self.tally);
            // The last representable time is never reached.
            if complete_ns < end_ns || end_ns == i64::MAX {
                break;
            }
            self.close(start_ns, INTERVAL_NS);
            start_ns = self.next_second(end_ns, complete_ns);
        }
        self.start_ns = Some(start_ns);
    }

    /// Start of the next record: `end_ns`, or later after a long silence.
    fn next_second(&self, end_ns: i64, complete_ns: i64) -> i64 {
        if self.empty < EMPTY_MAX {
            return end_ns;
        }
        let waiting = [self.pre.waiting.first(), self.post.waiting.first()];
        let next_ns = waiting.into_iter().flatten().map(|record| record.ts_ns).min().unwrap_or(i64::MAX);
        second_of(next_ns.min(complete_ns)).max(end_ns)
    }

    fn merge_before(&mut self, until_ns: i64) {
        let (i, j) = (self.pre.before(until_ns), self.post.before(until_ns));
        let (pre, post) = (&self.pre.waiting[..i], &self.post.waiting[..j]);
        self.pre.second.take(pre);
        self.post.second.take(post);
        let (merged_pre, merged_post) = merge(&mut self.matcher, pre, post, &mut self.tally);
        pre[merged_pre..].iter().for_each(|record| self.matcher.pre(record, &mut self.tally));
        post[merged_post..].iter().for_each(|record| self.matcher.post(record, &mut self.tally));
        self.pre.waiting.drain(..i);
        self.post.waiting.drain(..j);
    }

    fn close(&mut self, start_ns: i64, length_ns: i64) {
        let mut record = self.tally.take(start_ns);
        record.length_ns = length_ns;
        record.pre = self.pre.second.close(start_ns);
        record.post = self.post.second.close(start_ns);
        let seen = record.pre.packets
            + record.post.packets
            + record.pre.packets_without_key
            + record.post.packets_without_key
            + record.pre.packets_dropped
            + record.post.packets_dropped;
        self.empty = if seen + record.sent + record.extra == 0 { self.empty.saturating_add(1) } else { 0 };
        if self.empty <= EMPTY_MAX {
            self.closed.push(record);
        }
    }

    /// Returns the records that ended since the last call.
    pub fn take_closed(&mut self) -> std::vec::Drain<'_, IntervalRecord> {
        self.closed.drain(..)
    }

    /// Ends the measurement. Returns all records not taken yet. The last record ends with the last packet and
    /// counts packets still in flight as lost.
    pub fn finish(mut self) -> Vec<IntervalRecord> {
        let waiting = self.pre.waiting.iter().chain(&self.post.waiting).map(|record| record.ts_ns).max();
        if let Some(last_ns) = waiting {
            self.advance(last_ns.saturating_add(1));
        }
        // Includes packets that are still waiting after a backward step of the timestamps.
        self.merge_before(i64::MAX);
        let start_ns = self.start_ns.unwrap_or(0);
        self.matcher.finish(&mut self.tally);
        let mut record = self.tally.take(start_ns);
        let last_ns = self.pre.second.last_ns().max(self.post.second.last_ns());
        record.length_ns = last_ns.saturating_sub(start_ns).saturating_add(1).clamp(0, INTERVAL_NS);
        record.pre = self.pre.second.close(start_ns);
        record.post = self.post.second.close(start_ns);
        if record.sent + record.extra + record.pre.packets + record.post.packets > 0 {
            self.closed.push(record);
        }
        self.closed
    }
}

fn second_of(ts_ns: i64) -> i64 {
    ts_ns.div_euclid(INTERVAL_NS).saturating_mul(INTERVAL_NS)
}

#[cfg(test)]
mod tests;
