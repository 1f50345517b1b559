//! Forecasts from a fit: the number of future events above a level, and the delay that occurs once in a span
//! of time.
//!
//! Three unknowns are drawn together: the distribution (fits of simulated measurements), the rate of events,
//! and their dispersion. Rate and dispersion are those of a Poisson process whose variance is scaled by the
//! dispersion of the batch counts. With five batches, this factor is itself uncertain: chi-square with four
//! degrees of freedom.

use wiretail_schema::prediction::tail::{Basis, Forecast, LevelForecast, ReturnLevel};

use super::diagnostics::{BATCHES, dispersion};
use super::distribution::Distribution;
use super::events::Event;
use super::gpd::Gpd;
use crate::prediction::tail::mixture::Mixture;
use crate::stats::random::{Random, gamma, poisson};

/// Number of simulated measurements that are fitted.
const FITS: usize = 400;
/// Number of simulated futures per forecast.
const FUTURES: usize = 20_000;
/// Minimum number of events, four per batch, for an estimate of the dispersion.
const DISPERSED: usize = 20;
/// Share of the lower component's events that exceed the level at which this component is predicted.
const LOWER_SHARE: f64 = 0.2;
/// Joint confidence of all bands.
pub const CONFIDENCE: f64 = 0.95;

/// Events above a threshold, summarized.
pub struct Known {
    /// Number of events.
    pub seen: f64,
    /// Dispersion of the events.
    pub dispersion: f64,
}

impl Known {
    /// Summarizes events among `packets` packets.
    pub fn of(events: &[Event], packets: usize) -> Self {
        Self { seen: events.len() as f64, dispersion: dispersion(events, packets) }
    }

    /// The same rate, with the dispersion of the events above a level: the highest events may have a separate
    /// cause that occurs in bursts. The dispersion is at least that of all events.
    fn above(events: &[Event], packets: usize, level_ns: f64) -> Self {
        let all = Self::of(events, packets);
        let mut highest = events.to_vec();
        highest.sort_unstable_by(|a, b| b.highest_ns.total_cmp(&a.highest_ns));
        let above = highest.iter().take_while(|event| event.highest_ns > level_ns).count();
        highest.truncate(above.max(DISPERSED));
        Self { seen: all.seen, dispersion: all.dispersion.max(dispersion(&highest, packets)) }
    }

    /// Draws a rate and a dispersion consistent with the observed events. The rate is the mean number of
    /// events in the same number of packets.
    fn draw(&self, random: &mut Random) -> (f64, f64) {
        let freedom = (BATCHES - 1) as f64;
        let factor = (self.dispersion * freedom / gamma(random, freedom, 2.0 * freedom)).max(1.0);
        (gamma(random, self.seen, factor * self.seen), factor)
    }

    /// Minimum and maximum number of events in a sample `ratio` times as large. The number is outside this
    /// band with probability `outside`. Each event is included with probability `share(i)`.
    fn band(
        &self,
        ratio: f64,
        outside: f64,
        share: impl Fn(usize) -> f64,
        random: &mut Random,
    ) -> (u64, u64) {
        let mut futures: Vec<f64> = (0..FUTURES)
            .map(|i| {
                let (rate, factor) = self.draw(random);
                let mean = rate * ratio * share(i);
                let mean = gamma(random, mean, (factor - 1.0) * mean);
                poisson(random, mean)
            })
            .collect();
        let (low, high) = ends(&mut futures, outside);
        (low as u64, high as u64)
    }
}

/// Bounds that exclude the fraction `outside` of the values, half of it on either side.
fn ends(values: &mut [f64], outside: f64) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * outside / 2.0) as usize;
    (values[rank], values[values.len() - 1 - rank])
}

/// Fits to simulated measurements, each with as many events as were observed, drawn from the fit itself.
fn refits<D: Distribution + Copy>(distribution: D, events: usize, random: &mut Random) -> Vec<D> {
    let again = |_| {
        let mut simulated = distribution.simulate(events, random);
        simulated.sort_unstable_by(f64::total_cmp);
        distribution.fit_again(&simulated).unwrap_or(distribution)
    };
    (0..FITS).map(again).collect()
}

pub struct Fitted<'a, D> {
    /// Threshold, in ns.
    threshold_ns: f64,
    /// Distribution above the threshold.
    distribution: D,
    /// Other fits that are consistent with the data.
    refits: Vec<D>,
    /// Events above the threshold.
    events: &'a [Event],
    /// Number of packets that contain the events.
    packets: usize,
}

