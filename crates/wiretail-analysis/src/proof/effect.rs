//! Differences between two arms, and what follows from them.
//!
//! Two arms are compared within repeats, in which they had the same packets within minutes of each other. The effect is the median of the differences, and its interval
//! reaches from one order statistic of them to another: whatever the distribution, each difference is above the true median as likely as below, so the k-th smallest
//! and the k-th largest of n enclose it with 1 - 2 P(B < k), B binomial of n and 1/2 (Thompson, Annals of Mathematical Statistics 7, 1936; Conover, Practical
//! Nonparametric Statistics, the sign test inverted). Tails of delays have outliers in both arms: means and normal intervals of them would say nothing.
//!
//! Of many levers some would seem to have an effect by chance. So the intervals are wide enough to hold all together with 95 % (Bonferroni).

use wiretail_schema::host::proof::{
    Arm, ArmKind, ArmMedians, Effect, EffectVerdict, Level, LeverEffect, LoadResult, Proof, ProofTrial,
    Statistic,
};

/// Probability that any interval of a statistic leaves out its true median, at most.
const ERROR: f64 = 0.05;

/// What follows from the trials so far, for each load that has some.
pub fn judge(proof: &Proof) -> Vec<LoadResult> {
    let loads = 0..proof.loads.len();
    loads
        .map(|load| {
            let trials: Vec<&ProofTrial> =
                proof.trials.iter().filter(|trial| trial.load == load && trial.invalid.is_empty()).collect();
            load_result(load, &proof.arms, &trials)
        })
        .filter(|result| result.arms.iter().any(|arm| arm.trials > 0))
        .collect()
}

/// Repeats that it takes for every effect of so many levers to have an interval.
pub fn repeats_needed(levers: usize) -> u64 {
    let error = ERROR / levers.max(1) as f64;
    (1..64).find(|repeats| rank(*repeats, error).is_some()).unwrap_or(64) as u64
}

fn load_result(load: usize, arms: &[Arm], trials: &[&ProofTrial]) -> LoadResult {
    let of_arm = |place: usize| trials.iter().filter(move |trial| trial.arm == place).copied();
    let medians = (0..arms.len()).map(|place| {
        let own: Vec<&ProofTrial> = of_arm(place).collect();
        let medians = Statistic::ALL.iter().filter_map(|statistic| median_level(&own, *statistic)).collect();
        ArmMedians { arm: place, trials: own.len(), medians }
    });
    let first = |kind| arms.iter().position(|arm| arm.kind == kind);
    let (as_is, all) = (first(ArmKind::AsIs), first(ArmKind::All));
    let levers = arms.iter().filter(|arm| arm.lever.is_some()).count();
    // Without against with, in this order.
    let compare = |without: Option<usize>, with: Option<usize>, error: f64| -> Vec<Effect> {
        let (Some(without), Some(with)) = (without, with) else { return Vec::new() };
        let (without, with): (Vec<_>, Vec<_>) = (of_arm(without).collect(), of_arm(with).collect());
        Statistic::ALL.iter().map(|statistic| effect(*statistic, &without, &with, error)).collect()
    };
    let lever = |place: usize| {
        let error = ERROR / levers.max(1) as f64;
        match arms[place].kind {
            ArmKind::Without => Some(compare(Some(place), all, error)),
            ArmKind::Alone => Some(compare(as_is, Some(place), error)),
            ArmKind::AsIs | ArmKind::All => None,
        }
    };
    let mut effects: Vec<LeverEffect> =
        (0..arms.len()).filter_map(|arm| Some(LeverEffect { arm, effects: lever(arm)? })).collect();
    for kind in [ArmKind::Without, ArmKind::Alone] {
        for statistic in Statistic::ALL {
            rank_effects(&mut effects, |place| arms[place].kind == kind, statistic);
        }
    }
    LoadResult { load, arms: medians.collect(), whole: compare(as_is, all, ERROR), levers: effects }
}

fn value(trial: &ProofTrial, statistic: Statistic) -> Option<Level> {
    trial.levels.iter().find(|level| level.statistic == statistic).copied()
}

/// The median over trials; of an even number the mean of the two in the middle.
fn median_level(trials: &[&ProofTrial], statistic: Statistic) -> Option<Level> {
    let levels: Vec<Level> = trials.iter().filter_map(|trial| value(trial, statistic)).collect();
    let mut values: Vec<i64> = levels.iter().map(|level| level.value_ns).collect();
    values.sort_unstable();
    Some(Level {
        statistic,
        value_ns: median(&values)?,
        supported: levels.iter().all(|level| level.supported),
    })
}

fn median(sorted: &[i64]) -> Option<i64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(lower + (upper - lower) / 2)
}

