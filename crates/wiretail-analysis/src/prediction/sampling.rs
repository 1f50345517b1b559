//! Simulates constant-bit-rate traffic at one server that is unavailable during interrupts: which packets
//! coincide with interrupts, and how long they wait. Model and closed forms: `docs/kpi/capacity.md`.
//!
//! The waits are those of the queueing simulation ([`queueing`](crate::prediction::queueing)), in whole
//! picoseconds.

use wiretail_schema::prediction::queueing::{Arrivals, Interrupts, Length, QueueingModel};
use wiretail_schema::prediction::sampling::{Beat, LatePacket, SamplingOutcome, SamplingValidation};
use wiretail_schema::random::Random;

use crate::prediction::queueing::{QueueingError, RING_MAX, simulate};

/// Picoseconds per nanosecond.
const PS: f64 = 1e3;
/// Period of 1 uHz, in ps: `n` periods of `uhz` take `n * PERIOD / uhz` ps.
const PERIOD: u128 = 1_000_000_000_000_000_000;

/// Interrupts are shifted by this time, in ns, and each service takes at least twice this time, so that
/// rounding does not change the outcome of a tie. A packet that arrives at the start of an interrupt is
/// delayed; a packet whose service ends at that time is not.
const TIE_NS: f64 = 0.25 / PS;

/// Periodic interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurring {
    /// Rate, in millionths per second.
    pub uhz: u64,
    /// Length, in ps.
    pub length_ps: u64,
    /// Start of the first interrupt, in ps since the first packet.
    pub phase_ps: u64,
}

impl Recurring {
    /// Fraction of time taken by the interrupt.
    fn share(&self) -> f64 {
        self.uhz as f64 / 1e6 * self.length_ps as f64 * 1e-12
    }
}

/// Start of the `n`-th period, in ps.
fn nth(n: u64, uhz: u64) -> u128 {
    u128::from(n) * PERIOD / u128::from(uhz.max(1))
}

/// Waits of `packets` packets at `packet_uhz` / 10^6 per second, in ps: their time in the server minus the
/// service time.
///
/// # Errors
///
/// Returns an error if interrupts leave no time for packets.
pub fn waits(
    packets: u64,
    packet_uhz: u64,
    service_ps: u64,
    interrupts: &[Recurring],
) -> Result<Vec<u64>, QueueingError> {
    let service_ns = (service_ps as f64 / PS).max(2.0 * TIE_NS);
    let recurring = interrupts.iter().filter(|kind| kind.uhz > 0).map(|kind| Interrupts::Periodic {
        period_ns: 1e15 / kind.uhz as f64,
        phase_ns: Some(kind.phase_ps as f64 / PS + TIE_NS),
        length: Length::Constant(kind.length_ps as f64 / PS),
    });
    let server = QueueingModel::serving(Length::Constant(service_ns), packets.clamp(1, RING_MAX), 1);
    let model = QueueingModel { interrupts: recurring.collect(), ..server };
    let arrivals = Arrivals::Constant { rate_pps: packet_uhz as f64 / 1e6 };
    let mut waits = Vec::with_capacity(packets as usize);
    simulate(&model, &arrivals, packets, 0, |at_ns, delay_ns| {
        // Far from 0, rounding may separate two equal times by more than a ps.
        let least_ns = 4.0 * f64::EPSILON * at_ns;
        let waited_ns = delay_ns.map(|delay_ns| delay_ns - service_ns);
        waits.extend(waited_ns.map(|ns| if ns > least_ns { (ns * PS).round() as u64 } else { 0 }));
    })?;
    Ok(waits)
}

