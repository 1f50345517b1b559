//! The tables of key numbers. Each trial has a row for the whole device, followed by rows for further
//! segments.

use std::borrow::Cow;

use wiretail_schema::run::scenario::{OverloadMark, RATE, Scenario};
use wiretail_schema::run::{TrialRecord, TrialState};
use wiretail_schema::summary::Summary;

use super::{Page, counted};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, head, table};
use crate::pages::comparison::percentile_cell;
use crate::pages::page::section;

/// Percentiles among the key numbers.
const PERCENTILES: [f64; 5] = [50.0, 99.0, 99.9, 99.99, 99.999];
/// Longer tables are folded, with a part for each value of a factor.
const ROWS: usize = 30;

/// The key numbers of each trial's whole device under test.
pub fn whole_device(m: &mut Markup, page: &Page<'_>) {
    section(m, "key-numbers", "Key numbers", |m| {
        m.tag("div").class("broad").body(|m| {
            folded(m, page, &in_order(page), |m, caption, trials| {
                let rows = trials.iter().map(|trial| row(page, trial, 0));
                table(m, caption, &columns(page, 0), rows);
            });
        });
        m.tag("p").class("rests").text(
            "One-way delay (RFC 7679) from tap to tap, loss (RFC 7680). Numbers of invalid trials are gray. Percentiles in italics are not supported, \
             n(1−p)\u{a0}<\u{a0}10: they are based on fewer than ten packets and may differ widely in a longer trial. \
             Point at a number for its exact value and its 95\u{a0}% confidence interval.",
        );
    });
}

/// The key numbers of the segments after the first: the return path and single hops.
pub fn segments(m: &mut Markup, page: &Page<'_>) {
    let mut names: Vec<&str> = Vec::new();
    for segment in page.run.trials.iter().flat_map(|trial| trial.segments.iter().skip(1)) {
        if !names.contains(&segment.name.as_str()) {
            names.push(&segment.name);
        }
    }
    if names.is_empty() {
        return;
    }
    section(m, "segments", "Further segments", |m| {
        m.tag("p").class("hint").text(
            "Each segment is measured between its own two taps. The percentiles of the hops do not add up to \
             those of the whole device, because the hops have different worst packets.",
        );
        for name in names {
            let place = |trial: &TrialRecord| trial.segments.iter().skip(1).position(|s| s.name == name);
            let trials = in_order(page).into_iter();
            let rows: Vec<Row> =
                trials.filter_map(|trial| Some(row(page, trial, place(trial)? + 1))).collect();
            let details = m.tag("details");
            let details = if rows.len() > ROWS { details } else { details.attr("open", "") };
            details.body(|m| {
                m.tag("summary").body(|m| {
                    m.tag("strong").text(name);
                    m.text(format_args!(": {}", counted(rows.len(), "trial")));
                });
                m.tag("div").class("broad").body(|m| table(m, name, &columns(page, 1), rows));
            });
        }
    });
}

/// Returns the trials with the repeats of a scenario grouped together. Repeats run far apart but are compared
/// with each other.
pub fn in_order<'a>(page: &Page<'a>) -> Vec<&'a TrialRecord> {
    let mut scenarios: Vec<(Scenario, Vec<&TrialRecord>)> = Vec::new();
    for trial in &page.run.trials {
        let scenario = Scenario::of(page.run, trial, &[]);
        match scenarios.iter_mut().find(|(other, _)| *other == scenario) {
            Some((_, repeats)) => repeats.push(trial),
            None => scenarios.push((scenario, vec![trial])),
        }
    }
    scenarios.into_iter().flat_map(|(_, repeats)| repeats).collect()
}

/// The trials in one table. If there are very many, there is one table for each value of the first factor
/// that distinguishes them, and only the first table is open.
fn folded(
    m: &mut Markup,
    page: &Page<'_>,
    trials: &[&TrialRecord],
    draw: impl Fn(&mut Markup, &str, &[&TrialRecord]),
) {
    const WHOLE: &str = "Each trial, the whole device under test";
    let groups = page.run.factors.iter().map(|key| by_factor(trials, key)).find(|groups| groups.len() > 1);
    let Some(groups) = groups.filter(|_| trials.len() > ROWS) else {
        return draw(m, WHOLE, trials);
    };
    for (index, (name, group)) in groups.iter().enumerate() {
        let details = m.tag("details");
        let details = if index == 0 { details.attr("open", "") } else { details };
        details.body(|m| {
            m.tag("summary").body(|m| {
                m.tag("strong").text(name);
                m.text(format_args!(": {}", counted(group.len(), "trial")));
                let faulty = group.iter().filter(|trial| trial.state != TrialState::Valid).count();
                if faulty > 0 {
                    m.text(", ").tag("span").class("worse").text(format_args!("{faulty} not valid"));
                }
            });
            draw(m, &format!("{WHOLE}: {name}"), group);
        });
        m.line();
    }
}

