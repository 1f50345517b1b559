//! Seeded random numbers and distributions.
//!
//! All numbers come from one generator, [`Random`], so a seed gives the same numbers on every machine. The
//! exceptions are distributions that use logarithms and cosines from the system's math library. [`exponential`]
//! does not use these functions.

pub use wiretail_schema::random::Random;

pub use super::exponential::exponential;

/// Uniform in the open interval (0, 1).
pub fn open_uniform(random: &mut Random) -> f64 {
    ((random.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Shuffles the values.
pub fn shuffle<T>(random: &mut Random, values: &mut [T]) {
    for last in (1..values.len()).rev() {
        let other = (open_uniform(random) * (last + 1) as f64) as usize;
        values.swap(last, other.min(last));
    }
}

/// Standard normal (Box and Muller 1958).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * open_uniform(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * open_uniform(random)).cos()
}

/// Gamma with mean `mean` and variance `variance` (Marsaglia and Tsang 2000).
pub fn gamma(random: &mut Random, mean: f64, variance: f64) -> f64 {
    if mean <= 0.0 || variance <= 0.0 {
        return mean.max(0.0);
    }
    let shape = mean * mean / variance;
    let boost = if shape < 1.0 { open_uniform(random).powf(1.0 / shape) } else { 1.0 };
    let d = shape.max(if shape < 1.0 { shape + 1.0 } else { shape }) - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open_uniform(random).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return boost * d * v * variance / mean;
        }
    }
}

/// Poisson with this mean. Multiplies uniform numbers, or rounds a normal number if the mean is above 60.
pub fn poisson(random: &mut Random, mean: f64) -> f64 {
    if mean > 60.0 {
        return (mean + mean.sqrt() * normal(random)).round().max(0.0);
    }
    let (end, mut product, mut count) = ((-mean).exp(), open_uniform(random), 0.0);
    while product > end {
        product *= open_uniform(random);
        count += 1.0;
    }
    count
}
