//! What disturbed the machine while it was calibrated, as it came: stalls of the device, and of the sender beside it. Loads that are
//! checked meet the same ones at other moments.

use anyhow::{Context, Result};
use wiretail_analysis::prediction::queueing::comparison::{Predicted, judged};
use wiretail_analysis::prediction::queueing::{Rounds, predict_rounds, simulate};
use wiretail_analysis::stats::counts::Counts;
use wiretail_schema::prediction::queueing::{Arrivals, Length, QueueingModel};
use wiretail_schema::random::Random;
use wiretail_schema::run::stalls::StalledRole;

use super::pairs::Load;
use super::replay::with_stalls;
use super::trials::{Chosen, Times};
use crate::run::output::packets::of_trial;

/// Stalls as (start, length) in ns, in order of their starts.
type Spans = Vec<(f64, f64)>;

/// Those of a trial by which the model was calibrated.
struct Interference {
    /// Its time ([`Times`]).
    time: u64,
    /// How long it was watched, in ns from 0 on.
    span_ns: f64,
    device: Spans,
    sender: Spans,
}

/// Those of all trials by which the model was calibrated, where the device lists its stalls.
pub struct Interferences {
    each: Vec<Interference>,
    /// Shorter stalls are not told from the loop's own work, in ns.
    threshold_ns: f64,
}

impl Interferences {
    /// Of the trials by which the model was calibrated; none where a device lists no stalls.
    ///
    /// # Errors
    /// Packets or lists that can't be read.
    pub fn of_trials(known: &[Chosen], times: &Times, threshold_ns: f64) -> Result<Self> {
        let mut each = Vec::new();
        // Most devices keep no list. Of one that does, an empty one is a trial that nothing disturbed.
        let mut listed = false;
        for trial in known {
            listed |= !trial.stalls(StalledRole::Device, 0)?.is_empty();
        }
        for trial in known.iter().filter(|_| listed) {
            let crossed = of_trial(&trial.run, &trial.trial, &trial.record)?;
            let Some((time, (first, last))) = times.of(trial).zip(crossed.first().zip(crossed.last())) else {
                continue;
            };
            let span_ns = (last.at_ns - first.at_ns) as f64;
            let within = |role| -> Result<Spans> {
                let mut spans = trial.stalls(role, first.at_ns)?;
                spans.retain(|span| (0.0..span_ns).contains(&span.0));
                Ok(spans)
            };
            let (device, sender) = (within(StalledRole::Device)?, within(StalledRole::Generator)?);
            if span_ns > 0.0 {
                each.push(Interference { time, span_ns, device, sender });
            }
        }
        Ok(Self { each, threshold_ns })
    }

    /// A load at a device as it was at one time, with the disturbances of that time in the place of the model's interrupts. None where
    /// none were listed.
    ///
    /// # Errors
    /// A load that can't be simulated.
    pub fn predict(
        &self,
        model: &QueueingModel,
        time: u64,
        load: &Load,
        seed: u64,
    ) -> Result<Option<Predicted>> {
        let known: Vec<&Interference> = self.each.iter().filter(|one| one.time == time).collect();
        if known.is_empty() {
            return Ok(None);
        }
        let mut random = Random::new(seed);
        let (mut all, mut typical) = (Counts::new(super::check::PAGES), Vec::new());
        // Each of them as often.
        let rounds = (load.rounds.rounds as usize).next_multiple_of(known.len());
        for (number, interference) in (0..rounds as u64).zip(known.iter().cycle()) {
            let due_ns = due(load, seed.wrapping_add(number))?;
            let until_ns = due_ns.last().copied().unwrap_or(0.0);
            let moved = |spans: &Spans, by_ns| moved(spans, interference.span_ns, by_ns, until_ns);
            let by_ns = random.uniform() * interference.span_ns;
            let model_now = with_stalls(model, moved(&interference.device, by_ns), self.threshold_ns);
            let times_ns = stalled(due_ns, &moved(&interference.sender, by_ns), model.sender_spacing_ns);
            let once = Rounds { rounds: 1, ..load.rounds };
            let arrivals = Arrivals::Recorded { times_ns };
            let seed = seed.wrapping_add(number);
            let (_, counts) = predict_rounds(&model_now, &arrivals, load.packets, seed, once, |_| ())
                .context("with the stalls of the calibration")?;
            typical.push(judged(&counts));
            all.absorb(&counts);
        }
        Ok(Some(Predicted::new(all, typical)))
    }
}

