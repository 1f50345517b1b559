//! The loop that runs fuzz targets, included as a module by each crate.
//!
//! It replaces cargo-fuzz, which needs a nightly compiler that is not available on all test machines.
//!
//! Each target runs for `WIRETAIL_FUZZ_SECONDS` (default 3). `WIRETAIL_FUZZ_SEED` (default 1) determines the sequence
//! of inputs; a failure prints the seed and the round that reproduce it.

use std::env;
use std::time::{Duration, Instant};

use wiretail_schema::random::Random;

/// Prints the current input if the target panics.
struct Round<'a> {
    target: &'a str,
    seed: u64,
    number: u64,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { target, seed, number } = self;
            eprintln!("fuzz target {target}: failed in round {number} of WIRETAIL_FUZZ_SEED={seed}");
        }
    }
}

/// Runs a target until its time has elapsed.
pub fn fuzz(target: &str, mut run: impl FnMut(&mut Random)) {
    let setting = |name: &str, default: u64| match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: '{text}' is not a number")),
        Err(_) => default,
    };
    let time = Duration::from_secs(setting("WIRETAIL_FUZZ_SECONDS", 3));
    let seed = setting("WIRETAIL_FUZZ_SEED", 1);
    let start = Instant::now();
    let mut round = Round { target, seed, number: 0 };
    while start.elapsed() < time {
        let mut random = Random::new(seed.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ round.number);
        run(&mut random);
        round.number += 1;
    }
    println!("fuzz target {target}: {} rounds", round.number);
}
