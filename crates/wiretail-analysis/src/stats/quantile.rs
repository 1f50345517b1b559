//! Distribution-free percentiles and shares with their confidence intervals.

use wiretail_schema::summary::Percentile;
use wiretail_schema::units::Share;

use crate::stats::counts::Counts;

/// Percentiles shown in every table: 50 to 99.99999, in billionths.
pub const PERCENTILES: [u64; 14] = [
    500_000_000,
    750_000_000,
    900_000_000,
    950_000_000,
    990_000_000,
    995_000_000,
    999_000_000,
    999_500_000,
    999_900_000,
    999_950_000,
    999_990_000,
    999_995_000,
    999_999_000,
    999_999_900,
];

/// Confidence level of an interval: the probability left out at either end, and the standard normal quantile of
/// this probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    tail: f64,
    z: f64,
}

impl Confidence {
    /// Two-sided 95 %.
    pub const P95: Self = Self { tail: 0.025, z: 1.959_963_984_540_054 };
    /// Two-sided 97.5 %. Two such intervals are both correct with at least 95 % (Bonferroni's inequality).
    pub const P97_5: Self = Self { tail: 0.0125, z: 2.241_402_727_604_947 };
}
/// Number of curve points per additional nine.
const POINTS_PER_NINE: u32 = 30;

/// Statistics computed in one ascending pass over a multiset.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest value, in ns; 0 for an empty multiset.
    pub min_ns: i64,
    /// Largest value, in ns; 0 for an empty multiset.
    pub max_ns: i64,
    /// Arithmetic mean, in ns; 0 for an empty multiset.
    pub mean_ns: f64,
    /// Standard deviation of the sample (n - 1), in ns; 0 for fewer than two values.
    pub stddev_ns: f64,
    /// [`PERCENTILES`] by nearest rank; empty for an empty multiset.
    pub percentiles: Vec<Percentile>,
}

/// Computes mean, deviation, extremes and percentiles of a multiset. The intervals of the percentiles assume
/// independent values.
pub fn distribution(counts: &Counts) -> Distribution {
    dependent_distribution(counts, &[])
}

/// Like [`distribution`], for values that depend on each other: `dispersions` contains the index of dispersion
/// of the values above each of the [`PERCENTILES`]. Without an index, values are assumed to be independent.
pub fn dependent_distribution(counts: &Counts, dispersions: &[f64]) -> Distribution {
    let n = counts.count();
    // The sum is exact. Deviations are taken from a value near the mean, so that their squares do not cancel
    // or overflow.
    let (mut sum, mut min, mut max) = (0i128, i64::MAX, 0);
    counts.for_each(|value, times| {
        sum += i128::from(value) * i128::from(times);
        min = min.min(value);
        max = max.max(value);
    });
    if n == 0 {
        return Distribution {
            count: 0,
            min_ns: 0,
            max_ns: 0,
            mean_ns: 0.0,
            stddev_ns: 0.0,
            percentiles: vec![],
        };
    }
    let mean = sum as f64 / n as f64;
    let mut squares = 0.0;
    let ranks = percentile_ranks(n, &PERCENTILES, dispersions, Confidence::P95);
    let mut wanted = Wanted::new(&ranks);
    counts.for_each(|value, times| {
        let deviation = value as f64 - mean;
        squares += deviation * deviation * times as f64;
        wanted.visit(value, times);
    });
    let percentiles = ranks.iter().map(|r| r.percentile(n, &wanted)).collect();
    let stddev_ns = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
    Distribution { count: n, min_ns: min, max_ns: max, mean_ns: mean, stddev_ns, percentiles }
}

/// Ranks of a percentile and of the bounds of its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranks {
    share: Share,
    rank: u64,
    /// 0 if no value bounds the percentile from below.
    low: u64,
    /// `None` if no value bounds the percentile from above.
    high: Option<u64>,
    /// Number of independent values that determine the percentile equally well, if it was estimated.
    effective: Option<u64>,
}

impl Ranks {
    fn percentile(&self, n: u64, wanted: &Wanted) -> Percentile {
        Percentile {
            percentile: self.share.percent(),
            value_ns: wanted.value(self.rank),
            low_ns: if self.low == 0 { 0 } else { wanted.value(self.low) },
            high_ns: self.high.map(|rank| wanted.value(rank)),
            supported: self.share.is_supported_by(self.effective.unwrap_or(n)),
            effective_packets: self.effective,
        }
    }
}

