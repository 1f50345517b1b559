//! Departure times: a pure function of pattern, seed and end. Never reads a clock.

use std::sync::Arc;

use wiretail_schema::random::Random;
use wiretail_schema::run::pauses::Pauses;

use crate::generator::plan::{End, GeneratorPlan, Pattern};
use crate::generator::recording::Recording;

pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// The intended departures of all packets of a trial, in ns after its start, in ascending order. A pause
/// shifts all departures after it.
///
/// The item at index `n` is the intended departure of packet number `n`, whatever else happened in the trial: a
/// packet that was skipped keeps its number. On the wire, the number is the id of the
/// [`Signature`](crate::generator::frame::Signature) minus
/// [`GeneratorPlan::id_first`], and the start is
/// [`GeneratorReport::start_ns`](crate::generator::GeneratorReport::start_ns). With
/// [`LatePolicy::Shift`](crate::generator::plan::LatePolicy::Shift), packets are due later than this, by up to
/// [`GeneratorReport::shifted_ns`](crate::generator::GeneratorReport::shifted_ns); the signature has the time.
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: Pattern,
    end: End,
    stretch: Stretch,
    recording: Option<Arc<Recording>>,
    random: Random,
    packet: u64,
    /// Poisson pattern: time of the last packet, and the remaining fraction of a nanosecond.
    last_ns: u64,
    rest_ns: f64,
}

impl Schedule {
    /// The departures of a pattern, which must be accepted by
    /// [`GeneratorPlan::check`](crate::generator::plan::GeneratorPlan::check).
    pub fn new(pattern: Pattern, end: End, seed: u64) -> Self {
        let random = Random::new(seed);
        let stretch = Stretch::new(Pauses::default());
        Self { pattern, end, stretch, recording: None, random, packet: 0, last_ns: 0, rest_ns: 0.0 }
    }

    /// The departures of a plan, from its recording or its pattern.
    pub fn of(plan: &GeneratorPlan) -> Self {
        let stretch = Stretch::new(plan.pauses);
        Self { recording: plan.recording.clone(), stretch, ..Self::new(plan.pattern, plan.end, plan.seed) }
    }

    #[inline]
    fn departure_ns(&mut self) -> u64 {
        match self.pattern {
            Pattern::Constant { rate_pps } => evenly(self.packet, rate_pps),
            Pattern::Bursts { rate_pps, burst } => {
                evenly(self.packet - self.packet % u64::from(burst), rate_pps)
            }
            Pattern::Poisson { rate_pps } => {
                if self.packet > 0 {
                    let gap_ns =
                        exponential(&mut self.random) * SECOND_NS as f64 / rate_pps as f64 + self.rest_ns;
                    self.last_ns += gap_ns as u64;
                    self.rest_ns = gap_ns.fract();
                }
                self.last_ns
            }
            Pattern::OnOff { rate_pps, on_ns, off_ns } => {
                // Departures are at 0, 1/rate, … before on_ns, so their number is rounded up.
                let a_period = (u128::from(on_ns) * u128::from(rate_pps)).div_ceil(SECOND_NS.into()) as u64;
                let (period, within) = (self.packet / a_period, self.packet % a_period);
                period * (on_ns + off_ns) + evenly(within, rate_pps)
            }
        }
    }
}

/// Inserts the pauses into ascending times.
#[derive(Debug, Clone)]
struct Stretch {
    pauses: Pauses,
    /// Number of pauses before the last time.
    passed: u64,
    /// Total length of these pauses, in ns.
    paused_ns: u64,
    /// Start of the next pause on the clock of the pattern, in ns; `u64::MAX` if there is none.
    next_ns: u64,
}

impl Stretch {
    fn new(pauses: Pauses) -> Self {
        let next_ns = if pauses.is_empty() { u64::MAX } else { pauses.sending_ns() };
        Self { pauses, passed: 0, paused_ns: 0, next_ns }
    }

    #[inline]
    fn of(&mut self, after_ns: u64) -> u64 {
        if after_ns >= self.next_ns {
            self.pass(after_ns);
        }
        after_ns + self.paused_ns
    }

