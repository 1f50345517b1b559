//! Why nothing is predicted, in words and with the numbers behind them.

use wiretail_schema::prediction::tail::{Candidate, Fit, Refusal, RefusalKind};

use super::diagnostics;
use super::events::EVENTS_MIN;
use super::thresholds::{CHANCE, EVENTS, Tried, eligible};
use crate::stats::random::Random;

/// Shapes surely above this have no variance: averages of what was seen tell nothing of what comes.
const HEAVY: f64 = 0.5;

/// Why nothing is predicted of a fit: a highest event that the others do not foretell, or a tail without variance.
pub fn too_heavy(fit: &Fit, chosen: &Tried) -> Option<Refusal> {
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
pub fn none_passes(tried: &[Tried], random: &mut Random) -> Refusal {
    let candidates: Vec<&Candidate> = tried.iter().map(|tried| &tried.candidate).collect();
    let fitting = eligible(tried).filter(|tried| tried.fits()).map(|tried| &tried.candidate);
    let steadiest = |candidate: &Candidate| candidate.counts_chance.min(candidate.sizes_chance);
    let best = fitting.clone().max_by(|a, b| steadiest(a).total_cmp(&steadiest(b)));
    let Some(best) = best else {
        // One stall can spoil every fit: then it is the reason.
        let highest = tried.iter().rev().find(|tried| tried.events.len() >= EVENTS).or(tried.last());
        let reason = highest
            .and_then(|tried| stands_out(tried, diagnostics::maximum_chance(&tried.ascending, random)));
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
