//! Finds regular patterns among late packets: their period, and whether they follow a clock or the packet
//! count.
//!
//! 1. [`late`] finds packets that are late relative to their neighbors.
//! 2. [`fold`] groups late packets by the residue of their position, or of a number in the packet.
//! 3. [`spectrum`] finds any frequency by its phase, and the clock behind an aliased frequency.
//! 4. [`find`] selects the better explanation and reports whether the other one is excluded. It then removes
//!    the explained late packets and searches again.
//!
//! Formulas, sources and limits: `docs/kpi/periodicity.md`.

pub mod fft;
pub mod fold;
pub mod late;
pub mod spectrum;

use wiretail_schema::causes::capture::{Follows, Periodicity, Recurrence, Residue};
use wiretail_schema::units::Share;

use fold::{BestResidue, best_residue, gain, phase};
use spectrum::{CYCLES_MIN, Clock};

/// Maximum probability that a search reports a pattern that arose by chance.
pub const FALSE_ALARM: f64 = 1e-3;
/// Percentiles above which packets are considered late. Each percentile is used in a separate search.
const LATE_ABOVE: [Share; 2] = [Share::P99_9, Share::P99];
/// Longest period found by folding, in packets.
const PERIOD_MAX: u64 = 4096;
/// Maximum number of patterns per search.
const PATTERNS_MAX: usize = 6;
/// Difference in gain (a logarithm of odds) above which one explanation is considered better than another.
const DECISIVE: f64 = 10.0;
/// Maximum relative deviation of a crystal from its nominal frequency.
const CRYSTAL: f64 = 2e-4;
/// Maximum probability that a clock's period is a whole number of packets by coincidence. If the probability
/// is higher, the pattern may still follow a clock.
const COINCIDENCE: f64 = 0.01;

/// Packets of equal length, in the order sent.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Send times, in ns since the first packet.
    pub times_ns: Vec<i64>,
    /// Delays, in ns.
    pub delays_ns: Vec<i64>,
    /// Numbers of the packets: first the position among all packets sent, then numbers in the packets'
    /// content.
    pub numbers: Vec<Numbers>,
}

/// One number for each packet.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    /// Name of the number, such as "position" or "payload bytes 0-3, little-endian".
    pub name: String,
    /// One value per packet.
    pub values: Vec<u64>,
}

/// A named clock.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownClock {
    /// Name of the clock, such as "kernel tick, HZ=250".
    pub name: String,
    pub frequency_hz: f64,
    /// Uncertainty of the frequency, in Hz.
    pub error_hz: f64,
}

/// Tick frequencies that Linux can be built with.
pub fn kernel_ticks() -> Vec<KnownClock> {
    [100.0, 250.0, 300.0, 1000.0]
        .map(|hz| KnownClock {
            name: format!("kernel tick, HZ={hz}"),
            frequency_hz: hz,
            error_hz: hz * CRYSTAL,
        })
        .to_vec()
}

/// Name of the number that contains the packet's position.
pub const POSITION: &str = "position";

/// Finds regular patterns among late packets.
pub fn find(series: &Series, clocks: &[KnownClock]) -> Periodicity {
    let packets = series.times_ns.len();
    let span_ns = match (series.times_ns.first(), series.times_ns.last()) {
        (Some(first), Some(last)) => last - first,
        _ => 0,
    };
    let rate_hz = if span_ns > 0 { (packets - 1) as f64 * 1e9 / span_ns as f64 } else { 0.0 };
    let mut found: Vec<Recurrence> = Vec::new();
    if packets >= 1000 && span_ns > 0 {
        let excess = late::excess(&series.delays_ns);
        for share in LATE_ABOVE {
            let (late, threshold) = late::beginnings(&excess, share);
            let search = Search { series, clocks, excess: &excess, span_ns, rate_hz, threshold };
            for recurrence in search.run(late) {
                let better = |other: &Recurrence| other.false_alarm <= recurrence.false_alarm;
                if !found.iter().any(|other| is_same(&recurrence, other) && better(other)) {
                    found.retain(|other| !is_same(&recurrence, other));
                    found.push(recurrence);
                }
            }
        }
    }
    found.sort_by(|a, b| a.false_alarm.total_cmp(&b.false_alarm));
    Periodicity { packets: packets as u64, packets_per_second: rate_hz, recurrences: found }
}