/// Summarizes the waits.
pub fn outcome(waits: &[u64], packet_uhz: u64, service_ps: u64, interrupts: &[Recurring]) -> SamplingOutcome {
    let packets_hz = packet_uhz as f64 / 1e6;
    let late = waits.iter().filter(|wait| **wait > 0).count() as u64;
    let count = waits.len().max(1) as f64;
    let met = |kind: &Recurring| kind.uhz as f64 / 1e6 * (kind.length_ps + service_ps) as f64 * 1e-12;
    let free: f64 = 1.0 - interrupts.iter().map(Recurring::share).sum::<f64>();
    let beats: Vec<Beat> = interrupts.iter().map(|kind| beat(packets_hz, kind.uhz as f64 / 1e6)).collect();
    let gap_ps = nth(1, packet_uhz);
    // Interrupts fall on f / gcd(f, r) positions between two packets; the formula holds if these positions are
    // close together.
    let alone = |kind: &Recurring| {
        let met_ps = u128::from(kind.length_ps + service_ps);
        let places = u128::from(kind.uhz / gcd(kind.uhz, packet_uhz).max(1));
        kind.uhz == 0 || (met_ps < gap_ps && gap_ps * 10 <= met_ps * places)
    };
    let holds = interrupts.iter().all(alone);
    SamplingOutcome {
        rate_pps: packets_hz,
        late,
        late_ratio: late as f64 / count,
        late_ratio_expected: holds.then(|| interrupts.iter().map(met).sum()),
        max_wait_ns: waits.iter().max().map_or(0.0, |wait| *wait as f64 / PS),
        mean_wait_ns: waits.iter().map(|wait| *wait as f64).sum::<f64>() / count / PS,
        overloaded: packets_hz * service_ps as f64 * 1e-12 > free,
        beats,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Beat of an interrupt against the packets: the faster frequency as sampled by the slower one.
fn beat(packets_hz: f64, interrupt_hz: f64) -> Beat {
    let (fast, slow) = (packets_hz.max(interrupt_hz), packets_hz.min(interrupt_hz));
    if slow <= 0.0 {
        return Beat { beat_hz: 0.0, packets_apart: 0.0 };
    }
    // A difference below one millionth is a rounding error in the rates.
    let apart = (fast - slow * (fast / slow).round()).abs();
    Beat { beat_hz: if apart < 1e-6 { 0.0 } else { apart }, packets_apart: packets_hz / interrupt_hz }
}

/// The `most` packets with the longest waits, in order of time. Packets that did not wait are excluded.
pub fn worst(waits: &[u64], packet_uhz: u64, most: usize) -> Vec<LatePacket> {
    let mut late: Vec<(u64, u64)> = (0..).zip(waits.iter().copied()).filter(|(_, wait)| *wait > 0).collect();
    late.sort_unstable_by_key(|(n, wait)| (std::cmp::Reverse(*wait), *n));
    late.truncate(most);
    late.sort_unstable();
    let packet = |(n, wait): (u64, u64)| LatePacket {
        at_ns: nth(n, packet_uhz) as f64 / PS,
        wait_ns: wait as f64 / PS,
    };
    late.into_iter().map(packet).collect()
}

/// Compares a simulation with a measurement. Both are described by at most `listed` packets with the longest
/// waits, and by the total number of packets. `None` if no packet waited in the simulation or in the
/// measurement.
pub fn against(
    simulated: (&[LatePacket], u64),
    measured: (&[LatePacket], u64),
    listed: usize,
) -> Option<SamplingValidation> {
    let longest = |packets: &[LatePacket]| packets.iter().map(|packet| packet.wait_ns).fold(0.0, f64::max);
    let (foretold_ns, max_wait_ns) = (longest(simulated.0), longest(measured.0));
    if foretold_ns <= 0.0 || max_wait_ns <= 0.0 {
        return None;
    }
    let long_ns = foretold_ns / 2.0;
    let long = |packets: &[LatePacket]| packets.iter().filter(|packet| packet.wait_ns >= long_ns).count();
    let share = |(packets, of): (&[LatePacket], u64)| long(packets) as f64 / of.max(1) as f64;
    let (long_simulated, long_measured) = (share(simulated), share(measured));
    Some(SamplingValidation {
        max_wait_ns,
        wait_error: foretold_ns / max_wait_ns - 1.0,
        long_ns,
        long_simulated,
        long_measured,
        long_error: (long_measured > 0.0).then(|| long_simulated / long_measured - 1.0),
        long_or_more: [simulated.0, measured.0].iter().any(|packets| long(packets) >= listed),
    })
}

/// Random phase for the interrupt with index `place`, uniform over its period, derived from the seed.
pub fn phase_ps(seed: u64, place: u64, uhz: u64) -> u64 {
    if uhz == 0 { 0 } else { Random::behind(seed, place).below(nth(1, uhz) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KPPS: u64 = 1_000_000_000;

    #[test]
    fn compares_simulation_with_measurement() {
        let late = |waits: &[f64]| -> Vec<LatePacket> {
            waits.iter().map(|&wait_ns| LatePacket { at_ns: 0.0, wait_ns }).collect()
        };
        let (simulated, measured) = (late(&[6.0, 12.0, 6.0, 1.0]), late(&[5.0, 10.0, 6.0]));
        let found = against((&simulated, 100), (&measured, 200), 4).unwrap();
        assert_eq!((found.max_wait_ns, found.long_ns), (10.0, 6.0));
        assert!((found.wait_error - 0.2).abs() < 1e-12 && !found.long_or_more);
        assert_eq!((found.long_simulated, found.long_measured, found.long_error), (0.03, 0.01, Some(2.0)));
        assert!(against((&simulated, 100), (&measured, 200), 3).unwrap().long_or_more);
        assert_eq!(against((&simulated, 100), (&late(&[1.0]), 200), 4).unwrap().long_error, None);
        for nothing in [late(&[]), late(&[0.0])] {
            assert_eq!(against((&simulated, 100), (&nothing, 200), 4), None);
            assert_eq!(against((&nothing, 100), (&measured, 200), 4), None);
        }
    }
    const HZ: u64 = 1_000_000;
    const US: u64 = 1_000_000;

    fn every(hz: u64, length_us: u64, phase_us: u64) -> Recurring {
        Recurring { uhz: hz * HZ, length_ps: length_us * US, phase_ps: phase_us * US }
    }

    #[test]
    fn synchronous_interrupt_hits_every_nth_packet() {
        // 10 kpps and 250 Hz: every 40th packet arrives 3 us after the start of an interrupt of 12 us.
        let kinds = [every(250, 12, 97)];
        let waits = waits(4_000, 10 * KPPS, 0, &kinds).unwrap();
        for (n, wait) in waits.iter().enumerate() {
            assert_eq!(*wait, if n % 40 == 1 { 9 * US } else { 0 }, "packet {n}");
        }
        let found = outcome(&waits, 10 * KPPS, 0, &kinds);
        assert_eq!((found.late, found.max_wait_ns, found.beats[0].beat_hz), (100, 9_000.0, 0.0));
        assert_eq!((found.beats[0].packets_apart, found.late_ratio_expected), (40.0, None));
        // In another phase, the same interrupt delays no packet.
        assert!(
            super::waits(4_000, 10 * KPPS, 0, &[every(250, 12, 50)]).unwrap().iter().all(|wait| *wait == 0)
        );
    }

    #[test]
    fn interrupt_delays_packet_in_service_and_queued_packets() {
        // Packet 0 is served until 30 us. During the interrupt from 10 to 200 us, packets 1 (100 us) and 2
        // queue after it.
        let waits = waits(5, 10 * KPPS, 30 * US, &[every(1, 190, 10)]).unwrap();
        // Packet 0 ends at 220 us, packet 1 at 250 us. Packet 2 (200 us) ends at 280 us; packet 3 (300 us) is
        // on time.
        assert_eq!(waits, [190 * US, 120 * US, 50 * US, 0, 0]);
    }

    #[test]
    fn incommensurate_rates_match_closed_form_share() {
        // The common period of 251.3 Hz and 9,973 pps is far longer than the measurement.
        let kind = Recurring { uhz: 251_300_000, length_ps: 12 * US, phase_ps: 5 };
        let (packet_uhz, service) = (9_973 * HZ, 7 * US);
        let waits = waits(1_000_000, packet_uhz, service, &[kind]).unwrap();
        let found = outcome(&waits, packet_uhz, service, &[kind]);
        let share = found.late_ratio_expected.unwrap();
        assert!((share - 251.3 * 19e-6).abs() < 1e-12);
        assert!((found.late_ratio / share - 1.0).abs() < 0.01, "{found:?}");
        // Mean wait: packets in service (7 us) wait for the whole interrupt, the others for half of it on
        // average.
        let expected = 251.3 * (7e-6 * 12e3 + 12e-6 * 6e3);
        assert!((found.mean_wait_ns / expected - 1.0).abs() < 0.01, "{found:?}, {expected}");
        assert!(found.max_wait_ns <= 12_000.0 && !found.overloaded);
    }

    #[test]
    fn beat_is_remainder_of_rates() {
        assert!((beat(10_052.0, 250.0).beat_hz - 52.0).abs() < 1e-9);
        assert!((beat(9_990.0, 250.0).beat_hz - 10.0).abs() < 1e-9);
        assert!((beat(100.0, 250.0).beat_hz - 50.0).abs() < 1e-9);
        assert_eq!(beat(10_000.0, 0.0).beat_hz, 0.0);
        // Over all phases of 250 interrupts against 10,052 packets, the share of delayed packets equals the
        // fraction of time taken by interrupts.
        let kinds = [every(250, 60, 0)];
        let found = waits(10_052, 10_052 * HZ, 0, &kinds).unwrap();
        let late: Vec<u64> = found.iter().copied().filter(|wait| *wait > 0).collect();
        assert!((late.len() as f64 - 250.0 * 60e-6 * 10_052.0).abs() < 3.0, "{}", late.len());
    }

    #[test]
    fn no_packet_waits_without_interrupts() {
        for kinds in [&[][..], &[every(0, 12, 0)], &[every(250, 0, 0)]] {
            let waits = waits(1_000, 10 * KPPS, 99 * US, kinds).unwrap();
            assert!(waits.iter().all(|wait| *wait == 0), "{kinds:?}");
            assert!(worst(&waits, 10 * KPPS, 10).is_empty());
        }
    }

    #[test]
    fn service_longer_than_gap_is_overload() {
        let found = waits(1_000, 10 * KPPS, 101 * US, &[]).unwrap();
        assert_eq!(found[999], 999 * US);
        assert!(outcome(&found, 10 * KPPS, 101 * US, &[]).overloaded);
        // With interrupts, a service time slightly below the gap is already too long.
        let kinds = [every(250, 40, 0)];
        assert!(outcome(&[], 10 * KPPS, 99_500_000, &kinds).overloaded);
        assert!(!outcome(&[], 10 * KPPS, 98_900_000, &kinds).overloaded);
    }

    #[test]
    fn rejects_full_interrupt_load_and_serializes_simultaneous_interrupts() {
        assert!(waits(1, KPPS, 0, &[every(250, 4_000, 0)]).is_err());
        // Two simultaneous interrupts: the second waits for the first, and the packet waits for both.
        let found = waits(3, KPPS, 0, &[every(1, 10, 0), every(1, 5, 0)]).unwrap();
        assert_eq!(found, [15 * US, 0, 0]);
    }

    #[test]
    fn worst_packets_are_in_order_of_time() {
        let found = worst(&[0, 5_000, 0, 7_000, 6_000], KPPS, 2);
        let packet = |at_ns, wait_ns| LatePacket { at_ns, wait_ns };
        assert_eq!(found, [packet(3e6, 7.0), packet(4e6, 6.0)]);
    }

    #[test]
    fn phases_are_within_period_and_follow_seed() {
        let phases: Vec<u64> = (0..100).map(|seed| phase_ps(seed, 0, 250 * HZ)).collect();
        assert!(phases.iter().all(|phase| *phase < 4_000 * US));
        let mean = phases.iter().sum::<u64>() / 100;
        assert!((1_500 * US..2_500 * US).contains(&mean), "{mean}");
        assert_eq!(phase_ps(7, 1, 250 * HZ), phase_ps(7, 1, 250 * HZ));
        assert_ne!(phase_ps(7, 1, 250 * HZ), phase_ps(7, 2, 250 * HZ));
    }
}
