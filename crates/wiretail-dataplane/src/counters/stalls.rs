//! Stalls: a loop that never sleeps reads the clock again and again; where two readings are far apart,
//! its core was taken from it in between. Behind a stall, and only there, the loop asks the kernel whether
//! the scheduler ran somebody else meanwhile; if not, it was an interrupt, or whoever runs the virtual machine.

use crate::sys::thread::preemptions;

/// Gaps below this belong to the loop's own work, in ns. A timer interrupt takes some 10 us of a virtual
/// processor, as long as the shortest delays that are worth telling apart.
pub const STALL_NS: u64 = 5_000;

/// Stalls that are kept one by one; beyond, they are only counted.
const KEPT_MAX: usize = 1 << 15;
/// Half of the room is for stalls of at least this many ns: in a long trial the ticks would take all of it.
const LONG_STALL_NS: u64 = 100_000;

/// One stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The last reading before it, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// Until the first reading after it, in ns.
    pub duration_ns: u64,
    /// The scheduler gave the core to another thread.
    pub preempted: bool,
}

/// Stalls that are kept one by one, as far as there is room.
#[derive(Debug, Clone)]
pub(crate) struct KeptStalls {
    all: Vec<Stall>,
    room: usize,
}

impl KeptStalls {
    /// None yet, and room for so many.
    pub(crate) fn with_room(room: usize) -> Self {
        // Written once, so that no page fault of the loop's own falls into it.
        let mut all = vec![Stall { start_ns: 1, duration_ns: 1, preempted: true }; room];
        all.clear();
        Self { all, room }
    }

    /// Keeps it if there is room.
    pub(crate) fn add(&mut self, stall: Stall) {
        let room = if stall.duration_ns >= LONG_STALL_NS { self.room } else { self.room / 2 };
        if self.all.len() < room {
            self.all.push(stall);
        }
    }

    /// In their order; of very many short ones, the first ones.
    pub(crate) fn all(&self) -> &[Stall] {
        &self.all
    }
}

/// Whether the scheduler gave the calling thread's core to another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Preemptions {
    seen: u64,
}

impl Preemptions {
    /// From now on.
    pub(crate) fn begin() -> Self {
        Self { seen: preemptions().unwrap_or(0) }
    }

    /// Whether it did since the last time it was asked.
    pub(crate) fn any(&mut self) -> bool {
        let before = self.seen;
        self.seen = preemptions().unwrap_or(before);
        self.seen > before
    }
}

/// The stalls of one loop. All its memory is taken when it is made.
#[derive(Debug, Clone)]
pub struct StallLog {
    last_ns: u64,
    kept: KeptStalls,
    count: u64,
    total_ns: u64,
    preemptions: Preemptions,
}

impl Default for StallLog {
    fn default() -> Self {
        Self {
            last_ns: u64::MAX,
            kept: KeptStalls::with_room(KEPT_MAX),
            count: 0,
            total_ns: 0,
            preemptions: Preemptions::default(),
        }
    }
}

impl StallLog {
    /// Begins: to be called on the loop's own thread, before its first turn.
    pub fn begin(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        self.preemptions = Preemptions::begin();
    }

    /// Takes a reading of the clock; a gap since the last one may be a stall.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.last_ns) >= STALL_NS {
            self.stalled(now_ns);
        }
        self.last_ns = now_ns;
    }

    /// Takes a reading behind work that may take long of itself: no stall, however far the last one is.
    #[inline]
    pub fn skip(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    #[cold]
    fn stalled(&mut self, now_ns: u64) {
        let duration_ns = now_ns - self.last_ns;
        self.count += 1;
        self.total_ns += duration_ns;
        let preempted = self.preemptions.any();
        self.kept.add(Stall { start_ns: self.last_ns, duration_ns, preempted });
    }

    /// The stalls in their order; of very many short ones, the first ones.
    pub fn kept(&self) -> &[Stall] {
        self.kept.all()
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long together, in ns.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::placement::Placement;

    #[test]
    fn half_of_the_room_is_for_long_ones() {
        let mut kept = KeptStalls::with_room(4);
        let lengths = [1, 2, 3, LONG_STALL_NS, 4, LONG_STALL_NS + 1, LONG_STALL_NS + 2];
        for duration_ns in lengths {
            kept.add(Stall { start_ns: 0, duration_ns, preempted: false });
        }
        let found: Vec<u64> = kept.all().iter().map(|stall| stall.duration_ns).collect();
        assert_eq!(found, [1, 2, LONG_STALL_NS, LONG_STALL_NS + 1]);
    }

    #[test]
    fn gaps_are_stalls() {
        let mut log = StallLog::default();
        for now in [1_000, 1_030, 1_030 + STALL_NS, 500_000] {
            log.tick(now);
        }
        log.skip(900_000);
        log.tick(900_030);
        let second_ns = 500_000 - 1_030 - STALL_NS;
        let kept: Vec<_> = log.kept().iter().map(|stall| (stall.start_ns, stall.duration_ns)).collect();
        assert_eq!(kept, [(1_030, STALL_NS), (1_030 + STALL_NS, second_ns)]);
        assert_eq!((log.count(), log.total_ns()), (2, STALL_NS + second_ns));
    }

    /// Runs a loop that never sleeps beside another one, on one core: the scheduler has to take it from each in turn.
    pub(crate) fn beside_a_neighbour<T: Send>(watch: impl FnOnce() -> T + Send) -> T {
        let stop = AtomicBool::new(false);
        let place = Placement { cpu: Some(0), ..Placement::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                place.apply().expect("the first core");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let watching = scope.spawn(|| {
                place.apply().expect("the first core");
                watch()
            });
            let watched = watching.join().expect("the loop");
            stop.store(true, Ordering::Relaxed);
            watched
        })
    }

    #[test]
    fn the_scheduler_is_named() {
        let log = beside_a_neighbour(|| {
            let (mut log, end) = (StallLog::default(), monotonic_ns() + 10_000_000_000);
            log.begin(monotonic_ns());
            while !log.kept().iter().any(|stall| stall.preempted) && monotonic_ns() < end {
                log.tick(monotonic_ns());
            }
            log
        });
        assert!(log.kept().iter().any(|stall| stall.preempted), "{:?}", log.kept());
    }
}
