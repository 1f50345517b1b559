//! The highest delays as a distribution of their own: peaks over threshold.
//!
//! 1. [`events`]: delays above a threshold, those of one stall as one event;
//! 2. [`gpd`]: the generalised Pareto distribution of their excess; [`heaps`]: two of them, where a rarer cause has delays of
//!    its own;
//! 3. [`checks`]: does it fit, do events come evenly, is the highest one of their kind; [`quantiles`]: the same for the eye;
//! 4. [`predict`] takes the lowest threshold that passes, or says why there is none; [`forecast`] makes numbers of it.
//!
//! Formulas, sources and limits: `docs/kpi/extreme-values.md`.

pub mod checks;
pub mod distribution;
pub mod events;
pub mod forecast;
pub mod gpd;
pub mod heaps;
pub mod quantiles;
pub mod random;
#[cfg(test)]
mod tests;

use wiretail_schema::predict::tail::{
    Basis, Candidate, Fit, Heap, LevelForecast, Refusal, RefusalKind, Support, Tail,
};
use wiretail_schema::units::Share;

use crate::quantile::PERCENTILES;
use events::{Delays, Event};
use forecast::{CountedLevel, Fitted, Known};
use gpd::Gpd;
use heaps::Heaps;
use random::Random;

/// Events that a fit should have.
const EVENTS: usize = 100;
/// Fewer than these are no tail.
const EVENTS_MIN: usize = 30;
/// Exceedances of the lowest threshold that is tried: at most this many, and one packet in so many.
const EXCEEDANCES_MAX: usize = 2000;
const EXCEEDANCES_SHARE: u64 = 20;
/// And at most one in so many runs: more would often be one event by chance.
const RUNS_SHARE: u64 = 10;
/// From one threshold to the next, exceedances become fewer by this factor.
const FEWER: f64 = 0.85;
/// A fit less probable than this is rejected.
const FIT_CHANCE: f64 = 0.05;
/// Unevenness, and a highest event, less probable than this are none by chance.
const CHANCE: f64 = 0.01;
/// Shapes surely above this have no variance: averages of what was seen tell nothing of what comes.
const HEAVY: f64 = 0.5;

/// Packets in the order in which they were sent; both of one length.
#[derive(Debug, Clone, Copy)]
pub struct Packets<'a> {
    /// When each was sent, in ns since any moment.
    pub times_ns: &'a [i64],
    /// Its delay in ns.
    pub delays_ns: &'a [i64],
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Grid of the delays, in ns, above 0.
    pub grid_ns: f64,
    /// Exceedances with fewer packets than this between them are one event.
    pub run_packets: u64,
    /// Share of the packets that is fitted, the others are compared with what it predicts; None fits all.
    pub calibrate: Option<f64>,
    /// Packets to look ahead; None: those that were not fitted, or as many as there were.
    pub ahead: Option<u64>,
    /// Spans of time, in ns, of which the delay is wanted that comes once in them.
    pub once_in_ns: Vec<i64>,
    /// Seed of everything random.
    pub seed: u64,
}

