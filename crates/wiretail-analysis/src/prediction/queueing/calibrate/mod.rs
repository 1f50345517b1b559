//! Calibration of the queueing model from measured packets. The device is a black box: only arrivals and
//! departures are known.
//!
//! ```text
//! packets ─► busy (waiting packets) ─► gaps between departures ─► service, interrupts
//!                                   └► packets that found it idle ─► transfer, wake
//! ```
//!
//! - `busy`: service times, which are the gaps between departures while packets wait;
//! - `service`: rate and length of interrupts, from gaps that are far longer than the others;
//! - `interrupts`: long interrupts, also from packets that arrive at an idle server;
//! - `batches`: the same estimates for devices that release all packets of a batch together;
//! - `wake`: additional wait of packets that find the server idle.
//!
//! Assumptions: there is one server, packets depart in order of arrival, and nothing else delays them. The
//! calibrated model has the measured mean gap, and therefore the measured capacity, except for the
//! contribution of the longest interrupts. Formulas and limits: `docs/kpi/queueing.md`.

mod batches;
mod busy;
mod interrupts;
mod service;
mod wake;

#[cfg(test)]
mod tests;

use wiretail_schema::prediction::capacity::Estimate;
use wiretail_schema::prediction::queueing::calibration::{
    CalibrationMethod, InterruptEvidence, QueueingCalibration,
};
use wiretail_schema::prediction::queueing::{Length, QueueingModel, Release};

use self::busy::Busy;
pub use self::busy::{burst_offsets, spacing};
use super::QueueingError;
use super::feasibility::{least, refuse};
use crate::prediction::capacity::counted;
use crate::stats::list::median_estimate;

/// Minimum number of gaps. With this number, the median's 95 % interval covers some 14 % of the ranks.
pub const GAPS_MIN: usize = 200;
/// Minimum number of packets that found the server idle.
pub const ISOLATED_MIN: usize = 30;
/// Maximum share of lost or reordered packets. Above it, gaps between departures are not service times.
const ODD_SHARE_MAX: f64 = 1e-3;

/// Packets of one trial that crossed the device, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// Arrival time and delay of each packet, in ns. Times are close to 0.
    pub packets: &'a [(f64, f64)],
    pub lost: u64,
    /// Packets per burst; 1 without bursts.
    pub burst: u64,
}

impl<'a> Observation<'a> {
    /// Creates an observation without loss, with `burst` packets per burst.
    pub fn of(packets: &'a [(f64, f64)], burst: u64) -> Self {
        Self { packets, lost: 0, burst }
    }
}

/// Properties of a device that are known without a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Capacity of the ring, in packets.
    pub ring: u64,
    /// Maximum number of packets per batch.
    pub batch: u64,
    /// When packets are released.
    pub release: Release,
}

