//! A loop that does nothing but read the clock, on a core whose events are traced: what it is away for is what an event
//! costs in all, of which the tracepoints see a part only. Under a hypervisor most of an interrupt lies before the
//! first of them.
//!
//! Events that are rare on a quiet core are provoked meanwhile, from another one ([`interfere`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, gettid, membarrier};
use wiretail_schema::causes::trace::{Gap, Spin};
use wiretail_schema::units::Share;

use crate::clock::monotonic_ns;
use crate::error::{DataplaneError, plan as plan_error};
use crate::sys::mapping::{Mapping, PAGE_LEN};

/// Gaps of this and more are kept unless asked otherwise, in ns: some thirty readings of the clock.
pub const THRESHOLD_NS: u64 = 1_000;
/// Longest spin, in ns: after most of a second the scheduler's fair server takes the core from it.
pub const DURATION_NS_MAX: u64 = 900_000_000;
/// Gaps that are kept; a spin that has seen so many ends.
const GAPS_MAX: usize = 1 << 16;
/// Pages that are touched for the first time.
const PAGES: usize = 512;
/// Of their times, those beyond this place in their order are left out: an interrupt lies in them.
const PAGES_USUAL: usize = PAGES - PAGES / 10;

/// How to spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinPlan {
    /// The core that the calling thread is on.
    pub core: u32,
    /// How long, in ns; below [`DURATION_NS_MAX`].
    pub duration_ns: u64,
    /// Shortest gap that is kept, in ns.
    pub threshold_ns: u64,
    /// Whether it is measured afterwards what a page fault costs.
    pub page_faults: bool,
}

/// Spins on the calling thread; put it in its [`Placement`](crate::placement::Placement) first.
///
/// # Errors
/// A duration or a threshold out of its range; no memory.
pub fn spin(plan: &SpinPlan) -> Result<Spin, DataplaneError> {
    if plan.duration_ns >= DURATION_NS_MAX {
        return Err(plan_error("duration of a spin in ns", plan.duration_ns, "less than 900,000,000"));
    }
    if !(1..=1_000_000).contains(&plan.threshold_ns) {
        return Err(plan_error("threshold of a spin in ns", plan.threshold_ns, "1 to 1,000,000"));
    }
    // Written once, so that no page fault of its own falls into the loop.
    let mut gaps = vec![Gap { from_ns: 1, to_ns: 1 }; GAPS_MAX];
    gaps.clear();
    let mut steps = vec![1; plan.threshold_ns as usize];
    steps.fill(0);
    let span = look(plan.duration_ns, &mut gaps, &mut steps);
    let page_fault_ns = if plan.page_faults { Some(touch()?) } else { None };
    Ok(Spin {
        core: plan.core,
        thread: gettid().as_raw_nonzero().get(),
        span,
        step_ns: median(&steps),
        gaps,
        threshold_ns: plan.threshold_ns,
        page_fault_ns,
    })
}

/// The loop: counts steps between two readings by their length, and keeps the longer ones as far as there is room.
fn look(duration_ns: u64, gaps: &mut Vec<Gap>, steps: &mut [u64]) -> Gap {
    let from_ns = monotonic_ns();
    let end_ns = from_ns + duration_ns;
    let mut last_ns = from_ns;
    while last_ns < end_ns && gaps.len() < gaps.capacity() {
        let now_ns = monotonic_ns();
        match steps.get_mut((now_ns - last_ns) as usize) {
            Some(count) => *count += 1,
            None => gaps.push(Gap { from_ns: last_ns, to_ns: now_ns }),
        }
        last_ns = now_ns;
    }
    Gap { from_ns, to_ns: last_ns }
}

/// The median of values that are counted by their length; 0 without any.
pub(crate) fn median(counts: &[u64]) -> u64 {
    Share::MEDIAN.of_counted((0..).zip(counts.iter().copied())).unwrap_or(0)
}