/// What the highest delays say about those to come.
pub fn predict(packets: Packets<'_>, settings: &Settings) -> Tail {
    let mut random = Random::new(settings.seed);
    let all = Delays::new(packets.delays_ns, settings.grid_ns, &mut random);
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
        grid_ns: settings.grid_ns,
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
        tail.refused = Some(none_passes(&tried, &mut random));
        return tail;
    };
    let mut fit = judge(chosen, fitted_len, settings.seed, &mut random);
    tail.refused = too_heavy(&fit, chosen);
    let heaps = if fit.thin { two_heaps(&tried, chosen, settings.grid_ns, &mut random) } else { None };
    fit.below = heaps.as_ref().map(|below| below.heap.clone());
    tail.fit = Some(fit);
    if tail.refused.is_some() {
        return tail;
    }
    let above = |tried: &'_ Tried| (tried.candidate.threshold_ns, tried.gpd);
    let fitted = Fitted::new(above(chosen), (&chosen.events, fitted_len), &mut random);
    let below = heaps.as_ref().map(|below| {
        let heaps = (below.tried.candidate.threshold_ns, below.heaps);
        Fitted::new(heaps, (&below.tried.events, fitted_len), &mut random)
    });
    let spans = settings.once_in_ns.iter().map(|&once| (once, once as f64 * 1e-9 * rate_pps));
    tail.return_levels =
        spans.filter_map(|span| forecast::return_level(&fitted, span, &mut random)).collect();
    let rest = (len - fitted_len) as u64;
    let ahead = settings.ahead.unwrap_or(if rest > 0 { rest } else { len as u64 });
    let ratio = ahead as f64 / fitted_len as f64;
    let lower = heaps.as_ref().map(|below| below.tried);
    let counted = counted_levels(&tried, (lower, chosen), fitted_len);
    let edge = |level: f64| delays.edge_ns(level);
    let parts = (&fitted, below.as_ref());
    let mut forecast = forecast::forecast(parts, counted, (ahead, ratio), edge, &mut random);
    let run = settings.run_packets;
    let threshold_ns = |level: &LevelForecast| {
        let below = lower.filter(|_| level.level_ns < chosen.candidate.threshold_ns);
        below.unwrap_or(chosen).candidate.threshold_ns
    };
    for level in &mut forecast.levels {
        level.seen = events_above(level, &delays, threshold_ns(level), run, 0);
    }
    if settings.calibrate.is_some() && settings.ahead.is_none() {
        for level in &mut forecast.levels {
            let observed = events_above(level, &all, threshold_ns(level), run, fitted_len);
            level.observed = Some(observed);
            level.error = (observed > 0).then(|| level.expected / observed as f64 - 1.0);
        }
        let inside = |level: &LevelForecast| {
            level.observed.is_none_or(|seen| (level.low..=level.high).contains(&seen))
        };
        forecast.holds = Some(forecast.levels.iter().all(inside));
    }
    tail.forecast = Some(forecast);
    tail
}

/// What is known of a threshold that was tried.
struct Tried {
    candidate: Candidate,
    events: Vec<Event>,
    /// Excesses in ascending order.
    ascending: Vec<f64>,
    gpd: Gpd,
}

impl Tried {
    fn fits(&self) -> bool {
        self.candidate.fit_chance > FIT_CHANCE
    }

    /// Whether events come evenly over time, as often and as high.
    fn even(&self) -> bool {
        self.candidate.counts_chance >= CHANCE && self.candidate.sizes_chance >= CHANCE
    }

    fn passes(&self) -> bool {
        self.fits() && self.even()
    }
}

/// The thresholds, the lowest first; or why there is none.
fn tried(delays: &Delays, run: u64, random: &mut Random) -> Result<Vec<Tried>, String> {
    let count = delays.spread.len();
    let mut descending = delays.spread.clone();
    descending.sort_unstable_by(|a, b| b.total_cmp(a));
    let (Some(highest), Some(lowest)) = (descending.first(), descending.last()) else {
        return Err("there is no packet; expected the delays of a measurement".to_owned());
    };
    if delays.edge_ns(*highest) <= delays.edge_ns(*lowest) {
        return Err(format!("all {count} delays are equal, on a grid of the stamps: there is no tail"));
    }
    let mut thresholds: Vec<f64> = Vec::new();
    let one_in = EXCEEDANCES_SHARE.max(run.saturating_mul(RUNS_SHARE));
    let mut exceedances = ((count as u64 / one_in) as usize).min(EXCEEDANCES_MAX);
    while exceedances >= EVENTS_MIN {
        thresholds.push(delays.edge_ns(descending[exceedances - 1]));
        exceedances = (exceedances as f64 * FEWER) as usize;
    }
    if let Some(rank) = thresholds.first().and_then(|lowest| {
        let above = descending.partition_point(|delay| delay > lowest);
        heaps::gap(&descending[..above])
    }) {
        thresholds.push(delays.edge_ns(descending[rank]));
    }
    thresholds.sort_unstable_by(f64::total_cmp);
    thresholds.dedup();
    let tried: Vec<Tried> =
        thresholds.into_iter().filter_map(|threshold| try_one(delays, threshold, run, random)).collect();
    if tried.is_empty() {
        return Err(format!(
            "{count} packets have no threshold with {EVENTS_MIN} events above it and no more than one packet in \
             {one_in}; a fit should have {EVENTS}: measure longer"
        ));
    }
    Ok(tried)
}

