//! Core noise: a loop that continuously reads the clock and records all gaps between two readings that exceed
//! a threshold. The core was taken away during such a gap. At intervals, the loop does a fixed amount of work
//! ([`work`]), whose duration shows the speed of the core.
//!
//! Apart from reading the clock, which needs no system call on most kernels, the loop makes one system call
//! after each gap to check whether the scheduler ran another thread. The times of this call and of the work
//! are not part of the observed time.

pub mod spin;
pub mod work;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::gettid;
use wiretail_schema::random::Random;

use self::work::Work;
use crate::clock::{monotonic_ns, sleep_until};
use crate::counters::lateness::Histogram;
use crate::counters::stalls::{KeptStalls, Preemptions, Stall};
use crate::error::{DataplaneError, plan as plan_error};
use crate::noise::spin::median;

/// Default threshold for gaps, in ns: about thirty clock readings, and less than the shortest interrupt.
pub const THRESHOLD_NS: u64 = 1_000;
/// Longest time that a loop with real-time priority observes between two rests, in ns. Linux throttles a
/// real-time thread that runs for more than `sched_rt_runtime_us` per second. In addition, the scheduler's
/// fair server gives the core to waiting threads after 0.95 s.
pub const WATCH_NS: u64 = 700_000_000;
/// Duration of a rest, in ns. Other threads can use the core during this time.
pub const REST_NS: u64 = 100_000_000;
/// Maximum number of gaps that are stored (24 MiB). Further gaps are only counted by length.
const KEPT_MAX: usize = 1 << 20;
/// Range of the random interval between two pieces of work, in ns. The interval is random to avoid synchrony
/// with periodic events.
const WORK_EVERY_NS: [u64; 2] = [4_000_000, 12_000_000];

/// Settings for observing a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoisePlan {
    /// Total duration in ns, including rests.
    pub duration_ns: u64,
    /// Threshold: shortest gap to record, in ns, 1 to 1,000,000.
    pub threshold_ns: u64,
    /// Whether to rest for [`REST_NS`] after each [`WATCH_NS`].
    pub rests: bool,
    /// Whether to do work at intervals.
    pub works: bool,
    /// Seed of the intervals between pieces of work.
    pub seed: u64,
}

/// The observations of a loop. All memory is allocated on creation.
#[derive(Debug, Clone)]
pub struct NoiseLog {
    plan: NoisePlan,
    /// TID of the observing thread.
    pub thread: i32,
    /// First clock reading, CLOCK_MONOTONIC in ns.
    pub from_ns: u64,
    /// Last clock reading, CLOCK_MONOTONIC in ns.
    pub to_ns: u64,
    /// Observed time in ns, without rests and work.
    pub watched_ns: u64,
    /// Durations of the pieces of work, in ns.
    pub work: Histogram,
    /// Number and total duration (ns) of gaps per length bucket.
    lengths: Box<[[u64; 2]]>,
    steps: Vec<u64>,
    kept: KeptStalls,
    gaps: u64,
    preempted: u64,
}

/// Buckets per octave of lengths.
const PARTS: usize = 16;

/// The bucket of a length.
#[inline]
fn bucket(ns: u64) -> usize {
    let octave = ns.max(1).ilog2() as usize;
    let part = ((u128::from(ns) << 4 >> octave) & 15) as usize;
    octave * PARTS + part
}

impl NoiseLog {
    /// Creates an empty log.
    ///
    /// # Errors
    /// Returns an error if the threshold is out of range.
    pub fn new(plan: NoisePlan) -> Result<Self, DataplaneError> {
        if !(1..=1_000_000).contains(&plan.threshold_ns) {
            return Err(plan_error("threshold of gaps in ns", plan.threshold_ns, "1 to 1,000,000"));
        }
        // Touches the memory now to avoid page faults in the loop, as for the stored gaps.
        let mut steps = vec![1; plan.threshold_ns as usize];
        steps.fill(0);
        let mut lengths = vec![[1; 2]; 64 * PARTS].into_boxed_slice();
        lengths.fill([0; 2]);
        Ok(Self {
            plan,
            thread: 0,
            from_ns: 0,
            to_ns: 0,
            watched_ns: 0,
            work: Histogram::default(),
            lengths,
            steps,
            kept: KeptStalls::with_room(KEPT_MAX),
            gaps: 0,
            preempted: 0,
        })
    }

