//! Explanations of the traced trials side by side, and the overhead of tracing.

use wiretail_schema::causes::{CauseRow, ExplainedTrial, TrialExplanation};
use wiretail_schema::run::TrialRecord;
use wiretail_schema::run::overhead::{Overhead, OverheadAt, OverheadVerdict};
use wiretail_schema::run::scenario::Scenario;

use super::{Page, counted};
use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, Row, address, head, table};
use crate::pages::explanation::breakdown::{self, Breakdown, colour};
use crate::pages::explanation::causes::{name, ranked, saved};
use crate::pages::explanation::words::{cause_name, headline, main_sender};
use crate::pages::page;

/// Number of unfolded trials; further ones are folded.
const OPEN: usize = 6;
/// Number of causes per trial in the table.
const CAUSES: usize = 4;
/// File name of a trial's explanation page in its directory.
pub const PAGE: &str = "explanation.html";

/// Both sections; empty if no trial was traced.
pub fn sections(m: &mut Markup, page: &Page<'_>) {
    if !page.explanations.is_empty() {
        page::section(m, "explanations", "What delayed the worst packets", |m| explanations(m, page));
    }
    if !page.overheads.is_empty() {
        page::section(m, "tracing-cost", "Overhead of tracing", |m| overheads(m, page));
    }
}

fn explanations(m: &mut Markup, page: &Page<'_>) {
    m.tag("p").class("hint").text(
        "What caused the excess delay of packets at and above p99.9 in each traced trial, according to the \
         kernel's trace. Each trial has its own page with its worst packets and mitigations.",
    );
    let united = unite(page.explanations);
    let (open, more) = page.explanations.split_at(page.explanations.len().min(OPEN));
    open.iter().for_each(|explained| bar(m, page, &united, explained));
    if !more.is_empty() {
        m.tag("details").class("more").body(|m| {
            m.tag("summary").text(counted(more.len(), "more traced trial"));
            more.iter().for_each(|explained| bar(m, page, &united, explained));
        });
    }
    let mut shown: Vec<usize> = page
        .explanations
        .iter()
        .flat_map(|explained| translated(&united, &explained.explanation).ranked())
        .collect();
    shown.sort_unstable();
    shown.dedup();
    breakdown::key(m, &united, &shown, false);
    let rows: Vec<Row> =
        page.explanations.iter().flat_map(|explained| rows(page, &united, explained)).collect();
    let names = head([
        "trial",
        "cause",
        "share",
        "time in the tail",
        "packets of the tail",
        "by",
        "would save",
        "of",
    ]);
    m.tag("div").class("broad").body(|m| {
        table(m, "The largest causes of each traced trial", &names, rows);
    });
    m.tag("p").class("rests").text(
        "Would save: the amount by which the named percentile would decrease without the cause; in italics \
         if the percentile is based on fewer than ten packets.",
    );
}

/// The union of all trials' causes, so that each cause has the same color in all bars.
fn unite(explanations: &[ExplainedTrial]) -> Vec<CauseRow> {
    let mut united: Vec<CauseRow> = Vec::new();
    for row in explanations.iter().flat_map(|explained| &explained.explanation.causes) {
        if place(&united, row).is_none() {
            united.push(row.clone());
        }
    }
    united
}

fn place(united: &[CauseRow], row: &CauseRow) -> Option<usize> {
    united.iter().position(|other| other.kind == row.kind && other.name == row.name)
}

/// A trial's breakdown of its tail, indexed by the united causes.
fn translated(united: &[CauseRow], explanation: &TrialExplanation) -> Breakdown {
    let own = Breakdown::of_tail(explanation);
    let mut causes = vec![[0; 3]; united.len()];
    for (row, known) in explanation.causes.iter().zip(own.causes) {
        if let Some(place) = place(united, row) {
            causes[place] = known;
        }
    }
    Breakdown { causes, ..own }
}

fn trial<'a>(page: &Page<'a>, explained: &ExplainedTrial) -> Option<&'a TrialRecord> {
    page.run.trials.iter().find(|trial| trial.number == explained.trial)
}

/// A trial as text, including the repeat if there are several.
fn scenario(page: &Page<'_>, trial: &TrialRecord) -> String {
    let words = Scenario::of(page.run, trial, &["trace.record"]).to_string();
    if page.repeated() { format!("{words}, repeat {}", trial.repeat) } else { words }
}

fn bar(m: &mut Markup, page: &Page<'_>, united: &[CauseRow], explained: &ExplainedTrial) {
    let Some(trial) = trial(page, explained) else { return };
    breakdown::bar(m, &scenario(page, trial), united, &translated(united, &explained.explanation));
    m.tag("p").class("stack-said").body(|m| {
        m.text(headline(&explained.explanation)).text(" ");
        let path = format!("{}/{PAGE}", trial.directory);
        m.tag("a").attr("href", address(&path)).text("Full explanation");
    });
    m.line();
}

