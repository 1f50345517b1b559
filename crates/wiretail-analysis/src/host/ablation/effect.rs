//! Differences between two configurations, and conclusions from them.
//!
//! Two configurations are compared within each repeat, in which both processed the same packets within minutes of
//! each other, in a random order. If a setting has no effect, only this order decides which of them is slower. The
//! test and the interval of the effect are those of [`crate::stats::ranks`] for paired samples. The interval
//! excludes 0 if and only if the test detects an effect.
//!
//! The more factors are tested, the more likely it is that one of them appears to have an effect by chance.
//! The intervals are therefore so wide that all of them hold simultaneously with 95 % confidence
//! (Bonferroni).

use wiretail_schema::host::ablation::{
    Ablation, AblationTrial, Configuration, ConfigurationKind, ConfigurationMedians, Effect, EffectVerdict,
    FactorEffect, Level, LoadResult, Statistic,
};

use crate::stats::list::median;
use crate::stats::ranks::{Design, shift, trials_needed};

/// Maximum probability that at least one interval of a statistic excludes its true median.
const ERROR: f64 = 0.05;

/// Results per load, from the valid trials so far.
pub fn judge(ablation: &Ablation) -> Vec<LoadResult> {
    let loads = 0..ablation.loads.len();
    loads
        .map(|load| {
            let trials: Vec<&AblationTrial> = ablation
                .trials
                .iter()
                .filter(|trial| trial.load == load && trial.invalid.is_empty())
                .collect();
            load_result(load, &ablation.configurations, &trials)
        })
        .filter(|result| result.configurations.iter().any(|configuration| configuration.trials > 0))
        .collect()
}

/// Minimum number of repeats from which intervals can be computed for the effects of `factors` factors.
pub fn repeats_needed(factors: usize) -> u64 {
    trials_needed(Design::Paired, ERROR / factors.max(1) as f64) as u64
}

fn load_result(load: usize, configurations: &[Configuration], trials: &[&AblationTrial]) -> LoadResult {
    let of_configuration =
        |place: usize| trials.iter().filter(move |trial| trial.configuration == place).copied();
    let medians = (0..configurations.len()).map(|place| {
        let own: Vec<&AblationTrial> = of_configuration(place).collect();
        let medians = Statistic::ALL.iter().filter_map(|statistic| median_level(&own, *statistic)).collect();
        ConfigurationMedians { configuration: place, trials: own.len(), medians }
    });
    let first = |kind| configurations.iter().position(|configuration| configuration.kind == kind);
    let (as_is, all) = (first(ConfigurationKind::AsIs), first(ConfigurationKind::All));
    let factors = configurations.iter().filter(|configuration| configuration.factor.is_some()).count();
    // Computes `without` minus `with`.
    let compare = |without: Option<usize>, with: Option<usize>, error: f64| -> Vec<Effect> {
        let (Some(without), Some(with)) = (without, with) else { return Vec::new() };
        let (without, with): (Vec<_>, Vec<_>) =
            (of_configuration(without).collect(), of_configuration(with).collect());
        Statistic::ALL.iter().map(|statistic| effect(*statistic, &without, &with, error)).collect()
    };
    let factor = |place: usize| {
        let error = ERROR / factors.max(1) as f64;
        match configurations[place].kind {
            ConfigurationKind::Without => Some(compare(Some(place), all, error)),
            ConfigurationKind::Alone => Some(compare(as_is, Some(place), error)),
            ConfigurationKind::AsIs | ConfigurationKind::All => None,
        }
    };
    let mut effects: Vec<FactorEffect> = (0..configurations.len())
        .filter_map(|configuration| Some(FactorEffect { configuration, effects: factor(configuration)? }))
        .collect();
    for kind in [ConfigurationKind::Without, ConfigurationKind::Alone] {
        for statistic in Statistic::ALL {
            rank_effects(&mut effects, |place| configurations[place].kind == kind, statistic);
        }
    }
    LoadResult {
        load,
        configurations: medians.collect(),
        whole: compare(as_is, all, ERROR),
        factors: effects,
    }
}

fn value(trial: &AblationTrial, statistic: Statistic) -> Option<Level> {
    trial.levels.iter().find(|level| level.statistic == statistic).copied()
}

fn median_level(trials: &[&AblationTrial], statistic: Statistic) -> Option<Level> {
    let levels: Vec<Level> = trials.iter().filter_map(|trial| value(trial, statistic)).collect();
    Some(Level {
        statistic,
        value_ns: median(levels.iter().map(|level| level.value_ns))?,
        supported: levels.iter().all(|level| level.supported),
    })
}