    /// Observes the core of the calling thread until the plan's duration has passed or `stop` is set. Apply
    /// the thread's [`Placement`](crate::placement::Placement) first.
    pub fn watch(&mut self, stop: &AtomicBool) {
        self.thread = gettid().as_raw_nonzero().get();
        let mut work = Work::new();
        let mut random = Random::new(self.plan.seed);
        let mut pause_ns = || WORK_EVERY_NS[0] + random.below(WORK_EVERY_NS[1] - WORK_EVERY_NS[0]);
        let mut preemptions = Preemptions::begin();
        // The first run warms up the caches and the branch predictor, so its duration does not show the
        // core's speed.
        work.run();
        self.from_ns = monotonic_ns();
        let end_ns = self.from_ns.saturating_add(self.plan.duration_ns);
        let never = u64::MAX;
        let (mut since_ns, mut last_ns) = (self.from_ns, self.from_ns);
        let mut rest_ns = if self.plan.rests { since_ns + WATCH_NS } else { never };
        let mut work_ns = if self.plan.works { since_ns + pause_ns() } else { never };
        while last_ns < end_ns && !stop.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            match self.steps.get_mut((now_ns - last_ns) as usize) {
                Some(count) => *count += 1,
                None => {
                    self.gap(last_ns, now_ns, preemptions.any());
                    self.watched_ns += now_ns - since_ns;
                    since_ns = monotonic_ns();
                    last_ns = since_ns;
                    continue;
                }
            }
            last_ns = now_ns;
            if now_ns >= work_ns.min(rest_ns) {
                self.watched_ns += now_ns - since_ns;
                if now_ns >= rest_ns {
                    sleep_until(now_ns + REST_NS);
                    // Other threads ran during the rest, which is not a gap.
                    preemptions.any();
                    rest_ns = monotonic_ns() + WATCH_NS;
                } else {
                    let before_ns = monotonic_ns();
                    work.run();
                    let after_ns = monotonic_ns();
                    self.work.add(after_ns - before_ns);
                    work_ns = after_ns + pause_ns();
                }
                since_ns = monotonic_ns();
                last_ns = since_ns;
            }
        }
        self.watched_ns += last_ns - since_ns;
        self.to_ns = last_ns;
    }

    #[cold]
    fn gap(&mut self, start_ns: u64, end_ns: u64, preempted: bool) {
        let duration_ns = end_ns - start_ns;
        self.gaps += 1;
        self.preempted += u64::from(preempted);
        let [count, total_ns] = &mut self.lengths[bucket(duration_ns)];
        *count += 1;
        *total_ns += duration_ns;
        self.kept.add(Stall { start_ns, duration_ns, preempted });
    }

    /// The stored gaps in order. If there were too many, the later short ones are missing.
    pub fn kept(&self) -> &[Stall] {
        self.kept.all()
    }

    /// Total number of gaps.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Number of gaps in which the scheduler gave the core to another thread.
    pub fn preempted(&self) -> u64 {
        self.preempted
    }

    /// Gap lengths in ns and their counts, in ascending order. The lengths are exact if all gaps are stored.
    /// Otherwise, they are the means of buckets of a sixteenth of an octave.
    pub fn lengths(&self) -> Vec<(u64, u64)> {
        if self.kept().len() as u64 == self.gaps {
            let mut all: Vec<u64> = self.kept().iter().map(|gap| gap.duration_ns).collect();
            all.sort_unstable();
            return all.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect();
        }
        let used = self.lengths.iter().filter(|[count, _]| *count > 0);
        used.map(|[count, total_ns]| (total_ns / count, *count)).collect()
    }

    /// Median time between two clock readings, in ns; 0 if there are none.
    pub fn step_ns(&self) -> u64 {
        median(&self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::stalls::tests::beside_a_neighbour;

    const PLAN: NoisePlan =
        NoisePlan { duration_ns: 60_000_000, threshold_ns: THRESHOLD_NS, rests: false, works: true, seed: 1 };

    fn watch(plan: NoisePlan) -> NoiseLog {
        let mut log = NoiseLog::new(plan).expect("a plan");
        log.watch(&AtomicBool::new(false));
        log
    }

    #[test]
    fn gaps_lie_within_observed_time() {
        let log = watch(PLAN);
        assert!(log.to_ns - log.from_ns >= PLAN.duration_ns);
        let total_ns: u64 = log.kept().iter().map(|gap| gap.duration_ns).sum();
        assert!(total_ns <= log.watched_ns && log.watched_ns < log.to_ns - log.from_ns);
        assert!(log.kept().is_sorted_by(|gap, next| gap.start_ns + gap.duration_ns <= next.start_ns));
        assert!(log.kept().iter().all(|gap| gap.duration_ns >= THRESHOLD_NS));
        assert_eq!(log.gaps(), log.kept().len() as u64);
        assert_eq!(log.lengths().iter().map(|(ns, count)| ns * count).sum::<u64>(), total_ns);
        assert!(log.work.total() >= 2, "{:?}", log.work.total());
        assert!(log.step_ns() > 0 && log.step_ns() < THRESHOLD_NS);
    }

    #[test]
    fn rests_are_not_gaps() {
        let log = watch(NoisePlan {
            duration_ns: WATCH_NS + REST_NS + 20_000_000,
            rests: true,
            works: false,
            ..PLAN
        });
        assert!(log.watched_ns <= log.to_ns - log.from_ns - REST_NS);
        assert_eq!(log.work.total(), 0);
    }

    #[test]
    fn stop_flag_ends_observation() {
        let mut log = NoiseLog::new(NoisePlan { duration_ns: u64::MAX, ..PLAN }).expect("a plan");
        log.watch(&AtomicBool::new(true));
        assert_eq!((log.gaps(), log.watched_ns), (0, 0));
        assert!(log.lengths().is_empty());
        assert!(NoiseLog::new(NoisePlan { threshold_ns: 0, ..PLAN }).is_err());
    }

    #[test]
    fn bucketed_lengths_keep_their_sum() {
        let mut log = NoiseLog::new(PLAN).expect("a plan");
        let lengths: Vec<u64> = (0..3_000).map(|number| 1_000 + number * number).collect();
        lengths.iter().for_each(|length| log.gap(5, 5 + length, length % 2 == 0));
        log.kept = KeptStalls::with_room(0);
        let counted = log.lengths();
        assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), 3_000);
        assert!(counted.is_sorted_by(|a, b| a.0 < b.0));
        // Rounding a bucket's mean loses less than 1 ns per gap.
        let (sum, exact) = (counted.iter().map(|(ns, n)| ns * n).sum::<u64>(), lengths.iter().sum::<u64>());
        assert!(sum <= exact && exact - sum < 3_000);
        assert!((0..63).all(|octave| bucket(1 << octave) == octave * PARTS));
        assert_eq!(bucket(u64::MAX), 64 * PARTS - 1);
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn a_neighbour_of_the_same_core_is_a_preemption() {
        let log = beside_a_neighbour(|| watch(NoisePlan { duration_ns: 300_000_000, ..PLAN }));
        assert!(log.preempted() > 0 && log.kept().iter().any(|gap| gap.preempted));
    }
}
