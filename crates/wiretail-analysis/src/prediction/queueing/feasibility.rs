//! Checks of models and arrivals, and the capacity of a model.

use std::fmt;

use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Length, QueueingModel};

/// Maximum number of slots in a ring: 128 MiB of arrival times.
pub const RING_MAX: u64 = 1 << 24;
/// Maximum fraction of time that interrupts may take. Above it, a packet takes more than a hundred times its
/// service time, and no measurement determines the lengths accurately enough for a meaningful prediction.
pub const INTERRUPT_SHARE_MAX: f64 = 0.99;
/// Maximum number of interrupts in one simulation. A simulation with this many takes minutes.
pub const INTERRUPTS_MAX: f64 = 1e10;
/// Maximum number of packets in one simulation. A simulation with this many takes hours.
pub const PACKETS_MAX: u64 = 1_000_000_000_000;

/// Maximum distance of recorded times from 0, in ns: 13 days. Within this range, a double resolves a quarter
/// of a ns.
const TIME_MAX_NS: f64 = (1u64 << 50) as f64;

/// Model or load that cannot be simulated, with the expected values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueingError(String);

impl fmt::Display for QueueingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueueingError {}

pub(super) fn refuse(reason: impl Into<String>) -> QueueingError {
    QueueingError(reason.into())
}

/// Capacity of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Packets per second. `None` if no step takes any time.
    pub pps: Option<f64>,
    /// Share of time that interrupts take.
    pub interrupt_share: f64,
}

/// Capacity with full batches in the time left by interrupts: (1 - fraction taken by interrupts) / (mean
/// service + mean overhead / batch).
///
/// # Errors
///
/// Returns an error if the model cannot be simulated: the ring or the batch is 0, there are no samples, a
/// time is invalid, or interrupts leave no time.
pub fn capacity(model: &QueueingModel) -> Result<Capacity, QueueingError> {
    if model.ring == 0 {
        return Err(refuse("a ring of 0 holds no packet: all would be lost; expected 1 or more"));
    }
    if model.ring > RING_MAX {
        return Err(refuse(format!("a ring of {} is too large; expected at most {RING_MAX}", model.ring)));
    }
    if model.batch == 0 {
        return Err(refuse("a batch of 0 serves no packet; expected 1 or more"));
    }
    let service_ns = mean("the service time", &model.service)?;
    let overhead_ns = mean("the overhead of a batch", &model.batch_overhead)?;
    wake(model)?;
    transfer(model)?;
    let mut interrupt_share = 0.0;
    for interrupts in &model.interrupts {
        interrupt_share += share(interrupts)?;
    }
    if interrupt_share > INTERRUPT_SHARE_MAX {
        return Err(refuse(format!(
            "interrupts take {:.0} % of the time, which leaves no time for packets; expected at most {:.0} %: check their rates and lengths",
            interrupt_share * 100.0,
            INTERRUPT_SHARE_MAX * 100.0
        )));
    }
    let batch = model.batch.min(model.ring) as f64;
    let packet_ns = service_ns + overhead_ns / batch;
    let pps = (packet_ns > 0.0).then(|| (1.0 - interrupt_share) / packet_ns * 1e9);
    Ok(Capacity { pps, interrupt_share })
}