/// By how much a statistic is larger without something than with it; `error` is the probability that its interval may be wrong.
fn effect(statistic: Statistic, without: &[&ProofTrial], with: &[&ProofTrial], error: f64) -> Effect {
    let pairs: Vec<(Level, Level)> = without
        .iter()
        .filter_map(|trial| {
            let other = with.iter().find(|other| other.repeat == trial.repeat)?;
            value(trial, statistic).zip(value(other, statistic))
        })
        .collect();
    let mut differences: Vec<i64> = pairs.iter().map(|(a, b)| a.value_ns - b.value_ns).collect();
    differences.sort_unstable();
    let interval_ns =
        rank(differences.len(), error).map(|k| (differences[k - 1], differences[differences.len() - k]));
    let verdict = match interval_ns {
        None => EffectVerdict::TooFew,
        Some((low, _)) if low > 0 => EffectVerdict::Helps,
        Some((_, high)) if high < 0 => EffectVerdict::Harms,
        Some(_) => EffectVerdict::NotSeen,
    };
    Effect {
        statistic,
        pairs: pairs.len(),
        difference_ns: median(&differences),
        interval_ns,
        confidence: (1.0 - error) * 100.0,
        verdict,
        ranks: None,
        supported: pairs.iter().all(|(a, b)| a.supported && b.supported),
    }
}

/// The largest k for which the k-th smallest and the k-th largest of n values enclose the median with an error of at most that.
fn rank(n: usize, error: f64) -> Option<usize> {
    // P(B = i) of a binomial variable of n and 1/2, one after the other.
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut k) = (0.0, 0);
    while k < n {
        below += chance;
        if 2.0 * below > error {
            break;
        }
        chance *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0).then_some(k)
}

/// Gives the levers with an effect their places, the largest effect first: a range where intervals overlap.
fn rank_effects(levers: &mut [LeverEffect], is_meant: impl Fn(usize) -> bool, statistic: Statistic) {
    // By size, whichever way an effect goes.
    let size = |effect: &Effect| {
        let (low, high) = effect.interval_ns.filter(|_| effect.verdict.is_seen())?;
        Some(if low > 0 { (low, high) } else { (-high, -low) })
    };
    let seen: Vec<(i64, i64)> = levers
        .iter()
        .filter(|lever| is_meant(lever.arm))
        .filter_map(|lever| size(Effect::of(&lever.effects, statistic)?))
        .collect();
    for lever in levers.iter_mut().filter(|lever| is_meant(lever.arm)) {
        let Some(effect) = lever.effects.iter_mut().find(|effect| effect.statistic == statistic) else {
            continue;
        };
        effect.ranks = size(effect).map(|(low, high)| {
            let above = seen.iter().filter(|(other, _)| *other > high).count();
            let below = seen.iter().filter(|(_, other)| *other < low).count();
            (above + 1, seen.len() - below)
        });
    }
}

#[cfg(test)]
mod tests {
    use wiretail_schema::host::plan::Profile;
    use wiretail_schema::host::proof::{Lever, PROOF_SCHEMA};
    use wiretail_schema::random::Random;

    use super::*;

    fn trial(arm: usize, repeat: u64, ns: i64) -> ProofTrial {
        let level = |statistic| Level { statistic, value_ns: ns, supported: true };
        ProofTrial {
            number: 0,
            load: 0,
            arm,
            repeat,
            invalid: Vec::new(),
            packets: 1,
            lost: 0,
            levels: Statistic::ALL.map(level).to_vec(),
        }
    }

    fn proof(levers: usize, trials: Vec<ProofTrial>) -> Proof {
        let lever = |name: usize| Lever {
            name: name.to_string(),
            title: String::new(),
            cost: String::new(),
            changes: Vec::new(),
        };
        let levers: Vec<Lever> = (0..levers).map(lever).collect();
        Proof {
            schema: PROOF_SCHEMA.to_owned(),
            wiretail_version: String::new(),
            title: String::new(),
            seed: 1,
            started_s: 0,
            profile: Profile::Optimized,
            cores: "1".to_owned(),
            repeats: 20,
            arms: super::super::arms(&levers, false),
            not_tried: Vec::new(),
            loads: vec!["a".to_owned()],
            trials,
            results: Vec::new(),
            complete: true,
        }
    }

    #[test]
    fn ranks_are_those_of_the_published_table() {
        // Conover, Practical Nonparametric Statistics, table A3 (binomial, p = 0.5): for n = 10 P(B <= 1) = 0.0107; n = 20: P(B <= 5) = 0.0207,
        // P(B <= 3) = 0.0013; n = 5: P(B <= 0) = 0.0312.
        assert_eq!(rank(10, 0.05), Some(2));
        assert_eq!(rank(10, 0.02), Some(1));
        assert_eq!(rank(20, 0.05), Some(6));
        assert_eq!(rank(20, 0.0026), Some(4));
        assert_eq!(rank(5, 0.05), None);
        assert_eq!(rank(6, 0.05), Some(1));
        assert_eq!((rank(0, 0.05), rank(1, 1.0)), (None, Some(1)));
        assert_eq!((repeats_needed(1), repeats_needed(10)), (6, 9));
    }