/// Lists which numbers in the packets are multiples of the period.
fn multiple(residues: &[Residue]) -> String {
    let numbers = residues.iter().filter(|residue| residue.residue == 0 && residue.of != POSITION);
    let named: Vec<&str> = numbers.map(|residue| residue.of.as_str()).collect();
    let Some(residue) = residues.first().filter(|_| !named.is_empty()) else { return String::new() };
    format!("; these packets contain multiples of {} in {}", residue.modulus, named.join(" and in "))
}

/// Whether two recurrences are the same: they have equal periods, or the period of one is a multiple of the
/// other's and the residues match.
fn is_same(one: &Recurrence, other: &Recurrence) -> bool {
    let is_part = |part: &Residue, whole: &Residue| {
        part.of == whole.of
            && part.modulus.is_multiple_of(whole.modulus)
            && part.residue % whole.modulus == whole.residue
    };
    let parts = |part: &Recurrence, whole: &Recurrence| {
        part.residues.iter().any(|part| whole.residues.iter().any(|whole| is_part(part, whole)))
    };
    (one.period_packets - other.period_packets).abs() < 1e-3 * other.period_packets
        || parts(one, other)
        || parts(other, one)
}

/// A search with one threshold of lateness.
struct Search<'a> {
    series: &'a Series,
    clocks: &'a [KnownClock],
    excess: &'a [i64],
    span_ns: i64,
    rate_hz: f64,
    threshold: i64,
}

