//! Exponential random numbers by the ziggurat method (Marsaglia and Tsang: The ziggurat method for generating
//! random variables, Journal of Statistical Software 5(8), 2000). The area below e^-x is covered by layers of
//! equal area, one above the other. In 99 of 100 cases, the random point in a random layer lies in the part
//! of the layer that is entirely below the curve. No logarithm is needed in these cases.
//!
//! The tables and the logarithm are computed only with additions, multiplications and divisions. Unlike
//! numbers from the system's math library, these numbers are therefore the same on every machine.

use wiretail_schema::random::{Random, fraction};

const LAYERS: usize = 256;
/// Right edge of the lowest layer, where its tail begins. With `LAYERS` layers, this is the only value for
/// which the topmost layer ends at e^0.
const TAIL: f64 = 7.697_117_470_131_05;
/// e^-TAIL.
const TAIL_HEIGHT: f64 = 4.541_343_538_414_966e-4;

/// The layers from the bottom up, followed by the top of the curve.
struct Ziggurat {
    /// Right edge of each layer. Up to the right edge of the next layer, a layer is entirely below the curve.
    widths: [f64; LAYERS + 1],
    /// Height of each layer's lower edge: the height of the curve at the right edge.
    heights: [f64; LAYERS + 1],
}

static ZIGGURAT: Ziggurat = ziggurat();

const fn ziggurat() -> Ziggurat {
    // The tail has the area e^-TAIL. The lowest layer and its tail therefore have the same total area as a
    // layer without a tail that is wider by 1.
    let (mut widths, mut heights) = ([TAIL + 1.0; LAYERS + 1], [0.0; LAYERS + 1]);
    let area = (TAIL + 1.0) * TAIL_HEIGHT;
    let mut layer = 1;
    while layer < LAYERS {
        heights[layer] = heights[layer - 1] + area / widths[layer - 1];
        widths[layer] = -ln(heights[layer]);
        layer += 1;
    }
    (widths[LAYERS], heights[LAYERS]) = (0.0, 1.0);
    Ziggurat { widths, heights }
}

/// Draws from the exponential distribution with mean 1.
#[inline]
pub fn exponential(random: &mut Random) -> f64 {
    let (layer, x) = point(random);
    if x < ZIGGURAT.widths[layer + 1] { x } else { near_the_curve(layer, x, random) }
}

/// A random layer and a random position in it, from different bits.
#[inline]
fn point(random: &mut Random) -> (usize, f64) {
    let bits = random.bits();
    let layer = bits as usize % LAYERS;
    (layer, fraction(bits) * ZIGGURAT.widths[layer])
}

/// Handles a point that may be above the curve: accepts it or draws another one.
#[cold]
fn near_the_curve(mut layer: usize, mut x: f64, random: &mut Random) -> f64 {
    // The exponential distribution is memoryless, so the tail is the same distribution shifted by its start.
    let mut start = 0.0;
    loop {
        let (low, high) = (ZIGGURAT.heights[layer], ZIGGURAT.heights[layer + 1]);
        if layer == 0 {
            start += TAIL;
        } else if -ln(low + random.uniform() * (high - low)) > x {
            return start + x;
        }
        (layer, x) = point(random);
        if x < ZIGGURAT.widths[layer + 1] {
            return start + x;
        }
    }
}

/// Natural logarithm of a positive normal number. With x = m 2^k and s = (m - 1) / (m + 1), it is k ln 2 + 2
/// (s + s^3/3 + s^5/5 + ...) (DLMF 4.6.4).
const fn ln(x: f64) -> f64 {
    /// Bits of 1/sqrt(2). m is between 1/sqrt(2) and sqrt(2), so that s^2 is below 0.0295 and eleven terms
    /// suffice.
    const LOW: u64 = 0x3fe6_a09e_667f_3bcd;
    let above = x.to_bits().wrapping_sub(LOW);
    let exponent = above as i64 >> 52;
    let m = f64::from_bits((above & ((1 << 52) - 1)) + LOW);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let (mut sum, mut term) = (1.0 / 21.0, 21.0);
    while term > 1.0 {
        term -= 2.0;
        sum = sum * z + 1.0 / term;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_equals_standard_library() {
        let mut random = Random::new(1);
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
    fn layers_have_equal_area_and_end_at_the_curve() {
        let close = |found: f64, expected: f64| {
            assert!((found - expected).abs() <= 1e-13 * expected, "{found}, {expected}");
        };
        let Ziggurat { widths, heights } = &ZIGGURAT;
        close(widths[1], TAIL);
        let area = TAIL * (-TAIL).exp() + (-TAIL).exp();
        for layer in 0..LAYERS {
            close(widths[layer] * (heights[layer + 1] - heights[layer]), area);
        }
        (1..=LAYERS).for_each(|layer| close((-widths[layer]).exp(), heights[layer]));
    }

    /// Kolmogorov-Smirnov test (Kolmogorov 1933): the largest distance between the two distribution functions
    /// exceeds 1.95 / sqrt(n) once in a thousand samples of size n.
    #[test]
    fn numbers_and_their_tail_are_exponential() {
        let mut random = Random::new(7);
        let mut found: Vec<f64> = (0..4_000_000).map(|_| exponential(&mut random)).collect();
        found.sort_unstable_by(f64::total_cmp);
        let mut near = |start: f64| {
            let tail = &found[found.partition_point(|x| *x < start)..];
            let n = tail.len() as f64;
            let distance =
                |(rank, x): (usize, &f64)| (1.0 - (start - x).exp() - (rank as f64 + 0.5) / n).abs();
            let furthest = tail.iter().enumerate().map(distance).fold(0.0, f64::max);
            assert!(furthest < 1.95 / n.sqrt(), "from {start} on: {furthest} of {n}");
        };
        [0.0, 1.0, 5.0, TAIL].into_iter().for_each(&mut near);
        let beyond = found.iter().filter(|x| **x >= TAIL).count() as f64;
        let expected = found.len() as f64 * (-TAIL).exp();
        assert!((beyond - expected).abs() < 3.3 * expected.sqrt(), "{beyond}, {expected}");
    }
}