/// Percentiles at which a curve over `n` values has points, in billionths. The list contains the percentiles
/// of every table and, to show the shape of the curve, values in between. It ends at the last percentile that
/// leaves a value beyond it. Only this end depends on `n`.
pub fn curve_shares(n: u64) -> Vec<u64> {
    let nines = (n as f64).log10().ceil().max(1.0) as u32;
    let between = (0..nines * POINTS_PER_NINE).map(|i| {
        let above = 10f64.powf(-f64::from(i) / f64::from(POINTS_PER_NINE));
        ((1.0 - above) * Share::ONE as f64).round() as u64
    });
    let last = Share::ONE - Share::ONE / n.max(2);
    let mut shares: Vec<u64> = PERCENTILES
        .iter()
        .copied()
        .chain(between)
        .filter(|share| *share > 0 && *share <= last.max(PERCENTILES[0]))
        .collect();
    shares.sort_unstable();
    shares.dedup();
    shares
}

/// Nearest-rank percentiles at `shares` (in billionths) with 95 % confidence intervals; empty for an empty
/// multiset.
pub fn percentiles_at(counts: &Counts, shares: &[u64]) -> Vec<Percentile> {
    percentiles_with(counts, shares, Confidence::P95)
}

/// Nearest-rank percentiles at `shares` (in billionths) with intervals of the given confidence.
pub fn percentiles_with(counts: &Counts, shares: &[u64], confidence: Confidence) -> Vec<Percentile> {
    let n = counts.count();
    if n == 0 {
        return Vec::new();
    }
    let ranks = percentile_ranks(n, shares, &[], confidence);
    let mut wanted = Wanted::new(&ranks);
    counts.for_each(|value, times| wanted.visit(value, times));
    ranks.iter().map(|r| r.percentile(n, &wanted)).collect()
}

fn percentile_ranks(n: u64, shares: &[u64], dispersions: &[f64], confidence: Confidence) -> Vec<Ranks> {
    let indices = dispersions.iter().map(|index| Some(*index)).chain(std::iter::repeat(None));
    let shares = shares.iter().zip(indices);
    shares
        .filter_map(|(&share, dispersion)| Some((Share::from_billionths(share)?, dispersion)))
        .map(|(share, dispersion)| {
            let (low, high) = dependent_ranks(n, share.fraction(), dispersion.unwrap_or(1.0), confidence);
            let effective = dispersion.map(|index| (n as f64 / index) as u64);
            Ranks { share, rank: share.rank(n), low, high, effective }
        })
        .collect()
}

/// Like [`interval_ranks`], for values of which the number above the quantile has the given index of
/// dispersion. The interval is as wide as that of n / dispersion independent values.
pub(super) fn dependent_ranks(n: u64, p: f64, dispersion: f64, confidence: Confidence) -> (u64, Option<u64>) {
    let effective = ((n as f64 / dispersion) as u64).clamp(1, n.max(1));
    let (low, high) = interval_ranks(effective, p, confidence);
    let scale = |rank: u64| rank as f64 * (n as f64 / effective as f64);
    (scale(low).floor() as u64, high.map(|high| (scale(high).ceil() as u64).min(n)))
}

/// Values at given ranks, collected in one ascending walk.
struct Wanted {
    /// Ascending ranks, and the value at each once the walk has passed it.
    ranks: Vec<(u64, i64)>,
    next: usize,
    passed: u64,
}

