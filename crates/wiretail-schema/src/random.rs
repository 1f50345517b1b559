//! Seeded random numbers. A seed gives the same trial, simulation or test on every machine.

/// State increment: 2^64 divided by the golden ratio, rounded to an odd number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random number generator SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self::behind(seed, 0)
    }

    /// Creates a generator that skips the first `count` numbers of a seed.
    pub fn behind(seed: u64, count: u64) -> Self {
        Self { state: seed.wrapping_add(count.wrapping_mul(STEP)) }
    }

    /// Returns 64 uniform random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0. Uses Lemire's multiplication; the bias is below
    /// 2^-32 for limits below 2^32.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number uniform in [0, 1).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        fraction(self.bits())
    }
}

/// Converts the upper 53 of 64 bits to a number in [0, 1).
#[inline]
pub fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_reference_sequence() {
        let mut random = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.bits(), random.bits(), random.bits()], expected);
        assert_eq!(Random::behind(1_234_567, 3).bits(), random.bits());
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.uniform())));
        assert_eq!((fraction(0), fraction(u64::MAX)), (0.0, 1.0_f64.next_down()));
    }
}
