//! The paired merge of the records of both readers.
//!
//! No separate thread does the matching. Each reader pushes its batches to its queue. If a reader is ahead of
//! the other and no merger is active, it becomes the merger and matches the queued records before it reads
//! on. Two captures thus keep two cores busy, and neither has to wait until the scheduler runs a third
//! thread. The queues are bounded, so memory use does not depend on the size of the captures.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use wiretail_schema::packet::Record;

/// Capacity of a queue, in batches.
const BATCHES: usize = 8;

/// The tap of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Ingress.
    Pre = 0,
    /// Egress.
    Post = 1,
}

/// Two queues of batches, and the merger.
///
/// `merge` receives the available records of both sides, ingress first, and returns the number of records
/// that it took from each; it must take at least one. An empty slice means that the side has ended.
pub struct PairedMerge<M> {
    queues: [Queue; 2],
    merger: Mutex<Merger<M>>,
    abandoned: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    room: Condvar,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Vec<Record>>,
    /// Used vectors, for reuse.
    spare: Vec<Vec<Record>>,
    ended: bool,
}

struct Merger<M> {
    /// The current batch of each side, and the number of records taken from it.
    at_hand: [(Vec<Record>, usize); 2],
    merge: M,
}

/// Locks `mutex`, even if it is poisoned: a panic ends the program, so its data is not used any more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: FnMut(&[Record], &[Record]) -> (usize, usize)> PairedMerge<M> {
    /// Creates a paired merge that calls `merge`.
    pub fn new(merge: M) -> Self {
        let merger = Merger { at_hand: Default::default(), merge };
        Self { queues: Default::default(), merger: Mutex::new(merger), abandoned: AtomicBool::new(false) }
    }

    /// Returns the producer of one side. Dropping it ends that side.
    pub fn producer(&self, side: Side) -> Producer<'_, M> {
        Producer { paired_merge: self, side }
    }

    /// Merges until a side that has not ended has no records left.
    fn work(&self, merger: &mut Merger<M>) {
        loop {
            let mut ended = [false; 2];
            for (side, queue) in self.queues.iter().enumerate() {
                let (batch, next) = &mut merger.at_hand[side];
                if *next < batch.len() {
                    continue;
                }
                match queue.take(std::mem::take(batch)) {
                    Next::Batch(fresh) => (*batch, *next) = (fresh, 0),
                    Next::End => (ended[side], *next) = (true, 0),
                    Next::NotYet => {
                        *next = 0;
                        return;
                    }
                }
            }
            if ended == [true; 2] {
                return;
            }
            let rest = |side: usize| &merger.at_hand[side].0[merger.at_hand[side].1..];
            let taken = (merger.merge)(rest(0), rest(1));
            merger.at_hand[0].1 += taken.0;
            merger.at_hand[1].1 += taken.1;
        }
    }
}

enum Next {
    Batch(Vec<Record>),
    NotYet,
    End,
}

impl Queue {
    fn take(&self, used: Vec<Record>) -> Next {
        let mut waiting = lock(&self.waiting);
        if used.capacity() > 0 {
            waiting.spare.push(used);
        }
        match waiting.batches.pop_front() {
            Some(batch) => {
                drop(waiting);
                self.room.notify_one();
                Next::Batch(batch)
            }
            None if waiting.ended => Next::End,
            None => Next::NotYet,
        }
    }
}

/// The producer of one side. Dropping it marks the side as ended.
pub struct Producer<'a, M: FnMut(&[Record], &[Record]) -> (usize, usize)> {
    paired_merge: &'a PairedMerge<M>,
    side: Side,
}

