//! Random numbers from a seed.

use wiretail_schema::random;

/// A stream of random numbers: the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random {
    numbers: random::Random,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { numbers: random::Random::new(seed) }
    }

    /// Uniform in (0, 1), never either end.
    pub fn uniform(&mut self) -> f64 {
        ((self.numbers.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Shuffles.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = (self.uniform() * (last + 1) as f64) as usize;
            values.swap(last, other.min(last));
        }
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Gamma with mean `mean` and variance `variance` (Marsaglia and Tsang 2000).
    pub fn gamma(&mut self, mean: f64, variance: f64) -> f64 {
        if mean <= 0.0 || variance <= 0.0 {
            return mean.max(0.0);
        }
        let shape = mean * mean / variance;
        let boost = if shape < 1.0 { self.uniform().powf(1.0 / shape) } else { 1.0 };
        let d = shape.max(if shape < 1.0 { shape + 1.0 } else { shape }) - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return boost * d * v * variance / mean;
            }
        }
    }

    /// Poisson with this mean: by products of uniform numbers, beyond 60 by the normal distribution's rounding.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 60.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (end, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > end {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}