/// When the packets of a load are due, in ns.
fn due(load: &Load, seed: u64) -> Result<Vec<f64>> {
    let mut times_ns = Vec::new();
    let at_once = QueueingModel::serving(Length::Constant(0.0), load.packets.max(1), 1);
    simulate(&at_once, &load.arrivals, load.packets, seed, |at_ns, _| times_ns.push(at_ns))?;
    Ok(times_ns)
}

/// Spans of a time that is gone through in a circle, from another moment on, until `until_ns`.
fn moved(spans: &Spans, circle_ns: f64, by_ns: f64, until_ns: f64) -> Spans {
    let mut first: Spans =
        spans.iter().map(|span| ((span.0 + by_ns).rem_euclid(circle_ns), span.1)).collect();
    first.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let circles = (until_ns / circle_ns) as u64 + 1;
    (0..circles)
        .flat_map(|circle| first.iter().map(move |span| (span.0 + circle as f64 * circle_ns, span.1)))
        .collect()
}

/// When a sender sends what is due that these hold, and that needs so long from one packet to the next.
fn stalled(mut due_ns: Vec<f64>, spans: &Spans, spacing_ns: f64) -> Vec<f64> {
    let (mut ready_ns, mut next) = (f64::NEG_INFINITY, 0);
    for at_ns in &mut due_ns {
        *at_ns = at_ns.max(ready_ns);
        while let Some((start_ns, length_ns)) = spans.get(next).filter(|span| span.0 <= *at_ns) {
            *at_ns = at_ns.max(start_ns + length_ns);
            next += 1;
        }
        ready_ns = *at_ns + spacing_ns;
    }
    due_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each ms the device stands still for 50 us and its sender for the first 40 of these. Of evenly spaced packets, which take 1 us and
    /// come a third of a ms apart, 4 % are sent behind the sender's stall and wait for 10 us, 1 % come later and wait for less, and
    /// one in a thousand is interrupted for all of the 50 us.
    #[test]
    fn a_stall_that_outlasts_the_senders_is_waited_for() {
        let stalls = |length_ns: f64| (0..100).map(|at| (f64::from(at) * 1e6, length_ns)).collect();
        let [device, sender] = [50_000.0, 40_000.0].map(stalls);
        let one = Interference { time: 7, span_ns: 1e8, device, sender };
        let known = Interferences { each: vec![one], threshold_ns: 2000.0 };
        let model = QueueingModel::serving(Length::Constant(1000.0), 64, 1);
        let load = Load {
            arrivals: Arrivals::Constant { rate_pps: 3001.7 },
            packets: 3000,
            rounds: Rounds { rounds: 40, warm_up_ns: f64::NEG_INFINITY },
            seed: 1,
        };
        assert!(
            known.predict(&model, 8, &load, 1).expect("a load").is_none(),
            "nothing is known of that time"
        );
        let predicted = known.predict(&model, 7, &load, 1).expect("a load").expect("disturbances");
        let (mut all, mut stalled, mut shorter, mut interrupted) = (0.0, 0.0, 0.0, 0.0);
        predicted.counts().for_each(|delay_ns, times| {
            let times = times as f64;
            all += times;
            match delay_ns {
                1000 => (),
                10_999..=11_001 => stalled += times,
                51_000 => interrupted += times,
                1001..=10_998 => shorter += times,
                other => panic!("{other} ns"),
            }
        });
        for (found, share) in [(stalled, 0.04), (shorter, 0.01), (interrupted, 0.001)] {
            assert!((found / all / share - 1.0).abs() < 0.15, "{} instead of {share}", found / all);
        }
    }

    #[test]
    fn what_is_due_while_the_sender_is_stalled_leaves_behind() {
        let due = vec![0.0, 10.0, 20.0, 30.0, 40.0, 50.0];
        let spans = vec![(9.0, 12.0), (42.0, 5.0), (43.0, 9.0)];
        assert_eq!(stalled(due.clone(), &spans, 0.0), [0.0, 21.0, 21.0, 30.0, 40.0, 52.0]);
        assert_eq!(stalled(due.clone(), &spans, 4.0), [0.0, 21.0, 25.0, 30.0, 40.0, 52.0]);
        assert_eq!(stalled(due.clone(), &Vec::new(), 0.0), due);
    }

    #[test]
    fn stalls_come_at_other_moments_as_often() {
        let spans = vec![(10.0, 1.0), (80.0, 2.0)];
        assert_eq!(moved(&spans, 100.0, 0.0, 50.0), spans);
        assert_eq!(moved(&spans, 100.0, 30.0, 150.0), [(10.0, 2.0), (40.0, 1.0), (110.0, 2.0), (140.0, 1.0)]);
    }
}
