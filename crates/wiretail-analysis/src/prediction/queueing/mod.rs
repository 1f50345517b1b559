//! The digital twin: a simulation of the path of packets, from arrival to departure.
//!
//! ```text
//! arrivals ─► ring ─► server (batches; taken away by interrupts) ─► transfer ─► delay
//!              └► lost where it is full
//! ```
//!
//! - `arrivals`: when packets come;
//! - `vacations`: when interrupts take the server away;
//! - `random`, `exponential`: chance, the same for a seed on every machine;
//! - `server`: the loop, batch by batch. There is no list of events: with one server, the next event is always known
//!   (the recursion of Lindley 1952, with batches and interrupts), which is why it is fast;
//! - `feasibility`: what can't be simulated, and the capacity in closed form;
//! - [`calibrate`]: a model from measured packets;
//! - [`comparison`]: a prediction against the measurement;
//! - `tally`: the delays as counts, and how exact the simulation is.
//!
//! Deterministic for a seed. The loop allocates nothing; exact counts of delays take memory for new values.
//! What the model leaves out stands in `docs/kpi/queueing.md`.

mod arrivals;
pub mod calibrate;
pub mod comparison;
mod feasibility;
mod random;
mod server;
mod tally;
mod vacations;

#[cfg(test)]
mod tests;

pub use feasibility::{Capacity, QueueingError, RING_MAX, capacity, offered};
pub use server::Totals;
pub use tally::{BATCHES, BatchMeans, Interval};

use wiretail_schema::prediction::queueing::{Arrivals, QueueingLoad, QueueingModel};

use crate::stats::counts::Counts;

/// Pages for simulated delays: 8 MiB, as wide as queues of milliseconds are.
const PAGES: usize = 4096;
/// The same of one round among many.
const ROUND_PAGES: usize = 256;

/// What becomes of `packets` packets (of recorded arrivals, as many as there are at most): calls
/// `outcome(arrival_ns, delay_ns)` for each, without a delay where it is lost. Served packets come in their order, and lost
/// ones, in theirs, before the batch that is taken next.
///
/// # Errors
/// For a model or arrivals that can't be simulated.
pub fn simulate(
    model: &QueueingModel,
    arrivals: &Arrivals,
    packets: u64,
    seed: u64,
    outcome: impl FnMut(f64, Option<f64>),
) -> Result<Totals, QueueingError> {
    let limit = capacity(model)?;
    let rate_pps = offered(arrivals, packets)?;
    feasibility::affordable(model, rate_pps, limit.pps, packets)?;
    Ok(server::serve(model, arrivals, packets, seed, outcome))
}

/// How often a load is simulated, and what of it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// How often, each time with another seed.
    pub rounds: u64,
    /// Packets that arrive before this time, in ns, do not count: a warm-up.
    pub warm_up_ns: f64,
}

/// What a model predicts at one load, and the delays, rounded to ns, as counts: the type that measured ones have.
///
/// # Errors
/// As [`simulate`].
pub fn predict(
    model: &QueueingModel,
    arrivals: &Arrivals,
    packets: u64,
    seed: u64,
) -> Result<(QueueingLoad, Counts), QueueingError> {
    predict_rounds(
        model,
        arrivals,
        packets,
        seed,
        Rounds { rounds: 1, warm_up_ns: f64::NEG_INFINITY },
        |_| (),
    )
}

/// The same of a load that ends after so many packets, and is simulated several times: a trial that is repeated. Calls `round`
/// with the delays of each, where there are more than one.
///
/// # Errors
/// As [`simulate`].
pub fn predict_rounds(
    model: &QueueingModel,
    arrivals: &Arrivals,
    packets: u64,
    seed: u64,
    rounds: Rounds,
    mut round: impl FnMut(&Counts),
) -> Result<(QueueingLoad, Counts), QueueingError> {
    let capacity_pps = capacity(model)?.pps;
    let rate_pps = offered(arrivals, packets)?;
    let mut tally = tally::Tally::new(PAGES);
    let mut lost = 0;
    let mut totals = Totals::default();
    let repeats = rounds.rounds > 1;
    for number in 0..rounds.rounds {
        let mut delays = Counts::new(ROUND_PAGES);
        let of_round = simulate(model, arrivals, packets, seed.wrapping_add(number), |at_ns, delay_ns| {
            if at_ns < rounds.warm_up_ns {
                return;
            }
            match delay_ns {
                Some(delay_ns) => {
                    tally.add(delay_ns);
                    if repeats {
                        delays.add(tally::rounded(delay_ns));
                    }
                }
                None => lost += 1,
            }
        })?;
        totals.absorb(&of_round);
        if repeats {
            round(&delays);
        }
    }
    let (counts, mean) = tally.finish();
    let sent = lost + counts.count();
    let load = rate_pps.map(|rate| capacity_pps.map_or(0.0, |most| rate / most));
    // Rounding must not make an overload of a load that is met exactly.
    let margin = if feasibility::varies(model, arrivals) { -1e-9 } else { 1e-9 };
    let overloaded = load.is_some_and(|load| load > 1.0 + margin);
    // In a queue that grows, no part is like another.
    let error_ns = mean.filter(|_| !overloaded).map(|interval| interval.half);
    let predicted = QueueingLoad {
        rate_pps,
        capacity_pps,
        load,
        overloaded,
        sent,
        lost,
        loss_ratio: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
        utilisation: if totals.span_ns > 0.0 { totals.work_ns / totals.span_ns } else { 0.0 },
        queue_max: totals.queue_max,
        batches: totals.batches,
        delay: tally::delay(&counts, error_ns),
    };
    Ok((predicted, counts))
}
