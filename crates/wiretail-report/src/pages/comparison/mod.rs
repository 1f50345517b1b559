//! Groups of trials compared with their baseline: the differences, and a typical trial of each group.

pub mod words;

use std::borrow::Cow;

use wiretail_schema::comparison::{Answer, Comparison, ComparisonOutcome, GroupComparison, GroupLevel};
use wiretail_schema::summary::figure::{Axis, AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};
use wiretail_schema::summary::{Outcome, Percentile, Summary};

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{self, section};
use crate::pages::tables;
use crate::plot::Size;
use words::{answer, change, level};

/// Renders a comparison. `results` has one typical trial of each group, with the name of the group.
pub fn comparison(title: &str, results: &[(String, Summary)], comparison: &Comparison) -> String {
    page::document(&format!("{title} · Wiretail"), |m| {
        m.tag("header").body(|m| {
            m.tag("p").class("kicker").text("Wiretail · comparison");
            m.tag("h1").text(title);
            m.tag("p").class("lead").text(outcome_words(comparison));
        });
        m.tag("main").body(|m| {
            section(m, "differences", "Differences", |m| differences(m, comparison));
            section(m, "figures", "Percentiles of the delay", |m| {
                m.tag("div").class("figures").body(|m| {
                    page::figure(m, &overlay(results), Size::Wide, 0);
                });
                m.tag("p").text("Each curve is one trial: the one with the median p99.9 of its group.");
            });
            section(m, "key-numbers", "Key numbers of these trials", |m| key_numbers(m, results));
        });
        page::footer(m, env!("CARGO_PKG_VERSION"));
    })
}

/// The percentile plots of all results in one figure, with the budgets that all results share.
fn overlay(results: &[(String, Summary)]) -> Figure {
    let budgets = results.first().map_or(&[][..], |(_, s)| &s.verdicts);
    let shared = budgets.iter().filter(|v| {
        results
            .iter()
            .all(|(_, s)| s.verdicts.iter().any(|w| w.limit_ns == v.limit_ns && w.percentile == v.percentile))
    });
    let lines = shared.map(|v| ReferenceLine {
        on: AxisName::Y,
        value: v.limit_ns as f64,
        label: format!(
            "budget {} at {}",
            format::duration_short(v.limit_ns as f64),
            format::percentile(v.percentile)
        ),
    });
    Figure {
        lines: lines.collect(),
        ..percentiles(results.iter().map(|(name, summary)| (name.as_str(), summary)))
    }
}

/// The percentile plots of several named results in one figure, without reference lines.
pub fn percentiles<'a>(results: impl IntoIterator<Item = (&'a str, &'a Summary)>) -> Figure {
    Figure {
        id: "percentiles".to_owned(),
        title: "One-way delay by percentile".to_owned(),
        caption: "Nines are equally spaced: one packet in 100\u{202f}000 lies above 99.999\u{a0}%. A curve \
                  ends at its largest delay; dashed parts are based on fewer than ten packets."
            .to_owned(),
        x: Axis {
            label: "percentile".to_owned(),
            column: "percentile".to_owned(),
            unit: Unit::Percentile,
            scale: Scale::Nines,
        },
        y: Axis {
            label: "one-way delay".to_owned(),
            column: "delay_ns".to_owned(),
            unit: Unit::Nanoseconds,
            scale: Scale::Log,
        },
        mark: Mark::Line,
        series: results.into_iter().map(|(name, summary)| curve(name, summary)).collect(),
        lines: Vec::new(),
    }
}

/// A result's curve. Beyond the percentile of the second-largest delay, the value of every percentile is the
/// largest delay. The largest delay is therefore drawn above the last share below 100 %.
fn curve(name: &str, summary: &Summary) -> Series {
    let count = summary.delay.count.max(1);
    let last = (count - 1).max(1);
    let ranks = summary.curve.iter().map(|point| point.cumulative.min(last));
    Series {
        name: name.to_owned(),
        x: ranks.clone().map(|rank| 100.0 * rank as f64 / count as f64).collect(),
        y: summary.curve.iter().map(|point| point.delay_ns as f64).collect(),
        low: Vec::new(),
        high: Vec::new(),
        supported: ranks.map(|rank| count - rank >= 10).collect(),
        bar_width: None,
    }
}

