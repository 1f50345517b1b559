//! A noisy neighbour: a load beside the packets' cores that wears out what the cores share. It sweeps through more
//! memory than caches hold, and gives memory back and takes it anew, for which every core that runs this
//! process has to be interrupted (TLB shootdown).

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// What a neighbour did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Noise {
    /// Bytes of memory swept.
    pub swept: u64,
    /// How often memory was given back.
    pub given_back: u64,
}

impl Noise {
    /// In words, for a trial's notes: a neighbour that was not let run made no noise.
    pub fn note(&self) -> String {
        let gib = self.swept as f64 / f64::from(1 << 30);
        format!(
            "the noisy neighbour swept {gib:.2} GiB of memory and gave memory back {} times",
            self.given_back
        )
    }
}

/// Makes noise on the calling thread until it is told to stop.
pub fn make_noise(stop: &AtomicBool) -> Noise {
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
}