impl Search<'_> {
    fn run(&self, mut late: Vec<usize>) -> Vec<Recurrence> {
        let mut found = Vec::new();
        while found.len() < PATTERNS_MAX {
            let times: Vec<i64> = late.iter().map(|place| self.series.times_ns[*place]).collect();
            let residue = self.residue(&late);
            let clock = self.clock(&times);
            let locked = clock.as_ref().and_then(|(clock, _)| self.locked(clock, &times));
            let recurrence = match (residue, clock) {
                (None, None) => break,
                (Some((axis, residue, chance)), None) => self.packets(&late, axis, &residue, chance),
                (None, Some((clock, chance))) => self.time(&late, &clock, chance, locked),
                (Some((axis, residue, chance)), Some((clock, by_time))) => {
                    // If the period is a whole number of packets, a residue describes it better.
                    if locked.is_some() || residue.gain + DECISIVE >= clock.arc.gain {
                        self.packets(&late, axis, &residue, chance)
                    } else {
                        self.time(&late, &clock, by_time, None)
                    }
                }
            };
            late = recurrence.1;
            found.push(recurrence.0);
        }
        found
    }

    /// Finds the best residue over all numbers. Returns the index of the number, the residue, and the
    /// probability that such a residue arises by chance. Returns `None` if the residue may have arisen by
    /// chance.
    fn residue(&self, late: &[usize]) -> Option<(usize, BestResidue, f64)> {
        let max = PERIOD_MAX.min((self.series.times_ns.len() as f64 / CYCLES_MIN) as u64);
        let mut best: Option<(usize, BestResidue)> = None;
        for (axis, numbers) in self.series.numbers.iter().enumerate() {
            if let Some(found) = best_residue(&numbers.values, late, max)
                && best.is_none_or(|(_, best)| found.gain > best.gain + 1e-9)
            {
                best = Some((axis, found));
            }
        }
        let (axis, found) = best?;
        let tries = (max * (max + 1) / 2) as f64 * (self.series.numbers.len() * LATE_ABOVE.len()) as f64;
        let chance = tries * (-found.gain).exp();
        (chance < FALSE_ALARM).then_some((axis, found, chance))
    }

    fn clock(&self, times: &[i64]) -> Option<(Clock, f64)> {
        let peak = spectrum::peak(times, self.span_ns, self.series.times_ns.len())?;
        let chance = peak.false_alarm * LATE_ABOVE.len() as f64;
        let clock = || spectrum::clock(peak.frequency_hz, times, &self.series.times_ns, self.rate_hz);
        (chance < FALSE_ALARM).then(|| (clock(), chance))
    }

    /// The number of packets in a clock's period, or in a small multiple of it, provided that this is a whole
    /// number. Picks the smallest such number that fits the pattern of late packets as well as the clock's
    /// own frequency does.
    ///
    /// A frequency is close enough if, over the capture, it drifts by less than the pattern's arc or by less
    /// than a packet. For 300,000 packets, fewer than one frequency in a hundred is that close by chance.
    fn locked(&self, clock: &Clock, times: &[i64]) -> Option<u64> {
        let bound = ((16.0 / clock.arc.len) as u64).min(1024);
        let drift_hz = |cycles: f64| cycles * 1e9 / self.span_ns as f64;
        // If late packets come and go, a clock that drifts slightly can fit slightly better than a whole
        // number of packets.
        let at_least = 0.8 * clock.arc.gain - DECISIVE;
        (1..=bound).find(|packets| {
            let step_hz = self.rate_hz / *packets as f64;
            let cycles = (clock.frequency_hz / step_hz).round();
            let hz = cycles * step_hz;
            cycles >= 1.0
                && (hz - clock.frequency_hz).abs()
                    <= drift_hz(clock.arc.len.max(1.0 / *packets as f64)).max(clock.error_hz)
                && fold::best_arc(Some(&self.series.times_ns), times, hz).gain >= at_least
        })
    }

    fn packets(
        &self,
        late: &[usize],
        axis: usize,
        residue: &BestResidue,
        false_alarm: f64,
    ) -> (Recurrence, Vec<usize>) {
        let numbers = &self.series.numbers[axis];
        let in_pattern = |place: usize| numbers.values[place] % residue.modulus == residue.residue;
        let packets = self.series.times_ns.len() as f64;
        let period = residue.modulus as f64;
        let frequency_hz = self.rate_hz / period;
        // Over the whole capture, the pattern shifts by less than a packet.
        let error_hz = frequency_hz / packets;
        let times: Vec<i64> = late.iter().map(|place| self.series.times_ns[*place]).collect();
        let by_time = fold::best_arc(Some(&self.series.times_ns), &times, frequency_hz);
        let named = self.named(frequency_hz, error_hz);
        let coincidence = (2.0 * period / packets).min(1.0);
        let (follows, reason) = if residue.gain > by_time.gain + DECISIVE {
            let reason = format!(
                "packets were not sent evenly, and the pattern follows their {}, not time",
                numbers.name
            );
            (Follows::Packets, reason)
        } else if let Some(name) = &named {
            let reason =
                format!("the period is a whole number of packets, but also the period of a clock: {name}");
            (Follows::Indistinguishable, reason)
        } else if coincidence < COINCIDENCE {
            let reason = format!(
                "the period is {} packets to within {:.1e}: the probability that a clock's period is this close \
                 to a whole number of packets is {coincidence:.1e}, and no known clock has this frequency",
                residue.modulus,
                period / packets
            );
            (Follows::Packets, reason)
        } else {
            let reason =
                "packets were sent evenly, and too few periods were seen to exclude a clock".to_owned();
            (Follows::Indistinguishable, reason)
        };
        let residues = self.residues(late, residue, &in_pattern);
        let reason = reason + &multiple(&residues);
        let (inside, rest): (Vec<usize>, Vec<usize>) = late.iter().partition(|place| in_pattern(**place));
        let share = self.share(&in_pattern);
        let recurrence = Recurrence {
            follows,
            reason,
            frequency_hz,
            frequency_error_hz: error_hz,
            period_packets: period,
            late_above_ns: self.threshold,
            late: late.len() as u64,
            late_inside: inside.len() as u64,
            expected_inside: share * late.len() as f64,
            mean_excess_ns: self.mean_excess(&in_pattern),
            false_alarm,
            clock: named,
            residues,
        };
        (recurrence, rest)
    }

    fn time(
        &self,
        late: &[usize],
        clock: &Clock,
        false_alarm: f64,
        locked: Option<u64>,
    ) -> (Recurrence, Vec<usize>) {
        let hz = clock.frequency_hz;
        let in_pattern = |place: usize| clock.arc.contains(phase(self.series.times_ns[place], hz));
        let named = self.named(hz, clock.error_hz);
        let period_packets = self.rate_hz / hz;
        let (follows, reason) = match (&named, locked) {
            (None, Some(packets)) => {
                (Follows::Packets, format!("the pattern recurs exactly every {packets} packets"))
            }
            (Some(name), Some(packets)) => {
                let reason = format!(
                    "the pattern recurs exactly every {packets} packets, which is also the period of a clock: \
                     {name}"
                );
                (Follows::Indistinguishable, reason)
            }
            (_, None) => {
                let reason = format!(
                    "the period is {period_packets:.4} packets, not a whole number: the pattern follows time, \
                     not the packet count"
                );
                (Follows::Clock, reason)
            }
        };
        let (inside, rest): (Vec<usize>, Vec<usize>) = late.iter().partition(|place| in_pattern(**place));
        let recurrence = Recurrence {
            follows,
            reason,
            frequency_hz: hz,
            frequency_error_hz: clock.error_hz,
            period_packets,
            late_above_ns: self.threshold,
            late: late.len() as u64,
            late_inside: inside.len() as u64,
            expected_inside: clock.arc.share * late.len() as f64,
            mean_excess_ns: self.mean_excess(&in_pattern),
            false_alarm,
            clock: named,
            residues: Vec::new(),
        };
        (recurrence, rest)
    }

    /// A known clock with this frequency. For a clock faster than half the packet rate, the aliased frequency
    /// is compared.
    fn named(&self, frequency_hz: f64, error_hz: f64) -> Option<String> {
        let fits = |clock: &&KnownClock| {
            let rest = clock.frequency_hz.rem_euclid(self.rate_hz);
            let seen = rest.min(self.rate_hz - rest);
            (seen - frequency_hz).abs() <= clock.error_hz + 3.0 * error_hz
        };
        self.clocks.iter().find(fits).map(|clock| clock.name.clone())
    }

    /// The numbers that explain the pattern as well as the best one.
    fn residues(
        &self,
        late: &[usize],
        best: &BestResidue,
        in_pattern: &impl Fn(usize) -> bool,
    ) -> Vec<Residue> {
        let packets = self.series.times_ns.len() as f64;
        let mut residues = Vec::new();
        for numbers in &self.series.numbers {
            let Some(first) = late.iter().find(|place| in_pattern(**place)) else { break };
            let residue = numbers.values[*first] % best.modulus;
            let holds = |place: usize| numbers.values[place] % best.modulus == residue;
            let inside = late.iter().filter(|place| holds(**place)).count();
            let share =
                (0..self.series.times_ns.len()).filter(|place| holds(*place)).count() as f64 / packets;
            if gain(inside as u64, late.len() as u64, share) + DECISIVE > best.gain {
                residues.push(Residue { of: numbers.name.clone(), modulus: best.modulus, residue });
            }
        }
        residues
    }

    fn share(&self, in_pattern: &impl Fn(usize) -> bool) -> f64 {
        let packets = self.series.times_ns.len();
        (0..packets).filter(|place| in_pattern(*place)).count() as f64 / packets as f64
    }

    fn mean_excess(&self, in_pattern: &impl Fn(usize) -> bool) -> f64 {
        let (mut inside, mut outside) = ((0_i128, 0_u64), (0_i128, 0_u64));
        // Limits the excess, because otherwise one stall of a millisecond would outweigh all recurring
        // delays.
        let cap = self.threshold.saturating_mul(4);
        for (place, excess) in self.excess.iter().enumerate() {
            let excess = &(*excess).clamp(-cap, cap);
            let sum = if in_pattern(place) { &mut inside } else { &mut outside };
            *sum = (sum.0 + i128::from(*excess), sum.1 + 1);
        }
        let mean = |(sum, count): (i128, u64)| sum as f64 / count.max(1) as f64;
        mean(inside) - mean(outside)
    }
}
