//! Extreme value model of the highest delays: peaks over threshold.
//!
//! 1. [`events`]: delays above a threshold; those of one stall form one event;
//! 2. [`gpd`]: generalized Pareto distribution of their excesses; [`mixture`]: two of them, if a rarer cause
//!    has its own delays;
//! 3. [`diagnostics`]: tests of the fit, of whether events are evenly distributed over time, and of the
//!    highest event; [`quantiles`]: data for a plot;
//! 4. [`thresholds`]: the lowest threshold that passes; [`refusals`]: the reason if there is none;
//! 5. [`forecast`]: numbers from the fit.
//!
//! Formulas, sources and limits: `docs/kpi/extreme-values.md`.

pub mod diagnostics;
pub mod distribution;
pub mod events;
pub mod forecast;
pub mod gpd;
pub mod mixture;
pub mod quantiles;
pub mod refusals;
#[cfg(test)]
mod tests;
pub mod thresholds;

use wiretail_schema::prediction::tail::{
    Basis, Fit, Forecast, LevelForecast, Refusal, RefusalKind, Support, Tail,
};
use wiretail_schema::units::Share;

use crate::stats::quantile::PERCENTILES;
use crate::stats::random::Random;
use events::Delays;
use forecast::{CountedLevel, Fitted, Known};
use thresholds::{EVENTS, Tried, choose, tried, two_components};

/// Packets in the order in which they were sent; both slices have the same length.
#[derive(Debug, Clone, Copy)]
pub struct Packets<'a> {
    /// Send time of each packet, in ns since an arbitrary time.
    pub times_ns: &'a [i64],
    /// Delay of each packet, in ns.
    pub delays_ns: &'a [i64],
}

/// Options of a prediction.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Timestamp granularity of the delays, in ns, above 0.
    pub granularity_ns: f64,
    /// Exceedances with fewer packets than this between them form one event.
    pub run_packets: u64,
    /// Share of the packets to fit. The other packets are compared with the forecast. `None` fits all
    /// packets.
    pub calibrate: Option<f64>,
    /// Number of packets to forecast. The default is the number of packets that were not fitted, or the
    /// number of all packets if all were fitted.
    pub ahead: Option<u64>,
    /// Spans of time, in ns. For each, the delay that occurs once per span is computed.
    pub once_in_ns: Vec<i64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Predicts future delays from the highest measured delays.
pub fn predict(packets: Packets<'_>, settings: &Settings) -> Tail {
    let mut random = Random::new(settings.seed);
    let all = Delays::new(packets.delays_ns, settings.granularity_ns, &mut random);
    let len = all.spread.len();
    let fitted_len = settings.calibrate.map_or(len, |share| (len as f64 * share) as usize).min(len);
    let times = &packets.times_ns[..fitted_len];
    let span_ns = times.first().zip(times.last()).map_or(0, |(first, last)| last.saturating_sub(*first));
    let rate_pps =
        if span_ns > 0 { fitted_len.saturating_sub(1) as f64 / (span_ns as f64 * 1e-9) } else { 0.0 };
    let mut tail = Tail {
        packets: fitted_len as u64,
        span_ns,
        rate_pps,
        granularity_ns: settings.granularity_ns,
        run_packets: settings.run_packets,
        seed: settings.seed,
        refused: None,
        candidates: Vec::new(),
        fit: None,
        return_levels: Vec::new(),
        forecast: None,
        support: support(fitted_len as u64, rate_pps),
    };
    let delays = all.first(fitted_len);
    let tried = match tried(&delays, settings.run_packets, &mut random) {
        Ok(tried) => tried,
        Err(reason) => {
            tail.refused = Some(Refusal { kind: RefusalKind::TooFew, reason });
            return tail;
        }
    };
    tail.candidates = tried.iter().map(|tried| tried.candidate.clone()).collect();
    let Some(chosen) = choose(&tried) else {
        tail.refused = Some(refusals::none_passes(&tried, &mut random));
        return tail;
    };
    let mut fit = judge(chosen, fitted_len, settings.seed, &mut random);
    tail.refused = refusals::too_heavy(&fit, chosen);
    let mixture =
        if fit.thin { two_components(&tried, chosen, settings.granularity_ns, &mut random) } else { None };
    fit.below = mixture.as_ref().map(|below| below.component.clone());
    tail.fit = Some(fit);
    if tail.refused.is_some() {
        return tail;
    }
    let above = (chosen.candidate.threshold_ns, chosen.gpd);
    let fitted = Fitted::new(above, (&chosen.events, fitted_len), &mut random);
    let below = mixture.as_ref().map(|below| {
        let mixture = (below.tried.candidate.threshold_ns, below.mixture);
        Fitted::new(mixture, (&below.tried.events, fitted_len), &mut random)
    });
    let spans = settings.once_in_ns.iter().map(|&once| (once, once as f64 * 1e-9 * rate_pps));
    tail.return_levels =
        spans.filter_map(|span| forecast::return_level(&fitted, span, &mut random)).collect();
    let rest = (len - fitted_len) as u64;
    let ahead = settings.ahead.unwrap_or(if rest > 0 { rest } else { len as u64 });
    let ratio = ahead as f64 / fitted_len as f64;
    let lower = mixture.as_ref().map(|below| below.tried);
    let counted = counted_levels(&tried, (lower, chosen), fitted_len);
    let edge = |level: f64| delays.edge_ns(level);
    let parts = (&fitted, below.as_ref());
    let mut forecast = forecast::forecast(parts, counted, (ahead, ratio), edge, &mut random);
    let compared = settings.calibrate.is_some() && settings.ahead.is_none();
    count(&mut forecast, (lower, chosen), (&delays, compared.then_some(&all)), settings.run_packets);
    tail.forecast = Some(forecast);
    tail
}

