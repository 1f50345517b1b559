//! The human-readable ablation: the plan, one line per trial, and the results.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use wiretail_report::format::{self, count, duration};
use wiretail_schema::host::ablation::{
    Ablation, AblationTrial, ConfigurationKind, Effect, EffectVerdict, Level, LoadResult, Statistic,
};

use super::Planned;
use crate::run::trial::progress::{AROUND, seconds};

/// Writes the planned configurations and trials.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn plan(out: &mut impl Write, ablation: &Ablation, trials: &[Planned]) -> io::Result<()> {
    writeln!(
        out,
        "{}: effect of profile {} on cores {}\n",
        ablation.title,
        ablation.profile.name(),
        ablation.cores
    )?;
    for configuration in &ablation.configurations {
        let Some(factor) =
            configuration.factor.as_ref().filter(|_| configuration.kind != ConfigurationKind::Alone)
        else {
            writeln!(out, "  {}", configuration.name())?;
            continue;
        };
        writeln!(out, "  {:<32} {}", configuration.name(), factor.title)?;
        match &factor.changes[..] {
            [first, .., last] if factor.changes.len() > 3 => {
                writeln!(out, "      {first}\n      {} more, up to {last}", factor.changes.len() - 2)?;
            }
            changes => changes.iter().try_for_each(|change| writeln!(out, "      {change}"))?,
        }
    }
    not_tried(out, ablation)?;
    let sending: u64 = trials.iter().map(|one| one.trial.trial.duration.ns_unsigned()).sum();
    let time = Duration::from_nanos(sending) + AROUND * u32::try_from(trials.len()).unwrap_or(u32::MAX);
    writeln!(
        out,
        "\n{} trials, {} of each configuration under {}, in random order: about {}. Changes are reverted \
         after each trial.",
        count(trials.len() as u64),
        ablation.repeats,
        ablation.loads.join(", "),
        seconds(time)
    )
}

fn not_tried(out: &mut impl Write, ablation: &Ablation) -> io::Result<()> {
    if ablation.not_tried.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  not compared, because they need a reboot or another program: {}",
        ablation.not_tried.join(", ")
    )
}

/// Formats the outcome of a trial.
pub fn trial(trial: &AblationTrial) -> String {
    if !trial.invalid.is_empty() {
        return format!("left out: {}", trial.invalid.join("; "));
    }
    let level = |level: &Level| format!("{} {}", level.statistic.name(), duration(level.value_ns as f64));
    let levels: Vec<String> = trial.levels.iter().map(level).collect();
    let lost = if trial.lost > 0 { format!(", {} lost", count(trial.lost)) } else { String::new() };
    format!("{} of {} packets{lost}", levels.join(", "), count(trial.packets))
}

/// Writes the results under each load.
///
/// # Errors
/// Returns an error if standard output is closed.
pub fn table(out: &mut impl Write, ablation: &Ablation) -> io::Result<()> {
    writeln!(
        out,
        "{}: effect of profile {} on cores {}",
        ablation.title,
        ablation.profile.name(),
        ablation.cores
    )?;
    for result in &ablation.results {
        writeln!(out, "\n  {}: medians of the trials", ablation.loads[result.load])?;
        medians(out, ablation, result)?;
        whole(out, result)?;
        for (kind, title) in [
            (ConfigurationKind::Without, "EFFECT OF EACH SETTING AMONG ALL OTHERS: increase without it"),
            (ConfigurationKind::Alone, "EFFECT OF EACH SETTING ALONE: decrease from the unchanged host"),
        ] {
            effects(out, ablation, result, kind, title)?;
        }
    }
    not_tried(out, ablation)?;
    left_out(out, ablation)
}

