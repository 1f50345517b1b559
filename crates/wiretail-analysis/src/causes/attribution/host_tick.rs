//! Detects the host's tick in a virtual machine: short pauses of the core during which the guest's kernel
//! records no event, and which recur at the frequency of another kernel's timer. A single pause is ambiguous;
//! the phase of many pauses identifies the tick.

/// Tick frequencies of kernels, in Hz (CONFIG_HZ of Linux).
const TICKS_HZ: [u32; 4] = [100, 250, 300, 1000];
/// Maximum duration of a tick, in ns.
const LENGTH_MAX_NS: u64 = 100_000;
/// Width of the window into which ticks must fall, as a fraction of the period.
const WINDOW: f64 = 0.04;
/// Maximum relative frequency difference between the clocks of a host and a guest.
const DRIFT: f64 = 20e-6;
/// Minimum number of pauses for a frequency estimate.
const PAUSES_MIN: usize = 30;
/// At least this share of the pauses must belong to the tick.
const SHARE_MIN: f64 = 0.3;
/// Maximum probability that the pattern arises by chance.
const CHANCE_MAX: f64 = 1e-9;

/// A periodic tick that coincides with pauses of the core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTick {
    /// Nominal frequency, in Hz.
    pub hz: u32,
    /// Frequency measured with the guest's clock, in Hz.
    frequency: f64,
    /// Start of the window in which ticks fall, as a fraction of a period counted from the clock's zero.
    begins: f64,
}

impl HostTick {
    /// Finds the tick that coincides with most of the short pauses `(from, to)`, if any. Times are in ns of
    /// the trace's clock.
    ///
    /// Chernoff's bound limits the probability that a result arises by chance: the number of pauses in a
    /// window of this width is binomial. The bound is multiplied by the number of windows, frequencies and
    /// drifts tried.
    pub fn find(pauses: &[(u64, u64)]) -> Option<Self> {
        let short: Vec<u64> =
            pauses.iter().filter(|(from, to)| to - from <= LENGTH_MAX_NS).map(|(from, _)| *from).collect();
        let (first, last) = (*short.first()?, *short.last()?);
        if short.len() < PAUSES_MIN {
            return None;
        }
        let seconds = (last - first) as f64 * 1e-9;
        let mut best: Option<(usize, Self)> = None;
        let mut tried = 0.0;
        for hz in TICKS_HZ {
            // With this step, phases move by a quarter of the window over the whole duration.
            let step = (WINDOW / 4.0 / (f64::from(hz) * seconds)).min(DRIFT);
            let steps = (DRIFT / step).ceil() as i64;
            for drift in -steps..=steps {
                let frequency = f64::from(hz) * (1.0 + drift as f64 * step);
                let (count, begins) = densest(&short, first, frequency);
                tried += 1.0 / WINDOW;
                // If a frequency fits, its multiples fit the same pauses, so the lowest frequency is
                // preferred.
                if best.is_none_or(|(most, tick)| count > most + if tick.hz == hz { 0 } else { most / 5 }) {
                    best = Some((count, Self { hz, frequency, begins }));
                }
            }
        }
        let (count, tick) = best?;
        let share = count as f64 / short.len() as f64;
        let chance = tried * (-(short.len() as f64) * divergence(share, WINDOW)).exp();
        (share >= SHARE_MIN && chance <= CHANCE_MAX).then_some(Self {
            // Counted from the clock's zero instead of from the first pause.
            begins: (tick.begins + phase(first, tick.frequency)).fract(),
            ..tick
        })
    }

    /// Whether a pause belongs to the tick.
    pub fn has(&self, from_ns: u64, to_ns: u64) -> bool {
        let since = (phase(from_ns, self.frequency) - self.begins).rem_euclid(1.0);
        to_ns - from_ns <= LENGTH_MAX_NS && since <= WINDOW
    }
}

/// Fraction of the period that has elapsed at `at_ns`.
fn phase(at_ns: u64, frequency: f64) -> f64 {
    // Whole seconds are handled separately, because a product as large as 10^17 leaves no precision for
    // fractions of a period.
    let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    ((seconds as f64 * frequency).fract() + ns as f64 * 1e-9 * frequency).fract()
}

/// Finds the window of the period that contains the most times. Returns the number of these times and the
/// start of the window.
fn densest(times: &[u64], first: u64, frequency: f64) -> (usize, f64) {
    let mut phases: Vec<f64> = times.iter().map(|at| phase(at - first, frequency)).collect();
    phases.sort_unstable_by(f64::total_cmp);
    let len = phases.len();
    let (mut end, mut best) = (0, (0, 0.0));
    for (begin, begins) in phases.iter().enumerate() {
        end = end.max(begin);
        // A window may extend past the end of the period.
        while end < begin + len && phases[end % len] + f64::from(u8::from(end >= len)) - begins <= WINDOW {
            end += 1;
        }
        if end - begin > best.0 {
            best = (end - begin, *begins);
        }
    }
    best
}

/// Kullback-Leibler divergence of a share from a probability. The larger it is, the less likely the share
/// arose by chance.
fn divergence(share: f64, probability: f64) -> f64 {
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    if share <= probability { 0.0 } else { term(share, probability) + term(1.0 - share, 1.0 - probability) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pauses of 9 us every `period_ns`, starting a day after the clock's zero, each delayed by `late`.
    fn ticks(count: u64, period_ns: f64, late: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
        let at = |number: u64| 86_400_000_000_000 + (number as f64 * period_ns) as u64 + late(number);
        (0..count).map(|number| (at(number), at(number) + 9_000)).collect()
    }

    #[test]
    fn finds_tick_and_its_frequency() {
        for (hz, drift) in [(100, 0.0), (250, 3e-6), (250, -15e-6), (300, 0.0), (1000, 10e-6)] {
            let period_ns = 1e9 / (f64::from(hz) * (1.0 + drift));
            let pauses = ticks(u64::from(hz) * 10, period_ns, |number| {
                number * 7919 % (400_000_000 / u64::from(hz) / 20)
            });
            let tick = HostTick::find(&pauses).expect("a tick");
            assert_eq!(tick.hz, hz);
            let of_tick = pauses.iter().filter(|(from, to)| tick.has(*from, *to)).count();
            assert!(of_tick * 10 >= pauses.len() * 9, "{of_tick} of {}", pauses.len());
            // No tick is due half a period later.
            let other = pauses[5].0 + (period_ns / 2.0) as u64;
            assert!(!tick.has(other, other + 9_000));
        }
    }

    #[test]
    fn long_pauses_are_not_ticks() {
        let pauses: Vec<_> =
            ticks(2000, 4e6, |_| 0).iter().map(|(from, _)| (*from, from + 300_000)).collect();
        assert_eq!(HostTick::find(&pauses), None);
        let tick = HostTick::find(&ticks(2000, 4e6, |_| 0)).expect("a tick");
        assert!(!tick.has(pauses[7].0, pauses[7].1));
    }

    proptest! {
        #[test]
        fn random_pauses_are_not_a_tick(mut at in prop::collection::vec(0..10_000_000_000u64, 30..1500)) {
            at.sort_unstable();
            let pauses: Vec<(u64, u64)> = at.iter().map(|at| (*at, at + 9_000)).collect();
            prop_assert_eq!(HostTick::find(&pauses), None);
        }
    }
}