fn by_factor<'a>(trials: &[&'a TrialRecord], key: &str) -> Vec<(String, Vec<&'a TrialRecord>)> {
    let mut groups: Vec<(String, Vec<&TrialRecord>)> = Vec::new();
    for &trial in trials {
        let name = trial.setting(key).map_or_else(|| "others".to_owned(), |setting| setting.words());
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(trial),
            None => groups.push((name, vec![trial])),
        }
    }
    groups
}

/// Whether any packet of the run arrived out of sequence. If not, the column is omitted, because it would
/// contain only zeros.
fn reordered(page: &Page<'_>) -> bool {
    page.results.iter().any(|result| result.summary.reordering.reordered > 0)
}

/// Column headings. Only the table of the whole device has a state column, because the state belongs to the trial.
fn columns(page: &Page<'_>, segment: usize) -> Vec<Cow<'static, str>> {
    let mut names = head(["scenario", "offered", "sent", "loss", "min", "mean"]).to_vec();
    names.extend(PERCENTILES.map(|p| Cow::Owned(format!("p{}", format::short(p)))));
    names.push("max".into());
    if reordered(page) {
        names.push("out of sequence".into());
    }
    if segment == 0 {
        names.push("state".into());
    }
    names.push("report".into());
    names
}

fn row(page: &Page<'_>, trial: &TrialRecord, segment: usize) -> Row {
    let summary = page.summary(trial, segment);
    let scenario = Scenario::of(page.run, trial, &[RATE]).to_string();
    let name = Cell::text(scenario);
    let name = if page.repeated() { name.note(format_args!("repeat {}", trial.repeat)) } else { name };
    let mut cells = vec![name, offered(page, trial)];
    match summary {
        Some(summary) => cells.extend(values(summary)),
        None => {
            cells.push(trial.generator.as_ref().map_or_else(none, |g| Cell::count(g.sent)));
            cells.extend((0..PERCENTILES.len() + 4).map(|_| none()));
        }
    }
    if reordered(page) {
        cells.push(summary.map_or_else(none, |s| {
            Cell::count(s.reordering.reordered)
                .exact(format_args!("{} of the packets that arrived", s.reordering.ratio))
        }));
    }
    let mut beneath = Vec::new();
    if segment == 0 {
        cells.push(state(trial));
        beneath.extend(trial.reasons.iter().map(|reason| ("reason-beneath", reason.clone())));
        beneath.extend(trial.notes.iter().map(|note| ("note-beneath", note.clone())));
    }
    cells.push(link(trial, segment));
    let class = if trial.state == TrialState::Invalid { "void" } else { "" };
    Row { cells, class, beneath }
}

/// A cell without a value.
pub fn none() -> Cell {
    Cell::number("none").class("number zero")
}

/// The cells from the packets sent to the largest delay.
fn values(summary: &Summary) -> Vec<Cell> {
    let (loss, delay) = (&summary.loss, &summary.delay);
    let gone = loss.lost + loss.late;
    let lost = Cell::ratio(loss.ratio).exact(format_args!(
        "95 % CI {} to {}",
        format::ratio(loss.ratio_low),
        format::ratio(loss.ratio_high)
    ));
    let lost = if gone > 0 { lost.note(format_args!("{} lost", format::count(gone))) } else { lost };
    let mut cells = vec![Cell::count(loss.sent), lost];
    let arrived = delay.count > 0;
    cells.push(if arrived { Cell::ns(delay.min_ns) } else { none() });
    cells.push(if arrived { Cell::ns_mean(delay.mean_ns) } else { none() });
    cells.extend(PERCENTILES.map(|wanted| delay.percentile(wanted).map_or_else(none, percentile_cell)));
    cells.push(if arrived { Cell::ns(delay.max_ns) } else { none() });
    cells
}

/// The offered rate, marked if the device is overloaded.
fn offered(page: &Page<'_>, trial: &TrialRecord) -> Cell {
    let Some(rate) = trial.setting(RATE) else { return Cell::number("none") };
    let scenario = Scenario::of(page.run, trial, &[RATE]);
    let beyond = |mark: &&OverloadMark| mark.scenario == scenario && rate.number >= mark.overload.rate_pps;
    let cell = Cell::number(&rate.text);
    match page.overloads.iter().find(beyond) {
        Some(_) => cell.note("overload").class("number worse"),
        None => cell,
    }
}

fn state(trial: &TrialRecord) -> Cell {
    let cell = match trial.state {
        TrialState::Valid => Cell::text("✓ valid").class("state"),
        TrialState::Invalid => Cell::text("✕ invalid").class("state worse"),
        TrialState::Failed => Cell::text("✕ failed").class("state worse"),
        TrialState::Interrupted => Cell::text("! interrupted").class("state warning"),
    };
    if trial.retries > 0 { cell.note(format_args!("retry {}", trial.retries)) } else { cell }
}

fn link(trial: &TrialRecord, segment: usize) -> Cell {
    match trial.segments.get(segment).filter(|segment| segment.analysed) {
        Some(segment) => Cell::text("report")
            .exact(format_args!("{}: {} to {}", trial.name, segment.pre, segment.post))
            .link(&format!("{}/report.html", segment.directory)),
        None => Cell::text("none").class("zero"),
    }
}
