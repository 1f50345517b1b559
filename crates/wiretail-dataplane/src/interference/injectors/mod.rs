//! Injector threads. Each sleeps until its planned times and then interferes with the device's core.

mod kinds;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope, ScopedJoinHandle, park, park_timeout};
use std::time::Duration;

use wiretail_schema::run::interference::InterferenceKind;

use self::kinds::{Interferer, TIMERS, TIMERS_END_NS, TIMERS_MAX};
use super::own::Origin;
use super::{Injected, InterferencePlan, this_thread};
use crate::clock::monotonic_ns;
use crate::error::{DataplaneError, plan as plan_error};
use crate::placement::Placement;

/// Real-time priority of hogs and timers. It is higher than that of the device and all other real-time
/// threads of a run.
const PRIORITY_HOG: u8 = 60;
/// Time from readiness to the start of the plan, in ns. Timers are armed during this time.
const LEAD_NS: u64 = 100_000_000;

/// Cores and priorities of the injectors.
#[derive(Clone, Copy)]
pub struct InjectorSpec<'a> {
    /// The core of the device.
    pub device: usize,
    /// The core of injectors that act from another core.
    pub housekeeping: usize,
    /// Real-time priority on the housekeeping core.
    pub priority: u8,
    /// Moves the calling thread into a private network namespace whose loopback packets are received on the
    /// device's core. An error must contain advice to the user.
    pub loopback: &'a (dyn Fn() -> Result<(), DataplaneError> + Sync),
}

/// Running injectors.
#[derive(Debug)]
pub struct Injectors<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<Vec<Injected>, DataplaneError>>>,
    stop: &'scope AtomicBool,
    origin_ns: u64,
}

impl<'scope> Injectors<'scope> {
    /// Starts one thread for each kind of the plan that the forwarder's loop does not cause itself. Returns
    /// when all threads are ready. `stop` must be false and must not be used for other purposes.
    ///
    /// # Errors
    /// Returns an error if a core is not allowed, real-time priority is not permitted, the limit on open
    /// files is too low for the plan's timers, or the kernel lacks membarrier or UDP_SEGMENT.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        plan: &'scope InterferencePlan,
        spec: InjectorSpec<'scope>,
        stop: &'scope AtomicBool,
    ) -> Result<Self, DataplaneError> {
        let origin = Origin::default();
        let mut injectors = Self { threads: Vec::new(), stop, origin_ns: 0 };
        let (ready, others) = mpsc::channel();
        for kind in plan.kinds.iter().copied().filter(|kind| !kind.is_own()) {
            let injector = Injector { kind, after: plan.times_of(kind), spec, stop, origin: origin.clone() };
            let ready = ready.clone();
            let thread = Builder::new().name(injector.name().to_owned()).spawn_scoped(scope, move || {
                let prepared = injector.prepare();
                let _ = ready.send(prepared.is_ok());
                // The receiver stops when all senders are dropped.
                drop(ready);
                prepared.and_then(|prepared| injector.run(prepared))
            });
            match thread {
                Ok(thread) => injectors.threads.push(thread),
                Err(source) => {
                    let _ = injectors.stop();
                    let (step, next) =
                        ("starting a thread".to_owned(), "check the limit on processes (`ulimit -u`)");
                    return Err(DataplaneError::Thread { step, source, next });
                }
            }
        }
        drop(ready);
        // A thread that panicked does not report that it is ready; `stop` propagates the panic.
        let ready = others.iter().filter(|ready| *ready).count();
        if ready < injectors.threads.len() {
            return injectors.stop().and(Err(plan_error("number of injectors", ready, "one for each kind")));
        }
        injectors.origin_ns = monotonic_ns() + LEAD_NS;
        origin.set(injectors.origin_ns);
        injectors.threads.iter().for_each(|thread| thread.thread().unpark());
        Ok(injectors)
    }

    /// Start of the plan, CLOCK_MONOTONIC in ns.
    pub fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Ends all threads and returns the interference that they caused.
    ///
    /// # Errors
    /// Returns the first error of a thread.
    pub fn stop(mut self) -> Result<Vec<Injected>, DataplaneError> {
        self.end();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let results: Vec<Result<Vec<Injected>, DataplaneError>> =
            std::mem::take(&mut self.threads).into_iter().map(join).collect();
        let mut injected: Vec<Injected> =
            results.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        injected.sort_by_key(|injected| injected.start_ns);
        Ok(injected)
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Injectors<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// An injector thread.
struct Injector<'a> {
    kind: InterferenceKind,
    /// Planned times, in ns since the origin.
    after: Vec<u64>,
    spec: InjectorSpec<'a>,
    stop: &'a AtomicBool,
    origin: Origin,
}

/// Resources of an injector.
enum Prepared {
    /// Timers, which expire without further action of the thread.
    Timers(Vec<OwnedFd>),
    /// An activity that the thread performs at each planned time.
    Ready(Interferer),
}

