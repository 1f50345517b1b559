//! The effect of each host setting, as a chart of intervals with the numbers below.

use wiretail_schema::host::ablation::{
    Ablation, Configuration, ConfigurationKind, Effect, EffectVerdict, FactorEffect, LoadResult, Statistic,
};

use super::Page;
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page;
use crate::plot::legend::{shortened, text_width};
use crate::plot::marks::{n, shape};
use crate::plot::{path, text};

/// Width of a drawing, height of a row and of the axis at the bottom.
const WIDTH: f64 = 960.0;
const ROW: f64 = 26.0;
const FOOT: f64 = 42.0;
/// Value in ns below which the scale is approximately linear; above it, the scale is logarithmic. Effects
/// range from 0.1 µs to 10 ms in both directions.
const LINEAR_NS: f64 = 1_000.0;
/// The statistics by which the settings are ranked.
const RANKED: [Statistic; 2] = [Statistic::P999, Statistic::Max];

/// The section; empty without an ablation.
pub fn section(m: &mut Markup, page: &Page<'_>) {
    let Some(ablation) = page.ablation.filter(|ablation| !ablation.results.is_empty()) else { return };
    page::section(m, "proof", "Effect of each setting", |m| {
        m.tag("p").class("hint").text(format_args!(
            "Profile {} on cores {}, limited to settings that can be changed at runtime. All configurations of \
             the host were measured in turn, {} times, in random order; differences are taken within a repeat. A \
             setting has an effect if the interval of its differences excludes 0.",
            ablation.profile.name(),
            ablation.cores,
            ablation.repeats
        ));
        for result in &ablation.results {
            load(m, ablation, result);
        }
        m.tag("p").class("rests").text(
            "Intervals are from a paired rank test, which is robust to outliers. The intervals of a list hold simultaneously with 95\u{a0}% confidence \
             (Bonferroni). Ranks are ranges if intervals overlap. The maximum of a trial is a single packet; its median over the trials is used. \
             Percentiles do not include lost packets.",
        );
        if !ablation.not_tried.is_empty() {
            m.tag("p").class("rests").text(format_args!(
                "Not tried, because they need a reboot or belong to another program: {}.",
                ablation.not_tried.join(", ")
            ));
        }
    });
}

fn load(m: &mut Markup, ablation: &Ablation, result: &LoadResult) {
    let name = ablation.loads.get(result.load).map_or("", String::as_str);
    if ablation.loads.len() > 1 {
        m.tag("h3").text(name);
    }
    for (kind, title) in [
        (ConfigurationKind::Without, "with all other settings: increase without this setting"),
        (ConfigurationKind::Alone, "alone: decrease relative to the host as it is"),
    ] {
        let factors: Vec<&FactorEffect> = result
            .factors
            .iter()
            .filter(|factor| {
                configuration(ablation, factor.configuration)
                    .is_some_and(|configuration| configuration.kind == kind)
            })
            .collect();
        if factors.is_empty() {
            continue;
        }
        for statistic in RANKED {
            let caption = format!("{} of {name}, {title}", statistic.name());
            forest(m, &caption, &lanes(ablation, result, &factors, statistic));
        }
        let names = head(["setting", "rank by p99.9", "p99.9", "rank by max", "max", "p99", "p50"]);
        let rows = factors.iter().map(|factor| row(ablation, factor));
        m.tag("div").class("broad").body(|m| table(m, &format!("Settings {title}"), &names, rows));
    }
    medians(m, ablation, result);
}

fn configuration(ablation: &Ablation, place: usize) -> Option<&Configuration> {
    ablation.configurations.get(place)
}

fn factor_name(ablation: &Ablation, place: usize) -> &str {
    configuration(ablation, place)
        .and_then(|configuration| configuration.factor.as_ref())
        .map_or("", |factor| factor.name.as_str())
}

