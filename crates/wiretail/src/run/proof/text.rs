//! A proof on a terminal: what would be compared, a line a trial, and what follows.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use wiretail_report::format::{self, count, duration};
use wiretail_schema::host::proof::{
    ArmKind, Effect, EffectVerdict, Level, LoadResult, Proof, ProofTrial, Statistic,
};

use super::Planned;
use crate::run::progress::{AROUND, seconds};

/// What would be done.
///
/// # Errors
/// Standard output is closed.
pub fn plan(out: &mut impl Write, proof: &Proof, trials: &[Planned]) -> io::Result<()> {
    writeln!(
        out,
        "{}: what profile {} is worth on cores {}\n",
        proof.title,
        proof.profile.name(),
        proof.cores
    )?;
    for arm in &proof.arms {
        let Some(lever) = arm.lever.as_ref().filter(|_| arm.kind != ArmKind::Alone) else {
            writeln!(out, "  {}", arm.name())?;
            continue;
        };
        writeln!(out, "  {:<32} {}", arm.name(), lever.title)?;
        match &lever.changes[..] {
            [first, .., last] if lever.changes.len() > 3 => {
                writeln!(out, "      {first}\n      {} more, to {last}", lever.changes.len() - 2)?;
            }
            changes => changes.iter().try_for_each(|change| writeln!(out, "      {change}"))?,
        }
    }
    not_tried(out, proof)?;
    let sending: u64 = trials.iter().map(|one| one.trial.get("trial", "duration").number).sum();
    let time = Duration::from_nanos(sending) + AROUND * u32::try_from(trials.len()).unwrap_or(u32::MAX);
    writeln!(
        out,
        "\n{} trials, {} of each under {}, in an order that is drawn: about {}. All changes are undone behind each.",
        count(trials.len() as u64),
        proof.repeats,
        proof.loads.join(", "),
        seconds(time)
    )
}

fn not_tried(out: &mut impl Write, proof: &Proof) -> io::Result<()> {
    if proof.not_tried.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  not tried, as they need a start of the machine or another program: {}",
        proof.not_tried.join(", ")
    )
}

/// What became of a trial.
pub fn trial(trial: &ProofTrial) -> String {
    if !trial.invalid.is_empty() {
        return format!("has no say: {}", trial.invalid.join("; "));
    }
    let level = |level: &Level| format!("{} {}", level.statistic.name(), duration(level.value_ns as f64));
    let levels: Vec<String> = trial.levels.iter().map(level).collect();
    let lost = if trial.lost > 0 { format!(", {} lost", count(trial.lost)) } else { String::new() };
    format!("{} of {} packets{lost}", levels.join(", "), count(trial.packets))
}

/// What follows, under each load.
///
/// # Errors
/// Standard output is closed.
pub fn table(out: &mut impl Write, proof: &Proof) -> io::Result<()> {
    writeln!(
        out,
        "{}: what profile {} is worth on cores {}",
        proof.title,
        proof.profile.name(),
        proof.cores
    )?;
    for result in &proof.results {
        writeln!(out, "\n  {}: medians of the trials", proof.loads[result.load])?;
        medians(out, proof, result)?;
        whole(out, result)?;
        for (kind, title) in [
            (ArmKind::Without, "WHAT EACH SETTING IS WORTH BESIDE ALL OTHERS: how much more without it"),
            (ArmKind::Alone, "WHAT EACH SETTING IS WORTH ALONE: how much less than the host as it is"),
        ] {
            effects(out, proof, result, kind, title)?;
        }
    }
    not_tried(out, proof)?;
    left_out(out, proof)
}

fn medians(out: &mut impl Write, proof: &Proof, result: &LoadResult) -> io::Result<()> {
    let [a, b, c, d] = Statistic::ALL.map(Statistic::name);
    writeln!(out, "    {:<32} {:>6} {a:>10} {b:>10} {c:>10} {d:>10}", "", "trials")?;
    for arm in &result.arms {
        write!(out, "    {:<32} {:>6}", proof.arms[arm.arm].name(), arm.trials)?;
        for statistic in Statistic::ALL {
            let level = arm.medians.iter().find(|level| level.statistic == statistic);
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
    proof: &Proof,
    result: &LoadResult,
    kind: ArmKind,
    title: &str,
) -> io::Result<()> {
    let levers: Vec<_> = result.levers.iter().filter(|lever| proof.arms[lever.arm].kind == kind).collect();
    let Some(first) = levers.first().and_then(|lever| lever.effects.first()) else { return Ok(()) };
    writeln!(out, "\n    {title}")?;
    let name = |arm: usize| proof.arms[arm].lever.as_ref().map_or("", |lever| lever.name.as_str());
    for statistic in [Statistic::P999, Statistic::Max, Statistic::P99, Statistic::P50] {
        // Settings are ranked by the first two; of the others what is seen.
        let is_ranked = matches!(statistic, Statistic::P999 | Statistic::Max);
        let mut rows: Vec<(&str, &Effect)> = levers
            .iter()
            .filter_map(|lever| Some((name(lever.arm), Effect::of(&lever.effects, statistic)?)))
            .filter(|(_, effect)| is_ranked || effect.verdict.is_seen())
            .collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_by_key(|(_, effect)| {
            let size = effect.difference_ns.map_or(0, i64::abs);
            (!effect.verdict.is_seen(), std::cmp::Reverse(size))
        });
        let seen = if is_ranked { "" } else { ", where an effect is seen" };
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
        "      intervals of {:.1} %, so that all of a list hold together with 95 %; settings with the same ranks can't be told apart",
        first.confidence
    )
}

/// An effect in words: "helps: +820 us (+400 us ... +1.2 ms) in 20 pairs".
fn in_words(effect: &Effect) -> String {
    let difference = effect.difference_ns.map_or("nothing known".to_owned(), format::difference);
    let Some((low, high)) = effect.interval_ns else {
        return format!("{difference}; {} pairs are too few to tell", effect.pairs);
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

/// Trials that had no say, by reason.
fn left_out(out: &mut impl Write, proof: &Proof) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in proof.trials.iter().filter_map(|trial| trial.invalid.first()) {
        *reasons.entry(reason).or_default() += 1;
    }
    reasons.iter().try_for_each(|(reason, times)| writeln!(out, "  {times} trials had no say: {reason}"))?;
    let lost: u64 = proof.trials.iter().map(|trial| trial.lost).sum();
    if lost > 0 {
        writeln!(
            out,
            "  {} packets were lost in all trials together: they are in no percentile",
            count(lost)
        )?;
    }
    Ok(())
}
