//! Reasons for refusing a prediction, as text with the underlying numbers.

use wiretail_schema::prediction::tail::{Candidate, Fit, Refusal, RefusalKind};

use super::diagnostics;
use super::events::EVENTS_MIN;
use super::thresholds::{CHANCE, EVENTS, Tried, eligible};
use crate::stats::random::Random;

/// If the shape is significantly above this, the distribution has no variance, and averages of past delays do
/// not predict future ones.
const HEAVY: f64 = 0.5;

/// Reason to refuse a prediction from a fit: the highest event is inconsistent with the others, or the tail
/// has no variance.
pub fn too_heavy(fit: &Fit, chosen: &Tried) -> Option<Refusal> {
    let threshold_us = fit.threshold_ns * 1e-3;
    let mut reasons: Vec<String> = stands_out(chosen, fit.maximum_chance).into_iter().collect();
    if fit.shape_low > HEAVY {
        reasons.push(format!(
            "the tail above {threshold_us:.3} us is so heavy that it has no variance: shape {:.2}, with a lower \
            confidence bound of {:.2}; the limit is {HEAVY}",
            fit.shape, fit.shape_low
        ));
    }
    let reason = reasons.join("; and ");
    (!reason.is_empty()).then_some(Refusal { kind: RefusalKind::HeavyTailed, reason })
}

/// Reason to refuse a prediction if the highest event is too improbable.
fn stands_out(tried: &Tried, chance: f64) -> Option<String> {
    let threshold_ns = tried.candidate.threshold_ns;
    let highest_us = (threshold_ns + tried.ascending.last()?) * 1e-3;
    (chance <= CHANCE).then(|| {
        format!(
            "the highest delay, {highest_us:.1} us, is inconsistent with the other {} events above {:.3} us: only \
            {:.1} % of simulated measurements have such an outlier; it has a separate cause, which is too \
            rare to be fitted",
            tried.events.len() - 1,
            threshold_ns * 1e-3,
            chance * 100.0
        )
    })
}

/// Reason why no threshold passes.
pub fn none_passes(tried: &[Tried], random: &mut Random) -> Refusal {
    let candidates: Vec<&Candidate> = tried.iter().map(|tried| &tried.candidate).collect();
    let fitting = eligible(tried).filter(|tried| tried.fits()).map(|tried| &tried.candidate);
    let steadiest = |candidate: &Candidate| candidate.counts_chance.min(candidate.sizes_chance);
    let best = fitting.clone().max_by(|a, b| steadiest(a).total_cmp(&steadiest(b)));
    let Some(best) = best else {
        // A single stall can spoil every fit. If it does, the stall is reported as the reason.
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
                "no generalized Pareto distribution fits above any of {} thresholds with {EVENTS_MIN} to {} events: \
                the best Anderson-Darling p-value is {:.0} %, but must exceed 5 %; a mixture of causes with different \
                delays has this effect",
                candidates.len(),
                candidates.iter().map(|candidate| candidate.events).max().unwrap_or(0),
                worst * 100.0
            ),
        };
    };
    let what = if best.counts_chance < best.sizes_chance {
        format!(
            "high delays are more frequent at some times than at others (probability of this by chance: {:.3})",
            best.counts_chance
        )
    } else {
        format!(
            "high delays are larger at some times than at others (probability of this by chance: {:.3})",
            best.sizes_chance
        )
    };
    Refusal {
        kind: RefusalKind::NonStationary,
        reason: format!(
            "not stationary: {what}, for {} events above {:.3} us, and at each of the {} thresholds where a \
            distribution fits; past delays are not representative of future ones",
            best.events,
            best.threshold_ns * 1e-3,
            fitting.count()
        ),
    }
}