fn key_numbers(m: &mut Markup, results: &[(String, Summary)]) {
    let mut names: Vec<Cow<'_, str>> = vec!["quantity".into()];
    names.extend(results.iter().map(|(name, _)| Cow::Borrowed(name.as_str())));
    let row = |name: String, cell: &dyn Fn(&Summary) -> Cell| -> Vec<Cell> {
        std::iter::once(Cell::text(name)).chain(results.iter().map(|(_, s)| cell(s))).collect()
    };
    let mut rows = vec![
        row("packets sent".to_owned(), &|s| Cell::count(s.loss.sent)),
        row("packets matched".to_owned(), &|s| Cell::count(s.matching.matched)),
        row("loss ratio".to_owned(), &|s| Cell::ratio(s.loss.ratio)),
        row("reordered ratio".to_owned(), &|s| Cell::ratio(s.reordering.ratio)),
        row("min delay".to_owned(), &|s| Cell::ns(s.delay.min_ns)),
        row("mean delay".to_owned(), &|s| Cell::ns_mean(s.delay.mean_ns)),
        row("σ of the delay".to_owned(), &|s| Cell::ns_mean(s.delay.stddev_ns)),
    ];
    for p in union(results, |s| s.delay.percentiles.iter().map(|p| p.percentile).collect()) {
        rows.push(row(format!("p{} delay", format::short(p)), &|s| percentile(s, p)));
    }
    rows.push(row("max delay".to_owned(), &|s| Cell::ns(s.delay.max_ns)));
    rows.push(row("RFC 3550 jitter, largest".to_owned(), &|s| {
        Cell::ns_mean(s.variation.max_rfc3550_jitter_ns)
    }));
    rows.push(row("timestamp granularity".to_owned(), &|s| {
        let (pre, post) = (s.pre.clock.granularity_ns, s.post.clock.granularity_ns);
        Cell::number(format!("{}, {}", format::duration_short(pre), format::duration_short(post)))
    }));
    for budget in union(results, |s| s.verdicts.iter().map(|v| v.budget.clone()).collect()) {
        rows.push(row(format!("budget {budget}"), &|s| outcome(s, &budget)));
    }
    let caption =
        "Each percentile with its 95 % CI below; percentiles in italics are not supported: n(1−p) < 10";
    table(m, caption, &names, rows);
}

/// All values of all results without duplicates, in the order of their first appearance.
fn union<T: PartialEq>(results: &[(String, Summary)], values: impl Fn(&Summary) -> Vec<T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in results.iter().flat_map(|(_, summary)| values(summary)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

fn percentile(summary: &Summary, wanted: f64) -> Cell {
    match summary.delay.percentile(wanted) {
        Some(p) => percentile_cell(p).note(tables::interval(p)),
        None => Cell::number("none"),
    }
}

/// A percentile with its confidence interval as a tooltip. It is drawn faint if too few packets support it.
pub fn percentile_cell(p: &Percentile) -> Cell {
    let high = p.high_ns.map_or("open".to_owned(), format::exact_ns);
    let interval =
        format!("{}; 95 % CI {} to {high}", format::exact_ns(p.value_ns), format::exact_ns(p.low_ns));
    let class = if p.supported { "number" } else { "number weak" };
    Cell::ns(p.value_ns).exact(interval).class(class)
}

fn outcome(summary: &Summary, budget: &str) -> Cell {
    match summary.verdicts.iter().find(|v| v.budget == budget) {
        Some(v) => match v.outcome {
            Outcome::Pass => Cell::text("✓ PASS").class("number better"),
            Outcome::Undecided => Cell::text("? UNDECIDED").class("number"),
            Outcome::Fail => Cell::text("✕ FAIL").class("number worse"),
        }
        .exact(&v.reason),
        None => Cell::number("not requested"),
    }
}

/// The conclusion in one sentence.
fn outcome_words(comparison: &Comparison) -> String {
    let tolerance = format::short(comparison.tolerance * 100.0);
    match comparison.outcome {
        ComparisonOutcome::Pass => format!("PASS: nothing is worse by more than {tolerance} %."),
        ComparisonOutcome::Fail => format!("FAIL: worse by more than {tolerance} %."),
        ComparisonOutcome::Undecided => {
            format!("UNDECIDED: the trials neither show nor exclude a change by more than {tolerance} %.")
        }
    }
}

fn differences(m: &mut Markup, comparison: &Comparison) {
    for pair in &comparison.pairs {
        pair_table(m, pair, comparison.tolerance);
    }
    if comparison.family > 0 {
        m.tag("p").text(format_args!(
            "The unit is the trial. All {} answers together are right with 95 % confidence (Holm's correction).",
            comparison.family
        ));
    }
    if !comparison.warnings.is_empty() {
        m.tag("ul").class("findings").body(|m| {
            for warning in &comparison.warnings {
                m.tag("li").class("warning").text(warning);
            }
        });
    }
}

fn pair_table(m: &mut Markup, pair: &GroupComparison, tolerance: f64) {
    let how =
        if pair.paired { format!("within {} repeats", pair.trials) } else { "between the groups".to_owned() };
    let caption = format!(
        "{} ({} trials) relative to {} ({} trials), compared {how}",
        pair.other.name,
        pair.other.trials.len(),
        pair.baseline.name,
        pair.baseline.trials.len()
    );
    let rows = pair.statistics.iter().map(|statistic| {
        let cell = |of: &GroupLevel| {
            let range =
                format!("{} to {}", level(statistic.unit, of.smallest), level(statistic.unit, of.largest));
            Cell::number(level(statistic.unit, of.median)).note(range)
        };
        let class = match statistic.answer {
            Answer::Better => "better",
            Answer::Worse => "worse",
            _ => "",
        };
        vec![
            Cell::text(&statistic.statistic),
            cell(&statistic.baseline),
            cell(&statistic.other),
            Cell::number(change(statistic)),
            Cell::text(answer(statistic, tolerance)).class(class),
        ]
    });
    table(m, &caption, &head(["statistic", "baseline", "against", "change", "answer"]), rows);
}