/// Calibrates a model from trials of the same device and returns it with its evidence.
///
/// # Errors
///
/// Returns an error if the packets do not determine a model: too few packets waited for others, too few found
/// the server idle, packets were lost, or departures are out of order. The message names an experiment with
/// suitable traffic.
pub fn calibrate(
    observations: &[Observation<'_>],
    known: &Known,
) -> Result<(QueueingModel, QueueingCalibration), QueueingError> {
    observations.iter().try_for_each(acceptable)?;
    let mut remarks = Vec::new();
    let clumps = known.release == Release::Batch && known.batch > 1;
    let clumped = if clumps { batches::found(observations) } else { None };
    let (release, method) = match (&clumped, clumps) {
        (Some(_), _) => (Release::Batch, CalibrationMethod::Batches),
        (None, false) => (known.release, CalibrationMethod::Gaps),
        (None, true) => {
            remarks.push(
                "the device should release batches together, but packets depart one by one: the model releases each packet immediately".to_owned(),
            );
            (Release::Immediate, CalibrationMethod::Gaps)
        }
    };
    let (work, isolated) = match clumped {
        Some(found) => found,
        None => {
            let busy = Busy::of(observations);
            enough(busy.gaps.len())?;
            remarks.extend(busy.remark());
            (service::of_gaps(&busy.gaps), busy.isolated)
        }
    };
    enough(work.gaps as usize)?;
    if isolated.len() < ISOLATED_MIN {
        return Err(refuse(format!(
            "only {} packets found the device idle, so the delay of an isolated packet is unknown; expected \
            {ISOLATED_MIN} or more: calibrate at a lower rate (experiments/prediction/queueing.toml)",
            isolated.len()
        )));
    }
    let found = wake::of(&isolated, &work, least(&work.service));
    let model = QueueingModel {
        ring: known.ring,
        batch: known.batch,
        release,
        batch_overhead: Length::Constant(work.overhead_ns),
        wake: found.wakes,
        interrupts: found.interrupts.sources,
        transfer_ns: found.transfer_ns,
        service: work.service.clone(),
    };
    if found.interrupts.evidence.count == 0 {
        remarks.push(format!(
            "no interrupt was observed; with 95 % confidence there are fewer than {:.1} per second",
            counted(0, work.busy_ns * 1e-9).high.unwrap_or(0.0)
        ));
    }
    remarks.extend(work.remark.clone());
    let calibration = QueueingCalibration {
        trials: Vec::new(),
        device: Vec::new(),
        release: None,
        method,
        packets: observations.iter().map(|one| one.packets.len() as u64).sum(),
        gaps: work.gaps,
        busy_ns: work.busy_ns,
        service_ns: work.median_ns,
        interrupts: found.interrupts.evidence,
        isolated: isolated.len() as u64,
        wakes: found.evidence,
        spacing_ns: spacing(observations),
        remarks,
    };
    Ok((model, calibration))
}

/// Calibrates a model if no packets waited: from the median delay of the device and that of a baseline
/// forwarder without work.
///
/// # Errors
///
/// Returns an error if there are no packets, or if the forwarder is not faster than the device.
pub fn by_baseline(
    observations: &[Observation<'_>],
    baseline_median_ns: f64,
    known: &Known,
) -> Result<(QueueingModel, QueueingCalibration), QueueingError> {
    observations.iter().try_for_each(acceptable)?;
    let mut delays: Vec<f64> =
        observations.iter().flat_map(|one| one.packets).map(|packet| packet.1).collect();
    let Some(median) = median_estimate(&mut delays) else {
        return Err(refuse("no packet was matched; expected a trial whose packets crossed the device"));
    };
    let service_ns = median.value - baseline_median_ns;
    if service_ns <= 0.0 {
        return Err(refuse(format!(
            "the baseline's median, {baseline_median_ns:.0} ns, is not below the device's, {:.0} ns; expected a forwarder without \
             work, in the same deployment and at the same rate",
            median.value
        )));
    }
    let model = QueueingModel {
        ring: known.ring,
        batch: known.batch,
        release: known.release,
        service: Length::Constant(service_ns),
        batch_overhead: Length::Constant(0.0),
        wake: vec![],
        interrupts: vec![],
        transfer_ns: baseline_median_ns,
    };
    let shift = |ns: f64| (ns - baseline_median_ns).max(0.0);
    let calibration = QueueingCalibration {
        trials: Vec::new(),
        device: Vec::new(),
        release: None,
        method: CalibrationMethod::Baseline,
        packets: delays.len() as u64,
        gaps: 0,
        busy_ns: 0.0,
        service_ns: Estimate { value: service_ns, low: shift(median.low), high: median.high.map(shift) },
        interrupts: InterruptEvidence {
            source: "none".to_owned(),
            above_ns: None,
            count: 0,
            per_second: Estimate::exact(0.0),
            share: 0.0,
            longest_ns: 0.0,
        },
        isolated: 0,
        wakes: vec![],
        spacing_ns: spacing(observations),
        remarks: vec![
            "weak evidence: the service time is the difference between two medians and is assumed to be \
            constant; its spread and the interrupts are unknown, so the tail is missing. Measure bursts to \
            determine both: experiments/prediction/queueing.toml"
                .to_owned(),
        ],
    };
    Ok((model, calibration))
}

fn acceptable(one: &Observation<'_>) -> Result<(), QueueingError> {
    let sent = one.packets.len() as u64 + one.lost;
    if one.lost as f64 > ODD_SHARE_MAX * sent as f64 {
        return Err(refuse(format!(
            "{} of {sent} packets were lost, and their service time is unknown; expected at most {} %: calibrate at a lower rate",
            one.lost,
            ODD_SHARE_MAX * 100.0
        )));
    }
    if !one.packets.iter().all(|packet| packet.0.is_finite() && packet.1.is_finite())
        || !one.packets.is_sorted_by_key(|packet| packet.0)
    {
        return Err(refuse("packets are out of order; expected them in order of arrival"));
    }
    let overtaking =
        one.packets.windows(2).filter(|pair| pair[1].0 + pair[1].1 < pair[0].0 + pair[0].1).count();
    if overtaking as f64 > ODD_SHARE_MAX * sent as f64 {
        return Err(refuse(format!(
            "{overtaking} of {sent} packets departed before an earlier packet: the device is not a single queue; \
            expected a device that preserves the order"
        )));
    }
    Ok(())
}

fn enough(gaps: usize) -> Result<(), QueueingError> {
    if gaps >= GAPS_MIN {
        return Ok(());
    }
    Err(refuse(format!(
        "only {gaps} packets waited for an earlier packet, so the service time is unknown; expected {GAPS_MIN} or \
        more: calibrate with bursts at a low mean rate (experiments/prediction/queueing.toml), or pass the run of a \
        forwarder without work: --baseline RUN"
    )))
}

/// Packet that found the server idle: the length of the idle period, and the packet's delay without the
/// service of the other packets in its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Isolated {
    idle_ns: f64,
    delay_ns: f64,
}

/// Time between two departures, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gap {
    ns: f64,
    /// Whether the second packet was sent in a burst with the first. If so, it waited regardless of earlier
    /// events.
    together: bool,
}