impl<M: FnMut(&[Record], &[Record]) -> (usize, usize)> Producer<'_, M> {
    /// Returns a used vector, if there is one.
    pub fn spare(&self) -> Option<Vec<Record>> {
        lock(&self.queue().waiting).spare.pop()
    }

    /// Pushes the next batch to the queue, and merges if this side is ahead. Returns false if the other side
    /// was abandoned, so that no more records are needed.
    pub fn push(&self, batch: Vec<Record>) -> bool {
        let mine = {
            let mut waiting = lock(&self.queue().waiting);
            // This part of the file contains no packets of this tap. To `merge`, an empty slice would mean
            // the end of the side.
            if batch.is_empty() {
                waiting.spare.push(batch);
                return !self.paired_merge.abandoned.load(Ordering::Relaxed);
            }
            waiting.batches.push_back(batch);
            waiting.batches.len()
        };
        let other = lock(&self.paired_merge.queues[1 - self.side as usize].waiting).batches.len();
        let abandoned = || self.paired_merge.abandoned.load(Ordering::Relaxed);
        // The side that has fallen behind reads on, because matching would only delay it further.
        if mine >= other {
            match self.paired_merge.merger.try_lock() {
                Ok(mut merger) => self.paired_merge.work(&mut merger),
                Err(TryLockError::Poisoned(_)) => return false,
                Err(TryLockError::WouldBlock) => {}
            }
        }
        if mine >= BATCHES {
            // The other side may have stopped merging just before this batch was pushed.
            self.paired_merge.work(&mut lock(&self.paired_merge.merger));
            let waiting = lock(&self.queue().waiting);
            let is_full = |waiting: &mut Waiting| waiting.batches.len() >= BATCHES && !abandoned();
            drop(self.queue().room.wait_while(waiting, is_full));
        }
        !abandoned()
    }

    /// Stops the other side.
    pub fn abandon(&self) {
        self.paired_merge.abandoned.store(true, Ordering::Relaxed);
        for queue in &self.paired_merge.queues {
            // The lock is held here. Otherwise, a thread between its check and its sleep could miss the
            // notification.
            drop(lock(&queue.waiting));
            queue.room.notify_all();
        }
    }

    fn queue(&self) -> &Queue {
        &self.paired_merge.queues[self.side as usize]
    }
}

impl<M: FnMut(&[Record], &[Record]) -> (usize, usize)> Drop for Producer<'_, M> {
    fn drop(&mut self) {
        lock(&self.queue().waiting).ended = true;
        if std::thread::panicking() {
            self.abandon();
        } else {
            // The last producer finds the merger free and processes the rest.
            self.paired_merge.work(&mut lock(&self.paired_merge.merger));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(range: std::ops::Range<i64>) -> Vec<Record> {
        range.map(|ts_ns| Record { ts_ns, key: 0, flow: 0, wire_len: 0 }).collect()
    }

    /// Takes the records in order of time, like the matcher.
    fn by_time(taken: &mut Vec<(usize, i64)>, pre: &[Record], post: &[Record]) -> (usize, usize) {
        let (mut i, mut j) = (0, 0);
        loop {
            match (pre.get(i), post.get(j)) {
                (Some(a), Some(b)) if a.ts_ns <= b.ts_ns => (taken.push((0, a.ts_ns)), i += 1).1,
                (Some(a), None) if post.is_empty() => (taken.push((0, a.ts_ns)), i += 1).1,
                (Some(_), Some(b)) => (taken.push((1, b.ts_ns)), j += 1).1,
                (None, Some(b)) if pre.is_empty() => (taken.push((1, b.ts_ns)), j += 1).1,
                _ => return (i, j),
            }
        }
    }

    #[test]
    fn merges_both_sides_in_order_for_any_length() {
        for (pre_len, post_len) in [(5000, 5000), (0, 700), (700, 0), (20_000, 3), (0, 0)] {
            let mut taken = Vec::new();
            let paired_merge =
                PairedMerge::new(|pre: &[Record], post: &[Record]| by_time(&mut taken, pre, post));
            std::thread::scope(|scope| {
                for (side, len, size) in [(Side::Pre, pre_len, 7), (Side::Post, post_len, 13)] {
                    let paired_merge = &paired_merge;
                    scope.spawn(move || {
                        let producer = paired_merge.producer(side);
                        for start in (0..len).step_by(size as usize) {
                            assert!(producer.push(records(0..0)), "an empty batch is not the end");
                            assert!(producer.push(records(start..len.min(start + size))));
                        }
                    });
                }
            });
            drop(paired_merge);
            let mut expected: Vec<(usize, i64)> =
                (0..pre_len).map(|t| (0, t)).chain((0..post_len).map(|t| (1, t))).collect();
            expected.sort_by_key(|(side, ts)| (*ts, *side));
            assert!(taken == expected, "{pre_len} and {post_len}");
        }
    }

    #[test]
    fn abandon_wakes_waiting_producer() {
        let paired_merge = PairedMerge::new(|pre: &[Record], post: &[Record]| (pre.len(), post.len()));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let producer = paired_merge.producer(Side::Pre);
                (0..1000).take_while(|_| producer.push(records(0..1))).count()
            });
            let producer = paired_merge.producer(Side::Post);
            std::thread::sleep(std::time::Duration::from_millis(20));
            producer.abandon();
            assert!(waiter.join().expect("no panic") < 1000);
        });
    }
}
