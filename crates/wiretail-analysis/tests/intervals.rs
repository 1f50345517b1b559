//! Coverage of the intervals of a trial, width of the intervals, and false verdicts at the edge of a budget, for
//! simulated packets that depend on each other.
//!
//! `WIRETAIL_SEEDS=1000 cargo test --release -p wiretail-analysis --test intervals -- --nocapture` prints the
//! tables of docs/confidence.md.

use wiretail_analysis::metrics::batches::{BatchTally, Batches, dispersions};
use wiretail_analysis::stats::counts::Counts;
use wiretail_analysis::stats::dispersion::dispersion;
use wiretail_analysis::stats::quantile::{PERCENTILES, dependent_distribution};
use wiretail_analysis::stats::random::{Random, exponential};
use wiretail_analysis::summary::steady_state::steady_state;
use wiretail_analysis::summary::verdict::{episode_packets, tail_dispersion, verdict};
use wiretail_schema::summary::{Outcome, Percentile};

/// A packet every 20 us: 50,000 per second.
const GAP_NS: i64 = 20_000;
/// Packets of the simulation that determines the true percentiles.
const LONG: usize = 20_000_000;

/// How delays depend on each other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Independent,
    /// Bursts of 20 late packets, each of which drains from a random height.
    Bursts,
    /// Periods of 50 packets on average with ten times the delay, 2,000 packets apart.
    OnOff,
    /// The delay doubles from the first packet to the last.
    Drift,
}

impl Case {
    fn packets(self) -> usize {
        if self == Self::Independent { 40_000 } else { 400_000 }
    }

    /// Delays of a trial, in ns.
    fn delays(self, seed: u64, packets: usize) -> impl Iterator<Item = i64> {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(self as u64));
        let (mut height, mut left, mut on) = (0.0, 0, false);
        (0..packets).map(move |packet| {
            let base = 5_000.0 + 10_000.0 * exponential(&mut random);
            let delay = match self {
                Self::Independent => base,
                Self::Bursts => {
                    if left == 0 && random.below(4000) == 0 {
                        (left, height) = (20, 100_000.0 + 200_000.0 * exponential(&mut random));
                    }
                    let late = if left > 0 { height * f64::from(left) / 20.0 } else { 0.0 };
                    left -= i32::from(left > 0);
                    base + late
                }
                Self::OnOff => {
                    on = if on { random.below(50) != 0 } else { random.below(2000) == 0 };
                    if on { 10.0 * base } else { base }
                }
                Self::Drift => base * (1.0 + packet as f64 / packets as f64),
            };
            delay as i64
        })
    }
}

/// The tallies of one trial.
struct Trial {
    counts: Counts,
    batches: Batches,
}

fn trial(case: Case, seed: u64, packets: usize) -> Trial {
    let (mut counts, mut batches) = (Counts::new(4096), BatchTally::default());
    for (packet, delay) in (0..).zip(case.delays(seed, packets)) {
        counts.add(delay);
        batches.arrive(packet * GAP_NS + delay, delay);
    }
    Trial { counts, batches: batches.finished() }
}

impl Trial {
    fn percentile(&self, percent: f64, dependent: bool) -> Percentile {
        let indices = if dependent { dispersions(&self.batches, &PERCENTILES) } else { Vec::new() };
        let found = dependent_distribution(&self.counts, &indices);
        *found.percentiles.iter().find(|p| p.percentile == percent).unwrap()
    }

    /// Verdict on a limit at 99.9 %.
    fn verdict(&self, limit_ns: i64, dependent: bool) -> Outcome {
        let budget = format!("{limit_ns}ns@99.9%").parse().unwrap();
        let mut late = 0;
        self.counts.for_each(|delay, times| late += if delay > limit_ns { times } else { 0 });
        let index = if dependent {
            let all = dispersions(&self.batches, &PERCENTILES);
            let found = dependent_distribution(&self.counts, &all);
            let own = dispersion(&self.batches.beyond(limit_ns)).unwrap_or(1.0);
            let per_limit = limit_ns as f64 / GAP_NS as f64;
            episode_packets(own, tail_dispersion(&found.percentiles, &all), late, per_limit)
        } else {
            1.0
        };
        verdict(&budget, self.counts.count(), late, index).outcome
    }
}

fn seeds() -> u64 {
    std::env::var("WIRETAIL_SEEDS").map_or(60, |text| text.parse().expect("WIRETAIL_SEEDS is a number"))
}

/// The true percentile: that of a much longer trial.
fn true_percentile(case: Case, percent: f64) -> i64 {
    trial(case, u64::MAX, LONG).percentile(percent, false).value_ns
}

