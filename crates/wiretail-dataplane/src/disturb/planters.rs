//! Threads that disturb the device's core, each asleep until it is time.

mod kinds;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope, ScopedJoinHandle, park, park_timeout};
use std::time::Duration;

use wiretail_schema::disturbance::DisturbanceKind;

use self::kinds::{Disturber, TIMERS, TIMERS_END_NS, TIMERS_MAX};
use super::own::Origin;
use super::{DisturbPlan, Planted, this_thread};
use crate::clock::monotonic_ns;
use crate::error::{DataplaneError, plan as plan_error};
use crate::placement::Placement;

/// Above the device and everybody else who has a real-time priority here.
const PRIORITY_HOG: u8 = 60;
/// From when all are ready to the first moment of their plan, in ns: to arm timers.
const LEAD_NS: u64 = 100_000_000;

/// Who does it where.
#[derive(Clone, Copy)]
pub struct PlanterSpec<'a> {
    /// The core of the device.
    pub device: usize,
    /// The core from which others disturb it.
    pub housekeeping: usize,
    /// Real-time priority there.
    pub priority: u8,
    /// Puts the calling thread into a network of its own, whose loopback packets the device's core receives; the error
    /// says what to do.
    pub loopback: &'a (dyn Fn() -> Result<(), DataplaneError> + Sync),
}

/// Planters at work.
#[derive(Debug)]
pub struct Planters<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<Vec<Planted>, DataplaneError>>>,
    stop: &'scope AtomicBool,
    origin_ns: u64,
}

impl<'scope> Planters<'scope> {
    /// Starts a thread for each kind of the plan that is not the loop's own, and returns when all are ready. `stop` is
    /// unset, and is theirs.
    ///
    /// # Errors
    /// A core that is not allowed, no right to a real-time priority, more timers than files can be open, a kernel
    /// without membarrier or UDP_SEGMENT.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        plan: &'scope DisturbPlan,
        spec: PlanterSpec<'scope>,
        stop: &'scope AtomicBool,
    ) -> Result<Self, DataplaneError> {
        let origin = Origin::default();
        let mut planters = Self { threads: Vec::new(), stop, origin_ns: 0 };
        let (ready, others) = mpsc::channel();
        for kind in plan.kinds.iter().copied().filter(|kind| !kind.is_own()) {
            let planter = Planter { kind, after: plan.times_of(kind), spec, stop, origin: origin.clone() };
            let ready = ready.clone();
            let thread = Builder::new().name(planter.name().to_owned()).spawn_scoped(scope, move || {
                let prepared = planter.prepare();
                let _ = ready.send(prepared.is_ok());
                // Whoever listens does so until all have said so, or are gone.
                drop(ready);
                prepared.and_then(|prepared| planter.run(prepared))
            });
            match thread {
                Ok(thread) => planters.threads.push(thread),
                Err(source) => {
                    let _ = planters.stop();
                    let (step, next) = ("starting a thread".to_owned(), "is there a limit (`ulimit -u`)?");
                    return Err(DataplaneError::Thread { step, source, next });
                }
            }
        }
        drop(ready);
        // One that has panicked says nothing; `stop` does.
        let ready = others.iter().filter(|ready| *ready).count();
        if ready < planters.threads.len() {
            return planters.stop().and(Err(plan_error("number of planters", ready, "one for each kind")));
        }
        planters.origin_ns = monotonic_ns() + LEAD_NS;
        origin.set(planters.origin_ns);
        planters.threads.iter().for_each(|thread| thread.thread().unpark());
        Ok(planters)
    }

    /// The first moment of the plan, CLOCK_MONOTONIC in ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Ends all threads, and returns what they did.
    ///
    /// # Errors
    /// The first that could not do its work.
    pub fn stop(mut self) -> Result<Vec<Planted>, DataplaneError> {
        self.end();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let results: Vec<Result<Vec<Planted>, DataplaneError>> =
            std::mem::take(&mut self.threads).into_iter().map(join).collect();
        let mut planted: Vec<Planted> =
            results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        planted.sort_by_key(|planted| planted.start_ns);
        Ok(planted)
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Planters<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread that disturbs.
struct Planter<'a> {
    kind: DisturbanceKind,
    /// When, in ns since the origin.
    after: Vec<u64>,
    spec: PlanterSpec<'a>,
    stop: &'a AtomicBool,
    origin: Origin,
}

/// What it needs for it.
enum Prepared {
    /// Timers that will run of themselves.
    Timers(Vec<OwnedFd>),
    /// Something that it does each time.
    Ready(Disturber),
}

