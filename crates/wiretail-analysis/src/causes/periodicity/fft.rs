//! Discrete Fourier transform by the Cooley-Tukey algorithm, radix 2, in place.

use std::f64::consts::TAU;

/// A complex number: real and imaginary part.
pub type Complex = (f64, f64);

/// Transforms `data` in place: `X[k] = Σ x[j] exp(−2πi jk/n)`. The length must be a power of two.
pub fn transform(data: &mut [Complex]) {
    let n = data.len();
    if n < 2 {
        return;
    }
    debug_assert!(n.is_power_of_two(), "radix 2");
    let bits = n.trailing_zeros();
    for place in 0..n {
        let mirrored = place.reverse_bits() >> (usize::BITS - bits);
        if place < mirrored {
            data.swap(place, mirrored);
        }
    }
    // All stages use one table of directly computed values, so the errors of the sines do not accumulate.
    let table: Vec<Complex> = (0..n / 2)
        .map(|k| {
            let (sin, cos) = (-TAU * k as f64 / n as f64).sin_cos();
            (cos, sin)
        })
        .collect();
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for block in data.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (place, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let (cos, sin) = table[place * stride];
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transform_equals_definition() {
        for bits in 0..7 {
            let n = 1 << bits;
            let data: Vec<Complex> =
                (0..n).map(|j| (((j * 7 + 3) % 11) as f64 - 5.0, ((j * 5 + 1) % 13) as f64)).collect();
            let mut fast = data.clone();
            transform(&mut fast);
            for (k, (re, im)) in fast.iter().enumerate() {
                let mut sum = (0.0, 0.0);
                for (j, (a, b)) in data.iter().enumerate() {
                    let (sin, cos) = (-TAU * (j * k % n) as f64 / n as f64).sin_cos();
                    sum = (sum.0 + a * cos - b * sin, sum.1 + a * sin + b * cos);
                }
                assert!((sum.0 - re).abs() < 1e-9 && (sum.1 - im).abs() < 1e-9, "{n} {k}");
            }
        }
    }
}
