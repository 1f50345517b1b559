//! Exponential numbers by the ziggurat (Marsaglia and Tsang: The ziggurat method for generating random variables, Journal of
//! Statistical Software 5(8), 2000): the area below e^-x is covered by layers of equal area, one above the other. Of
//! a random layer, 99 of 100 points lie where all of the layer is below the curve, and need no logarithm.
//!
//! Tables and logarithm are made of additions, products and quotients only: the same numbers on every machine, unlike
//! those of the system's library.

use wiretail_schema::random::{Random, fraction};

const LAYERS: usize = 256;
/// Where the lowest layer ends and its tail begins: the one number for which the topmost of so many layers ends at e^0.
const TAIL: f64 = 7.697_117_470_131_05;
/// e^-TAIL.
const TAIL_HEIGHT: f64 = 4.541_343_538_414_966e-4;

/// The layers from below; behind the last one, the top of the curve.
struct Ziggurat {
    /// Where each one ends. Up to the end of the next one, all of it is below the curve.
    widths: [f64; LAYERS + 1],
    /// The height of its lower edge: that of the curve at its end.
    heights: [f64; LAYERS + 1],
}

static ZIGGURAT: Ziggurat = ziggurat();

const fn ziggurat() -> Ziggurat {
    // The lowest layer and its tail, of the area e^-TAIL, are together as large as a layer that is wider by 1 and has none.
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

/// Of the exponential distribution with mean 1.
#[inline]
pub fn exponential(random: &mut Random) -> f64 {
    let (layer, x) = point(random);
    if x < ZIGGURAT.widths[layer + 1] { x } else { near_the_curve(layer, x, random) }
}

/// A random layer, and a random place in it: of other bits.
#[inline]
fn point(random: &mut Random) -> (usize, f64) {
    let bits = random.bits();
    let layer = bits as usize % LAYERS;
    (layer, fraction(bits) * ZIGGURAT.widths[layer])
}

/// Decides on a point of a layer that is not below the curve for sure.
#[cold]
fn near_the_curve(mut layer: usize, mut x: f64, random: &mut Random) -> f64 {
    // From any place on, the distribution is the same again: so is the tail.
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

/// The natural logarithm of a normal number above 0: with x = m 2^k and s = (m - 1) / (m + 1),
/// k ln 2 + 2 (s + s^3/3 + s^5/5 + ...) (DLMF 4.6.4).
const fn ln(x: f64) -> f64 {
    /// Bits of 1/sqrt(2): m is between that and sqrt(2), so that s^2 is below 0.0295 and eleven terms are enough.
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
    fn the_logarithm_is_that_of_the_library() {
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
    fn the_layers_are_of_one_area_and_end_at_the_curve_and_at_its_top() {
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

    /// The largest distance between the two distribution functions (Kolmogorov 1933): a sample of n is further away than
    /// 1.95 / sqrt(n) once in a thousand.
    #[test]
    fn numbers_are_of_the_exponential_distribution_and_so_is_their_tail() {
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
