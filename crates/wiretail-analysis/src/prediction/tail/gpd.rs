//! Generalized Pareto distribution: P(excess > y) = (1 + xi y / sigma)^(-1/xi), or exp(-y / sigma) for xi = 0
//! (Pickands 1975). The fit uses maximum likelihood, which has a single unknown if xi is expressed in terms
//! of theta = xi / sigma (Davison and Smith 1990; Grimshaw 1993).

/// Below this |theta times mean|, the distribution is numerically indistinguishable from the exponential.
const EXPONENTIAL: f64 = 1e-9;
/// Number of search steps for theta on either side of 0.
const STEPS: i32 = 24;
/// Half of the 95 % quantile of chi-square with one degree of freedom: maximum drop of the profile likelihood
/// below its maximum.
const PROFILE_DROP: f64 = 3.841_458_820_694_124 / 2.0;

/// Generalized Pareto distribution, by shape and scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpd {
    /// xi.
    pub shape: f64,
    /// sigma, in the unit of the excesses.
    pub scale: f64,
}

impl Gpd {
    /// Probability of an excess above `y`.
    pub fn survival(self, y: f64) -> f64 {
        if y <= 0.0 {
            return 1.0;
        }
        if self.shape.abs() < EXPONENTIAL {
            return (-y / self.scale).exp();
        }
        let base = 1.0 + self.shape * y / self.scale;
        if base <= 0.0 { 0.0 } else { (-base.ln() / self.shape).exp() }
    }

    /// Excess that is exceeded with probability `p`.
    pub fn exceeded_with(self, p: f64) -> f64 {
        let log = -p.ln();
        if self.shape.abs() < EXPONENTIAL {
            self.scale * log
        } else {
            self.scale * (self.shape * log).exp_m1() / self.shape
        }
    }

    /// Largest possible excess. `None` if there is no limit.
    pub fn end(self) -> Option<f64> {
        (self.shape < -EXPONENTIAL).then(|| -self.scale / self.shape)
    }
}

/// Maximum likelihood estimate among shapes of at least -1; for smaller shapes the likelihood has no maximum.
/// If the likelihood increases towards that edge, the edge is the estimate (Grimshaw 1993). `None` if there are
/// fewer than two excesses, if an excess is not positive, or if all are equal.
pub fn fit(excesses: &[f64]) -> Option<Gpd> {
    let n = excesses.len() as f64;
    let (low, high) = range(excesses);
    if excesses.len() < 2 || low <= 0.0 || !high.is_finite() || high <= low {
        return None;
    }
    let mean = excesses.iter().sum::<f64>() / n;
    // The search variable u maps to theta = 1/high times a number in (-1, infinity) and stretches both ends.
    let theta_of = |u: f64| if u < 0.0 { u.exp_m1() / high } else { u.exp_m1() / mean };
    let likelihood =
        |u: f64| profile_of_theta(excesses, theta_of(u), mean).map_or(f64::NEG_INFINITY, |(l, _)| l);
    let step = 0.5;
    let granularity = (-STEPS..=STEPS).map(|i| f64::from(i) * step);
    let best = granularity.map(|u| (likelihood(u), u)).max_by(|a, b| a.0.total_cmp(&b.0))?.1;
    let u = highest(best - step, best + step, &likelihood);
    let inside = profile_of_theta(excesses, theta_of(u), mean);
    let edge = (-n * high.ln(), Gpd { shape: -1.0, scale: high });
    let (_, found) = inside.filter(|(l, _)| *l > edge.0).unwrap_or(edge);
    Some(found)
}

/// Estimate by probability-weighted moments (Hosking and Wallis 1987), for excesses in ascending order. It is
/// a check of the likelihood estimate and is valid for shapes below 0.5.
pub fn probability_weighted(ascending: &[f64]) -> Option<Gpd> {
    let n = ascending.len() as f64;
    let a0 = ascending.iter().sum::<f64>() / n;
    let weighted = ascending.iter().zip(1..).map(|(y, i)| y * (n - f64::from(i)) / (n - 1.0));
    let a1 = weighted.sum::<f64>() / n;
    let divisor = a0 - 2.0 * a1;
    (ascending.len() > 1 && divisor > 0.0)
        .then(|| Gpd { shape: 2.0 - a0 / divisor, scale: 2.0 * a0 * a1 / divisor })
}

/// Log-likelihood at the best scale for `theta`, and the distribution. `None` for a shape below -1.
fn profile_of_theta(excesses: &[f64], theta: f64, mean: f64) -> Option<(f64, Gpd)> {
    let n = excesses.len() as f64;
    if (theta * mean).abs() < EXPONENTIAL {
        return Some((-n * (mean.ln() + 1.0), Gpd { shape: 0.0, scale: mean }));
    }
    let shape = excesses.iter().map(|y| (theta * y).ln_1p()).sum::<f64>() / n;
    let scale = shape / theta;
    (shape.is_finite() && shape >= -1.0 && scale > 0.0)
        .then(|| (-n * (scale.ln() + shape + 1.0), Gpd { shape, scale }))
}

/// Log-likelihood of a shape at its best scale.
fn profile_of_shape(excesses: &[f64], shape: f64) -> f64 {
    let n = excesses.len() as f64;
    let (_, high) = range(excesses);
    let mean = excesses.iter().sum::<f64>() / n;
    let likelihood = |log_scale: f64| {
        let scale = log_scale.exp();
        if shape.abs() < 1e-7 {
            return -n * log_scale - n * mean / scale;
        }
        let sum: f64 = excesses.iter().map(|y| (shape * y / scale).ln_1p()).sum();
        if sum.is_finite() { -n * log_scale - (1.0 + 1.0 / shape) * sum } else { f64::NEG_INFINITY }
    };
    let least = if shape < 0.0 { (-shape * high).ln() } else { (mean * 1e-6).ln() };
    let most = (mean.ln() + 3.0).max(least + 3.0);
    // The lower bound may be far too low, so a coarse grid locates the only maximum first.
    let step = (most - least) / 24.0;
    let granularity = (0..=24).map(|i| least + 1e-9 + f64::from(i) * step);
    let best = granularity
        .map(|at| (likelihood(at), at))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(least, |(_, at)| at);
    likelihood(highest((best - step).max(least + 1e-12), best + step, &likelihood))
}

/// 95 % confidence interval of the shape by profile likelihood (Coles 2001, 2.6.6), within [-1, 20].
pub fn shape_interval(excesses: &[f64], found: Gpd) -> (f64, f64) {
    let enough = profile_of_shape(excesses, found.shape) - PROFILE_DROP;
    let edge = |outside: f64| {
        if profile_of_shape(excesses, outside) >= enough {
            return outside;
        }
        let (mut inside, mut outside) = (found.shape, outside);
        for _ in 0..24 {
            let middle = f64::midpoint(inside, outside);
            *if profile_of_shape(excesses, middle) >= enough { &mut inside } else { &mut outside } = middle;
        }
        inside
    };
    (edge(-1.0), edge(found.shape + 20.0))
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &y| (low.min(y), high.max(y)))
}

/// Position of the only maximum of a function between `low` and `high` (golden section search).
fn highest(mut low: f64, mut high: f64, f: &impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut a, mut b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_a, mut at_b) = (f(a), f(b));
    for _ in 0..32 {
        if at_a > at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - GOLDEN * (high - low);
            at_a = f(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + GOLDEN * (high - low);
            at_b = f(b);
        }
    }
    f64::midpoint(low, high)
}