impl<'a, D: Distribution + Copy> Fitted<'a, D> {
    /// Fits the events above a threshold, among `packets` packets.
    pub fn new(
        (threshold_ns, distribution): (f64, D),
        (events, packets): (&'a [Event], usize),
        random: &mut Random,
    ) -> Self {
        let refits = refits(distribution, events.len(), random);
        Self { threshold_ns, distribution, refits, events, packets }
    }

    /// Forecast of the number of events above a level in a sample `ratio` times as large. The number is
    /// outside the band with probability `outside`.
    fn level(&self, level_ns: f64, ratio: f64, outside: f64, random: &mut Random) -> LevelForecast {
        let excess = level_ns - self.threshold_ns;
        let share = |i: usize| self.refits[i % self.refits.len()].survival(excess);
        let known = Known::above(self.events, self.packets, level_ns);
        let (low, high) = known.band(ratio, outside, share, random);
        let expected = self.events.len() as f64 * ratio * self.distribution.survival(excess);
        let basis = Basis::Fitted;
        LevelForecast { level_ns, basis, seen: 0, expected, low, high, observed: None, error: None }
    }
}

/// Level whose forecast is based on the number of observed events, not on a distribution.
pub struct CountedLevel {
    /// Level, in ns.
    pub level_ns: f64,
    /// Events above the level.
    pub known: Known,
}

/// Forecasts the next `packets` packets, `ratio` times as many as were fitted. The forecast is based on a
/// tail and, if present, on the component of delays below it. `edge` moves a level to the edge of a timestamp
/// step.
pub fn forecast(
    (fitted, mixture): (&Fitted<'_, Gpd>, Option<&Fitted<'_, Mixture>>),
    counted: Vec<CountedLevel>,
    (packets, ratio): (u64, f64),
    edge: impl Fn(f64) -> f64,
    random: &mut Random,
) -> Forecast {
    let expected = fitted.events.len() as f64 * ratio;
    // Levels above which the expected number of events is a round number. Levels close to the threshold are
    // left out, because they would repeat it.
    let wanted = [100.0, 10.0, 1.0].into_iter().filter(|events| 2.0 * events < expected);
    let mut above: Vec<f64> = wanted
        .map(|events| edge(fitted.threshold_ns + fitted.distribution.exceeded_with(events / expected)))
        .filter(|level| *level > fitted.threshold_ns)
        .collect();
    above.dedup();
    // Level exceeded by one in five events of the lower component.
    let level = |mixture: &Fitted<'_, Mixture>| {
        edge(mixture.threshold_ns + mixture.distribution.lower.exceeded_with(LOWER_SHARE))
    };
    let below = mixture
        .map(|mixture| (mixture, level(mixture)))
        .filter(|(mixture, level)| mixture.threshold_ns < *level && *level < fitted.threshold_ns);
    let outside = (1.0 - CONFIDENCE) / (counted.len() + above.len() + usize::from(below.is_some())) as f64;
    let mut levels: Vec<LevelForecast> = counted
        .iter()
        .map(|counted| {
            let (low, high) = counted.known.band(ratio, outside, |_| 1.0, random);
            let (seen, expected) = (counted.known.seen as u64, counted.known.seen * ratio);
            let (level_ns, basis) = (counted.level_ns, Basis::Counted);
            LevelForecast { level_ns, basis, seen, expected, low, high, observed: None, error: None }
        })
        .collect();
    levels.extend(below.map(|(mixture, level_ns)| mixture.level(level_ns, ratio, outside, random)));
    levels.extend(above.into_iter().map(|level_ns| fitted.level(level_ns, ratio, outside, random)));
    levels.sort_by(|a, b| a.level_ns.total_cmp(&b.level_ns));
    Forecast { packets, confidence: CONFIDENCE, levels, holds: None }
}

/// Delay that is exceeded once in `once_in_packets` (Coles 2001, 4.3.3). `None` if it is below the threshold.
pub fn return_level(
    fitted: &Fitted<'_, Gpd>,
    (once_in_ns, once_in_packets): (i64, f64),
    random: &mut Random,
) -> Option<ReturnLevel> {
    let ratio = once_in_packets / fitted.packets as f64;
    let events = fitted.events.len() as f64 * ratio;
    if events <= 1.0 {
        return None;
    }
    let level = |gpd: Gpd, events: f64| fitted.threshold_ns + gpd.exceeded_with((1.0 / events).min(1.0));
    let known = Known::above(fitted.events, fitted.packets, level(fitted.distribution, events));
    let mut drawn: Vec<f64> = (0..FUTURES)
        .map(|i| {
            let (rate, _) = known.draw(random);
            level(fitted.refits[i % fitted.refits.len()], (rate * ratio).max(1.0))
        })
        .collect();
    let (low_ns, high_ns) = ends(&mut drawn, 1.0 - CONFIDENCE);
    Some(ReturnLevel {
        once_in_ns,
        once_in_packets,
        delay_ns: level(fitted.distribution, events),
        low_ns,
        high_ns,
    })
}