/// Mean rate in packets per second. `None` for fewer than two recorded arrivals, or if all are simultaneous.
///
/// # Errors
///
/// Returns an error if the arrivals are invalid: the rate is 0, a burst lasts longer than the time to the
/// next one, or times decrease.
pub fn offered(arrivals: &Arrivals, packets: u64) -> Result<Option<f64>, QueueingError> {
    if packets > PACKETS_MAX {
        return Err(refuse(format!("{packets} packets are too many; expected at most {PACKETS_MAX}")));
    }
    let rate = |rate_pps: f64| match rate_pps {
        rate if rate.is_finite() && rate > 0.0 => Ok(Some(rate)),
        rate => Err(refuse(format!("{rate} packets per second is not a valid rate; expected more than 0"))),
    };
    match arrivals {
        Arrivals::Constant { rate_pps } | Arrivals::Poisson { rate_pps } => rate(*rate_pps),
        Arrivals::Bursts { rate_pps, packets: burst, spacing_ns } => {
            time("the spacing within a burst", *spacing_ns)?;
            if *burst == 0 {
                return Err(refuse("a burst of 0 packets is empty; expected 1 or more"));
            }
            let offered = rate(*rate_pps)?;
            if *burst as f64 * 1e9 / rate_pps < (burst - 1) as f64 * spacing_ns {
                return Err(refuse(format!(
                    "a burst of {burst} packets, {spacing_ns} ns apart, lasts longer than the time to the next one at {rate_pps} \
                     packets per second; expected a smaller spacing or a lower rate"
                )));
            }
            Ok(offered)
        }
        Arrivals::Recorded { times_ns } => {
            if times_ns.is_empty() {
                return Err(refuse("no arrival was recorded; expected one or more"));
            }
            if !times_ns.iter().all(|at| at.is_finite()) || !times_ns.is_sorted() {
                return Err(refuse("recorded arrivals go back in time; expected ascending times"));
            }
            near_zero(times_ns.iter().copied())?;
            let times = &times_ns[..times_ns.len().min(packets as usize)];
            let span_ns = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
            Ok((span_ns > 0.0).then(|| (times.len() - 1) as f64 / span_ns * 1e9))
        }
    }
}

/// Checks that the simulation ends within hours.
///
/// # Errors
///
/// Returns an error if there are too many interrupts in the time that the packets take.
pub(super) fn affordable(
    model: &QueueingModel,
    rate_pps: Option<f64>,
    capacity_pps: Option<f64>,
    packets: u64,
) -> Result<(), QueueingError> {
    let per_second: f64 = model
        .interrupts
        .iter()
        .map(|interrupts| match interrupts {
            Interrupts::Periodic { period_ns, .. } => 1e9 / period_ns,
            Interrupts::Poisson { per_second, .. } => *per_second,
            Interrupts::Recorded { .. } => 0.0,
        })
        .sum();
    let slowest = rate_pps.unwrap_or(f64::INFINITY).min(capacity_pps.unwrap_or(f64::INFINITY));
    let expected = per_second * packets as f64 / slowest;
    if expected > INTERRUPTS_MAX {
        return Err(refuse(format!(
            "{expected:.1e} interrupts in the time of {packets} packets are too many to simulate; expected at most \
            {INTERRUPTS_MAX:.0e}: use fewer packets, or a higher rate"
        )));
    }
    Ok(())
}

/// Whether arrivals, service or interrupts are random or independent of each other, so that a queue grows at
/// a load of exactly 1.
pub(super) fn varies(model: &QueueingModel, arrivals: &Arrivals) -> bool {
    let varies = |length: &Length| !matches!(length, Length::Constant(_));
    matches!(arrivals, Arrivals::Poisson { .. })
        || varies(&model.service)
        || varies(&model.batch_overhead)
        || !model.interrupts.is_empty()
}

fn time(what: &str, ns: f64) -> Result<(), QueueingError> {
    if ns.is_finite() && ns >= 0.0 {
        return Ok(());
    }
    Err(refuse(format!("{what} is {ns} ns; expected 0 or more")))
}

fn near_zero(mut times_ns: impl Iterator<Item = f64>) -> Result<(), QueueingError> {
    match times_ns.find(|at| at.abs() > TIME_MAX_NS) {
        None => Ok(()),
        Some(at) => Err(refuse(format!(
            "a recorded time is {at:e} ns, too far from 0 to be exact; expected times relative to the first arrival"
        ))),
    }
}

