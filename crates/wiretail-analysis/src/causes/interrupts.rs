//! Aligns interrupt counters with stalls, to find out which counter, on which core, rose whenever a stall
//! occurred. The counters' clock is unrelated to the packets' clock, so the offset between the two clocks is
//! fitted. The significance of a fit is the probability that an equally good fit occurs by chance. Formula
//! and limits: `docs/kpi/weak-evidence.md`.

use std::collections::BTreeMap;

use wiretail_schema::causes::capture::{
    Alignment, CpuInterrupts, InterruptTable, Interrupts, RisingCounter, Stall,
};
use wiretail_schema::random::Random;

/// Up to this number, all arrangements are tried. If there are more, [`DRAWN`] random ones are tried instead.
const ARRANGEMENTS: u64 = 200_000;
const DRAWN: u64 = 9_999;
/// Number of stalls that are compared, largest first.
const STALLS_MAX: usize = 20;

/// Maximum time between two late packets of the same stall.
const APART_NS: i64 = 100_000_000;

/// Groups packets with a delay of at least `threshold_ns` into stalls, in order of time, and keeps the `most`
/// largest. `packets` are pairs of the time since the first packet and the delay, both in ns, in order of
/// time.
pub fn stalls(packets: impl Iterator<Item = (i64, i64)>, threshold_ns: i64, most: usize) -> Vec<Stall> {
    let mut found: Vec<Stall> = Vec::new();
    let mut last_ns = i64::MIN;
    for (at_ns, delay_ns) in packets.filter(|(_, delay_ns)| *delay_ns >= threshold_ns) {
        match found.last_mut() {
            Some(stall) if at_ns.saturating_sub(last_ns) <= APART_NS => {
                stall.packets += 1;
                if delay_ns > stall.max_delay_ns {
                    (stall.at_ns, stall.max_delay_ns) = (at_ns, delay_ns);
                }
            }
            _ => found.push(Stall { at_ns, packets: 1, max_delay_ns: delay_ns }),
        }
        last_ns = at_ns;
    }
    found.sort_by(|a, b| b.max_delay_ns.cmp(&a.max_delay_ns).then(a.at_ns.cmp(&b.at_ns)));
    found.truncate(most);
    found.sort_by_key(|stall| stall.at_ns);
    found
}

/// Compares counters with the stalls of a capture of length `span_ns`. `cpu` restricts the comparison to one
/// CPU. `seed` seeds the random arrangements if there are too many to try all.
pub fn compare(
    path: &str,
    table: &InterruptTable,
    stalls: &[Stall],
    span_ns: i64,
    cpu: Option<u32>,
    seed: u64,
) -> Interrupts {
    let at_s: Vec<f64> = table.rows.iter().map(|row| row.at_us as f64 * 1e-6).collect();
    let span_s = at_s.last().copied().unwrap_or(0.0) - at_s.first().copied().unwrap_or(0.0);
    let mut cpus: BTreeMap<u32, Vec<RisingCounter>> = BTreeMap::new();
    let mut occasional = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        if cpu.is_some_and(|cpu| cpu != column.cpu) {
            continue;
        }
        let rising = cpus.entry(column.cpu).or_default();
        let rises: Vec<u64> = table
            .rows
            .windows(2)
            .map(|pair| pair[1].counts[place].saturating_sub(pair[0].counts[place]))
            .collect();
        let interrupts: u64 = rises.iter().sum();
        if interrupts == 0 {
            continue;
        }
        let intervals_risen = rises.iter().filter(|rise| **rise > 0).count();
        let per_second = if span_s > 0.0 { interrupts as f64 / span_s } else { 0.0 };
        rising.push(RisingCounter { name: column.name.clone(), interrupts, per_second, intervals_risen });
        // A counter that rises most of the time coincides with every stall anyway.
        if intervals_risen * 2 <= rises.len() {
            occasional.push((column, rises));
        }
    }
    let mut largest: Vec<usize> = (0..stalls.len()).collect();
    largest.sort_by_key(|place| std::cmp::Reverse(stalls[*place].max_delay_ns));
    largest.truncate(STALLS_MAX);
    largest.sort_unstable();
    let events: Vec<f64> = largest.iter().map(|place| stalls[*place].at_ns as f64 * 1e-9).collect();
    let compared = if events.is_empty() || at_s.len() < 3 { 0 } else { occasional.len() };
    let mut alignments: Vec<Alignment> = Vec::new();
    for (column, rises) in occasional.iter().take(compared) {
        let fitting = Fitting { at_s: &at_s, events: &events, span_s: span_ns as f64 * 1e-9 };
        let risen: Vec<usize> = (0..rises.len()).filter(|place| rises[*place] > 0).collect();
        let best = fitting.best(&risen);
        if best.score.0 == 0 {
            continue;
        }
        let (chance, exact) = fitting.chance(best.score, risen.len(), seed);
        let hit = fitting.hit(&risen, best.offset_s);
        alignments.push(Alignment {
            cpu: column.cpu,
            name: column.name.clone(),
            explained: hit.iter().map(|(event, _)| largest[*event]).collect(),
            unmatched: best.score.1.unsigned_abs(),
            offset_low_s: best.low_s,
            offset_high_s: best.high_s,
            interrupts: {
                let mut intervals: Vec<usize> = hit.iter().map(|(_, interval)| *interval).collect();
                intervals.dedup();
                intervals.iter().map(|interval| rises[*interval]).sum()
            },
            chance,
            // Bonferroni correction: a good fit by chance is more likely if the best of several alignments is
            // chosen.
            chance_of_any: (chance * compared as f64).min(1.0),
            exact,
        });
    }
    alignments.sort_by(|a, b| {
        let explained = b.explained.len().cmp(&a.explained.len());
        explained.then(a.chance.total_cmp(&b.chance)).then(b.interrupts.cmp(&a.interrupts)).then_with(|| {
            // TLB shootdowns are also counted as function calls. The more specific name comes first.
            b.name.contains("TLB").cmp(&a.name.contains("TLB"))
        })
    });
    let cpus = cpus
        .into_iter()
        .map(|(cpu, mut rising)| {
            rising.sort_by(|a, b| b.interrupts.cmp(&a.interrupts).then_with(|| a.name.cmp(&b.name)));
            CpuInterrupts { cpu, rising }
        })
        .collect();
    Interrupts { path: path.to_owned(), readings: at_s.len(), span_s, cpus, compared, alignments }
}

