//! Shows several results side by side. The page contains their key numbers, their percentile plots in one
//! figure, and the differences that the caller computed.

use std::borrow::Cow;

use wiretail_schema::summary::figure::{Axis, AxisName, Figure, Mark, ReferenceLine, Scale, Series, Unit};
use wiretail_schema::summary::{Outcome, Percentile, Summary};

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{self, section};
use crate::pages::tables;
use crate::plot::Size;
use crate::plot::scale::with_unit;

/// Meaning of a difference for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Better than the first result, with confidence.
    Better,
    /// No difference beyond the tolerance.
    Same,
    /// The data do not decide between the other verdicts.
    Unclear,
    /// Worse than the first result, with confidence.
    Worse,
}

/// Difference in one quantity between one result and the first one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// This result minus the first one, in the row's unit.
    pub value: f64,
    /// Lower bound of the 95 % confidence interval, if known.
    pub low: Option<f64>,
    /// Upper bound, if known.
    pub high: Option<f64>,
    pub change: Change,
}

/// The differences in one quantity, with a cell for each result after the first.
#[derive(Debug, Clone, PartialEq)]
pub struct DifferenceRow {
    /// Name of the quantity: "p99.9 delay".
    pub quantity: String,
    pub unit: Unit,
    /// One entry for each result after the first; `None` if it cannot be computed.
    pub differences: Vec<Option<Difference>>,
}

/// Renders a page that compares `results`, each with its name. In `rows`, the first result is the baseline.
pub fn comparison(title: &str, results: &[(String, Summary)], rows: &[DifferenceRow]) -> String {
    page::document(&format!("{title} · Wiretail"), |m| {
        m.tag("header").body(|m| {
            m.tag("p").class("kicker").text("Wiretail · comparison");
            m.tag("h1").text(title);
            m.tag("p").class("lead").text(format_args!("{} results", results.len()));
        });
        m.tag("main").body(|m| {
            section(m, "figures", "Percentiles of the delay", |m| {
                m.tag("div").class("figures").body(|m| {
                    page::figure(m, &overlay(results), Size::Wide, 0);
                });
            });
            section(m, "key-numbers", "Key numbers", |m| key_numbers(m, results));
            if !rows.is_empty() {
                section(m, "differences", "Differences", |m| differences(m, results, rows));
            }
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

pub fn more(ns: f64) -> String {
    let shown = format::duration(ns);
    if ns > 0.0 { format!("+{shown}") } else { shown }
}

fn differences(m: &mut Markup, results: &[(String, Summary)], rows: &[DifferenceRow]) {
    let first = results.first().map_or("", |(name, _)| name.as_str());
    let mut names: Vec<Cow<'_, str>> = head(["quantity"]).to_vec();
    names.extend(results.iter().skip(1).map(|(name, _)| Cow::Borrowed(name.as_str())));
    let rows = rows.iter().map(|row| {
        let cells = row
            .differences
            .iter()
            .map(|d| d.as_ref().map_or(Cell::number("none"), |d| difference(row.unit, d)));
        std::iter::once(Cell::text(&row.quantity)).chain(cells).collect::<Vec<_>>()
    });
    table(m, &format!("Relative to {first}, with 95 % confidence intervals if known"), &names, rows);
}

fn difference(unit: Unit, d: &Difference) -> Cell {
    let text = |value: f64| match unit {
        Unit::Nanoseconds => more(value),
        _ if value > 0.0 => format!("+{}", with_unit(unit, value)),
        _ => with_unit(unit, value),
    };
    let interval = match (d.low, d.high) {
        (None, None) => String::new(),
        (low, high) => {
            let bound = |b: Option<f64>| b.map_or("open".to_owned(), text);
            format!(" [{}, {}]", bound(low), bound(high))
        }
    };
    let (word, class) = match d.change {
        Change::Better => ("better", "number better"),
        Change::Same => ("same", "number"),
        Change::Unclear => ("unclear", "number"),
        Change::Worse => ("worse", "number worse"),
    };
    Cell::number(format!("{}{interval} {word}", text(d.value))).exact(d.value).class(class)
}
