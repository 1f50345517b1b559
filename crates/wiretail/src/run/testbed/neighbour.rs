//! Neighbours that interfere with the cores of a trial.
//!
//! A noisy neighbour competes for the resources that cores share. It writes to more memory than the caches
//! hold. It also frees and allocates memory, which interrupts every core that runs this process (TLB
//! shootdown). A CPU load only computes, with one thread per core. The scheduler decides where its threads
//! run, as for any other program on a shared machine.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::Result;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use wiretail_dataplane::placement::Placement;
use wiretail_host::Cores;
use wiretail_schema::experiment::{Neighbour, Trial};

/// Size of the swept memory, in bytes: more than a core's share of the last-level cache.
const SWEPT_LEN: usize = 64 << 20;
/// Size of a cache line, in bytes.
const LINE: usize = 64;
/// Size of the memory that is freed and allocated again, in bytes. It is more than the allocator caches.
const TAKEN_LEN: usize = 4 << 20;
/// Memory swept between two allocations of this size, in bytes.
const BETWEEN: usize = 1 << 20;
/// Page size, in bytes. The kernel provides memory in pages.
const PAGE: usize = 4096;

pub struct Neighbours<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<Noise>>>,
}

impl<'scope> Neighbours<'scope> {
    /// Starts the neighbours of a trial. They end when `stop` is set. If the cores are isolated, the threads
    /// of a CPU load run on `beside`, to which isolation moves other tasks. Otherwise they run on any core.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list its cores.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        trial: &Trial,
        beside: Placement,
        stop: &'scope AtomicBool,
    ) -> Result<Self> {
        let mut threads = Vec::new();
        match trial.host.neighbour {
            Neighbour::Noisy => threads.push(scope.spawn(move || {
                beside.apply()?;
                Ok(make_noise(stop))
            })),
            Neighbour::CpuLoad => {
                let isolated = trial.host.isolate;
                for _ in Cores::read(Path::new("/"))?.usable.cores() {
                    threads.push(scope.spawn(move || {
                        if isolated {
                            beside.apply().map(drop)?
                        } else {
                            go_anywhere()?
                        }
                        Ok(compute(stop))
                    }));
                }
            }
            Neighbour::Quiet => {}
        }
        Ok(Self { threads })
    }

    /// Waits for the neighbours to end, and returns the amount of work that they did; `None` if there were no
    /// neighbours.
    ///
    /// # Errors
    /// Returns an error if a core is not allowed.
    pub fn join(self) -> Result<Option<Noise>> {
        let mut noise = None::<Noise>;
        for thread in self.threads {
            let own = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let sum = noise.get_or_insert_default();
            sum.swept += own.swept;
            sum.given_back += own.given_back;
            sum.computed_ns += own.computed_ns;
        }
        Ok(noise)
    }
}

/// Amount of work done by neighbours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noise {
    pub swept: u64,
    /// Number of times that memory was freed.
    pub given_back: u64,
    /// CPU time of a CPU load, in ns.
    pub computed_ns: u64,
}

impl Noise {
    /// Formats a note for the trial's record. It shows whether a neighbour actually ran, because a neighbour
    /// without CPU time does not interfere.
    pub fn note(&self) -> String {
        if self.swept == 0 {
            return format!("the CPU-load neighbour used {:.3} s of CPU time", self.computed_ns as f64 / 1e9);
        }
        let gib = self.swept as f64 / f64::from(1 << 30);
        format!("the noisy neighbour swept {gib:.2} GiB of memory and freed memory {} times", self.given_back)
    }
}

/// Allows the calling thread to run on every core of this process.
fn go_anywhere() -> Result<()> {
    let mut cores = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    Ok(sched_setaffinity(None, &cores)?)
}

/// Computes on the calling thread until `stop` is set.
fn compute(stop: &AtomicBool) -> Noise {
    let mut number = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            number = black_box(number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
        }
    }
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Noise { computed_ns: used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64, ..Noise::default() }
}

/// Makes noise on the calling thread until `stop` is set.
fn make_noise(stop: &AtomicBool) -> Noise {
    let mut memory = vec![0u8; SWEPT_LEN];
    let mut noise = Noise::default();
    while !stop.load(Ordering::Relaxed) {
        let from = noise.swept as usize % SWEPT_LEN;
        for place in (from..from + BETWEEN).step_by(LINE) {
            memory[place] = memory[place].wrapping_add(1);
        }
        noise.swept += BETWEEN as u64;
        let mut taken = vec![0u8; TAKEN_LEN];
        taken.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        drop(black_box(taken));
        noise.given_back += 1;
    }
    black_box(memory);
    noise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_noise_until_stopped() {
        let stop = AtomicBool::new(false);
        let noise = std::thread::scope(|scope| {
            let thread = scope.spawn(|| make_noise(&stop));
            std::thread::sleep(std::time::Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap()
        });
        assert_eq!(noise.swept, noise.given_back << 20);
        assert!(noise.note().contains("GiB"), "{}", noise.note());
    }

    #[test]
    fn cpu_load_has_one_thread_per_core() {
        let text = "title = \"t\"\nseed = 1\n[dut]\nkind = \"wire\"\n[traffic]\nrate = \"1 kpps\"\n\
                    [host]\nneighbour = \"cpu-load\"\nisolate = false";
        let trial = wiretail_schema::experiment::Experiment::parse(text).unwrap().trials().remove(0);
        let stop = AtomicBool::new(false);
        let noise = std::thread::scope(|scope| {
            let cpu_load = Neighbours::start(scope, &trial, Placement::default(), &stop).unwrap();
            assert_eq!(cpu_load.threads.len(), Cores::read(Path::new("/")).unwrap().usable.cores().len());
            std::thread::sleep(std::time::Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            cpu_load.join().unwrap().unwrap()
        });
        assert!(noise.computed_ns > 0 && noise.swept == 0);
        assert!(noise.note().contains("CPU-load"), "{}", noise.note());
    }
}