/// Counts the events above each level of a forecast: among the fitted packets and, if `all` is given, among
/// the packets after them.
fn count(
    forecast: &mut Forecast,
    (lower, chosen): (Option<&Tried>, &Tried),
    (fitted, all): (&Delays, Option<&Delays>),
    run: u64,
) {
    for level in &mut forecast.levels {
        let below = lower.filter(|_| level.level_ns < chosen.candidate.threshold_ns);
        let threshold_ns = below.unwrap_or(chosen).candidate.threshold_ns;
        level.seen = events_above(level, fitted, threshold_ns, run, 0);
        level.observed = all.map(|all| events_above(level, all, threshold_ns, run, fitted.spread.len()));
        let observed = level.observed.filter(|observed| *observed > 0);
        level.error = observed.map(|observed| level.expected / observed as f64 - 1.0);
    }
    let inside =
        |level: &LevelForecast| level.observed.is_none_or(|seen| (level.low..=level.high).contains(&seen));
    forecast.holds = all.map(|_| forecast.levels.iter().all(inside));
}

/// Levels above which events are only counted. The first level is the threshold. If it has fewer events than a
/// fit should have, the second level is either the threshold of the component below it or the highest threshold
/// with enough events.
fn counted_levels(
    tried: &[Tried],
    (lower, chosen): (Option<&Tried>, &Tried),
    packets: usize,
) -> Vec<CountedLevel> {
    let enough = lower.or_else(|| tried.iter().rev().find(|tried| tried.events.len() >= EVENTS));
    let enough = enough.filter(|_| chosen.events.len() < EVENTS);
    let level = |tried: &Tried| CountedLevel {
        level_ns: tried.candidate.threshold_ns,
        known: Known::of(&tried.events, packets),
    };
    enough.into_iter().chain([chosen]).map(level).collect()
}

fn judge(chosen: &Tried, packets: usize, seed: u64, random: &mut Random) -> Fit {
    let threshold_ns = chosen.candidate.threshold_ns;
    Fit {
        threshold_ns,
        exceedances: chosen.candidate.exceedances,
        events: chosen.candidate.events,
        thin: chosen.events.len() < EVENTS,
        shape: chosen.gpd.shape,
        shape_low: chosen.candidate.shape_low,
        shape_high: chosen.candidate.shape_high,
        shape_by_moments: gpd::probability_weighted(&chosen.ascending).map(|gpd| gpd.shape),
        scale_ns: chosen.gpd.scale,
        end_ns: chosen.gpd.end().map(|end| threshold_ns + end),
        dispersion: diagnostics::dispersion(&chosen.events, packets),
        maximum_chance: diagnostics::maximum_chance(&chosen.ascending, random),
        quantiles: quantiles::quantiles(&chosen.ascending, chosen.gpd, threshold_ns, seed),
        below: None,
    }
}

/// Number of events above a level. For a counted forecast, the level itself is the threshold that separates
/// events. For a fitted forecast, the threshold of the fit separates events, and the number of those that
/// exceed the level is returned.
fn events_above(level: &LevelForecast, delays: &Delays, threshold_ns: f64, run: u64, from: usize) -> u64 {
    let events = match level.basis {
        Basis::Counted => delays.events(level.level_ns, run, from),
        Basis::Fitted => delays.events(threshold_ns, run, from),
    };
    events.iter().filter(|event| event.highest_ns > level.level_ns).count() as u64
}

/// How long a measurement must be to have ten packets above each percentile: n (1 - p) >= 10.
fn support(packets: u64, rate_pps: f64) -> Vec<Support> {
    let shares = PERCENTILES.iter().filter_map(|billionths| Share::from_billionths(*billionths));
    shares
        .filter(|share| share.billionths() >= 990_000_000)
        .map(|share| {
            let needed = (10 * Share::ONE).div_ceil(Share::ONE - share.billionths());
            Support {
                percentile: share.percent(),
                packets: needed,
                seconds: (rate_pps > 0.0).then(|| needed as f64 / rate_pps),
                supported: share.is_supported_by(packets),
            }
        })
        .collect()
}