/// Increase in a statistic if a factor is left out. `error` is the probability that the interval for the
/// increase is wrong.
fn effect(statistic: Statistic, without: &[&AblationTrial], with: &[&AblationTrial], error: f64) -> Effect {
    let pairs: Vec<(Level, Level)> = without
        .iter()
        .filter_map(|trial| {
            let other = with.iter().find(|other| other.repeat == trial.repeat)?;
            value(trial, statistic).zip(value(other, statistic))
        })
        .collect();
    let (without, with): (Vec<f64>, Vec<f64>) =
        pairs.iter().map(|(without, with)| (without.value_ns as f64, with.value_ns as f64)).unzip();
    let shift = shift(Design::Paired, &with, &without, error);
    let interval_ns = shift.and_then(|shift| shift.interval).map(|(low, high)| (low as i64, high as i64));
    let verdict = match interval_ns {
        None => EffectVerdict::TooFew,
        Some((low, _)) if low > 0 => EffectVerdict::Helps,
        Some((_, high)) if high < 0 => EffectVerdict::Harms,
        Some(_) => EffectVerdict::NotSeen,
    };
    Effect {
        statistic,
        pairs: pairs.len(),
        difference_ns: shift.map(|shift| shift.value as i64),
        interval_ns,
        confidence: (1.0 - error) * 100.0,
        verdict,
        ranks: None,
        supported: pairs.iter().all(|(a, b)| a.supported && b.supported),
    }
}

