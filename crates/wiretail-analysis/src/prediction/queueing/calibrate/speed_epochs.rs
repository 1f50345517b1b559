//! How fast the device was at each of several times. Where others use the processor, too, a packet takes a half more in one second
//! than in the next one: of such a machine there is no one speed that all loads could be predicted by.

use wiretail_schema::prediction::queueing::{Length, SpeedEpoch};

use super::busy::Busy;
use super::service::services;
use super::wake::{Interrupted, firsts, quantiles};
use super::{GAPS_MIN, ISOLATED_MIN, Observation, acceptable};

/// With fewer times, there is no telling what is usual.
const SPEED_EPOCHS_MIN: usize = 3;

/// A pace for each time of which there are packets enough; none where they are too few. `interrupted` are the interrupts
/// of packets that found the server idle.
pub(super) fn of(
    observations: &[Observation<'_>],
    transfer_ns: f64,
    interrupted: Interrupted,
) -> Vec<SpeedEpoch> {
    let mut times: Vec<u64> = observations.iter().map(|one| one.time).collect();
    times.sort_unstable();
    times.dedup();
    let at = |time: &u64| {
        let of_time = observations.iter().filter(|one| one.time == *time && acceptable(one).is_ok());
        speed_epoch(*time, &of_time.copied().collect::<Vec<_>>(), transfer_ns, interrupted)
    };
    let speed_epochs: Vec<SpeedEpoch> = times.iter().filter_map(at).collect();
    if speed_epochs.len() < SPEED_EPOCHS_MIN { Vec::new() } else { speed_epochs }
}

fn speed_epoch(
    time: u64,
    observations: &[Observation<'_>],
    transfer_ns: f64,
    interrupted: Interrupted,
) -> Option<SpeedEpoch> {
    let busy = Busy::at_once(observations);
    if busy.gaps.len() < GAPS_MIN || busy.isolated.len() < ISOLATED_MIN {
        return None;
    }
    let gaps = quantiles(&services(&busy.gaps));
    let first = firsts(&busy.isolated, transfer_ns, interrupted);
    let service = Length::Samples(gaps);
    (!first.is_empty()).then_some(SpeedEpoch { time, service, first })
}