/// Mean of a length that was checked; 0 without samples.
pub(super) fn mean_of(length: &Length) -> f64 {
    match length {
        Length::Constant(ns) | Length::Exponential(ns) => *ns,
        Length::Samples(samples) => samples.iter().sum::<f64>() / samples.len().max(1) as f64,
    }
}

fn mean(what: &str, length: &Length) -> Result<f64, QueueingError> {
    match length {
        Length::Constant(ns) | Length::Exponential(ns) => time(what, *ns)?,
        Length::Samples(samples) => {
            if samples.is_empty() {
                return Err(refuse(format!("{what} has no samples; expected one or more")));
            }
            samples.iter().try_for_each(|ns| time(what, *ns))?;
        }
    }
    Ok(mean_of(length))
}

fn wake(model: &QueueingModel) -> Result<(), QueueingError> {
    for wake in &model.wake {
        mean("the wakeup time", &wake.length)?;
        time("the idle time before the wakeup", wake.after_idle_ns)?;
    }
    if !model.wake.is_sorted_by_key(|wake| wake.after_idle_ns) {
        return Err(refuse("wakeup times are out of order; expected ascending idle times"));
    }
    Ok(())
}

/// Checks the transfer: it may be negative, but delays must not be.
fn transfer(model: &QueueingModel) -> Result<(), QueueingError> {
    let transfer_ns = model.transfer_ns;
    // With immediate release, only the first packet of a batch has the overhead.
    let least_ns = least(&model.service);
    if transfer_ns.is_finite() && transfer_ns + least_ns >= 0.0 {
        return Ok(());
    }
    Err(refuse(format!(
        "the transfer is {transfer_ns} ns; expected at least minus the shortest service time, {least_ns} ns: a \
        packet cannot depart before it arrives"
    )))
}

/// Shortest possible value of a length, in ns.
pub(super) fn least(length: &Length) -> f64 {
    match length {
        Length::Constant(ns) => *ns,
        Length::Exponential(_) => 0.0,
        Length::Samples(samples) => samples.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

/// Fraction of time taken by interrupts. For recorded interrupts, the time is counted from the start of the
/// first to the end of the last.
fn share(interrupts: &Interrupts) -> Result<f64, QueueingError> {
    match interrupts {
        Interrupts::Periodic { period_ns, phase_ns, length } => {
            if !(period_ns.is_finite() && *period_ns > 0.0) {
                return Err(refuse(format!(
                    "the period of interrupts is {period_ns} ns; expected more than 0"
                )));
            }
            let phase_ns = phase_ns.unwrap_or(0.0);
            time("the phase of interrupts", phase_ns)?;
            if phase_ns >= *period_ns {
                return Err(refuse(format!(
                    "the phase of interrupts is {phase_ns} ns; expected less than their period, {period_ns} ns"
                )));
            }
            Ok(mean("the length of interrupts", length)? / period_ns)
        }
        Interrupts::Poisson { per_second, length } => {
            if !(per_second.is_finite() && *per_second > 0.0) {
                return Err(refuse(format!(
                    "the rate of interrupts is {per_second} per second; expected more than 0, or no such interrupts"
                )));
            }
            Ok(mean("the length of interrupts", length)? * per_second / 1e9)
        }
        Interrupts::Recorded { spans } => {
            if !spans.iter().all(|span| span.0.is_finite()) || !spans.is_sorted_by_key(|span| span.0) {
                return Err(refuse("recorded interrupts go back in time; expected ascending start times"));
            }
            near_zero(spans.iter().map(|span| span.0))?;
            spans.iter().try_for_each(|span| time("the length of a recorded interrupt", span.1))?;
            let Some((first, last)) = spans.first().zip(spans.last()) else { return Ok(0.0) };
            let span_ns = last.0 + last.1 - first.0;
            let taken: f64 = spans.iter().map(|span| span.1).sum();
            // A single interrupt, or several at the same time, do not determine a rate.
            Ok(if spans.len() > 1 && last.0 > first.0 { taken / span_ns } else { 0.0 })
        }
    }
}
