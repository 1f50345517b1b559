//! Repeats that are each predicted at the pace that the machine had at their own time.

use std::num::NonZeroU64;

use anyhow::Result;
use wiretail_analysis::prediction::queueing::comparison::{Predicted, compare_pairs, judged};
use wiretail_analysis::prediction::queueing::{Rounds, predict_rounds};
use wiretail_analysis::stats::counts::Counts;
use wiretail_schema::prediction::calibration::ComparedPercentile;
use wiretail_schema::prediction::queueing::{Arrivals, QueueingModel};

use super::trials::{Chosen, Times};
use crate::predict::queueing::interference::Interferences;

/// Simulations of each of them, at least.
const ROUNDS_MIN: u64 = 5;
/// So many of them, at least: then the median of their errors counts.
const PAIRS_MIN: u64 = 3;
/// From the seeds of one to those of the next one.
const SEEDS: u64 = 1 << 20;

/// What is simulated: packets that come so, as often for all repeats together, by a seed.
#[derive(Debug, Clone)]
pub struct Load {
    pub arrivals: Arrivals,
    pub packets: u64,
    pub rounds: Rounds,
    pub seed: u64,
}

/// Repeats as each was predicted by itself, against what was measured.
pub struct Paired {
    /// How many.
    pub repeats: u64,
    /// Whether all of them met the stalls that the calibration listed at their time.
    pub interfered: bool,
    /// The judged percentiles.
    pub percentiles: Vec<ComparedPercentile>,
    /// All that was predicted of them.
    pub predicted: Predicted,
}

/// The repeats that have a pace of their own; None where they are fewer than half, or than three.
/// `measured` are the delays of each repeat, `interferences` what the calibration recorded at the same times.
///
/// # Errors
/// A load that can't be simulated.
pub fn paired(
    model: &QueueingModel,
    (times, interferences): (&Times, &Interferences),
    repeats: &[Chosen],
    measured: &[Counts],
    load: &Load,
) -> Result<Option<Paired>> {
    let at = |(trial, measured)| {
        let time = times.of(trial)?;
        Some((time, model.at_time(time)?, measured))
    };
    let own: Vec<(u64, QueueingModel, &Counts)> = repeats.iter().zip(measured).filter_map(at).collect();
    let count = own.len() as u64;
    let enough =
        NonZeroU64::new(count).filter(|own| own.get() >= PAIRS_MIN && own.get() * 2 > repeats.len() as u64);
    let Some(enough) = enough else { return Ok(None) };
    let rounds = Rounds { rounds: (load.rounds.rounds / enough).max(ROUNDS_MIN), ..load.rounds };
    let load = Load { rounds, ..load.clone() };
    let (mut pairs, mut interfered) = (Vec::new(), true);
    for ((time, model, measured), number) in own.into_iter().zip(1..) {
        let seed = load.seed.wrapping_add(SEEDS * number);
        let with_stalls = interferences.predict(&model, time, &load, seed)?;
        interfered &= with_stalls.is_some();
        let predicted = match with_stalls {
            Some(predicted) => predicted,
            None => by_interrupts(&model, &load, seed)?,
        };
        pairs.push((predicted, measured.clone()));
    }
    let percentiles = compare_pairs(&pairs);
    let predicted = Predicted::of_all(pairs.iter().map(|pair| &pair.0));
    Ok(Some(Paired { repeats: count, interfered, percentiles, predicted }))
}

/// A load with the model's own interrupts, at random times.
fn by_interrupts(model: &QueueingModel, load: &Load, seed: u64) -> Result<Predicted> {
    let mut typical = Vec::new();
    let each = |delays: &Counts| typical.push(judged(delays));
    let (_, counts) = predict_rounds(model, &load.arrivals, load.packets, seed, load.rounds, each)?;
    Ok(Predicted::new(counts, typical))
}
