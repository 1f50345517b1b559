//! Seeded randomness. Every stream of a simulation has a generator of its own, so that two simulations of the same seed
//! differ by what is different in their models only.

use wiretail_schema::predict::twin::{Length, Wake};

/// Exponential numbers that are made at a time: independent work that a processor does side by side.
const BLOCK: usize = 64;

/// SplitMix64 (Steele, Lea and Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
    exponential: Box<[f64; BLOCK]>,
    /// How many of these are left.
    left: usize,
}

impl Random {
    /// The generator of one stream.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self { state: stream, exponential: Box::new([0.0; BLOCK]), left: 0 };
        mixed.state = seed ^ mixed.bits();
        mixed
    }

    #[inline]
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    #[inline]
    pub(super) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of the exponential distribution with mean 1: -ln of a uniform number in (0, 1].
    #[inline]
    pub(super) fn exponential(&mut self) -> f64 {
        if self.left == 0 {
            self.refill();
        }
        self.left -= 1;
        self.exponential[self.left]
    }

    #[inline(never)]
    fn refill(&mut self) {
        for index in 0..BLOCK {
            self.exponential[index] = -ln(1.0 - self.uniform());
        }
        self.left = BLOCK;
    }
}

/// The natural logarithm of a normal number above 0, the same on every machine, unlike that of the system's library:
/// with x = m 2^k and s = (m - 1) / (m + 1), k ln 2 + 2 (s + s^3/3 + s^5/5 + ...) (DLMF 4.6.4).
#[inline]
fn ln(x: f64) -> f64 {
    /// Bits of 1/sqrt(2): m is between that and sqrt(2), so that s^2 is below 0.0295 and eleven terms are enough.
    const LOW: u64 = 0x3fe6_a09e_667f_3bcd;
    let above = x.to_bits().wrapping_sub(LOW);
    let exponent = (above as i64 >> 52) as i32;
    let m = f64::from_bits((above & ((1 << 52) - 1)) + LOW);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 1.0 / 21.0;
    for term in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * z + 1.0 / term;
    }
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * s * sum
}

/// Lengths, one after the other.
#[derive(Debug)]
pub(super) struct Draw<'a> {
    length: &'a Length,
    random: Random,
}

impl<'a> Draw<'a> {
    pub(super) fn new(length: &'a Length, random: Random) -> Self {
        Self { length, random }
    }

    /// The next one, in ns.
    #[inline]
    pub(super) fn next(&mut self) -> f64 {
        match self.length {
            Length::Constant(ns) => *ns,
            Length::Exponential(mean_ns) => self.random.exponential() * mean_ns,
            Length::Samples(samples) => {
                // Rounding may make the product as large as the length; nothing is drawn of no samples.
                let index = (self.random.uniform() * samples.len() as f64) as usize;
                samples.get(index).or(samples.last()).copied().unwrap_or(0.0)
            }
        }
    }
}

/// Times to wake up, by how long the server was idle.
#[derive(Debug)]
pub(super) struct Wakes<'a> {
    /// From which idle time on; in order.
    steps: Vec<(f64, Draw<'a>)>,
}

impl<'a> Wakes<'a> {
    /// Their streams are the last ones, so that those of the others stay what they are.
    pub(super) fn new(wakes: &'a [Wake], seed: u64) -> Self {
        let step = |(wake, stream): (&'a Wake, u64)| {
            (wake.after_idle_ns, Draw::new(&wake.length, Random::new(seed, u64::MAX - stream)))
        };
        Self { steps: wakes.iter().zip(0..).map(step).collect() }
    }

    /// What it takes after so much idle time, in ns; None where it starts at once.
    #[inline]
    pub(super) fn next(&mut self, idle_ns: f64) -> Option<f64> {
        let step = self.steps.iter_mut().rev().find(|step| step.0 <= idle_ns)?;
        Some(step.1.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_library() {
        let mut random = Random::new(1, 1);
        let close = |x: f64| {
            let (found, expected) = (ln(x), x.ln());
            assert!((found - expected).abs() <= 1e-15 * expected.abs().max(0.1), "{x}: {found}, {expected}");
        };
        let edge = std::f64::consts::FRAC_1_SQRT_2;
        [1.0, 0.5, 2.0, edge.next_down(), edge, edge.next_up(), 2.0 * edge, 1e-16, 1e300]
            .into_iter()
            .for_each(close);
        (0..100_000).for_each(|_| close(1.0 - random.uniform()));
    }

    #[test]
    fn exponential_numbers_have_mean_and_variance_one() {
        let mut random = Random::new(7, 0);
        let n = 1_000_000;
        let (sum, squares) = (0..n).map(|_| random.exponential()).fold((0.0, 0.0), |(sum, squares), x| {
            assert!(x >= 0.0);
            (sum + x, squares + x * x)
        });
        let mean = sum / f64::from(n);
        let variance = squares / f64::from(n) - mean * mean;
        assert!((mean - 1.0).abs() < 0.005 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