impl Wanted {
    fn new(ranks: &[Ranks]) -> Self {
        let all = ranks.iter().flat_map(|r| [Some(r.low), Some(r.rank), r.high]).flatten();
        let mut ranks: Vec<_> = all.filter(|rank| *rank > 0).map(|rank| (rank, 0)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Self { ranks, next: 0, passed: 0 }
    }

    fn visit(&mut self, value: i64, times: u64) {
        self.passed += times;
        while let Some(entry) = self.ranks.get_mut(self.next)
            && entry.0 <= self.passed
        {
            entry.1 = value;
            self.next += 1;
        }
    }

    fn value(&self, rank: u64) -> i64 {
        self.ranks.binary_search_by_key(&rank, |entry| entry.0).map_or(0, |i| self.ranks[i].1)
    }
}

/// Ranks l and u such that the p-quantile lies between the l-th and the u-th smallest of n values with at
/// least the given probability (here 95 %), for any distribution.
///
/// The number of values below the quantile is binomial, so l is the largest rank with P(B < l) <= 2.5 % and u
/// the smallest with P(B < u) >= 97.5 % (Conover, Practical Nonparametric Statistics, section 3.2; David and
/// Nagaraja, Order Statistics, section 7.1). l = 0 or u = `None` means that no value bounds it.
pub(super) fn interval_ranks(n: u64, p: f64, Confidence { tail, z }: Confidence) -> (u64, Option<u64>) {
    let mean = n as f64 * p;
    let deviation = (mean * (1.0 - p)).sqrt();
    // Summing the probabilities is exact, but the number of steps is about ten standard deviations. If that
    // is too many, Peizer and Pratt's approximation is used, which is accurate to 1e-6 of the probability.
    let quantile = |tail: f64, z: f64| {
        if deviation < 20.0 {
            binomial_quantile(n, p, tail)
        } else {
            let guess = (mean + z * deviation).clamp(0.0, n as f64) as u64;
            peizer_pratt_quantile(n, p, z, guess)
        }
    };
    // quantile(q) is the smallest k with P(B <= k) >= q, that is P(B < k) < q. Hence l = k if P(B <= k) > q.
    let low = quantile(tail, -z);
    let high = quantile(1.0 - tail, z) + 1;
    (low.min(n), (high <= n).then_some(high))
}

/// The smallest k with P(B <= k) >= q for B binomial (n, p), computed by summing the exact probabilities
/// relative to the mode's probability.
fn binomial_quantile(n: u64, p: f64, q: f64) -> u64 {
    let odds = p / (1.0 - p);
    let mode = (((n + 1) as f64) * p).floor().min(n as f64) as u64;
    let negligible = 1e-18;
    let mut down = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0 && weight > negligible {
        weight *= k as f64 / (n - k + 1) as f64 / odds;
        down.push(weight);
        k -= 1;
    }
    let mut up = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k < n && weight > negligible {
        weight *= (n - k) as f64 / (k + 1) as f64 * odds;
        up.push(weight);
        k += 1;
    }
    let total: f64 = down.iter().rev().sum::<f64>() + 1.0 + up.iter().rev().sum::<f64>();
    let lowest = mode - down.len() as u64;
    let mut cumulative = 0.0;
    for (k, weight) in (lowest..).zip(down.iter().rev().chain([&1.0]).chain(&up)) {
        cumulative += weight;
        // Prevents rounding from turning an exact tie (p = 1/2, small n) into a miss.
        if cumulative >= q * total * (1.0 - 1e-12) {
            return k;
        }
    }
    n
}

/// Like [`binomial_quantile`], by Peizer and Pratt's normal approximation (JASA 63, 1968, formula 3 with the
/// 0.02 term).
fn peizer_pratt_quantile(n: u64, p: f64, z: f64, guess: u64) -> u64 {
    let reaches = |k: u64| k >= n || peizer_pratt(n as f64, p, k as f64) >= z;
    let mut k = guess;
    while !reaches(k) {
        k += 1;
    }
    while k > 0 && reaches(k - 1) {
        k -= 1;
    }
    k
}

/// The z at which the standard normal distribution function equals P(B <= k).
fn peizer_pratt(n: f64, p: f64, k: f64) -> f64 {
    let q = 1.0 - p;
    let d =
        k + 2.0 / 3.0 - (n + 1.0 / 3.0) * p + 0.02 * (q / (k + 1.0) - p / (n - k) + (q - 0.5) / (n + 1.0));
    let (below, above) = (k + 0.5, n - k - 0.5);
    let distance = (below - n * p).abs();
    let information = below * (below / (n * p)).ln() + above * (above / (n * q)).ln();
    if distance < 1e-9 {
        return d / (n * p * q).sqrt();
    }
    d / distance * (2.0 * information.max(0.0) / (1.0 + 1.0 / (6.0 * n))).sqrt()
}

/// Clopper and Pearson's bounds (Biometrika 26, 1934) of a share that was observed in `k` of `n` cases. Each
/// bound is exceeded with a probability of at most `tail`.
pub fn share_bounds(k: u64, n: u64, tail: f64) -> (f64, f64) {
    dependent_share_bounds(k, n, 1.0, tail)
}

/// Like [`share_bounds`], for cases whose count has the given index of dispersion: the bounds are those of
/// `k` / `dispersion` in `n` / `dispersion` independent cases.
pub fn dependent_share_bounds(k: u64, n: u64, dispersion: f64, tail: f64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let (a, b) = (k as f64 / dispersion, (n - k) as f64 / dispersion);
    let low = match k {
        0 => 0.0,
        _ if k == n => tail.powf(1.0 / a),
        _ => root(|p| beta_regularized(a, b + 1.0, p) - tail),
    };
    let high = match k {
        0 => -(tail.ln() / b).exp_m1(),
        _ if k == n => 1.0,
        _ => root(|p| beta_regularized(a + 1.0, b, p) - (1.0 - tail)),
    };
    (low, high)
}

/// Root of an ascending function of a share, by bisection.
fn root(f: impl Fn(f64) -> f64) -> f64 {
    // Shares of interest range from 1e-10 to 1, so halve the logarithm first, then the value.
    let (mut low, mut high) = (1e-18f64, 1.0f64);
    for _ in 0..200 {
        let middle = if high > 2.0 * low { (low * high).sqrt() } else { (low + high) / 2.0 };
        if high - low <= 1e-13 * high {
            break;
        }
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Regularized incomplete beta function I_x(a, b), by Lentz's evaluation of its continued fraction (DLMF
/// 8.17.22).
fn beta_regularized(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_regularized(b, a, 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let tiny = 1e-300;
    let (mut c, mut d) = (1.0, 1.0 - (a + b) * x / (a + 1.0));
    d = 1.0 / if d.abs() < tiny { tiny } else { d };
    let mut fraction = d;
    // The fraction needs about sqrt(max(a, b)) terms.
    let terms = 200 + 10 * a.max(b).sqrt() as u64;
    for m in 1..=terms {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 + term * d;
            d = 1.0 / if d.abs() < tiny { tiny } else { d };
            c = 1.0 + term / c;
            c = if c.abs() < tiny { tiny } else { c };
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front.exp() * fraction / a).clamp(0.0, 1.0)
}

/// ln of the gamma function for x > 0: Stirling's series (DLMF 5.11.1) after shifting x beyond 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// P(B <= k), summed from the definition.
    fn binomial_cdf(n: u64, p: f64, k: u64) -> f64 {
        let ln_choose =
            |j: u64| ln_gamma(n as f64 + 1.0) - ln_gamma(j as f64 + 1.0) - ln_gamma((n - j) as f64 + 1.0);
        (0..=k).map(|j| (ln_choose(j) + j as f64 * p.ln() + (n - j) as f64 * (1.0 - p).ln()).exp()).sum()
    }

    #[test]
    fn interval_ranks_match_published_tables() {
        const P95: Confidence = Confidence::P95;
        // Median of n values: the classical table (Conover 1999, table A3; Altman 1991).
        assert_eq!(interval_ranks(6, 0.5, P95), (1, Some(6)));
        assert_eq!(interval_ranks(10, 0.5, P95), (2, Some(9)));
        assert_eq!(interval_ranks(20, 0.5, P95), (6, Some(15)));
        assert_eq!(interval_ranks(50, 0.5, P95), (18, Some(33)));
        assert_eq!(interval_ranks(100, 0.5, P95), (40, Some(61)));
        // Five values do not bound the median on either side.
        assert_eq!(interval_ranks(5, 0.5, P95), (0, None));
        // For the 99.9th percentile of 1000 values, no value bounds it from above.
        assert_eq!(interval_ranks(1000, 0.999, P95).1, None);
    }

    #[test]
    fn interval_ranks_have_stated_coverage() {
        let cases =
            [7u64, 30, 333, 2000, 5000, 20_000].map(|n| [Confidence::P95, Confidence::P97_5].map(|c| (n, c)));
        for (n, confidence) in cases.into_iter().flatten() {
            let tail = confidence.tail;
            for p in [0.5, 0.9, 0.99, 0.999, 0.9999] {
                let (low, high) = interval_ranks(n, p, confidence);
                let below = if low == 0 { 0.0 } else { binomial_cdf(n, p, low - 1) };
                assert!(below <= tail + 1e-6, "n {n} p {p}: P(B < {low}) = {below}");
                assert!(binomial_cdf(n, p, low) > tail - 1e-6, "n {n} p {p}: {low} is not the largest");
                match high {
                    Some(high) => {
                        assert!(binomial_cdf(n, p, high - 1) >= 1.0 - tail - 1e-6, "n {n} p {p} high {high}");
                        assert!(
                            high < 2 || binomial_cdf(n, p, high - 2) < 1.0 - tail + 1e-6,
                            "n {n} p {p} high {high}"
                        );
                    }
                    None => assert!(binomial_cdf(n, p, n - 1) < 1.0 - tail + 1e-6, "n {n} p {p}"),
                }
            }
        }
    }

    #[test]
    fn approximate_rank_agrees_with_exact_rank() {
        for n in [10_000u64, 300_000, 20_000_000] {
            for p in [0.5, 0.9, 0.99, 0.999] {
                let deviation = (n as f64 * p * (1.0 - p)).sqrt();
                let confidences = [Confidence::P95, Confidence::P97_5];
                for (q, z) in confidences.into_iter().flat_map(|c| [(c.tail, -c.z), (1.0 - c.tail, c.z)]) {
                    let exact = binomial_quantile(n, p, q);
                    let fast = peizer_pratt_quantile(n, p, z, (n as f64 * p + z * deviation) as u64);
                    assert!(exact.abs_diff(fast) <= 1, "n {n} p {p} q {q}: {exact} against {fast}");
                }
            }
        }
    }

    #[test]
    fn share_bounds_match_published_values() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.max(1e-12), "{a} against {b}");
        // Two-sided 95 %: 10 of 100 (R: binom.test(10, 100)$conf.int).
        let (low, high) = share_bounds(10, 100, 0.025);
        close(low, 0.049_004_689);
        close(high, 0.176_222_598);
        // The rule of three: 0 of 300,000, one-sided 95 %.
        let (low, high) = share_bounds(0, 300_000, 0.05);
        assert_eq!(low, 0.0);
        close(high, 2.995_732_274 / 300_000.0 * (1.0 - 2.995_732_274 / 600_000.0));
        close(share_bounds(5, 5, 0.025).0, 0.025f64.powf(0.2));
        // For large counts, the normal approximation is accurate to a few thousandths of the half width.
        let (low, high) = share_bounds(1_000_000, 20_000_000, 0.025);
        let half = Confidence::P95.z * (0.05f64 * 0.95 / 2e7).sqrt();
        assert!(((high - low) / 2.0 - half).abs() < 0.01 * half, "{low} {high}");
    }

    proptest! {
        #[test]
        fn share_bounds_invert_the_binomial(n in 1..400u64, part in 0.0..1.0f64) {
            let k = (n as f64 * part) as u64;
            let (low, high) = share_bounds(k, n, 0.05);
            if k < n {
                prop_assert!((binomial_cdf(n, high, k) - 0.05).abs() < 1e-6);
            }
            if k > 0 {
                prop_assert!((1.0 - binomial_cdf(n, low, k - 1) - 0.05).abs() < 1e-6);
            }
        }

        #[test]
        fn percentiles_equal_sorted_values(values in prop::collection::vec(0..100_000i64, 1..2000)) {
            let mut counts = Counts::new(64);
            values.iter().for_each(|v| counts.add(*v));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let found = distribution(&counts);
            let n = values.len();
            let mean = values.iter().sum::<i64>() as f64 / n as f64;
            prop_assert!((found.mean_ns - mean).abs() <= 1e-9 * mean);
            prop_assert_eq!((found.min_ns, found.max_ns), (sorted[0], sorted[n - 1]));
            for (percentile, billionths) in found.percentiles.iter().zip(PERCENTILES) {
                // Computes the nearest rank with integers, in the opposite direction: the smallest value with
                // at least p n values at or below it.
                let at_least = |i: usize| (i as u128 + 1) * 1_000_000_000 >= u128::from(billionths) * n as u128;
                let index = (0..n).find(|&i| at_least(i)).unwrap();
                prop_assert_eq!(percentile.value_ns, sorted[index]);
                prop_assert_eq!(percentile.supported, (n as u128) * u128::from(1_000_000_000 - billionths) >= 10_000_000_000);
                prop_assert!(percentile.low_ns <= percentile.value_ns);
                prop_assert!(percentile.high_ns.is_none_or(|high| high >= percentile.value_ns));
            }
        }
    }
}
