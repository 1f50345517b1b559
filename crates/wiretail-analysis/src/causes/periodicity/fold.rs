//! Folding: groups all packets and late packets by the residue of a number, or by their phase at a frequency.
//! The result shows whether one residue, or one arc of the phase, has more late packets than expected from
//! the group's share of all packets, and how many more.

/// Computes n · KL(k/n ‖ share) with k = `inside` and n = `late`. If `late` packets are drawn at random, at
/// least `inside` of them belong to a given `share` of all packets with a probability of at most e^-gain
/// (Hoeffding 1963; for drawing without replacement Chvátal 1979, "The tail of the hypergeometric
/// distribution"). Returns 0 if `inside` does not exceed the expected number.
pub fn gain(inside: u64, late: u64, share: f64) -> f64 {
    let (k, n) = (inside as f64, late as f64);
    let part = k / n;
    if late == 0 || part <= share || share <= 0.0 {
        return 0.0;
    }
    let outside = if inside == late { 0.0 } else { (n - k) * ((1.0 - part) / (1.0 - share)).ln() };
    k * (part / share).ln() + outside
}

/// The best residue of one modulus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestResidue {
    pub modulus: u64,
    pub residue: u64,
    /// Number of late packets with this residue.
    pub inside: u64,
    /// [`gain`] of this residue.
    pub gain: f64,
}

/// Finds the modulus from 2 to `max`, and its residue, at which late packets are most concentrated. `numbers`
/// are the numbers of all packets; `late` are the positions of the late ones. Returns `None` if no residue
/// has more than three late packets.
pub fn best_residue(numbers: &[u64], late: &[usize], max: u64) -> Option<BestResidue> {
    let mut best: Option<BestResidue> = None;
    let mut held = vec![0_u64; max as usize];
    let all = numbers.len() as f64;
    for modulus in 2..=max {
        let held = &mut held[..modulus as usize];
        held.fill(0);
        for place in late {
            held[(numbers[*place] % modulus) as usize] += 1;
        }
        let Some((residue, inside)) = held.iter().copied().enumerate().max_by_key(|(_, count)| *count) else {
            continue;
        };
        // For consecutive numbers, a residue has at most one packet more than 1 / modulus of all packets.
        let usual = gain(inside, late.len() as u64, (1.0 / modulus as f64) + 1.0 / all);
        if inside > 3 && best.is_none_or(|best| usual > best.gain) {
            let residue = residue as u64;
            let holding = numbers.iter().filter(|number| *number % modulus == residue).count();
            let exact = gain(inside, late.len() as u64, holding as f64 / all);
            if best.is_none_or(|best| exact > best.gain) {
                best = Some(BestResidue { modulus, residue, inside, gain: exact });
            }
        }
    }
    best
}

/// Number of bins of the phase. The number of bins in an arc is a power of two.
const BINS: usize = 1024;

/// The arc of a frequency's phase with the strongest concentration of late packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestArc {
    /// Start of the arc, in cycles.
    pub begin: f64,
    /// Length of the arc, in cycles.
    pub len: f64,
    /// Number of late packets in the arc.
    pub inside: u64,
    /// Share of all packets in the arc.
    pub share: f64,
    /// [`gain`] of this arc.
    pub gain: f64,
}

impl BestArc {
    /// Whether a phase, in cycles, lies in the arc.
    pub fn contains(&self, phase: f64) -> bool {
        (phase - self.begin).rem_euclid(1.0) < self.len
    }
}

/// Phase of a time, in cycles from 0 up to 1.
pub fn phase(at_ns: i64, frequency_hz: f64) -> f64 {
    (at_ns as f64 * 1e-9 * frequency_hz).rem_euclid(1.0)
}