fn try_one(delays: &Delays, threshold_ns: f64, run: u64, random: &mut Random) -> Option<Tried> {
    let events = delays.events(threshold_ns, run, 0);
    if events.len() < EVENTS_MIN {
        return None;
    }
    let mut ascending: Vec<f64> = events.iter().map(|event| event.highest_ns - threshold_ns).collect();
    ascending.sort_unstable_by(f64::total_cmp);
    let gpd = gpd::fit(&ascending)?;
    let (anderson_darling, fit_chance) = checks::fit_chance(&ascending, &gpd, delays.grid_ns(), random);
    let (shape_low, shape_high) = gpd::shape_interval(&ascending, gpd);
    let candidate = Candidate {
        threshold_ns,
        exceedances: delays.above(threshold_ns) as u64,
        events: events.len() as u64,
        mean_excess_ns: ascending.iter().sum::<f64>() / ascending.len() as f64,
        shape: gpd.shape,
        shape_low,
        shape_high,
        modified_scale_ns: gpd.scale - gpd.shape * threshold_ns,
        anderson_darling,
        fit_chance,
        counts_chance: checks::counts_chance(&events, delays.spread.len(), random),
        sizes_chance: checks::sizes_chance(&events, random),
    };
    Some(Tried { candidate, events, ascending, gpd })
}

/// The thresholds that may be taken: those with enough events if any of them fits, otherwise all. Few events can't tell an
/// uneven rate: where many show one, a threshold that leaves few of them is no way out.
fn eligible(tried: &[Tried]) -> impl Iterator<Item = &Tried> + Clone {
    let least = if tried.iter().any(|t| t.events.len() >= EVENTS && t.fits()) { EVENTS } else { 0 };
    tried.iter().filter(move |tried| tried.events.len() >= least)
}

/// The lowest of them that passes.
fn choose(tried: &[Tried]) -> Option<&Tried> {
    eligible(tried).find(|tried| tried.passes())
}

/// A threshold below the chosen one, above which delays are of two heaps.
struct Below<'a> {
    tried: &'a Tried,
    heaps: Heaps,
    heap: Heap,
}

/// The lowest threshold with enough events, as even as is wanted, above which two heaps fit: up to the chosen threshold, and
/// above it.
fn two_heaps<'a>(tried: &'a [Tried], chosen: &Tried, grid_ns: f64, random: &mut Random) -> Option<Below<'a>> {
    tried.iter().filter(|tried| tried.events.len() >= EVENTS && tried.even()).find_map(|tried| {
        let threshold_ns = tried.candidate.threshold_ns;
        let heaps = Heaps::fit(&tried.ascending, chosen.candidate.threshold_ns - threshold_ns)?;
        let (anderson_darling, fit_chance) = checks::fit_chance(&tried.ascending, &heaps, grid_ns, random);
        let heap = Heap {
            threshold_ns,
            exceedances: tried.candidate.exceedances,
            events: tried.candidate.events,
            share: heaps.lower_share,
            shape: heaps.lower.shape,
            scale_ns: heaps.lower.scale,
            anderson_darling,
            fit_chance,
        };
        (fit_chance > FIT_CHANCE).then_some(Below { tried, heaps, heap })
    })
}

/// Levels of which the events are just counted: the threshold, and where it has fewer events than a fit should have,
/// that of the heap below it, or the highest that has enough.
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
        dispersion: checks::dispersion(&chosen.events, packets),
        maximum_chance: checks::maximum_chance(&chosen.ascending, random),
        quantiles: quantiles::quantiles(&chosen.ascending, chosen.gpd, threshold_ns, seed),
        below: None,
    }
}