impl Injector<'_> {
    fn name(&self) -> &'static str {
        match self.kind {
            InterferenceKind::Shootdown => "wt-unmap",
            InterferenceKind::Timer => "wt-timer",
            InterferenceKind::Hog => "wt-hog",
            InterferenceKind::Softirq => "wt-flood",
            InterferenceKind::Ipi => "wt-storm",
            InterferenceKind::PageFaults | InterferenceKind::Pause => "wt-own",
        }
    }

    fn prepare(&self) -> Result<Prepared, DataplaneError> {
        // A timer expires on the core on which it was armed.
        let on_device = matches!(self.kind, InterferenceKind::Hog | InterferenceKind::Timer);
        let place = |cpu, priority| Placement { cpu: Some(cpu), fifo: Some(priority), lock_memory: false };
        match on_device {
            true => place(self.spec.device, PRIORITY_HOG).apply()?,
            false => place(self.spec.housekeeping, self.spec.priority).apply()?,
        };
        if self.kind == InterferenceKind::Softirq {
            (self.spec.loopback)()?;
        }
        if self.kind != InterferenceKind::Timer {
            return Interferer::prepare(self.kind).map(Prepared::Ready);
        }
        let timers = self.after.len() * TIMERS;
        if timers > TIMERS_MAX {
            let most = "at most 2000 groups of timers per trial: increase the interval or shorten the trial";
            return Err(plan_error("number of timer groups", self.after.len(), most));
        }
        kinds::make_timers(timers).map(Prepared::Timers)
    }

    /// Causes the interference at the planned times, then waits for the stop request. The thread must not
    /// exit early, because readers of a trace look up its name.
    ///
    /// # Errors
    /// Returns an error if the timers cannot be armed.
    fn run(&self, prepared: Prepared) -> Result<Vec<Injected>, DataplaneError> {
        let Some(origin_ns) = self.await_origin() else { return Ok(Vec::new()) };
        let times = self.after.iter().map(|after| origin_ns + after);
        let (pid, task) = this_thread();
        let injected =
            |start_ns, end_ns| Injected { kind: self.kind, start_ns, end_ns, pid, task: task.clone() };
        match prepared {
            Prepared::Timers(timers) => {
                kinds::arm(&timers, times.clone())?;
                self.stay();
                let now = monotonic_ns();
                drop(timers);
                let ends = times.map(|start| (start, start + TIMERS_END_NS));
                Ok(ends.filter(|(_, end)| *end <= now).map(|(start, end)| injected(start, end)).collect())
            }
            Prepared::Ready(mut interferer) => {
                let mut all = Vec::with_capacity(self.after.len());
                for at in times {
                    interferer.get_ready();
                    if !self.sleep_until(at) {
                        break;
                    }
                    let start_ns = monotonic_ns();
                    let end_ns = interferer.interfere(start_ns);
                    all.push(injected(start_ns, end_ns));
                }
                self.stay();
                Ok(all)
            }
        }
    }

    /// Waits for the origin. `None` if it is stopped before that.
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

    /// Sleeps until `time_ns`; returns false if it is stopped before that. Sleeps without intermediate
    /// wake-ups, which would interfere as well.
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

    /// Runs all kinds at once for a tenth of a second on one core, as far as this machine permits.
    #[test]
    fn injectors_follow_plan() {
        let plan = InterferencePlan {
            kinds: InterferenceKind::ALL.to_vec(),
            every_ns: 5_000_000,
            duration_ns: 80_000_000,
            seed: 1,
        };
        let stop = AtomicBool::new(false);
        let nothing = || Ok(());
        let spec = InjectorSpec { device: 0, housekeeping: 0, priority: 45, loopback: &nothing };
        let (origin_ns, injected) = std::thread::scope(|scope| {
            let injectors = match Injectors::start(scope, &plan, spec, &stop) {
                Ok(injectors) => injectors,
                Err(error) => return (0, Err(error)),
            };
            let origin_ns = injectors.origin_ns();
            while monotonic_ns() < origin_ns + plan.duration_ns + 1_000_000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            (origin_ns, injectors.stop())
        });
        let injected = match injected {
            Ok(injected) => injected,
            Err(error) => return println!("SKIPPED: {error}"),
        };
        let expected: Vec<_> = plan.times().into_iter().filter(|(_, kind)| !kind.is_own()).collect();
        assert_eq!(injected.len(), expected.len());
        for (injected, (after, kind)) in injected.iter().zip(expected) {
            assert_eq!(injected.kind, kind);
            assert!(injected.start_ns >= origin_ns + after && injected.end_ns > injected.start_ns);
            assert!(injected.task.starts_with("wt-") && injected.pid > 0, "{injected:?}");
        }
    }

    #[test]
    fn rejects_too_many_timers() {
        let plan = InterferencePlan {
            kinds: vec![InterferenceKind::Timer],
            every_ns: 1_000_000,
            duration_ns: 60_000_000_000,
            seed: 1,
        };
        let stop = AtomicBool::new(false);
        let nothing = || Ok(());
        let spec = InjectorSpec { device: 0, housekeeping: 0, priority: 45, loopback: &nothing };
        let error = std::thread::scope(|scope| Injectors::start(scope, &plan, spec, &stop).unwrap_err());
        let text = error.to_string();
        assert!(text.contains("number of timer groups") || text.contains("SCHED_FIFO"), "{text}");
    }
}