fn histogram(times: impl Iterator<Item = i64>, frequency_hz: f64) -> Vec<u32> {
    let mut bins = vec![0; BINS];
    for at_ns in times {
        bins[((phase(at_ns, frequency_hz) * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    bins
}

/// Finds the best arc of a frequency. `times` are the times of all packets, `late` the times of
/// the late packets.
/// Without `times`, all packets are assumed to be evenly spread over the phase.
pub fn best_arc(times: Option<&[i64]>, late: &[i64], frequency_hz: f64) -> BestArc {
    let late_bins = histogram(late.iter().copied(), frequency_hz);
    let all_bins = times.map(|times| histogram(times.iter().copied(), frequency_hz));
    let all = times.map_or(BINS, <[i64]>::len) as f64;
    let mut best = BestArc { begin: 0.0, len: 1.0, inside: late.len() as u64, share: 1.0, gain: 0.0 };
    let mut width = 1;
    while width < BINS {
        let mut inside: u32 = late_bins[..width].iter().sum();
        let mut packets: u32 = all_bins.as_ref().map_or(width as u32, |bins| bins[..width].iter().sum());
        for begin in 0..BINS {
            let end = (begin + width) % BINS;
            // An arc without packets has no share to compare with.
            if packets > 0 {
                let share = f64::from(packets) / all;
                let gain = gain(u64::from(inside), late.len() as u64, share);
                if gain > best.gain {
                    let (begin, len) = (begin as f64 / BINS as f64, width as f64 / BINS as f64);
                    best = BestArc { begin, len, inside: u64::from(inside), share, gain };
                }
            }
            inside = inside + late_bins[end] - late_bins[begin];
            if let Some(bins) = &all_bins {
                packets = packets + bins[end] - bins[begin];
            }
        }
        width *= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probability that at least `k` of `n` packets, drawn from `all` without replacement, are among the
    /// `marked` ones.
    fn hypergeometric_tail(all: u64, marked: u64, n: u64, k: u64) -> f64 {
        let ln_choose =
            |n: u64, k: u64| -> f64 { (1..=k).map(|i| ((n - k + i) as f64).ln() - (i as f64).ln()).sum() };
        let whole = ln_choose(all, n);
        (k..=n.min(marked))
            .filter(|hit| n - hit <= all - marked)
            .map(|hit| (ln_choose(marked, hit) + ln_choose(all - marked, n - hit) - whole).exp())
            .sum()
    }

    #[test]
    fn gain_bounds_hypergeometric_tail() {
        for (all, marked, n) in [(100, 10, 20), (60, 30, 7), (1000, 31, 50), (40, 39, 5)] {
            for k in 0..=n.min(marked) {
                let tail = hypergeometric_tail(all, marked, n, k);
                let bound = (-gain(k, n, marked as f64 / all as f64)).exp();
                assert!(tail <= bound * (1.0 + 1e-9), "{all} {marked} {n} {k}: {tail} {bound}");
            }
        }
        // The bound is tight: the probability that five of five packets fall into a given tenth is 1e-5.
        assert!((gain(5, 5, 0.1) - 1e5_f64.ln()).abs() < 1e-12);
        assert_eq!((gain(0, 0, 0.5), gain(2, 4, 0.5)), (0.0, 0.0));
    }

    #[test]
    fn finds_injected_residues_and_arcs() {
        let numbers: Vec<u64> = (945..30_945).collect();
        let late: Vec<usize> =
            (0..30_000).filter(|place| numbers[*place] % 96 == 17 || place % 1009 == 5).collect();
        let best = best_residue(&numbers, &late, 500).unwrap();
        assert_eq!((best.modulus, best.residue), (96, 17));
        assert_eq!(best_residue(&numbers, &[1, 2], 500), None);

        let times: Vec<i64> = (0..30_000).map(|place| place * 99_921).collect();
        let late: Vec<i64> =
            times.iter().copied().filter(|at| (0.30..0.34).contains(&phase(*at, 37.3))).collect();
        let arc = best_arc(Some(&times), &late, 37.3);
        assert!(arc.contains(0.32) && !arc.contains(0.25) && !arc.contains(0.40), "{arc:?}");
        assert_eq!(arc.inside, late.len() as u64);
    }
}