impl Planter<'_> {
    fn name(&self) -> &'static str {
        match self.kind {
            DisturbanceKind::Shootdown => "wt-unmap",
            DisturbanceKind::Timer => "wt-timer",
            DisturbanceKind::Hog => "wt-hog",
            DisturbanceKind::Softirq => "wt-flood",
            DisturbanceKind::Ipi => "wt-storm",
            DisturbanceKind::PageFaults | DisturbanceKind::Pause => "wt-own",
        }
    }

    fn prepare(&self) -> Result<Prepared, DataplaneError> {
        // A timer expires on the core on which it was armed.
        let on_device = matches!(self.kind, DisturbanceKind::Hog | DisturbanceKind::Timer);
        let place = |cpu, priority| Placement { cpu: Some(cpu), fifo: Some(priority), lock_memory: false };
        match on_device {
            true => place(self.spec.device, PRIORITY_HOG).apply()?,
            false => place(self.spec.housekeeping, self.spec.priority).apply()?,
        };
        if self.kind == DisturbanceKind::Softirq {
            (self.spec.loopback)()?;
        }
        if self.kind != DisturbanceKind::Timer {
            return Disturber::prepare(self.kind).map(Prepared::Ready);
        }
        let timers = self.after.len() * TIMERS;
        if timers > TIMERS_MAX {
            let most =
                "at most 2000 groups of timers in a trial: a longer time between them, or a shorter trial";
            return Err(plan_error("number of disturbances by timers", self.after.len(), most));
        }
        kinds::make_timers(timers).map(Prepared::Timers)
    }

    /// Disturbs at its times, and stays until it is stopped: whoever reads a trace asks for its name.
    ///
    /// # Errors
    /// Timers that can't be armed.
    fn run(&self, prepared: Prepared) -> Result<Vec<Planted>, DataplaneError> {
        let Some(origin_ns) = self.await_origin() else { return Ok(Vec::new()) };
        let times = self.after.iter().map(|after| origin_ns + after);
        let (pid, task) = this_thread();
        let planted =
            |start_ns, end_ns| Planted { kind: self.kind, start_ns, end_ns, pid, task: task.clone() };
        match prepared {
            Prepared::Timers(timers) => {
                kinds::arm(&timers, times.clone())?;
                self.stay();
                let now = monotonic_ns();
                drop(timers);
                let ends = times.map(|start| (start, start + TIMERS_END_NS));
                Ok(ends.filter(|(_, end)| *end <= now).map(|(start, end)| planted(start, end)).collect())
            }
            Prepared::Ready(mut disturber) => {
                let mut all = Vec::with_capacity(self.after.len());
                for at in times {
                    disturber.get_ready();
                    if !self.sleep_until(at) {
                        break;
                    }
                    let start_ns = monotonic_ns();
                    let end_ns = disturber.disturb(start_ns);
                    all.push(planted(start_ns, end_ns));
                }
                self.stay();
                Ok(all)
            }
        }
    }

    /// The origin, once it is known; None if stopped before.
    fn await_origin(&self) -> Option<u64> {
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(origin_ns) = self.origin.get() {
                return Some(origin_ns);
            }
            park();
        }
        None
    }

    fn stay(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            park();
        }
    }

    /// False if stopped before. Asleep in one piece: a wakeup in between would be a disturbance, too.
    fn sleep_until(&self, time_ns: u64) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            match time_ns.checked_sub(monotonic_ns()) {
                None | Some(0) => return true,
                Some(left) => park_timeout(Duration::from_nanos(left)),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever this machine allows of them: all kinds at once for a tenth of a second, on one core each.
    #[test]
    fn planters_do_what_the_plan_says() {
        let plan = DisturbPlan {
            kinds: DisturbanceKind::ALL.to_vec(),
            every_ns: 5_000_000,
            duration_ns: 80_000_000,
            seed: 1,
        };
        let stop = AtomicBool::new(false);
        let nothing = || Ok(());
        let spec = PlanterSpec { device: 0, housekeeping: 0, priority: 45, loopback: &nothing };
        let (origin_ns, planted) = std::thread::scope(|scope| {
            let planters = match Planters::start(scope, &plan, spec, &stop) {
                Ok(planters) => planters,
                Err(error) => return (0, Err(error)),
            };
            let origin_ns = planters.origin_ns();
            while monotonic_ns() < origin_ns + plan.duration_ns + 1_000_000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            (origin_ns, planters.stop())
        });
        let planted = match planted {
            Ok(planted) => planted,
            Err(error) => return println!("SKIPPED: {error}"),
        };
        let expected: Vec<_> = plan.times().into_iter().filter(|(_, kind)| !kind.is_own()).collect();
        assert_eq!(planted.len(), expected.len());
        for (planted, (after, kind)) in planted.iter().zip(expected) {
            assert_eq!(planted.kind, kind);
            assert!(planted.start_ns >= origin_ns + after && planted.end_ns > planted.start_ns);
            assert!(planted.task.starts_with("wt-") && planted.pid > 0, "{planted:?}");
        }
    }

    #[test]
    fn what_can_not_be_done_is_said() {
        let plan = DisturbPlan {
            kinds: vec![DisturbanceKind::Timer],
            every_ns: 1_000_000,
            duration_ns: 60_000_000_000,
            seed: 1,
        };
        let stop = AtomicBool::new(false);
        let nothing = || Ok(());
        let spec = PlanterSpec { device: 0, housekeeping: 0, priority: 45, loopback: &nothing };
        let error = std::thread::scope(|scope| Planters::start(scope, &plan, spec, &stop).unwrap_err());
        let text = error.to_string();
        assert!(text.contains("number of disturbances by timers") || text.contains("SCHED_FIFO"), "{text}");
    }
}