/// Number of explained stalls, then the negative number of intervals in the capture in which the counter rose
/// without a stall. Higher is better.
type Score = (usize, isize);

/// The best score, an offset with this score, and the interval of neighboring offsets with the same score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    score: Score,
    offset_s: f64,
    low_s: f64,
    high_s: f64,
}

/// Alignment of a capture with the readings of the counters. The capture begins at `offset_s` of the
/// counters' clock. Only offsets at which the readings cover as much of the capture as possible are
/// considered.
struct Fitting<'a> {
    /// Times of the readings.
    at_s: &'a [f64],
    /// Times of the stalls in the capture.
    events: &'a [f64],
    span_s: f64,
}

impl Fitting<'_> {
    fn bounds(&self) -> (f64, f64) {
        let (first, last) = (self.at_s[0], self.at_s[self.at_s.len() - 1]);
        let other = last - self.span_s;
        (first.min(other), first.max(other))
    }

    /// Indices of the stalls that coincide with rises of the counter, each with the index of the interval in
    /// which the counter rose. `risen` lists these intervals in ascending order.
    fn hit(&self, risen: &[usize], offset_s: f64) -> Vec<(usize, usize)> {
        let in_interval = |at: f64| {
            let interval = self.at_s.partition_point(|reading| *reading <= at).checked_sub(1)?;
            risen.binary_search(&interval).is_ok().then_some(interval)
        };
        let events = self.events.iter().enumerate();
        events.filter_map(|(place, event)| Some((place, in_interval(offset_s + event)?))).collect()
    }

    fn score(&self, risen: &[usize], offset_s: f64) -> Score {
        let mut explained = 0;
        let mut unmatched = 0;
        for interval in risen {
            let (begin, end) = (self.at_s[*interval], self.at_s[interval + 1]);
            let inside = |event: &&f64| (begin..end).contains(&(offset_s + **event));
            let events = self.events.iter().filter(inside).count();
            explained += events;
            if events == 0 && begin >= offset_s && end <= offset_s + self.span_s {
                unmatched += 1;
            }
        }
        (explained, -unmatched)
    }

    /// Offsets at which the score can change.
    fn edges(&self, risen: &[usize]) -> Vec<f64> {
        let (low, high) = self.bounds();
        let mut edges = vec![low, high];
        for interval in risen {
            for at in [self.at_s[*interval], self.at_s[interval + 1]] {
                edges.extend(self.events.iter().map(|event| at - event));
                edges.extend([at, at - self.span_s]);
            }
        }
        edges.retain(|edge| (low..=high).contains(edge));
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        edges
    }

    /// The best offset. Among equal scores, the widest interval is chosen.
    fn best(&self, risen: &[usize]) -> Best {
        let edges = self.edges(risen);
        let mut best: Option<Best> = None;
        let mut open: Option<Best> = None;
        for pair in edges.windows(2) {
            // The score is constant between two edges.
            let offset_s = (pair[0] + pair[1]) / 2.0;
            let score = self.score(risen, offset_s);
            let here = match open {
                Some(before) if before.score == score => Best { high_s: pair[1], ..before },
                _ => Best { score, offset_s, low_s: pair[0], high_s: pair[1] },
            };
            open = Some(here);
            let wider = |best: &Best| here.high_s - here.low_s > best.high_s - best.low_s;
            if best.is_none_or(|best| score > best.score || (score == best.score && wider(&best))) {
                best = Some(here);
            }
        }
        best.unwrap_or_else(|| {
            let offset_s = edges[0];
            Best { score: self.score(risen, offset_s), offset_s, low_s: offset_s, high_s: offset_s }
        })
    }

    /// Probability of a best score of at least `score` for a counter that rises in `count` intervals, if all
    /// arrangements of these intervals are equally likely. It is computed from all arrangements (Fisher's
    /// randomization test), or estimated from random ones as (1 + hits) / (1 + drawn) (Phipson and Smyth 2010).
    /// The second value is true if the probability is exact.
    fn chance(&self, score: Score, count: usize, seed: u64) -> (f64, bool) {
        let intervals = self.at_s.len() - 1;
        if let Some(all) = choose(intervals as u64, count as u64).filter(|all| *all <= ARRANGEMENTS) {
            let mut risen: Vec<usize> = (0..count).collect();
            let mut hits = 0_u64;
            loop {
                hits += u64::from(self.best(&risen).score >= score);
                if !next_arrangement(&mut risen, intervals) {
                    return (hits as f64 / all as f64, true);
                }
            }
        }
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..intervals).collect();
        let mut hits = 0_u64;
        for _ in 0..DRAWN {
            for place in 0..count {
                let other = place + (random.bits() % (intervals - place) as u64) as usize;
                order.swap(place, other);
            }
            let mut risen = order[..count].to_vec();
            risen.sort_unstable();
            hits += u64::from(self.best(&risen).score >= score);
        }
        ((1 + hits) as f64 / (1 + DRAWN) as f64, false)
    }
}