    #[cold]
    fn pass(&mut self, after_ns: u64) {
        let Self { pauses, .. } = self;
        self.passed = (after_ns / pauses.sending_ns()).min(pauses.count());
        self.paused_ns = self.passed * pauses.length_ns();
        let is_last = self.passed == pauses.count();
        self.next_ns = if is_last { u64::MAX } else { (self.passed + 1) * pauses.sending_ns() };
    }
}

/// Departure of a packet at a constant rate. Avoids the overflow of `packet * 10^9`.
#[inline]
fn evenly(packet: u64, rate_pps: u64) -> u64 {
    packet / rate_pps * SECOND_NS + packet % rate_pps * SECOND_NS / rate_pps
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if matches!(self.end, End::Packets(packets) if self.packet >= packets) {
            return None;
        }
        let after_ns = match &self.recording {
            Some(recording) => recording.frames().get(self.packet as usize)?.after_ns,
            None => self.departure_ns(),
        };
        if matches!(self.end, End::DurationNs(duration_ns) if after_ns >= duration_ns) {
            return None;
        }
        self.packet += 1;
        Some(self.stretch.of(after_ns))
    }
}

/// A sample of the exponential distribution with mean 1: -ln of a uniform number in (0, 1].
#[inline]
fn exponential(random: &mut Random) -> f64 {
    let uniform = ((random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(pattern: Pattern, end: End) -> Vec<u64> {
        Schedule::new(pattern, end, 42).collect()
    }

    #[test]
    fn exponential_numbers_have_mean_one() {
        let mut random = Random::new(7);
        let mean = (0..100_000).map(|_| exponential(&mut random)).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn constant_rate_does_not_drift() {
        let times = departures(Pattern::Constant { rate_pps: 3 }, End::DurationNs(2 * SECOND_NS));
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333, 1_666_666_666]);
        assert_eq!(evenly(u64::from(u32::MAX) * 1000, 1000), u64::from(u32::MAX) * SECOND_NS);
    }

    #[test]
    fn bursts_depart_together() {
        let times = departures(Pattern::Bursts { rate_pps: 1000, burst: 3 }, End::Packets(7));
        assert_eq!(times, [0, 0, 0, 3_000_000, 3_000_000, 3_000_000, 6_000_000]);
    }

    #[test]
    fn on_and_off_alternate() {
        let pattern = Pattern::OnOff { rate_pps: 1000, on_ns: 2_000_000, off_ns: 5_000_000 };
        assert_eq!(departures(pattern, End::Packets(5)), [0, 1_000_000, 7_000_000, 8_000_000, 14_000_000]);
    }

    #[test]
    fn pauses_shift_departures_and_keep_gaps() {
        let pauses = Pauses::plan(SECOND_NS, SECOND_NS / 10, 30_000_000);
        let patterns = [
            Pattern::Constant { rate_pps: 3001 },
            Pattern::Bursts { rate_pps: 1000, burst: 7 },
            Pattern::Poisson { rate_pps: 5000 },
            Pattern::OnOff { rate_pps: 1000, on_ns: 20_000_000, off_ns: 250_000_000 },
        ];
        for pattern in patterns {
            let planned = departures(pattern, End::DurationNs(SECOND_NS));
            let schedule = Schedule {
                stretch: Stretch::new(pauses),
                ..Schedule::new(pattern, End::DurationNs(SECOND_NS), 42)
            };
            let paused: Vec<u64> = schedule.collect();
            assert_eq!(planned.len(), paused.len(), "{pattern:?}");
            for (planned, paused) in planned.iter().zip(&paused) {
                // Walks through the phases that end before this time of the pattern.
                let before =
                    (1..=pauses.count()).filter(|phase| phase * pauses.sending_ns() <= *planned).count();
                assert_eq!(*paused, planned + before as u64 * 30_000_000);
                assert!(pauses.list().all(|p| !(p.start_ns..p.end_ns).contains(&(*paused as i64))));
                assert_eq!(pauses.sending_time(*paused as i64), *planned as i64);
            }
        }
    }

    #[test]
    fn poisson_gaps_have_expected_mean_and_deviation() {
        let pattern = Pattern::Poisson { rate_pps: 100_000 };
        let times = departures(pattern, End::DurationNs(SECOND_NS));
        assert!((99_000..101_000).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{mean} {variance}");
        assert_eq!(times, departures(pattern, End::DurationNs(SECOND_NS)));
    }
}
