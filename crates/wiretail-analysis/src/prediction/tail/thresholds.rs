//! Which threshold: the lowest above which a distribution fits and events come evenly.

use wiretail_schema::prediction::tail::{Candidate, Component};

use super::diagnostics;
use super::events::{Delays, EVENTS_MIN, Event};
use super::gpd::{self, Gpd};
use super::mixture::{self, Mixture};
use crate::stats::random::Random;

/// Events that a fit should have.
pub const EVENTS: usize = 100;
/// Exceedances of the lowest threshold that is tried: at most this many, and one packet in so many.
const EXCEEDANCES_MAX: usize = 2000;
const EXCEEDANCES_SHARE: u64 = 20;
/// And at most one in so many runs: more would often be one event by chance.
const RUNS_SHARE: u64 = 10;
/// From one threshold to the next, exceedances become fewer by this factor.
const FEWER: f64 = 0.85;
/// A fit less probable than this is rejected.
pub const FIT_CHANCE: f64 = 0.05;
/// Unevenness, and a highest event, less probable than this are none by chance.
pub const CHANCE: f64 = 0.01;

/// What is known of a threshold that was tried.
pub struct Tried {
    /// Its diagnostics.
    pub candidate: Candidate,
    /// The events above.
    pub events: Vec<Event>,
    /// Their excesses in ascending order, in ns.
    pub ascending: Vec<f64>,
    /// The distribution of these.
    pub gpd: Gpd,
}

impl Tried {
    /// Whether the distribution fits.
    pub fn fits(&self) -> bool {
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
pub fn tried(delays: &Delays, run: u64, random: &mut Random) -> Result<Vec<Tried>, String> {
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
        mixture::gap(&descending[..above])
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
    let (anderson_darling, fit_chance) =
        diagnostics::fit_chance(&ascending, &gpd, delays.granularity_ns(), random);
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
        counts_chance: diagnostics::counts_chance(&events, delays.spread.len(), random),
        sizes_chance: diagnostics::sizes_chance(&events, random),
    };
    Some(Tried { candidate, events, ascending, gpd })
}

/// The thresholds that may be taken: those with enough events if any of them fits, otherwise all. Few events can't tell an
/// uneven rate: where many show one, a threshold that leaves few of them is no way out.
pub fn eligible(tried: &[Tried]) -> impl Iterator<Item = &Tried> + Clone {
    let least = if tried.iter().any(|t| t.events.len() >= EVENTS && t.fits()) { EVENTS } else { 0 };
    tried.iter().filter(move |tried| tried.events.len() >= least)
}

/// The lowest of them that passes.
pub fn choose(tried: &[Tried]) -> Option<&Tried> {
    eligible(tried).find(|tried| tried.passes())
}

/// A threshold below the chosen one, above which delays are of two heaps.
pub struct Below<'a> {
    /// The threshold.
    pub tried: &'a Tried,
    /// Both distributions.
    pub mixture: Mixture,
    /// The same for a reader.
    pub component: Component,
}

/// The lowest threshold with enough events, as even as is wanted, above which two heaps fit: up to the chosen threshold, and
/// above it.
pub fn two_components<'a>(
    tried: &'a [Tried],
    chosen: &Tried,
    granularity_ns: f64,
    random: &mut Random,
) -> Option<Below<'a>> {
    tried.iter().filter(|tried| tried.events.len() >= EVENTS && tried.even()).find_map(|tried| {
        let threshold_ns = tried.candidate.threshold_ns;
        let mixture = Mixture::fit(&tried.ascending, chosen.candidate.threshold_ns - threshold_ns)?;
        let (anderson_darling, fit_chance) =
            diagnostics::fit_chance(&tried.ascending, &mixture, granularity_ns, random);
        let component = Component {
            threshold_ns,
            exceedances: tried.candidate.exceedances,
            events: tried.candidate.events,
            share: mixture.lower_share,
            shape: mixture.lower.shape,
            scale_ns: mixture.lower.scale,
            anderson_darling,
            fit_chance,
        };
        (fit_chance > FIT_CHANCE).then_some(Below { tried, mixture, component })
    })
}
