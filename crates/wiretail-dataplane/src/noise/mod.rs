//! Noise: a loop that only reads the clock, and keeps every gap between two readings that is longer than a reading: its
//! core was taken from it in between. Now and then it does a fixed piece of work instead ([`work`]), whose time tells
//! how fast the core is.
//!
//! The loop makes no system call but the clock's (and most kernels answer that without one), behind a gap one more, which
//! asks whether the scheduler ran somebody else. That question and the work count as time in which nobody watched.

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

/// Gaps of this and more are kept unless asked otherwise, in ns: some thirty readings of the clock, and less than the
/// shortest interrupt.
pub const THRESHOLD_NS: u64 = 1_000;
/// How long a loop of real-time priority may watch before it rests, in ns. Linux throttles one that runs for longer than
/// `sched_rt_runtime_us` of each second, and its fair server takes the core for those who wait, from 0.95 s on.
pub const WATCH_NS: u64 = 700_000_000;
/// How long it rests then, in ns: whoever waits for the core has it meanwhile.
pub const REST_NS: u64 = 100_000_000;
/// Gaps that are kept one by one; beyond, they are only counted by their length. 24 MiB.
const KEPT_MAX: usize = 1 << 20;
/// From one piece of work to the next, in ns: at random between these, so that it keeps time with nothing.
const WORK_EVERY_NS: [u64; 2] = [4_000_000, 12_000_000];

/// How to watch a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoisePlan {
    /// For how long, in ns, rests included.
    pub duration_ns: u64,
    /// Shortest gap that is kept, in ns: 1 to 1,000,000.
    pub threshold_ns: u64,
    /// Whether it rests for [`REST_NS`] behind each [`WATCH_NS`].
    pub rests: bool,
    /// Whether it works now and then.
    pub works: bool,
    /// Of the times between two pieces of work.
    pub seed: u64,
}

/// What a loop saw. All its memory is taken when it is made.
#[derive(Debug, Clone)]
pub struct NoiseLog {
    plan: NoisePlan,
    /// The thread, by the kernel's number.
    pub thread: i32,
    /// Its first reading of the clock, CLOCK_MONOTONIC in ns.
    pub from_ns: u64,
    /// Its last one.
    pub to_ns: u64,
    /// How long it watched: without rests and work, in ns.
    pub watched_ns: u64,
    /// How long pieces of work took, in ns.
    pub work: Histogram,
    /// Gaps by their length: number and sum in ns, in buckets of `lengths`.
    lengths: Box<[[u64; 2]]>,
    steps: Vec<u64>,
    kept: KeptStalls,
    gaps: u64,
    preempted: u64,
}

/// Buckets an octave of lengths.
const PARTS: usize = 16;

/// The bucket of a length: sixteen an octave.
#[inline]
fn bucket(ns: u64) -> usize {
    let octave = ns.max(1).ilog2() as usize;
    let part = ((u128::from(ns) << 4 >> octave) & 15) as usize;
    octave * PARTS + part
}

impl NoiseLog {
    /// An empty one.
    ///
    /// # Errors
    /// A threshold out of its range.
    pub fn new(plan: NoisePlan) -> Result<Self, DataplaneError> {
        if !(1..=1_000_000).contains(&plan.threshold_ns) {
            return Err(plan_error("threshold of gaps in ns", plan.threshold_ns, "1 to 1,000,000"));
        }
        // Written once, as what is kept.
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

    /// Watches on the calling thread until the plan's time is over or it is told to stop; put the thread in its
    /// [`Placement`](crate::placement::Placement) first.
    pub fn watch(&mut self, stop: &AtomicBool) {
        self.thread = gettid().as_raw_nonzero().get();
        let mut work = Work::new();
        let mut random = Random::new(self.plan.seed);
        let mut pause_ns = || WORK_EVERY_NS[0] + random.below(WORK_EVERY_NS[1] - WORK_EVERY_NS[0]);
        let mut preemptions = Preemptions::begin();
        // Its memory, and what the processor knows of its branches, is not the core's speed.
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
                    // Others ran meanwhile as they should: that is no gap.
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

    /// The gaps in their order; of very many short ones, the first ones.
    pub fn kept(&self) -> &[Stall] {
        self.kept.all()
    }

    /// How many there were.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// In how many of them the scheduler gave the core to another thread.
    pub fn preempted(&self) -> u64 {
        self.preempted
    }

    /// Lengths in ns and how many gaps had them, in ascending order: exact where all are kept, else the means of
    /// buckets that are a sixteenth of an octave wide.
    pub fn lengths(&self) -> Vec<(u64, u64)> {
        if self.kept().len() as u64 == self.gaps {
            let mut all: Vec<u64> = self.kept().iter().map(|gap| gap.duration_ns).collect();
            all.sort_unstable();
            return all.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect();
        }
        let used = self.lengths.iter().filter(|[count, _]| *count > 0);
        used.map(|[count, total_ns]| (total_ns / count, *count)).collect()
    }

    /// Median time between two readings of the clock, in ns; 0 without any.
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
    fn gaps_lie_in_the_time_that_was_watched() {
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
    fn rests_are_no_gaps() {
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
    fn an_early_end_is_an_end() {
        let mut log = NoiseLog::new(NoisePlan { duration_ns: u64::MAX, ..PLAN }).expect("a plan");
        log.watch(&AtomicBool::new(true));
        assert_eq!((log.gaps(), log.watched_ns), (0, 0));
        assert!(log.lengths().is_empty());
        assert!(NoiseLog::new(NoisePlan { threshold_ns: 0, ..PLAN }).is_err());
    }

    #[test]
    fn what_is_only_counted_keeps_its_sum() {
        let mut log = NoiseLog::new(PLAN).expect("a plan");
        let lengths: Vec<u64> = (0..3_000).map(|number| 1_000 + number * number).collect();
        lengths.iter().for_each(|length| log.gap(5, 5 + length, length % 2 == 0));
        log.kept = KeptStalls::with_room(0);
        let counted = log.lengths();
        assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), 3_000);
        assert!(counted.is_sorted_by(|a, b| a.0 < b.0));
        // A mean of a bucket is off by less than a ns a gap.
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