fn too_heavy(fit: &Fit, chosen: &Tried) -> Option<Refusal> {
    let threshold_us = fit.threshold_ns * 1e-3;
    let mut reasons: Vec<String> = stands_out(chosen, fit.maximum_chance).into_iter().collect();
    if fit.shape_low > HEAVY {
        reasons.push(format!(
            "the tail above {threshold_us:.3} us is so heavy that it has no variance: shape {:.2}, surely above \
             {:.2}, where {HEAVY} is the limit",
            fit.shape, fit.shape_low
        ));
    }
    let reason = reasons.join("; and ");
    (!reason.is_empty()).then_some(Refusal { kind: RefusalKind::HeavyTailed, reason })
}

/// The reason, where the highest event is so improbable.
fn stands_out(tried: &Tried, chance: f64) -> Option<String> {
    let threshold_ns = tried.candidate.threshold_ns;
    let highest_us = (threshold_ns + tried.ascending.last()?) * 1e-3;
    (chance <= CHANCE).then(|| {
        format!(
            "the highest delay, {highest_us:.1} us, is none that the other {} events above {:.3} us foretell: it stands \
             out as far in {:.1} % of simulated measurements; a rare cause of its own was met too seldom to be fitted",
            tried.events.len() - 1,
            threshold_ns * 1e-3,
            chance * 100.0
        )
    })
}

/// Why no threshold passes.
fn none_passes(tried: &[Tried], random: &mut Random) -> Refusal {
    let candidates: Vec<&Candidate> = tried.iter().map(|tried| &tried.candidate).collect();
    let fitting = eligible(tried).filter(|tried| tried.fits()).map(|tried| &tried.candidate);
    let steadiest = |candidate: &Candidate| candidate.counts_chance.min(candidate.sizes_chance);
    let best = fitting.clone().max_by(|a, b| steadiest(a).total_cmp(&steadiest(b)));
    let Some(best) = best else {
        // One stall can spoil every fit: then it is the reason.
        let highest = tried.iter().rev().find(|tried| tried.events.len() >= EVENTS).or(tried.last());
        let reason =
            highest.and_then(|tried| stands_out(tried, checks::maximum_chance(&tried.ascending, random)));
        if let Some(reason) = reason {
            return Refusal { kind: RefusalKind::HeavyTailed, reason };
        }
        let worst = candidates.iter().map(|candidate| candidate.fit_chance).fold(0.0, f64::max);
        return Refusal {
            kind: RefusalKind::BadFit,
            reason: format!(
                "no generalised Pareto distribution fits above any of {} thresholds with {EVENTS_MIN} to {} events: \
                 Anderson and Darling's statistic is as large by chance in {:.0} % of cases at most, where more than \
                 5 % is wanted; several causes with delays of their own look like this",
                candidates.len(),
                candidates.iter().map(|candidate| candidate.events).max().unwrap_or(0),
                worst * 100.0
            ),
        };
    };
    let what = if best.counts_chance < best.sizes_chance {
        format!(
            "high delays come more often at some times than at others (by chance {:.3})",
            best.counts_chance
        )
    } else {
        format!("high delays are higher at some times than at others (by chance {:.3})", best.sizes_chance)
    };
    Refusal {
        kind: RefusalKind::NonStationary,
        reason: format!(
            "not stationary: {what}, of {} events above {:.3} us, and at each of the {} thresholds where a distribution fits; what \
             was seen is no sample of what comes",
            best.events,
            best.threshold_ns * 1e-3,
            fitting.count()
        ),
    }
}

/// Events above a level: a counted one is a threshold of its own, a fitted one divides the events of the threshold.
fn events_above(level: &LevelForecast, delays: &Delays, threshold_ns: f64, run: u64, from: usize) -> u64 {
    let events = match level.basis {
        Basis::Counted => delays.events(level.level_ns, run, from),
        Basis::Fitted => delays.events(threshold_ns, run, from),
    };
    events.iter().filter(|event| event.highest_ns > level.level_ns).count() as u64
}

/// How long a measurement must run for ten packets above each percentile: n (1 - p) >= 10.
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
