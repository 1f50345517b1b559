//! Chooses the threshold: the lowest one above which a distribution fits and events are evenly distributed over
//! time.

use wiretail_schema::prediction::tail::{Candidate, Component};

use super::diagnostics;
use super::events::{Delays, EVENTS_MIN, Event};
use super::gpd::{self, Gpd};
use super::mixture::{self, Mixture};
use crate::stats::random::Random;

/// Number of events that a fit should have.
pub const EVENTS: usize = 100;
/// Limits on the exceedances of the lowest threshold: their number, and their share, given as one packet in
/// this number.
const EXCEEDANCES_MAX: usize = 2000;
const EXCEEDANCES_SHARE: u64 = 20;
/// At most one exceedance in this number of runs. If there were more, independent exceedances would often
/// form one event by chance.
const RUNS_SHARE: u64 = 10;
/// Factor between the numbers of exceedances of one threshold and the next.
const FEWER: f64 = 0.85;
/// A fit with a lower probability is rejected.
pub const FIT_CHANCE: f64 = 0.05;
/// Below this probability, uneven events and the highest event are not attributed to chance.
pub const CHANCE: f64 = 0.01;

/// Results for one threshold.
pub struct Tried {
    pub candidate: Candidate,
    /// Events above the threshold.
    pub events: Vec<Event>,
    /// Excesses of the events in ascending order, in ns.
    pub ascending: Vec<f64>,
    /// Distribution of the excesses.
    pub gpd: Gpd,
}

impl Tried {
    /// Whether the distribution fits.
    pub fn fits(&self) -> bool {
        self.candidate.fit_chance > FIT_CHANCE
    }

    /// Whether the number and the size of the events are evenly distributed over time.
    fn even(&self) -> bool {
        self.candidate.counts_chance >= CHANCE && self.candidate.sizes_chance >= CHANCE
    }

    fn passes(&self) -> bool {
        self.fits() && self.even()
    }
}

/// Thresholds in ascending order, or the reason why there is none.
pub fn tried(delays: &Delays, run: u64, random: &mut Random) -> Result<Vec<Tried>, String> {
    let count = delays.spread.len();
    let mut descending = delays.spread.clone();
    descending.sort_unstable_by(|a, b| b.total_cmp(a));
    let (Some(highest), Some(lowest)) = (descending.first(), descending.last()) else {
        return Err("there are no packets; expected the delays of a measurement".to_owned());
    };
    if delays.edge_ns(*highest) <= delays.edge_ns(*lowest) {
        return Err(format!("all {count} delays are equal at this timestamp granularity: there is no tail"));
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
            "for {count} packets, no threshold has at least {EVENTS_MIN} events and at most one exceedance in \
            {one_in} packets; a fit should have {EVENTS} events: measure longer"
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

/// Thresholds that may be chosen: those with enough events if any of them fits, otherwise all. Few events
/// cannot reveal an uneven rate, so if many events are uneven, a higher threshold with few events must not be
/// chosen instead.
pub fn eligible(tried: &[Tried]) -> impl Iterator<Item = &Tried> + Clone {
    let least = if tried.iter().any(|t| t.events.len() >= EVENTS && t.fits()) { EVENTS } else { 0 };
    tried.iter().filter(move |tried| tried.events.len() >= least)
}

/// Lowest eligible threshold that passes.
pub fn choose(tried: &[Tried]) -> Option<&Tried> {
    eligible(tried).find(|tried| tried.passes())
}

/// Threshold below the chosen one. The delays above it have two components.
pub struct Below<'a> {
    pub tried: &'a Tried,
    /// Distributions of both components.
    pub mixture: Mixture,
    /// Parameters for reports.
    pub component: Component,
}

/// Lowest threshold above which there are enough events, evenly distributed over time, and above which two
/// components fit: one up to the chosen threshold, and one above it.
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
