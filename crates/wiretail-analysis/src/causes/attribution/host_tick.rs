//! The host's tick, seen from a virtual machine: short pauses of the core without an event of its own kernel's, that come
//! with the frequency of another kernel's timer. Each by itself could be anything; their phase gives them away.

/// Frequencies of kernels' ticks, in Hz (CONFIG_HZ of Linux).
const TICKS_HZ: [u32; 4] = [100, 250, 300, 1000];
/// A tick takes no longer than this, in ns.
const LENGTH_MAX_NS: u64 = 100_000;
/// The part of a period in which the ticks are looked for.
const WINDOW: f64 = 0.04;
/// Clocks of a host and a guest run alike within this.
const DRIFT: f64 = 20e-6;
/// Fewer pauses than this say nothing about a frequency.
const PAUSES_MIN: usize = 30;
/// At least this share of the pauses belongs to the tick.
const SHARE_MIN: f64 = 0.3;
/// A pattern that comes about by chance with a higher probability is none.
const CHANCE_MAX: f64 = 1e-9;

/// A tick that pauses keep to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTick {
    /// Its nominal frequency, in Hz.
    pub hz: u32,
    /// Measured, by the guest's clock, in Hz.
    frequency: f64,
    /// Where its window begins, as a part of a period since the clock's zero.
    begins: f64,
}

impl HostTick {
    /// The tick that most of the short ones of these pauses `(from, to)` keep to, if there is one; in ns of the trace's
    /// clock. By chance as many in a window of this width are a matter of the binomial distribution, of which the
    /// bound by Chernoff is taken, times the number of windows, frequencies and drifts that were tried.
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
            // So fine that over the whole time phases move by a quarter of the window from one drift to the next.
            let step = (WINDOW / 4.0 / (f64::from(hz) * seconds)).min(DRIFT);
            let steps = (DRIFT / step).ceil() as i64;
            for drift in -steps..=steps {
                let frequency = f64::from(hz) * (1.0 + drift as f64 * step);
                let (count, begins) = densest(&short, first, frequency);
                tried += 1.0 / WINDOW;
                // A multiple of a frequency has the same pauses in its window: the lowest one is meant.
                if best.is_none_or(|(most, tick)| count > most + if tick.hz == hz { 0 } else { most / 5 }) {
                    best = Some((count, Self { hz, frequency, begins }));
                }
            }
        }
        let (count, tick) = best?;
        let share = count as f64 / short.len() as f64;
        let chance = tried * (-(short.len() as f64) * divergence(share, WINDOW)).exp();
        (share >= SHARE_MIN && chance <= CHANCE_MAX).then_some(Self {
            // Since the clock's zero, and not the first pause.
            begins: (tick.begins + phase(first, tick.frequency)).fract(),
            ..tick
        })
    }

    /// Whether a pause is one of its ticks.
    pub fn has(&self, from_ns: u64, to_ns: u64) -> bool {
        let since = (phase(from_ns, self.frequency) - self.begins).rem_euclid(1.0);
        to_ns - from_ns <= LENGTH_MAX_NS && since <= WINDOW
    }
}

/// The part of a period that has passed.
fn phase(at_ns: u64, frequency: f64) -> f64 {
    // Whole seconds by themselves: a product of 10^17 has no room for parts of a period.
    let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    ((seconds as f64 * frequency).fract() + ns as f64 * 1e-9 * frequency).fract()
}

/// Where the most times fall into one window of the period: how many, and where it begins.
fn densest(times: &[u64], first: u64, frequency: f64) -> (usize, f64) {
    let mut phases: Vec<f64> = times.iter().map(|at| phase(at - first, frequency)).collect();
    phases.sort_unstable_by(f64::total_cmp);
    let len = phases.len();
    let (mut end, mut best) = (0, (0, 0.0));
    for (begin, begins) in phases.iter().enumerate() {
        end = end.max(begin);
        // The period goes round.
        while end < begin + len && phases[end % len] + f64::from(u8::from(end >= len)) - begins <= WINDOW {
            end += 1;
        }
        if end - begin > best.0 {
            best = (end - begin, *begins);
        }
    }
    best
}

/// Kullback and Leibler's divergence of a share from a probability: how fast shares above it become improbable.
fn divergence(share: f64, probability: f64) -> f64 {
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    if share <= probability { 0.0 } else { term(share, probability) + term(1.0 - share, 1.0 - probability) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pauses of 9 us every `period_ns`, from a day after the clock's zero on, each as late as `late` says.
    fn ticks(count: u64, period_ns: f64, late: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
        let at = |number: u64| 86_400_000_000_000 + (number as f64 * period_ns) as u64 + late(number);
        (0..count).map(|number| (at(number), at(number) + 9_000)).collect()
    }

    #[test]
    fn a_tick_is_found_with_its_frequency() {
        for (hz, drift) in [(100, 0.0), (250, 3e-6), (250, -15e-6), (300, 0.0), (1000, 10e-6)] {
            let period_ns = 1e9 / (f64::from(hz) * (1.0 + drift));
            let pauses = ticks(u64::from(hz) * 10, period_ns, |number| {
                number * 7919 % (400_000_000 / u64::from(hz) / 20)
            });
            let tick = HostTick::find(&pauses).expect("a tick");
            assert_eq!(tick.hz, hz);
            let of_tick = pauses.iter().filter(|(from, to)| tick.has(*from, *to)).count();
            assert!(of_tick * 10 >= pauses.len() * 9, "{of_tick} of {}", pauses.len());
            // Half a period later nothing is due.
            let other = pauses[5].0 + (period_ns / 2.0) as u64;
            assert!(!tick.has(other, other + 9_000));
        }
    }

    #[test]
    fn long_pauses_are_no_ticks() {
        let pauses: Vec<_> =
            ticks(2000, 4e6, |_| 0).iter().map(|(from, _)| (*from, from + 300_000)).collect();
        assert_eq!(HostTick::find(&pauses), None);
        let tick = HostTick::find(&ticks(2000, 4e6, |_| 0)).expect("a tick");
        assert!(!tick.has(pauses[7].0, pauses[7].1));
    }

    proptest! {
        #[test]
        fn pauses_at_random_are_no_tick(mut at in prop::collection::vec(0..10_000_000_000u64, 30..1500)) {
            at.sort_unstable();
            let pauses: Vec<(u64, u64)> = at.iter().map(|at| (*at, at + 9_000)).collect();
            prop_assert_eq!(HostTick::find(&pauses), None);
        }
    }
}
