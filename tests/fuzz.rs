//! The loop of fuzz targets, a module of each crate's.
//!
//! A loop of its own and not cargo-fuzz: that needs a nightly compiler, which is not available everywhere the tests run.
//!
//! Each target runs for `WIRETAIL_FUZZ_SECONDS` (3 unless set). The sequence of inputs is fixed by
//! `WIRETAIL_FUZZ_SEED` (1 unless set); a failure prints the seed and round that lead to it.

use std::env;
use std::time::{Duration, Instant};

use wiretail_schema::random::Random;

/// Says which input it was, should the target panic.
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

/// Runs a target until its time is over.
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
