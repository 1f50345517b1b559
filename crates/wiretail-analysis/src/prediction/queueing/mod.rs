//! Queueing simulation (digital twin) of the path of packets, from arrival to departure.
//!
//! ```text
//! arrivals ─► ring ─► server (batches; taken away by interrupts) ─► transfer ─► delay
//!              └► lost if it is full
//! ```
//!
//! - `arrivals`: arrival times of packets;
//! - `vacations`: times when the server is unavailable because of interrupts;
//! - `random`, `exponential`: random numbers, equal for the same seed on every machine;
//! - `server`: the simulation loop, batch by batch. It needs no event list: with one server, the next event
//!   is always known (the recursion of Lindley 1952, with batches and interrupts), which makes it fast;
//! - `feasibility`: checks of models, and the capacity in closed form;
//! - [`calibrate`]: a model from measured packets;
//! - [`comparison`]: a prediction compared with the measurement;
//! - `tally`: the delays as counts, and the accuracy of the simulation.
//!
//! The simulation is deterministic for a seed. The loop itself does not allocate memory, but the exact counts
//! of delays grow with each new value. `docs/kpi/queueing.md` lists what the model ignores.

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

/// Pages for simulated delays: 8 MiB, enough for queues of several milliseconds.
const PAGES: usize = 4096;
/// Pages for the delays of one round of several.
const ROUND_PAGES: usize = 256;

/// Simulates `packets` packets, or all recorded arrivals if there are fewer. Calls `outcome(arrival_ns,
/// delay_ns)` for each packet; the delay is `None` if the packet is lost. Served packets are reported in
/// order. Lost packets are reported in order as well, before the batch that is taken next.
///
/// # Errors
///
/// Returns an error if the model or the arrivals cannot be simulated.
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

/// Number of rounds, and their warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// Number of rounds, each with a different seed.
    pub rounds: u64,
    /// Packets that arrive before this time, in ns, are ignored as warm-up.
    pub warm_up_ns: f64,
}

/// Predicts one load. Also returns the delays, rounded to ns, as counts: the same type as measured delays.
///
/// # Errors
///
/// Returns the errors of [`simulate`].
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

/// Predicts a load that ends after `packets` packets and is simulated several times, like a trial with
/// repeats. If there is more than one round, calls `round` with the delays of each.
///
/// # Errors
///
/// Returns the errors of [`simulate`].
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
    // Rounding must not classify a load of exactly 1 as an overload.
    let margin = if feasibility::varies(model, arrivals) { -1e-9 } else { 1e-9 };
    let overloaded = load.is_some_and(|load| load > 1.0 + margin);
    // In a growing queue, batch means are not comparable.
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