fn row(ablation: &Ablation, factor: &FactorEffect) -> Vec<Cell> {
    let described =
        configuration(ablation, factor.configuration).and_then(|configuration| configuration.factor.as_ref());
    let said = described.map_or(String::new(), |factor| match factor.cost.as_str() {
        "" => factor.title.clone(),
        cost => format!("{}; costs: {cost}", factor.title),
    });
    let changes = described.map_or(String::new(), |factor| factor.changes.join("\n"));
    let [p999, max, p99, p50] = [Statistic::P999, Statistic::Max, Statistic::P99, Statistic::P50]
        .map(|statistic| Effect::of(&factor.effects, statistic));
    vec![
        Cell::text(factor_name(ablation, factor.configuration)).note(said).exact(changes),
        rank(p999),
        value(p999),
        rank(max),
        value(max),
        value(p99),
        value(p50),
    ]
}

fn rank(effect: Option<&Effect>) -> Cell {
    match effect.and_then(|effect| effect.ranks) {
        Some((best, worst)) => Cell::number(super::ranking::places(best, worst)),
        None => Cell::text(effect.map_or("", said)).class("number zero"),
    }
}

fn said(effect: &Effect) -> &'static str {
    match effect.verdict {
        EffectVerdict::Helps => "helps",
        EffectVerdict::Harms => "harms",
        EffectVerdict::NotSeen => "no effect seen",
        EffectVerdict::TooFew => "too few repeats",
    }
}

fn value(effect: Option<&Effect>) -> Cell {
    let Some((effect, difference)) = effect.and_then(|effect| Some((effect, effect.difference_ns?))) else {
        return super::numbers::none();
    };
    let cell = Cell::number(format::difference(difference)).exact(format::exact_ns(difference));
    match effect.interval_ns {
        Some((low, high)) => {
            cell.note(format!("{} to {}", format::difference(low), format::difference(high)))
        }
        None => cell.note(format!("{} pairs", effect.pairs)),
    }
}

fn medians(m: &mut Markup, ablation: &Ablation, result: &LoadResult) {
    let names = head(["host", "trials", "p50", "p99", "p99.9", "max"]);
    let rows = result.configurations.iter().map(|medians| {
        let mut cells = vec![
            Cell::text(
                configuration(ablation, medians.configuration).map(Configuration::name).unwrap_or_default(),
            ),
            Cell::count(medians.trials as u64),
        ];
        cells.extend(Statistic::ALL.iter().map(|statistic| {
            match medians.medians.iter().find(|level| level.statistic == *statistic) {
                Some(level) if level.supported || *statistic == Statistic::Max => Cell::ns(level.value_ns),
                Some(level) => Cell::ns(level.value_ns).class("number weak"),
                None => super::numbers::none(),
            }
        }));
        cells
    });
    table(m, "Medians over the trials", &names, rows);
}

struct Lane {
    name: String,
    class: &'static str,
    difference: f64,
    interval: (f64, f64),
    tip: String,
}

/// All settings together, followed by single settings in descending order of their effect.
fn lanes(
    ablation: &Ablation,
    result: &LoadResult,
    factors: &[&FactorEffect],
    statistic: Statistic,
) -> Vec<Lane> {
    let lane = |name: &str, effect: &Effect| {
        let (low, high) = effect.interval_ns?;
        let difference = effect.difference_ns?;
        Some(Lane {
            name: name.to_owned(),
            class: match effect.verdict {
                EffectVerdict::Helps => "s2",
                EffectVerdict::Harms => "s1",
                EffectVerdict::NotSeen | EffectVerdict::TooFew => "s5",
            },
            difference: difference as f64,
            interval: (low as f64, high as f64),
            tip: format!(
                "{name}: {}\n{} ({} to {}), {} pairs, {:.1} %",
                said(effect),
                format::difference(difference),
                format::difference(low),
                format::difference(high),
                effect.pairs,
                effect.confidence
            ),
        })
    };
    let mut own: Vec<(bool, Lane)> = factors
        .iter()
        .filter_map(|factor| {
            let effect = Effect::of(&factor.effects, statistic)?;
            Some((effect.verdict.is_seen(), lane(factor_name(ablation, factor.configuration), effect)?))
        })
        .collect();
    own.sort_by(|(a_seen, a), (b_seen, b)| {
        b_seen.cmp(a_seen).then(b.difference.abs().total_cmp(&a.difference.abs()))
    });
    let whole = Effect::of(&result.whole, statistic).and_then(|effect| lane("all together", effect));
    whole.into_iter().chain(own.into_iter().map(|(_, lane)| lane)).collect()
}

