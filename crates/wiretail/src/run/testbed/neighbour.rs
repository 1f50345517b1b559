//! Neighbours of the packets' cores.
//!
//! A noisy one wears out what the cores share. It sweeps through more memory than caches hold, and gives memory back and
//! takes it anew, for which every core that runs this process has to be interrupted (TLB shootdown). A crowd only
//! computes, a thread for each core, wherever the scheduler lets it: what any other program of a shared machine does.

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

/// Memory that is swept: more than a core's share of the last cache, in bytes.
const SWEPT_LEN: usize = 64 << 20;
/// What a cache loads at once, in bytes.
const LINE: usize = 64;
/// Memory that is given back and taken anew: more than the allocator keeps for itself, in bytes.
const TAKEN_LEN: usize = 4 << 20;
/// Memory that is swept between, in bytes.
const BETWEEN: usize = 1 << 20;
/// The kernel gives memory by the page, in bytes.
const PAGE: usize = 4096;

/// The neighbours of a trial, while they run.
pub struct Neighbours<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<Noise>>>,
}

impl<'scope> Neighbours<'scope> {
    /// Starts those that the trial asks for; they end when `stop` is set. A crowd is where isolation moves everybody,
    /// `beside`, or anywhere.
    ///
    /// # Errors
    /// The kernel does not say which cores there are.
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

    /// What they did, when they were told to stop; None where there were none.
    ///
    /// # Errors
    /// A core that is not allowed.
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

/// What neighbours did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noise {
    /// Bytes of memory swept.
    pub swept: u64,
    /// How often memory was given back.
    pub given_back: u64,
    /// How long a crowd had cores, in ns.
    pub computed_ns: u64,
}

impl Noise {
    /// In words, for a trial's notes: a neighbour that was not let run made no noise.
    pub fn note(&self) -> String {
        if self.swept == 0 {
            return format!("the CPU-load neighbour had cores for {:.3} s", self.computed_ns as f64 / 1e9);
        }
        let gib = self.swept as f64 / f64::from(1 << 30);
        format!(
            "the noisy neighbour swept {gib:.2} GiB of memory and gave memory back {} times",
            self.given_back
        )
    }
}

/// Lets the calling thread run on every core that this process may use.
fn go_anywhere() -> Result<()> {
    let mut cores = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    Ok(sched_setaffinity(None, &cores)?)
}

/// Computes on the calling thread until it is told to stop.
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

/// Makes noise on the calling thread until it is told to stop.
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
    fn noise_is_made_until_it_is_stopped() {
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
    fn a_cpu_load_is_one_for_each_core() {
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
