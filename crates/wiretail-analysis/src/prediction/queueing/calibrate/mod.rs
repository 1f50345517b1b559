//! A model from measured packets: a black box, of which arrivals and departures are known and nothing else.
//!
//! ```text
//! packets ─► busy (who waited for whom) ─► gaps between departures ─► service, interrupts
//!                                       └► those that found it idle ─► transfer, wake
//! ```
//!
//! - `busy`: while a packet waits, the next departure comes as soon as it is served: that gap is the service itself;
//! - `service`: gaps far above the others are interrupted ones; how often and how long;
//! - `interrupts`: long ones are also seen by packets that come to an idle server;
//! - `batches`: the same where departures come in clumps, as all packets of a batch are released together;
//! - `wake`: what a packet that found the server idle waited for besides.
//!
//! What is assumed: one server, packets leave in their order, nobody else delays them. What is found keeps the mean gap, but for
//! what the longest interrupts are in it, and with it the capacity. Formulas and limits: `docs/kpi/queueing.md`.

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

/// Gaps at least: with these the median's 95 % interval is some 14 % of the ranks wide.
pub const GAPS_MIN: usize = 200;
/// Packets that found the server idle, at least.
pub const ISOLATED_MIN: usize = 30;
/// Loss and reordering at most: beyond, gaps between departures are no service times.
const ODD_SHARE_MAX: f64 = 1e-3;

/// The packets of one trial that arrived, in the order in which they came.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// When each came and how long it took, in ns; times near 0.
    pub packets: &'a [(f64, f64)],
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were sent together; 1 if none were.
    pub burst: u64,
}

impl<'a> Observation<'a> {
    /// Of packets of which nothing else is known, sent together in bursts of so many.
    pub fn of(packets: &'a [(f64, f64)], burst: u64) -> Self {
        Self { packets, lost: 0, burst }
    }
}

/// What is known of a device without measuring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Packets that may wait.
    pub ring: u64,
    /// Packets that it takes at a time, at most.
    pub batch: u64,
    /// When they leave.
    pub release: Release,
}

/// A model and what it rests on, of trials of the same device.
///
/// # Errors
/// Packets from which it does not follow: too few that waited for others, or that found the server idle; losses; departures out of
/// order. The message says which experiment has them.
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
                "batches are to be released together, but packets leave one by one: modelled as released immediately".to_owned(),
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
            "{} packets found the device idle, so what a lone packet costs is not known; expected {ISOLATED_MIN} or more: calibrate at \
             a lower rate (experiments/prediction/queueing.toml)",
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
            "no interrupt was seen; with 95 % confidence there are fewer than {:.1} a second",
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

/// The same where no packet waited for another: by the median delay, and that of a forwarder without work in its place.
///
/// # Errors
/// No packets; a forwarder that is not faster than the device.
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
            "weak evidence: the service is the difference of two medians, taken as constant; its spread and the interrupts are \
             not known, so the tail is missing. Bursts tell both: experiments/prediction/queueing.toml"
                .to_owned(),
        ],
    };
    Ok((model, calibration))
}

fn acceptable(one: &Observation<'_>) -> Result<(), QueueingError> {
    let sent = one.packets.len() as u64 + one.lost;
    if one.lost as f64 > ODD_SHARE_MAX * sent as f64 {
        return Err(refuse(format!(
            "{} of {sent} packets were lost, and what work they were is not known; expected {} % at most: calibrate at a lower rate",
            one.lost,
            ODD_SHARE_MAX * 100.0
        )));
    }
    if !one.packets.iter().all(|packet| packet.0.is_finite() && packet.1.is_finite())
        || !one.packets.is_sorted_by_key(|packet| packet.0)
    {
        return Err(refuse("packets are out of order; expected them in the order in which they came"));
    }
    let overtaking =
        one.packets.windows(2).filter(|pair| pair[1].0 + pair[1].1 < pair[0].0 + pair[0].1).count();
    if overtaking as f64 > ODD_SHARE_MAX * sent as f64 {
        return Err(refuse(format!(
            "{overtaking} of {sent} packets left before one that came earlier: this is no single queue; expected a device \
             that keeps the order"
        )));
    }
    Ok(())
}

fn enough(gaps: usize) -> Result<(), QueueingError> {
    if gaps >= GAPS_MIN {
        return Ok(());
    }
    Err(refuse(format!(
        "only {gaps} packets waited for one before them, so what a packet costs can't be told; expected {GAPS_MIN} or more: \
         calibrate with bursts at a low mean rate (experiments/prediction/queueing.toml), or give a forwarder without work: \
         --baseline RUN"
    )))
}

/// A packet that found the server idle: for how long that had been idle, and the packet's delay without the work of
/// others in its batch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Isolated {
    idle_ns: f64,
    delay_ns: f64,
}

/// A time between two departures, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Gap {
    ns: f64,
    /// The second packet was sent together with others: it waited whatever had happened before.
    together: bool,
}
