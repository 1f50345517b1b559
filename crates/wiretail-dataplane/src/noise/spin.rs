//! A loop that only reads the clock, on a core whose events are traced. The gaps between readings show the
//! total cost of the events. Tracepoints cover only a part of this cost: under a hypervisor, most of an
//! interrupt's time passes before the first tracepoint.
//!
//! [`interfere`] provokes events that are rare on an idle core, from another core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, gettid, membarrier};
use wiretail_schema::causes::trace::{Gap, Spin};
use wiretail_schema::units::Share;

use crate::clock::monotonic_ns;
use crate::error::{DataplaneError, plan as plan_error};
use crate::sys::mapping::{Mapping, PAGE_LEN};

/// Default threshold for gaps, in ns: about thirty clock readings.
pub const THRESHOLD_NS: u64 = 1_000;
/// Limit on the duration, in ns: after about 0.9 s, the scheduler's fair server takes the core away.
pub const DURATION_NS_MAX: u64 = 900_000_000;
/// Maximum number of gaps. The loop ends when it has recorded this many.
const GAPS_MAX: usize = 1 << 16;
/// Number of pages to touch for the first time.
const PAGES: usize = 512;
/// The slowest tenth of the page times is discarded because it contains interrupts.
const PAGES_USUAL: usize = PAGES - PAGES / 10;

/// Settings of a spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpinPlan {
    /// Core of the calling thread.
    pub core: u32,
    /// Duration in ns; must be less than [`DURATION_NS_MAX`].
    pub duration_ns: u64,
    /// Threshold: shortest gap to record, in ns.
    pub threshold_ns: u64,
    /// Whether to measure the cost of a page fault afterwards.
    pub page_faults: bool,
}

/// Spins in the calling thread. Apply its [`Placement`](crate::placement::Placement) first.
///
/// # Errors
/// Returns an error if the duration or the threshold is out of range, or if memory is insufficient.
pub fn spin(plan: &SpinPlan) -> Result<Spin, DataplaneError> {
    if plan.duration_ns >= DURATION_NS_MAX {
        return Err(plan_error("duration of a spin in ns", plan.duration_ns, "less than 900,000,000"));
    }
    if !(1..=1_000_000).contains(&plan.threshold_ns) {
        return Err(plan_error("threshold of a spin in ns", plan.threshold_ns, "1 to 1,000,000"));
    }
    // Touches the memory now to avoid page faults in the loop.
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

/// The loop: counts clock steps below the threshold by length, and stores longer ones while there is room.
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

/// Median of values given as counts per value; 0 if there are none.
pub(crate) fn median(counts: &[u64]) -> u64 {
    Share::MEDIAN.of_counted((0..).zip(counts.iter().copied())).unwrap_or(0)
}

/// Mean time of the first access to a page, in ns, without the slowest tenth.
fn touch() -> Result<u64, DataplaneError> {
    let memory = Mapping::untouched(PAGES * PAGE_LEN).map_err(|source| DataplaneError::Thread {
        step: "mapping memory for page faults".to_owned(),
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

/// Makes the kernel interrupt the cores of this process's other threads until `stop` is set. Alternates
/// between unmapping a page, which these cores must flush (flush_tlb_func), and a memory barrier
/// (membarrier(2)). Returns the number of unmapped pages and the number of barriers.
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
    fn gaps_lie_within_spin() {
        let interfered = |_| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let interfering = scope.spawn(|| interfere(Duration::from_millis(1), &stop));
                let spin = spin(&PLAN).expect("a plan");
                stop.store(true, Ordering::Relaxed);
                (spin, interfering.join().expect("no panic"))
            })
        };
        // On a busy machine, the other thread may not get a core during a spin.
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
    fn median_of_counts() {
        assert_eq!(median(&[0, 0, 5, 1, 1]), 2);
        assert_eq!(median(&[1, 0, 0, 3]), 3);
        assert_eq!(median(&[0, 0]), 0);
    }

    #[test]
    fn spin_ends_at_maximum_number_of_gaps() {
        let (mut gaps, mut steps) = (Vec::with_capacity(3), []);
        let span = look(u64::MAX / 2, &mut gaps, &mut steps);
        assert_eq!((gaps.len(), gaps[2].to_ns), (gaps.capacity(), span.to_ns));
    }

    #[test]
    fn rejects_values_out_of_range() {
        let error = |plan| spin(&plan).unwrap_err().to_string();
        assert!(error(SpinPlan { duration_ns: DURATION_NS_MAX, ..PLAN }).contains("900000000"));
        assert!(error(SpinPlan { threshold_ns: 0, ..PLAN }).contains("threshold"));
    }
}