/// A trial's largest causes.
fn rows(page: &Page<'_>, united: &[CauseRow], explained: &ExplainedTrial) -> Vec<Row> {
    let (Some(trial), explanation) = (trial(page, explained), &explained.explanation) else {
        return Vec::new();
    };
    let breakdown = Breakdown::of_tail(explanation);
    let row = |(place_in_trial, cause): (usize, usize)| {
        let row = &explanation.causes[cause];
        let first = match place_in_trial {
            0 => Cell::text(scenario(page, trial)).link(&format!("{}/{PAGE}", trial.directory)),
            _ => Cell::text(""),
        };
        let ns = breakdown.of_cause(cause);
        let united = place(united, row).map_or_else(String::new, |place| colour(united, place));
        let (saving, of) = match saved(explanation, cause) {
            Some((percentile, ns)) => {
                let cell = Cell::ns(ns);
                let cell = if percentile.supported { cell } else { cell.class("number weak") };
                (
                    cell,
                    format!("{} ({})", name(Some(percentile)), format::duration(percentile.value_ns as f64)),
                )
            }
            None => (super::numbers::none(), String::new()),
        };
        Row::from(vec![
            first,
            Cell::text(cause_name(row)).swatch(united),
            Cell::ratio(breakdown.share(ns)),
            Cell::ns(ns as i64),
            Cell::count(row.tail_packets),
            Cell::text(main_sender(explanation, cause, ns).unwrap_or_default()).class("meaning"),
            saving,
            Cell::text(of).class("meaning"),
        ])
    };
    let mut causes = ranked(explanation);
    causes.sort_by_key(|&cause| std::cmp::Reverse(breakdown.of_cause(cause)));
    let causes = causes.into_iter().filter(|&cause| breakdown.of_cause(cause) > 0).take(CAUSES);
    causes.enumerate().map(row).collect()
}

fn overheads(m: &mut Markup, page: &Page<'_>) {
    m.tag("p").class("hint").text(
        "Traced trials and untraced trials with the same settings. A control also has the same packets and runs \
         right after its traced trial.",
    );
    m.tag("ul").class("overloads").body(|m| {
        for overhead in page.overheads {
            for at in &overhead.percentiles {
                m.tag("li").text(verdict(overhead, at));
            }
        }
    });
    let rows = page.overheads.iter().flat_map(|overhead| {
        overhead.percentiles.iter().map(move |at| {
            let cell = |ns: i64| {
                let cell = Cell::ns(ns);
                if at.supported { cell } else { cell.class("number weak") }
            };
            vec![
                Cell::text(&overhead.scenario),
                Cell::text(format_args!("p{}", format::short(at.percentile))),
                cell(at.traced_ns).note(counted(overhead.traced.len(), "trial")),
                cell(at.untraced_ns).note(counted(overhead.untraced.len(), "trial")),
                cell(at.difference_ns),
                match at.verdict {
                    OverheadVerdict::Unknown => super::numbers::none(),
                    _ => cell(at.range_ns()).note(format_args!(
                        "{} to {}",
                        format::duration(at.lowest_ns as f64),
                        format::duration(at.highest_ns as f64)
                    )),
                },
                match at.verdict {
                    OverheadVerdict::Within => Cell::text("within the range"),
                    OverheadVerdict::Beyond => Cell::text("beyond the range").class("worse"),
                    OverheadVerdict::Unknown => Cell::text("undecided: only one pair").class("meaning"),
                },
            ]
        })
    });
    let names = head([
        "scenario",
        "percentile",
        "traced",
        "untraced",
        "difference",
        "range between untraced trials",
        "the difference is",
    ]);
    table(m, "Traced and untraced trials", &names, rows);
    m.tag("p").class("rests").text(
        "Medians of valid trials for the whole device under test; trials are not pooled. Identical trials differ by up to \
         the range, so a smaller difference is not significant. With few repeats the range is too narrow rather than \
         too wide. Percentiles in italics are based on fewer than ten packets.",
    );
}

/// The effect of tracing, in a sentence.
fn verdict(overhead: &Overhead, at: &OverheadAt) -> String {
    let (difference, range) =
        (format::duration(at.difference_ns.abs() as f64), format::duration(at.range_ns() as f64));
    let more = if at.difference_ns < 0 { "less" } else { "more" };
    let what = format!(
        "{}: p{} is {difference} {more} with tracing ({} instead of {})",
        overhead.scenario,
        format::short(at.percentile),
        format::duration(at.traced_ns as f64),
        format::duration(at.untraced_ns as f64),
    );
    let pairs = counted(overhead.untraced.len(), "untraced trial");
    match at.verdict {
        OverheadVerdict::Within => format!("{what}, within the range of {range} between the {pairs}."),
        OverheadVerdict::Beyond => format!("{what}, beyond the range of {range} between the {pairs}."),
        OverheadVerdict::Unknown => {
            format!(
                "{what}; with one untraced trial, the variation between trials is unknown; increase trial.repeats."
            )
        }
    }
}
