//! The causes, ranked by their effect on the delay, and their mitigations.

use wiretail_schema::causes::mitigation::Mitigation;
use wiretail_schema::causes::{CauseKind, CauseRow, PercentileValue, TrialExplanation};

use super::words::cause_name;
use super::{ExplanationPage, zero_faint};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::explanation::breakdown::{Breakdown, colour};
use crate::pages::page;

/// Percentiles in the table. The causes are ranked by the first one that is available. 100 means the maximum.
const SHOWN: [f64; 3] = [99.999, 99.9, 100.0];
/// The mitigations of a cause are folded if its share of the tail is smaller than this.
const OPEN_SHARE: f64 = 0.02;

pub fn section(m: &mut Markup, page: &ExplanationPage<'_>) {
    let explanation = page.explanation;
    if explanation.causes.is_empty() {
        return;
    }
    page::section(m, "causes", "Effect of each cause", |m| {
        m.tag("p").class("hint").text(format_args!(
            "Ranked by the value of {} without the cause: the cause's time is subtracted from the service \
             time of each packet, and the packets queued behind it leave earlier by the same amount.",
            name(rank_by(explanation))
        ));
        let order = ranked(explanation);
        m.tag("div").class("broad").body(|m| {
            table(m, "Causes", &columns(explanation), rows(explanation, &order));
        });
        m.tag("p").class("rests").text(
            "Percentiles in italics are based on fewer than ten packets. The share refers to the total \
             excess delay of the tail's packets. The last two columns refer to the whole trial, including \
             the time without packets in the device. A dash marks an unknown value. For example, the value \
             without packets ahead is unknown, because they are the traffic itself.",
        );
    });
    advice(m, page);
}

/// Positions of the displayed percentiles in [`TrialExplanation::percentiles`].
fn shown(explanation: &TrialExplanation) -> Vec<usize> {
    let place =
        |wanted: &f64| explanation.percentiles.iter().position(|p| (p.percentile - wanted).abs() < 1e-9);
    SHOWN.iter().filter_map(place).collect()
}

/// The percentile by which the causes are ranked, which is the first available one of `SHOWN`.
fn rank_by(explanation: &TrialExplanation) -> Option<&PercentileValue> {
    shown(explanation).first().map(|&place| &explanation.percentiles[place])
}

/// The name of a percentile: "p99.999", or "the maximum".
pub fn name(percentile: Option<&PercentileValue>) -> String {
    match percentile {
        Some(p) if p.percentile < 100.0 => format!("p{}", format::short(p.percentile)),
        Some(_) => "the maximum".to_owned(),
        None => "the tail".to_owned(),
    }
}

/// The causes in descending order of their effect; causes with equal effect are ordered by their share of the
/// tail.
pub fn ranked(explanation: &TrialExplanation) -> Vec<usize> {
    let first = shown(explanation).first().copied();
    let key = |&cause: &usize| {
        let row = &explanation.causes[cause];
        let without = first.and_then(|place| without(explanation, cause, place));
        // Causes with an unknown effect come after all others.
        let measured = first.map_or(i64::MAX, |place| explanation.percentiles[place].value_ns);
        (without.unwrap_or(measured), std::cmp::Reverse(row.tail_ns.iter().sum::<u64>()))
    };
    let mut order: Vec<usize> = (0..explanation.causes.len()).collect();
    order.sort_by_key(key);
    order
}

fn columns(explanation: &TrialExplanation) -> Vec<std::borrow::Cow<'static, str>> {
    let mut names = head(["without"]).to_vec();
    for place in shown(explanation) {
        names.push(name(explanation.percentiles.get(place)).replace("the maximum", "max").into());
    }
    names.extend(head(["share", "time in the tail"]));
    if queued(explanation) {
        names.push("part due to queueing".into());
    }
    names.extend(head(["longest", "packets of the tail", "times a second", "share of the core's time"]));
    names
}

/// Whether packets waited behind other packets that a cause had delayed.
fn queued(explanation: &TrialExplanation) -> bool {
    explanation.causes.iter().any(|row| row.tail_queued_ns > 0)
}

fn rows(explanation: &TrialExplanation, order: &[usize]) -> Vec<Row> {
    let places = shown(explanation);
    let cell = |place: &usize, ns: Option<i64>| {
        let cell = ns.map_or_else(|| Cell::number("–"), Cell::ns);
        let supported = explanation.percentiles[*place].supported;
        if supported { cell } else { cell.class("number weak") }
    };
    let mut measured = vec![Cell::text("none (as measured)")];
    measured.extend(places.iter().map(|place| cell(place, Some(explanation.percentiles[*place].value_ns))));
    let empty = || Cell::text("");
    measured.extend([Cell::number(format::ratio(1.0)), Cell::ns(explanation.tail_lost_ns as i64)]);
    measured.extend(queued(explanation).then(empty));
    measured.extend([empty(), Cell::count(explanation.tail_packets), empty(), empty()]);
    let mut rows = vec![Row { cells: measured, class: "measured", beneath: Vec::new() }];
    let shares = Breakdown::of_tail(explanation);
    let seconds = explanation.evidence.duration_ns as f64 / 1e9;
    let per_second =
        |value: f64| if seconds > 0.0 { Cell::number(rounded(value / seconds)) } else { Cell::number("–") };
    for &index in order {
        let row = &explanation.causes[index];
        let mut cells = vec![Cell::text(cause_name(row)).swatch(colour(&explanation.causes, index))];
        cells.extend(places.iter().map(|place| cell(place, without(explanation, index, *place))));
        let tail: u64 = row.tail_ns.iter().sum();
        cells.extend([Cell::ratio(shares.share(tail)), zero_faint(tail)]);
        cells.extend(queued(explanation).then(|| zero_faint(row.tail_queued_ns)));
        cells.extend([
            zero_faint(row.longest_ns),
            Cell::count(row.tail_packets),
            per_second(row.events as f64).exact(format_args!("{} in the trial", format::count(row.events))),
            core_time(row, explanation.evidence.duration_ns),
        ]);
        rows.push(cells.into());
    }
    rows
}

