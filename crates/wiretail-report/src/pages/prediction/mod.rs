//! The pages of predictions: [`capacity`], [`tail`], [`interrupts`], [`queueing`]. Each page compares its
//! predictions with a measurement, if one was given.
//!
//! This module contains the shared parts: the page's frame, the data that a prediction is based on, the
//! source of its formula, and the document itself, which each page contains as JSON.

use serde_json::Value;
use wiretail_schema::summary::figure::Series;

use crate::format;
use crate::html::Markup;
use crate::pages::cells::{Cell, head, table};
use crate::pages::page::{self, section};
use crate::pages::run::figures::plain;

pub mod capacity;
mod fit;
pub mod interrupts;
mod intervals;
pub mod queueing;
pub mod tail;

/// The frame of a page, without the prediction itself.
struct Frame<'a> {
    /// Predicted quantity: "capacity".
    what: &'static str,
    /// The result in one line.
    title: &'a str,
    /// The question in one line.
    lead: &'a str,
    /// Name and version of the document's schema.
    schema: &'a str,
    version: &'a str,
    /// The formula and its source.
    formula: Formula,
}

struct Formula {
    /// Text of the formula.
    text: &'static str,
    /// Documentation page with the formula and its limits.
    page: &'static str,
    /// Source of the formula, and the address of the source if there is one.
    source: (&'static str, Option<&'static str>),
}

/// Renders the page; `content` writes its sections.
fn page(frame: &Frame<'_>, document: &Value, content: impl FnOnce(&mut Markup)) -> String {
    page::document(&format!("{} · Wiretail", frame.title), |m| {
        m.tag("header").body(|m| {
            m.tag("p").class("kicker").text(format_args!("Wiretail · predicted {}", frame.what));
            m.tag("h1").class("long").text(frame.title);
            m.tag("p").class("lead").text(frame.lead);
        });
        m.line();
        m.tag("main").body(|m| {
            content(m);
            section(m, "formula", "Source", |m| source(m, frame));
        });
        page::footer(m, frame.version);
        m.json("document", document);
    })
}

fn source(m: &mut Markup, frame: &Frame<'_>) {
    let formula = &frame.formula;
    m.tag("p").text(formula.text);
    m.tag("p").class("rests").body(|m| {
        m.text("Source: ");
        let (source, address) = formula.source;
        match address {
            Some(address) => m.tag("a").attr("href", address).attr("rel", "noreferrer").text(source),
            None => m.text(source),
        };
        m.text(". Meaning and limits: ").tag("code").text(formula.page);
        m.text(". The complete document: ").tag("code").text(frame.schema);
        m.text(", embedded in this file ");
        // The script sets the link's address. Without scripts the link has no address and is hidden.
        let link = m.tag("a").class("csv").attr("data-document", "document");
        link.attr("download", format_args!("{}.json", frame.what)).text("JSON");
    });
}

/// The measurements that the delays come from. Each row has the name, number of packets, source of the
/// timestamps, and granularity.
fn basis(m: &mut Markup, rows: Vec<[String; 4]>) {
    let rows = rows.into_iter().map(|[what, packets, clock, granularity]| {
        vec![Cell::text(what), Cell::number(packets), Cell::text(clock), Cell::number(granularity)]
    });
    table(m, "Packets and clocks", &head(["measured", "packets", "timestamps", "granularity"]), rows);
}

/// Formats the relative error of a prediction: "+2.1 %", or "0 %" for none.
fn error(error: f64) -> String {
    match (error * 1000.0).round() / 10.0 {
        0.0 => format!("0{}%", format::SPACE),
        percent => {
            let sign = if percent > 0.0 { "+" } else { "\u{2212}" };
            format!("{sign}{}{}%", format::fixed(percent.abs(), 1), format::SPACE)
        }
    }
}

fn error_cell(found: Option<f64>) -> Cell {
    found.map_or_else(none, |found| Cell::number(error(found)).exact(found))
}

/// A cell without a value.
fn none() -> Cell {
    Cell::number("–").class("number zero")
}

/// Turns a reason into a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// Formats a number of things: "1 event", "3 events".
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", format::count(count), if count == 1 { "" } else { "s" })
}

/// A series with a confidence interval.
fn banded(name: &str, x: Vec<f64>, y: Vec<f64>, low: Vec<f64>, high: Vec<f64>) -> Series {
    Series { low, high, ..plain(name.to_owned(), x, y) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_sign() {
        let shown =
            [0.021, -0.5, 0.0, 0.0001, 12.0].map(|found| error(found).replace(['\u{a0}', '\u{202f}'], " "));
        assert_eq!(shown, ["+2.1 %", "\u{2212}50.0 %", "0 %", "0 %", "+1 200.0 %"]);
    }
}