fn medians(out: &mut impl Write, ablation: &Ablation, result: &LoadResult) -> io::Result<()> {
    let [a, b, c, d] = Statistic::ALL.map(Statistic::name);
    writeln!(out, "    {:<32} {:>6} {a:>10} {b:>10} {c:>10} {d:>10}", "", "trials")?;
    for configuration in &result.configurations {
        write!(
            out,
            "    {:<32} {:>6}",
            ablation.configurations[configuration.configuration].name(),
            configuration.trials
        )?;
        for statistic in Statistic::ALL {
            let level = configuration.medians.iter().find(|level| level.statistic == statistic);
            write!(out, " {:>10}", level.map_or("-".to_owned(), |level| duration(level.value_ns as f64)))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn whole(out: &mut impl Write, result: &LoadResult) -> io::Result<()> {
    writeln!(out, "\n    All settings together:")?;
    for effect in &result.whole {
        writeln!(out, "      {:<6} {}", effect.statistic.name(), in_words(effect))?;
    }
    Ok(())
}

fn effects(
    out: &mut impl Write,
    ablation: &Ablation,
    result: &LoadResult,
    kind: ConfigurationKind,
    title: &str,
) -> io::Result<()> {
    let factors: Vec<_> = result
        .factors
        .iter()
        .filter(|factor| ablation.configurations[factor.configuration].kind == kind)
        .collect();
    let Some(first) = factors.first().and_then(|factor| factor.effects.first()) else { return Ok(()) };
    writeln!(out, "\n    {title}")?;
    let name = |configuration: usize| {
        ablation.configurations[configuration].factor.as_ref().map_or("", |factor| factor.name.as_str())
    };
    for statistic in [Statistic::P999, Statistic::Max, Statistic::P99, Statistic::P50] {
        // Settings are ranked by the first two statistics; the others are printed for visible effects only.
        let is_ranked = matches!(statistic, Statistic::P999 | Statistic::Max);
        let mut rows: Vec<(&str, &Effect)> = factors
            .iter()
            .filter_map(|factor| Some((name(factor.configuration), Effect::of(&factor.effects, statistic)?)))
            .filter(|(_, effect)| is_ranked || effect.verdict.is_seen())
            .collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_by_key(|(_, effect)| {
            let size = effect.difference_ns.map_or(0, i64::abs);
            (!effect.verdict.is_seen(), std::cmp::Reverse(size))
        });
        let seen = if is_ranked { "" } else { ", if an effect is seen" };
        writeln!(out, "      by {}{seen}", statistic.name())?;
        for (name, effect) in rows {
            let rank = match effect.ranks {
                Some((best, worst)) if best == worst => best.to_string(),
                Some((best, worst)) => format!("{best}-{worst}"),
                None => String::new(),
            };
            writeln!(out, "      {rank:>5}  {name:<28} {}", in_words(effect))?;
        }
    }
    writeln!(
        out,
        "      intervals of {:.1} %, jointly 95 % in each list; settings with equal ranks are indistinguishable",
        first.confidence
    )
}

/// Formats an effect in words: "helps: +820 us (+400 us ... +1.2 ms) in 20 pairs".
fn in_words(effect: &Effect) -> String {
    let difference = effect.difference_ns.map_or("unknown".to_owned(), format::difference);
    let Some((low, high)) = effect.interval_ns else {
        return format!("{difference}; {} pairs are too few", effect.pairs);
    };
    let verdict = match effect.verdict {
        EffectVerdict::Helps => "helps",
        EffectVerdict::Harms => "HARMS",
        EffectVerdict::NotSeen | EffectVerdict::TooFew => "no effect seen",
    };
    format!(
        "{verdict:<14} {difference:>10}  ({} ... {}) in {} pairs",
        format::difference(low),
        format::difference(high),
        effect.pairs
    )
}

/// Writes the trials that were left out, by reason.
fn left_out(out: &mut impl Write, ablation: &Ablation) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in ablation.trials.iter().filter_map(|trial| trial.invalid.first()) {
        *reasons.entry(reason).or_default() += 1;
    }
    reasons
        .iter()
        .try_for_each(|(reason, times)| writeln!(out, "  {times} trials were left out: {reason}"))?;
    let lost: u64 = ablation.trials.iter().map(|trial| trial.lost).sum();
    if lost > 0 {
        writeln!(
            out,
            "  {} packets were lost in all trials together; percentiles exclude them",
            count(lost)
        )?;
    }
    Ok(())
}