/// Standard deviation of a sample.
fn deviation(values: &[i64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<i64>() as f64 / n;
    (values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

#[test]
fn intervals_cover_true_percentiles_of_dependent_packets() {
    println!("case         percentile  supported  covered  today   width/oracle  today   n/n_eff");
    for case in [Case::Independent, Case::Bursts, Case::OnOff] {
        let trials: Vec<Trial> = (0..seeds()).map(|seed| trial(case, seed, case.packets())).collect();
        for percent in [50.0, 99.0, 99.9] {
            let actual = true_percentile(case, percent);
            let mut values: Vec<i64> = trials.iter().map(|t| t.percentile(percent, false).value_ns).collect();
            values.sort_unstable();
            let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
            // Few seeds do not determine the ends of the distribution, but its deviation.
            let oracle =
                if seeds() >= 1000 { (at(0.975) - at(0.025)) as f64 } else { 3.92 * deviation(&values) };
            let covers = |p: &Percentile| p.low_ns <= actual && p.high_ns.is_none_or(|high| high >= actual);
            let width = |p: &Percentile| (p.high_ns.unwrap() - p.low_ns) as f64;
            let of = |dependent: bool| {
                let found: Vec<Percentile> =
                    trials.iter().map(|t| t.percentile(percent, dependent)).filter(|p| p.supported).collect();
                let n = found.len() as f64;
                let covered = found.iter().filter(|p| covers(p)).count() as f64 / n;
                let wide = found.iter().map(width).sum::<f64>() / n / oracle;
                let packets = case.packets() as f64;
                let shrunk =
                    found.iter().map(|p| packets / p.effective_packets.map_or(packets, |e| e as f64));
                (n / trials.len() as f64, covered, wide, shrunk.sum::<f64>() / n)
            };
            let (supported, covered, wide, shrunk) = of(true);
            let (_, naive, narrow, _) = of(false);
            println!(
                "{case:<12?} {percent:>10}  {:>8.1} %  {:>5.1} %  {:>4.1} %  {wide:>12.2}  {narrow:>5.2}  {shrunk:>8.1}",
                supported * 100.0,
                covered * 100.0,
                naive * 100.0,
            );
            assert!(supported > 0.5, "{case:?} {percent}: only {supported} are supported");
            // With 60 seeds, three standard deviations of 95 % are 8.4 %.
            assert!(covered >= if seeds() >= 1000 { 0.93 } else { 0.86 }, "{case:?} {percent}: {covered}");
            assert!(wide < if seeds() >= 1000 { 1.3 } else { 1.8 }, "{case:?} {percent}: {wide}");
        }
    }
}

#[test]
fn drift_is_reported_and_other_dependence_is_not() {
    println!("case         not steady");
    for case in [Case::Independent, Case::Bursts, Case::OnOff, Case::Drift] {
        let reported = (0..seeds())
            .filter(|seed| !steady_state(&trial(case, *seed, case.packets()).batches).unwrap().steady)
            .count() as f64
            / seeds() as f64;
        println!("{case:<12?} {:>8.1} %", reported * 100.0);
        assert!(
            if case == Case::Drift { reported >= 0.95 } else { reported <= 0.05 },
            "{case:?}: {reported}"
        );
    }
}

#[test]
fn verdicts_at_edge_of_budget_rarely_pass() {
    println!("case         packets   PASS    FAIL   today: PASS    FAIL");
    for case in [Case::Independent, Case::Bursts, Case::OnOff] {
        let edge = true_percentile(case, 99.9);
        for packets in [4_000, 20_000, 100_000, 400_000] {
            let trials: Vec<Trial> = (0..seeds()).map(|seed| trial(case, seed, packets)).collect();
            let share = |dependent: bool, outcome: Outcome| {
                trials.iter().filter(|t| t.verdict(edge, dependent) == outcome).count() as f64
                    / seeds() as f64
            };
            let passed = share(true, Outcome::Pass);
            // With 60 seeds, two standard deviations of 5 % are 5.6 %.
            let most = if seeds() >= 1000 { 0.05 } else { 0.1 };
            assert!(case == Case::OnOff || passed <= most, "{case:?} {packets}: {passed}");
            let shares = [true, false].map(|d| [Outcome::Pass, Outcome::Fail].map(|o| share(d, o)));
            println!(
                "{case:<12?} {packets:>7}  {:>4.1} %  {:>4.1} %        {:>4.1} %  {:>4.1} %",
                shares[0][0] * 100.0,
                shares[0][1] * 100.0,
                shares[1][0] * 100.0,
                shares[1][1] * 100.0
            );
        }
    }
}