/// n over k; `None` if it exceeds 64 bits.
fn choose(n: u64, k: u64) -> Option<u64> {
    (0..k.min(n.checked_sub(k)?)).try_fold(1_u64, |product, i| Some(product.checked_mul(n - i)? / (i + 1)))
}

/// Advances to the next choice of positions below `n` in lexicographic order. Returns false after the last
/// one.
fn next_arrangement(places: &mut [usize], n: usize) -> bool {
    let k = places.len();
    let Some(moving) = (0..k).rev().find(|place| places[*place] < n - k + place) else { return false };
    places[moving] += 1;
    for place in moving + 1..k {
        places[place] = places[place - 1] + 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretail_schema::causes::capture::{InterruptColumn, InterruptRow};

    fn readings(count: usize) -> Vec<f64> {
        (0..count).map(|second| second as f64 * 1.001).collect()
    }

    fn table(columns: &[(u32, &str, &[usize])], intervals: usize) -> InterruptTable {
        let count =
            |risen: &[usize], row: usize| 3 * risen.iter().filter(|place| **place < row).count() as u64;
        InterruptTable {
            columns: columns
                .iter()
                .map(|(cpu, name, _)| InterruptColumn { cpu: *cpu, name: (*name).to_owned() })
                .collect(),
            rows: (0..=intervals)
                .map(|row| InterruptRow {
                    at_us: row as i64 * 1_001_000,
                    counts: columns.iter().map(|(_, _, risen)| count(risen, row)).collect(),
                })
                .collect(),
        }
    }

    #[test]
    fn groups_close_packets_into_one_stall() {
        let packets = [(0, 5), (100, 70), (200, 90), (300, 5), (500_000_000, 60), (500_000_100, 20)];
        let found = stalls(packets.into_iter(), 50, 10);
        assert_eq!(
            found,
            [
                Stall { at_ns: 200, packets: 2, max_delay_ns: 90 },
                Stall { at_ns: 500_000_000, packets: 1, max_delay_ns: 60 },
            ]
        );
        assert_eq!(stalls(packets.into_iter(), 50, 1).len(), 1);
    }

    #[test]
    fn aligns_and_names_injected_stalls() {
        let every: Vec<usize> = (0..77).collect();
        let table = table(
            &[
                (0, "timer", &every),
                (1, "TLB shootdowns", &[41, 51, 72]),
                (1, "mouse", &[3]),
                (2, "idle", &[]),
            ],
            77,
        );
        let stall = |at_ns: i64| Stall { at_ns, packets: 3, max_delay_ns: 1000 };
        let found = [stall(1_042_000_000), stall(11_284_000_000)];
        let result = compare("irq.csv", &table, &found, 29_976_000_000, None, 1);
        assert_eq!(result.compared, 2);
        let best = &result.alignments[0];
        assert_eq!(
            (best.name.as_str(), best.explained.clone(), best.unmatched),
            ("TLB shootdowns", vec![0, 1], 0)
        );
        assert!(best.offset_low_s > 39.9 && best.offset_high_s < 41.0, "{best:?}");
        assert_eq!(best.interrupts, 6);
        assert!(best.exact && best.chance > 0.0 && best.chance < 0.2, "{best:?}");
        assert!(result.cpus.iter().any(|cpu| cpu.cpu == 2 && cpu.rising.is_empty()));
        let none = compare("irq.csv", &table, &[], 29_976_000_000, Some(2), 1);
        assert!(none.alignments.is_empty() && none.cpus.len() == 1);
    }

    /// The best score from trying offsets one by one and checking each interval.
    fn best_by_trying(at_s: &[f64], events: &[f64], span_s: f64, risen: &[usize]) -> Score {
        let fitting = Fitting { at_s, events, span_s };
        let (low, high) = fitting.bounds();
        let tries = 40_000;
        (0..=tries)
            .map(|step| {
                let offset = low + (high - low) * f64::from(step) / f64::from(tries) + 1e-7;
                let within = |place: usize, event: &f64| {
                    offset + event >= at_s[place] && offset + event < at_s[place + 1]
                };
                let explained = events
                    .iter()
                    .filter(|event| (0..at_s.len() - 1).any(|i| within(i, event) && risen.contains(&i)))
                    .count();
                let unmatched = risen
                    .iter()
                    .filter(|i| at_s[**i] >= offset && at_s[**i + 1] <= offset + span_s)
                    .filter(|i| !events.iter().any(|event| within(**i, event)))
                    .count();
                (explained, -(unmatched as isize))
            })
            .max()
            .unwrap_or_default()
    }

    #[test]
    fn best_offset_equals_exhaustive_search() {
        let mut random = Random::new(7);
        for _ in 0..20 {
            let at_s = readings(13);
            let events: Vec<f64> = (0..3).map(|_| (random.bits() % 5000) as f64 / 1000.0).collect();
            let risen: Vec<usize> = (0..12).filter(|_| random.bits().is_multiple_of(3)).collect();
            let fitting = Fitting { at_s: &at_s, events: &events, span_s: 5.0 };
            let best = fitting.best(&risen);
            assert_eq!(best.score, best_by_trying(&at_s, &events, 5.0, &risen), "{events:?} {risen:?}");
            assert_eq!(fitting.hit(&risen, best.offset_s).len(), best.score.0);
        }
    }

    #[test]
    fn chance_equals_share_of_random_counters_with_equal_fit() {
        let at_s = readings(31);
        let events = [1.3, 4.9];
        let fitting = Fitting { at_s: &at_s, events: &events, span_s: 8.0 };
        let score = (2, 0);
        let (chance, exact) = fitting.chance(score, 3, 1);
        assert!(exact);
        let mut random = Random::new(99);
        let tries = 20_000;
        let mut hits = 0;
        for _ in 0..tries {
            let mut risen: Vec<usize> = Vec::new();
            while risen.len() < 3 {
                let place = (random.bits() % 30) as usize;
                if !risen.contains(&place) {
                    risen.push(place);
                }
            }
            risen.sort_unstable();
            hits += u32::from(fitting.best(&risen).score >= score);
        }
        let simulated = f64::from(hits) / f64::from(tries);
        let error = (chance * (1.0 - chance) / f64::from(tries)).sqrt();
        assert!((chance - simulated).abs() < 5.0 * error, "{chance} {simulated}");
    }

    #[test]
    fn chance_is_calibrated_for_random_alignments() {
        // For counters that rise at random, the computed probability is at most 5 % in at most 5 % of cases.
        let mut random = Random::new(3);
        let at_s = readings(25);
        let mut small = 0;
        for _ in 0..200 {
            let events: Vec<f64> = (0..2).map(|_| (random.bits() % 9000) as f64 / 1000.0).collect();
            let mut places: Vec<usize> = (0..24).collect();
            for place in 0..2 {
                let other = place + (random.bits() % (24 - place) as u64) as usize;
                places.swap(place, other);
            }
            let mut risen = places[..2].to_vec();
            risen.sort_unstable();
            let fitting = Fitting { at_s: &at_s, events: &events, span_s: 9.0 };
            let (chance, _) = fitting.chance(fitting.best(&risen).score, 2, 1);
            small += u32::from(chance <= 0.1);
        }
        assert!(small <= 35, "{small} of 200 at 10 %");
    }

    #[test]
    fn enumerates_each_arrangement_once() {
        let mut places = vec![0, 1, 2];
        let mut count = 1;
        while next_arrangement(&mut places, 9) {
            count += 1;
        }
        assert_eq!((Some(count), choose(9, 3)), (Some(84), Some(84)));
        assert_eq!((choose(77, 3), choose(3, 4), choose(200, 100)), (Some(73_150), None, None));
    }
}
