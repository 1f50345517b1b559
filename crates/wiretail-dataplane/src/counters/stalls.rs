//! Stall detection. A loop that never sleeps reads the clock continuously; a large gap between two readings
//! means that the loop lost its core between them. Only after a stall does the loop ask the kernel whether
//! the scheduler ran another thread. If not, the cause was an interrupt or the hypervisor.

use crate::sys::thread::preemptions;

/// Minimum length of a stall in ns. Shorter gaps are attributed to the loop's own work. For comparison, a
/// timer interrupt occupies a virtual CPU for about 10 µs, which is also the length of the shortest relevant
/// delays.
pub const STALL_NS: u64 = 5_000;

/// Maximum number of stalls that are stored. Further stalls are only counted.
const KEPT_MAX: usize = 1 << 15;
/// Half of the storage is reserved for stalls of at least this many ns. In a long trial, timer ticks would
/// otherwise fill it.
const LONG_STALL_NS: u64 = 100_000;

/// A single stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Last clock reading before the stall, CLOCK_MONOTONIC in ns.
    pub start_ns: u64,
    /// Time until the first reading after the stall, in ns.
    pub duration_ns: u64,
    /// Whether the scheduler gave the core to another thread.
    pub preempted: bool,
}

/// Stored stalls, up to a maximum number.
#[derive(Debug, Clone)]
pub(crate) struct KeptStalls {
    all: Vec<Stall>,
    room: usize,
}

impl KeptStalls {
    /// Creates an empty store for up to `room` stalls.
    pub(crate) fn with_room(room: usize) -> Self {
        // Touches the memory now to avoid page faults in the loop.
        let mut all = vec![Stall { start_ns: 1, duration_ns: 1, preempted: true }; room];
        all.clear();
        Self { all, room }
    }

    /// Stores a stall if there is room.
    pub(crate) fn add(&mut self, stall: Stall) {
        let room = if stall.duration_ns >= LONG_STALL_NS { self.room } else { self.room / 2 };
        if self.all.len() < room {
            self.all.push(stall);
        }
    }

    /// The stored stalls in order. If there were too many, the later short ones are missing.
    pub(crate) fn all(&self) -> &[Stall] {
        &self.all
    }
}

/// Detects whether the scheduler gave the calling thread's core to another thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Preemptions {
    seen: u64,
}

impl Preemptions {
    /// Starts counting.
    pub(crate) fn begin() -> Self {
        Self { seen: preemptions().unwrap_or(0) }
    }

    /// Whether there was a preemption since the last call.
    pub(crate) fn any(&mut self) -> bool {
        let before = self.seen;
        self.seen = preemptions().unwrap_or(before);
        self.seen > before
    }
}

/// The stalls of a loop. All memory is allocated on creation.
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
    /// Must be called in the loop's thread before the first iteration.
    pub fn begin(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
        self.preemptions = Preemptions::begin();
    }

    /// Takes a clock reading. If the gap since the last reading is large, it is a stall.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.last_ns) >= STALL_NS {
            self.stalled(now_ns);
        }
        self.last_ns = now_ns;
    }

    /// Takes a clock reading after work that may take a long time. The gap before it is not a stall.
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

    /// The stored stalls in order. If there were too many, the later short ones are missing.
    pub fn kept(&self) -> &[Stall] {
        self.kept.all()
    }

    /// Total number of stalls.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Total duration of all stalls, in ns.
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
    fn reserves_half_of_storage_for_long_stalls() {
        let mut kept = KeptStalls::with_room(4);
        let lengths = [1, 2, 3, LONG_STALL_NS, 4, LONG_STALL_NS + 1, LONG_STALL_NS + 2];
        for duration_ns in lengths {
            kept.add(Stall { start_ns: 0, duration_ns, preempted: false });
        }
        let found: Vec<u64> = kept.all().iter().map(|stall| stall.duration_ns).collect();
        assert_eq!(found, [1, 2, LONG_STALL_NS, LONG_STALL_NS + 1]);
    }

    #[test]
    fn long_gaps_are_stalls() {
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

    /// Runs `watch` and a second thread that never sleeps on the same core, so that the scheduler must
    /// preempt both.
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
    fn detects_preemption_by_scheduler() {
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
