//! How fast the device was at each of several times. Where others use the processor, too, a packet takes a half more in one second
//! than in the next one: of such a machine there is no one speed that all loads could be predicted by.

use wiretail_schema::predict::twin::{Length, Pace};

use super::busy::Busy;
use super::service::services;
use super::wake::{Met, firsts, quantiles};
use super::{GAPS_MIN, LONE_MIN, Observation, acceptable};

/// With fewer times, there is no telling what is usual.
const PACES_MIN: usize = 3;

/// A pace for each time of which there are packets enough; none where they are too few. `met` are the interrupts
/// of packets that found the server idle.
pub(super) fn of(observations: &[Observation<'_>], transfer_ns: f64, met: Met) -> Vec<Pace> {
    let mut times: Vec<u64> = observations.iter().map(|one| one.time).collect();
    times.sort_unstable();
    times.dedup();
    let at = |time: &u64| {
        let of_time = observations.iter().filter(|one| one.time == *time && acceptable(one).is_ok());
        pace(*time, &of_time.copied().collect::<Vec<_>>(), transfer_ns, met)
    };
    let paces: Vec<Pace> = times.iter().filter_map(at).collect();
    if paces.len() < PACES_MIN { Vec::new() } else { paces }
}

fn pace(time: u64, observations: &[Observation<'_>], transfer_ns: f64, met: Met) -> Option<Pace> {
    let busy = Busy::at_once(observations);
    if busy.gaps.len() < GAPS_MIN || busy.lone.len() < LONE_MIN {
        return None;
    }
    let gaps = quantiles(&services(&busy.gaps));
    let first = firsts(&busy.lone, transfer_ns, met);
    let service = Length::Samples(gaps);
    (!first.is_empty()).then_some(Pace { time, service, first })
}