/// Ranks the factors that have an effect, the largest effect first. Factors with overlapping intervals share
/// a range of ranks.
fn rank_effects(factors: &mut [FactorEffect], is_meant: impl Fn(usize) -> bool, statistic: Statistic) {
    // Absolute size, regardless of the sign of the effect.
    let size = |effect: &Effect| {
        let (low, high) = effect.interval_ns.filter(|_| effect.verdict.is_seen())?;
        Some(if low > 0 { (low, high) } else { (-high, -low) })
    };
    let seen: Vec<(i64, i64)> = factors
        .iter()
        .filter(|factor| is_meant(factor.configuration))
        .filter_map(|factor| size(Effect::of(&factor.effects, statistic)?))
        .collect();
    for factor in factors.iter_mut().filter(|factor| is_meant(factor.configuration)) {
        let Some(effect) = factor.effects.iter_mut().find(|effect| effect.statistic == statistic) else {
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
    use wiretail_schema::host::ablation::{ABLATION_SCHEMA, Factor};
    use wiretail_schema::host::plan::Profile;
    use wiretail_schema::random::Random;

    use super::*;

    fn trial(configuration: usize, repeat: u64, ns: i64) -> AblationTrial {
        let level = |statistic| Level { statistic, value_ns: ns, supported: true };
        AblationTrial {
            number: 0,
            load: 0,
            configuration,
            repeat,
            invalid: Vec::new(),
            packets: 1,
            lost: 0,
            levels: Statistic::ALL.map(level).to_vec(),
        }
    }

    fn ablation(factors: usize, trials: Vec<AblationTrial>) -> Ablation {
        let factor = |name: usize| Factor {
            name: name.to_string(),
            title: String::new(),
            cost: String::new(),
            changes: Vec::new(),
        };
        let factors: Vec<Factor> = (0..factors).map(factor).collect();
        Ablation {
            schema: ABLATION_SCHEMA.to_owned(),
            wiretail_version: String::new(),
            title: String::new(),
            seed: 1,
            started_s: 0,
            profile: Profile::Optimized,
            cores: "1".to_owned(),
            repeats: 20,
            configurations: super::super::configurations(&factors, false),
            not_tried: Vec::new(),
            loads: vec!["a".to_owned()],
            trials,
            results: Vec::new(),
            complete: true,
        }
    }

    #[test]
    fn needs_more_repeats_for_more_factors() {
        assert_eq!((repeats_needed(1), repeats_needed(10)), (6, 9));
    }

    /// Repeats with trials of every configuration. Configuration 1 has all factors and takes 100 us; each
    /// factor that is left out adds its `cost`, and every trial adds noise.
    fn planted(cost: &[i64], repeats: u64, noise: impl Fn(usize, u64) -> i64) -> Ablation {
        let mut trials = Vec::new();
        for repeat in 1..=repeats {
            trials.push(trial(0, repeat, 100 + cost.iter().sum::<i64>() + noise(0, repeat)));
            trials.push(trial(1, repeat, 100 + noise(1, repeat)));
            for (place, cost) in cost.iter().enumerate() {
                trials.push(trial(place + 2, repeat, 100 + cost + noise(place + 2, repeat)));
            }
        }
        ablation(cost.len(), trials)
    }

    /// Noise with outliers a thousand times as large as the normal range, generated with SplitMix64's mixing
    /// function.
    fn heavy(seed: u64) -> impl Fn(usize, u64) -> i64 {
        move |configuration, repeat| {
            let bits = [configuration as u64, repeat]
                .iter()
                .fold(seed, |state, word| Random::new(state ^ word).bits());
            let body = (bits % 21) as i64 - 10;
            if bits >> 58 == 0 { body * 1000 } else { body }
        }
    }

    #[test]
    fn finds_and_ranks_injected_effects() {
        let (mut all_found, mut distinguished) = (0, 0);
        for seed in 0..50 {
            let ablation = planted(&[0, 500, 0, 200, -100, 0, 0, 0], 20, heavy(seed));
            let [result] = &judge(&ablation)[..] else { panic!("one load") };
            let mut ranks = Vec::new();
            for (factor, verdict, cost) in [
                (1, EffectVerdict::Helps, 500),
                (3, EffectVerdict::Helps, 200),
                (4, EffectVerdict::Harms, -100),
            ] {
                let found = Effect::of(&result.factors[factor].effects, Statistic::P999).unwrap();
                // Outliers a hundred times larger than the effect may hide it, but must not reverse its sign.
                assert!([verdict, EffectVerdict::NotSeen].contains(&found.verdict), "{seed}: {found:?}");
                assert!((found.difference_ns.unwrap() - cost).abs() <= 20, "{seed}: {found:?}");
                ranks.extend(found.ranks);
            }
            if let [(1, _), second, (_, 3)] = ranks[..] {
                assert!((second.0..=second.1).contains(&2), "{seed}: {ranks:?}");
                all_found += 1;
                distinguished += usize::from(ranks == [(1, 1), (2, 2), (3, 3)]);
            }
            let whole = Effect::of(&result.whole, Statistic::Max).unwrap();
            assert_eq!(whole.verdict, EffectVerdict::Helps);
        }
        assert!(all_found >= 40 && distinguished >= 35, "{all_found} {distinguished}");
    }

    #[test]
    fn at_most_one_ablation_in_twenty_reports_a_nonexistent_effect() {
        let wrong = (0..2000)
            .filter(|seed| {
                let ablation = planted(&[0; 8], 12, heavy(*seed));
                let result = &judge(&ablation)[0];
                result.factors.iter().any(|factor| factor.effects[2].verdict.is_seen())
            })
            .count();
        // At most 5 % of 2000, that is, 100, are expected. The limit adds three standard deviations.
        assert!(wrong <= 130, "{wrong}");
    }

    #[test]
    fn pairs_trials_of_one_repeat_and_ignores_invalid_trials() {
        let mut ablation = planted(&[50], 8, |_, _| 0);
        ablation.trials.iter_mut().filter(|trial| trial.repeat == 3 && trial.configuration == 1).for_each(
            |trial| {
                trial.invalid.push("packets were dropped".to_owned());
                trial.levels.iter_mut().for_each(|level| level.value_ns = 9_999_999);
            },
        );
        let result = &judge(&ablation)[0];
        let effect = &result.factors[0].effects[0];
        assert_eq!((effect.pairs, effect.difference_ns, effect.interval_ns), (7, Some(50), Some((50, 50))));
        assert_eq!(result.configurations[1].trials, 7);
        ablation.trials.retain(|trial| trial.repeat < 3);
        let few = &judge(&ablation)[0].factors[0].effects[0];
        assert_eq!((few.pairs, few.verdict, few.interval_ns), (2, EffectVerdict::TooFew, None));
        ablation.trials.clear();
        assert!(judge(&ablation).is_empty());
    }

    #[test]
    fn indistinguishable_factors_share_ranks() {
        let noise =
            |configuration: usize, repeat: u64| if configuration > 1 { (repeat as i64 - 10) * 3 } else { 0 };
        let ablation = planted(&[100, 104, 900], 20, noise);
        let ranks: Vec<_> =
            judge(&ablation)[0].factors.iter().map(|factor| factor.effects[2].ranks.unwrap()).collect();
        assert_eq!(ranks, [(2, 3), (2, 3), (1, 1)]);
    }
}