fn core_time(row: &CauseRow, duration_ns: u64) -> Cell {
    match duration_ns {
        0 => Cell::number("–"),
        whole => Cell::ratio(row.total_ns as f64 / whole as f64),
    }
}

/// A rate with three significant digits, or an integer if it is at least 100.
fn rounded(value: f64) -> String {
    if value >= 100.0 {
        format::count(value.round() as u64)
    } else {
        format::short(format::digits(value, 3).parse().unwrap_or(value))
    }
}

/// The mitigations, in the order of the ranking. Causes with the same mitigation share one entry.
fn advice(m: &mut Markup, page: &ExplanationPage<'_>) {
    let explanation = page.explanation;
    let shares = Breakdown::of_tail(explanation);
    let mut entries: Vec<(Mitigation, Vec<usize>)> = Vec::new();
    for cause in ranked(explanation).into_iter().filter(|&cause| shares.of_cause(cause) > 0) {
        let row = &explanation.causes[cause];
        let found = (page.mitigations)(row.kind, &row.name);
        match entries.iter_mut().find(|(other, _)| *other == found) {
            Some((_, causes)) => causes.push(cause),
            None => entries.push((found, vec![cause])),
        }
    }
    let share =
        |causes: &[usize]| causes.iter().map(|&cause| shares.share(shares.of_cause(cause))).sum::<f64>();
    let (open, more): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, causes)| share(causes) >= OPEN_SHARE);
    page::section(m, "remedies", "Mitigations", |m| {
        m.tag("p").class("hint").text(
            "The order is that of the table above. Brackets contain the rule with which \"wiretail host \
             audit\" checks the setting. \"wiretail host plan\" writes files that apply most of these \
             settings.",
        );
        open.iter().for_each(|(mitigation, causes)| entry(m, explanation, mitigation, causes));
        if !more.is_empty() {
            m.tag("details").class("more").body(|m| {
                m.tag("summary").text(format_args!(
                    "{} with only a small share of the tail",
                    if more.len() == 1 {
                        "1 more, for a cause".to_owned()
                    } else {
                        format!("{} more, for causes", more.len())
                    }
                ));
                more.iter().for_each(|(mitigation, causes)| entry(m, explanation, mitigation, causes));
            });
        }
    });
}

fn entry(m: &mut Markup, explanation: &TrialExplanation, mitigation: &Mitigation, causes: &[usize]) {
    m.tag("article").class("remedy").body(|m| {
        m.tag("h3").body(|m| {
            m.tag("span").body(|m| {
                for (place, &cause) in causes.iter().enumerate() {
                    if place > 0 {
                        m.text(", ");
                    }
                    crate::pages::cells::swatch(m, &colour(&explanation.causes, cause));
                    m.text(cause_name(&explanation.causes[cause]));
                }
            });
            if let [cause] = causes {
                m.tag("span").class("effect").text(effect(explanation, *cause));
            }
        });
        m.tag("p").text(mitigation.what);
        m.tag("ul").body(|m| {
            for step in &mitigation.steps {
                m.tag("li").text(step);
            }
        });
        m.tag("p").class("sources").body(|m| {
            m.text("Source: ");
            for (place, source) in mitigation.sources.iter().enumerate() {
                if place > 0 {
                    m.text("; ");
                }
                m.tag("a").attr("href", source.url).attr("rel", "noreferrer").text(source.title);
            }
        });
    });
    m.line();
}

/// The value that a percentile would have without a cause. It is `None` if the cause is other packets (ahead,
/// or in the same batch), because they are part of the traffic and cannot be removed.
fn without(explanation: &TrialExplanation, cause: usize, place: usize) -> Option<i64> {
    let row = &explanation.causes[cause];
    let is_traffic = matches!(row.kind, CauseKind::Burst | CauseKind::Batch);
    row.without_ns.get(place).copied().filter(|_| !is_traffic)
}

/// The percentile by which the causes are ranked, and how much lower it would be without a cause, in ns.
pub fn saved(explanation: &TrialExplanation, cause: usize) -> Option<(&PercentileValue, i64)> {
    let place = *shown(explanation).first()?;
    let without = without(explanation, cause, place)?;
    let measured = &explanation.percentiles[place];
    Some((measured, measured.value_ns.saturating_sub(without)))
}

/// The value of the ranking percentile without a cause, as text.
fn effect(explanation: &TrialExplanation, cause: usize) -> String {
    let Some((measured, saved)) = saved(explanation, cause) else { return String::new() };
    let name = name(Some(measured));
    if saved == 0 {
        return format!("without this cause, {name} does not change");
    }
    let (whole, without) = (measured.value_ns, measured.value_ns.saturating_sub(saved));
    let ns = |ns: i64| format::duration(ns as f64);
    format!("without this cause, {name} is {} instead of {}", ns(without), ns(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        assert_eq!(rounded(250.4), "250");
        assert_eq!(rounded(12.345), "12.3");
        assert_eq!(rounded(0.05), "0.05");
        assert_eq!(rounded(0.0), "0");
    }
}