/// Draws intervals in rows, on a scale with both signs, if there are any.
fn forest(m: &mut Markup, caption: &str, lanes: &[Lane]) {
    if lanes.is_empty() {
        return;
    }
    let scaled = |ns: f64| (ns / LINEAR_NS).asinh();
    let ends = || lanes.iter().flat_map(|lane| [lane.interval.0, lane.interval.1, 0.0]);
    let low = scaled(ends().fold(-LINEAR_NS, f64::min));
    let high = scaled(ends().fold(LINEAR_NS, f64::max));
    let left = lanes.iter().map(|lane| text_width(&shortened(&lane.name))).fold(60.0, f64::max) * 1.08 + 24.0;
    let right = WIDTH - 16.0;
    let x = |ns: f64| left + (scaled(ns) - low) / (high - low) * (right - left);
    let bottom = ROW * lanes.len() as f64 + 8.0;
    m.tag("figure").body(|m| {
        m.tag("figcaption").text(caption);
        let svg =
            m.tag("svg").class("plot tips").attr("viewBox", format_args!("0 0 {WIDTH} {}", n(bottom + FOOT)));
        let said: Vec<String> = lanes.iter().map(|lane| lane.tip.replace('\n', " ")).collect();
        svg.attr("role", "img").attr("aria-label", said.join(". ")).body(|m| {
            let decades = (0..6).map(|power| 1_000.0 * 10_f64.powi(power));
            // Labels near 0 would overlap the label of 0.
            let has_room = |ns: &f64| (low..=high).contains(&scaled(*ns)) && (x(*ns) - x(0.0)).abs() > 60.0;
            let ticks = decades.flat_map(|ns| [-ns, ns]).filter(has_room);
            for ns in ticks {
                path(m, "grid", format!("M{} 0V{}", n(x(ns)), n(bottom)));
                text(m, "label", x(ns), bottom + 17.0, "middle", &tick(ns));
            }
            path(m, "axis", format!("M{} 0V{}", n(x(0.0)), n(bottom)));
            text(m, "label", x(0.0), bottom + 17.0, "middle", "0");
            path(m, "axis", format!("M{} {}H{}", n(left), n(bottom), n(right)));
            text(m, "name", right, bottom + 36.0, "end", "reduction");
            for (place, lane) in lanes.iter().enumerate() {
                let y = ROW * (place as f64 + 0.5) + 4.0;
                m.tag("g").attr("data-tip", &lane.tip).body(|m| {
                    let catch = m.tag("rect").class("catch").attr("x", 0).attr("y", n(y - ROW / 2.0));
                    catch.attr("width", n(WIDTH)).attr("height", n(ROW)).close();
                    text(m, "name", 0.0, y + 4.0, "start", &shortened(&lane.name));
                    m.tag("g").class(lane.class).body(|m| {
                        let (from, to) = (x(lane.interval.0), x(lane.interval.1));
                        path(m, "line", format!("M{} {}H{}", n(from), n(y), n(to)));
                        [from, to]
                            .iter()
                            .for_each(|at| path(m, "line", format!("M{} {}v8", n(*at), n(y - 4.0))));
                        path(m, "knot", shape(0, x(lane.difference), y));
                    });
                });
            }
        });
    });
    m.line();
}

/// Formats a round number briefly: "+10 us".
fn tick(ns: f64) -> String {
    format!("{}{}", if ns > 0.0 { "+" } else { "" }, format::about(ns))
}