    #[test]
    fn ranks_equal_the_sum_of_binomials() {
        for n in 1..40_usize {
            // Pascal's triangle, exact.
            let mut row = vec![1_u128];
            for _ in 0..n {
                row = std::iter::once(1)
                    .chain(row.windows(2).map(|pair| pair[0] + pair[1]))
                    .chain([1])
                    .collect();
            }
            for error in [0.05, 0.01, 0.05 / 14.0] {
                let below = |k: usize| row[..k].iter().sum::<u128>() as f64 / 2_f64.powi(n as i32);
                let expected = (1..=n).take_while(|k| 2.0 * below(*k) <= error).last();
                assert_eq!(rank(n, error), expected, "{n} {error}");
            }
        }
    }

    /// Repeats with trials of every arm: arm 1 has all levers at 100 us; without a lever it takes what `cost` adds, and noise.
    fn planted(cost: &[i64], repeats: u64, noise: impl Fn(usize, u64) -> i64) -> Proof {
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            trials.push(trial(0, repeat, 100 + cost.iter().sum::<i64>() + noise(0, repeat)));
            trials.push(trial(1, repeat, 100 + noise(1, repeat)));
            for (place, cost) in cost.iter().enumerate() {
                trials.push(trial(place + 2, repeat, 100 + cost + noise(place + 2, repeat)));
            }
        }
        proof(cost.len(), trials)
    }

    /// Noise with outliers of a thousand times its body, from SplitMix64's mixing.
    fn heavy(seed: u64) -> impl Fn(usize, u64) -> i64 {
        move |arm, repeat| {
            let bits = [arm as u64, repeat].iter().fold(seed, |state, word| Random::new(state ^ word).bits());
            let body = (bits % 21) as i64 - 10;
            if bits >> 58 == 0 { body * 1000 } else { body }
        }
    }

    #[test]
    fn planted_effects_are_found_ranked_and_none_is_invented() {
        for seed in 0..50 {
            let proof = planted(&[0, 500, 0, 200, -100, 0, 0, 0], 20, heavy(seed));
            let [result] = &judge(&proof)[..] else { panic!("one load") };
            let p999 =
                |lever: usize| Effect::of(&result.levers[lever].effects, Statistic::P999).unwrap().clone();
            assert_eq!((p999(1).verdict, p999(1).ranks), (EffectVerdict::Helps, Some((1, 1))), "{seed}");
            assert_eq!((p999(3).verdict, p999(3).ranks), (EffectVerdict::Helps, Some((2, 2))), "{seed}");
            assert_eq!((p999(4).verdict, p999(4).ranks), (EffectVerdict::Harms, Some((3, 3))), "{seed}");
            assert!((p999(1).difference_ns.unwrap() - 500).abs() <= 20, "{seed}");
            let whole = Effect::of(&result.whole, Statistic::Max).unwrap();
            assert_eq!(whole.verdict, EffectVerdict::Helps);
        }
    }

    #[test]
    fn no_more_than_one_proof_in_twenty_sees_an_effect_where_there_is_none() {
        let wrong = (0..2000)
            .filter(|seed| {
                let proof = planted(&[0; 8], 12, heavy(*seed));
                let result = &judge(&proof)[0];
                result.levers.iter().any(|lever| lever.effects[2].verdict.is_seen())
            })
            .count();
        // At most 5 % are expected, 2000 of them: 100 and three standard deviations.
        assert!(wrong <= 130, "{wrong}");
    }

    #[test]
    fn pairs_are_of_the_same_repeat_and_invalid_trials_have_no_say() {
        let mut proof = planted(&[50], 8, |_, _| 0);
        proof.trials.iter_mut().filter(|trial| trial.repeat == 3 && trial.arm == 1).for_each(|trial| {
            trial.invalid.push("packets were dropped".to_owned());
            trial.levels.iter_mut().for_each(|level| level.value_ns = 9_999_999);
        });
        let result = &judge(&proof)[0];
        let effect = &result.levers[0].effects[0];
        assert_eq!((effect.pairs, effect.difference_ns, effect.interval_ns), (7, Some(50), Some((50, 50))));
        assert_eq!(result.arms[1].trials, 7);
        proof.trials.retain(|trial| trial.repeat < 3);
        let few = &judge(&proof)[0].levers[0].effects[0];
        assert_eq!((few.pairs, few.verdict, few.interval_ns), (2, EffectVerdict::TooFew, None));
        proof.trials.clear();
        assert!(judge(&proof).is_empty());
    }

    #[test]
    fn what_can_not_be_told_apart_shares_its_places() {
        let noise = |arm: usize, repeat: u64| if arm > 1 { (repeat as i64 - 10) * 3 } else { 0 };
        let proof = planted(&[100, 104, 900], 20, noise);
        let ranks: Vec<_> =
            judge(&proof)[0].levers.iter().map(|lever| lever.effects[2].ranks.unwrap()).collect();
        assert_eq!(ranks, [(2, 3), (2, 3), (1, 1)]);
    }
}