/// Mean time that touching a page for the first time takes, in ns, without what takes unusually long.
fn touch() -> Result<u64, DataplaneError> {
    let memory = Mapping::untouched(PAGES * PAGE_LEN).map_err(|source| DataplaneError::Thread {
        step: "memory for page faults".to_owned(),
        source,
        next: "free some memory, or set trace.page-faults = false",
    })?;
    let mut times = vec![1; PAGES];
    for (place, time) in times.iter_mut().enumerate() {
        let before = monotonic_ns();
        memory.word(place * PAGE_LEN).store(1, Ordering::Relaxed);
        *time = monotonic_ns() - before;
    }
    times.sort_unstable();
    Ok(times[..PAGES_USUAL].iter().sum::<u64>() / PAGES_USUAL as u64)
}

/// Until it is told to stop, has the kernel interrupt the cores that this process's other threads run on, in turns: a
/// page is unmapped, which they have to forget (flush_tlb_func), and a memory barrier is asked of them
/// (membarrier(2)). Returns how many of each there were.
pub fn interfere(every: Duration, stop: &AtomicBool) -> [u64; 2] {
    let has_barriers = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    let mut done = [0; 2];
    while !stop.load(Ordering::Relaxed) {
        if let Ok(page) = Mapping::untouched(PAGE_LEN) {
            page.word(0).store(1, Ordering::Relaxed);
            done[0] += 1;
        }
        std::thread::sleep(every);
        if has_barriers && membarrier(MembarrierCommand::PrivateExpedited).is_ok() {
            done[1] += 1;
            std::thread::sleep(every);
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: SpinPlan =
        SpinPlan { core: 0, duration_ns: 50_000_000, threshold_ns: THRESHOLD_NS, page_faults: true };

    #[test]
    fn gaps_lie_in_its_time() {
        let interfered = |_| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let interfering = scope.spawn(|| interfere(Duration::from_millis(1), &stop));
                let spin = spin(&PLAN).expect("a plan");
                stop.store(true, Ordering::Relaxed);
                (spin, interfering.join().expect("no panic"))
            })
        };
        // On a busy machine the other thread may not have had a core meanwhile.
        let mut tries = (0..100).map(interfered);
        let (spin, _) = tries.find(|(_, interferences)| interferences[0] > 0).expect("it disturbs");
        assert!(spin.span.to_ns - spin.span.from_ns >= PLAN.duration_ns);
        assert!(spin.gaps.iter().all(|gap| gap.to_ns - gap.from_ns >= THRESHOLD_NS));
        assert!(spin.gaps.is_sorted_by(|gap, next| gap.to_ns <= next.from_ns));
        let within = |gap: &Gap| gap.from_ns >= spin.span.from_ns && gap.to_ns <= spin.span.to_ns;
        assert!(spin.gaps.iter().all(within));
        assert!(spin.step_ns < THRESHOLD_NS);
        assert!(spin.page_fault_ns.is_some_and(|ns| ns > 0));
        assert!(
            super::spin(&SpinPlan { page_faults: false, ..PLAN }).expect("a plan").page_fault_ns.is_none()
        );
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[0, 0, 5, 1, 1]), 2);
        assert_eq!(median(&[1, 0, 0, 3]), 3);
        assert_eq!(median(&[0, 0]), 0);
    }

    #[test]
    fn it_ends_when_it_has_seen_enough() {
        let (mut gaps, mut steps) = (Vec::with_capacity(3), []);
        let span = look(u64::MAX / 2, &mut gaps, &mut steps);
        assert_eq!((gaps.len(), gaps[2].to_ns), (gaps.capacity(), span.to_ns));
    }

    #[test]
    fn what_takes_too_long_is_refused() {
        let error = |plan| spin(&plan).unwrap_err().to_string();
        assert!(error(SpinPlan { duration_ns: DURATION_NS_MAX, ..PLAN }).contains("900000000"));
        assert!(error(SpinPlan { threshold_ns: 0, ..PLAN }).contains("threshold"));
    }
}
