//! Interference that the forwarder's loop causes itself: pauses and page faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wiretail_schema::run::interference::InterferenceKind;

use super::{Injected, InterferencePlan, this_thread};
use crate::clock::monotonic_ns;
use crate::counters::stalls::StallLog;
use crate::error::{DataplaneError, plan as plan_error};
use crate::sys::pages::Pages;

/// Duration of a pause, in ns.
pub const PAUSE_NS: u64 = 300_000;
/// Duration of an injection of page faults, in ns.
const FAULTS_NS: u64 = 60_000;
/// Maximum number of pages per injection. A page fault takes more than half a microsecond.
const FAULTS_MAX: usize = 128;
/// Maximum number of pages per trial: 512 MiB of 4 KiB pages.
const PAGES_MAX: usize = 1 << 17;

/// Start time of a plan, unknown until it is set. Clones share the value.
#[derive(Debug, Clone, Default)]
pub struct Origin(Arc<AtomicU64>);

impl Origin {
    /// Sets the start time, CLOCK_MONOTONIC in ns.
    pub fn set(&self, time_ns: u64) {
        self.0.store(time_ns, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|time_ns| *time_ns > 0)
    }
}

/// Interference of a forwarder's loop, ready to be executed.
#[derive(Debug)]
pub struct OwnInterference {
    times: Vec<(u64, InterferenceKind)>,
    next: usize,
    origin: Origin,
    pages: Option<Pages>,
    page: usize,
    /// Kind, start and end of each injection, all in one thread.
    carried_out: Vec<(InterferenceKind, u64, u64)>,
    thread: (i32, String),
}

impl OwnInterference {
    /// Selects the kinds of the plan that a loop causes itself. Their times are relative to `origin`.
    ///
    /// # Errors
    /// Returns an error if there are too many page faults or the memory cannot be mapped.
    pub fn new(plan: &InterferencePlan, origin: Origin) -> Result<Self, DataplaneError> {
        let times: Vec<_> = plan.times().into_iter().filter(|(_, kind)| kind.is_own()).collect();
        let faults = times.iter().filter(|(_, kind)| *kind == InterferenceKind::PageFaults).count();
        let count = faults * FAULTS_MAX;
        if count > PAGES_MAX {
            let most = "at most 1024 injections of page faults per trial: increase the interval or shorten the trial";
            return Err(plan_error("number of page fault injections", faults, most));
        }
        let pages = (count > 0).then(|| Pages::fresh(count)).transpose();
        let pages = pages.map_err(|source| DataplaneError::Thread {
            step: format!("mapping {count} pages"),
            source,
            next: "raise the limit on virtual memory (`ulimit -v`), or inject fewer page faults",
        })?;
        let carried_out = Vec::with_capacity(times.len());
        Ok(Self { times, next: 0, origin, pages, page: 0, carried_out, thread: Default::default() })
    }

    /// Must be called in the loop's thread before the loop starts.
    pub(crate) fn begin(&mut self) {
        self.thread = this_thread();
    }

    /// Runs the next injection if its time has come. The injection is not recorded as a stall.
    #[inline]
    pub(crate) fn look(&mut self, stalls: &mut StallLog) {
        let (Some(&(after, kind)), Some(origin)) = (self.times.get(self.next), self.origin.get()) else {
            return;
        };
        let now = monotonic_ns();
        if now >= origin + after {
            stalls.tick(now);
            let end_ns = self.carry_out(kind, now);
            stalls.skip(end_ns);
        }
    }

    /// Returns the end time.
    #[cold]
    fn carry_out(&mut self, kind: InterferenceKind, start_ns: u64) -> u64 {
        self.next += 1;
        let mut now = start_ns;
        match kind {
            InterferenceKind::Pause => {
                while now < start_ns + PAUSE_NS {
                    now = monotonic_ns();
                }
            }
            _ => {
                let last = self.page + FAULTS_MAX;
                while now < start_ns + FAULTS_NS && self.page < last {
                    if let Some(pages) = &mut self.pages {
                        pages.touch(self.page);
                    }
                    self.page += 1;
                    now = monotonic_ns();
                }
            }
        }
        self.carried_out.push((kind, start_ns, now));
        now
    }

    /// The injections that took place.
    pub(crate) fn finish(self) -> Vec<Injected> {
        let (pid, task) = self.thread;
        let injected =
            |(kind, start_ns, end_ns)| Injected { kind, start_ns, end_ns, pid, task: task.clone() };
        self.carried_out.into_iter().map(injected).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: InterferenceKind, duration_ns: u64) -> InterferencePlan {
        InterferencePlan { kinds: vec![kind], every_ns: 1_000_000, duration_ns, seed: 1 }
    }

    #[test]
    fn loop_injects_at_planned_times_only() {
        for kind in [InterferenceKind::Pause, InterferenceKind::PageFaults] {
            let origin = Origin::default();
            let mut own = OwnInterference::new(&plan(kind, 2_500_000), origin.clone()).unwrap();
            let mut stalls = StallLog::default();
            own.begin();
            own.look(&mut stalls);
            assert_eq!(own.carried_out.len(), 0, "the origin is not known");
            let begun = monotonic_ns();
            origin.set(begun);
            while own.carried_out.len() < 2 && monotonic_ns() < begun + 10_000_000_000 {
                own.look(&mut stalls);
            }
            own.look(&mut stalls);
            let injected = own.finish();
            assert_eq!(injected.len(), 2);
            for (injected, number) in injected.iter().zip(1..) {
                assert!(injected.start_ns >= begun + number * 1_000_000 && injected.kind == kind);
                assert_eq!(injected.pid, rustix::thread::gettid().as_raw_nonzero().get());
            }
            let longest = injected.iter().map(|injected| injected.end_ns - injected.start_ns).max();
            assert!(kind == InterferenceKind::PageFaults || longest >= Some(PAUSE_NS));
        }
    }

    #[test]
    fn rejects_too_many_page_faults() {
        let many = plan(InterferenceKind::PageFaults, 2_000_000_000);
        let error = OwnInterference::new(&many, Origin::default()).unwrap_err().to_string();
        assert!(error.contains("1024"), "{error}");
    }
}
