//! Renders an [`Analysis`] as one self-contained HTML file.
//!
//! Four layers, each built on the previous one:
//!
//! - [`mod@format`]: numbers for display ("12.34 µs"), with the exact values kept next to them;
//! - `scale` (maps values to positions on an axis and chooses ticks) and `html` (the only writer of markup;
//!   it escapes all input, so that a file name cannot become an element);
//! - `plot`: renders a [`Figure`] as SVG;
//! - `pages`: the documents and the parts that they share.
//!
//! Invariants: no I/O, no clock, no network. A page contains all of its data, draws its figures without
//! scripts, and never loads another file. Its script only adds hover and the CSV downloads. This crate
//! computes no statistics: every number on a page is in the summary or is a sum of numbers on that page.

use wiretail_schema::summary::Analysis;
use wiretail_schema::summary::figure::Figure;

mod csv;
pub mod format;
mod html;
mod pages;
mod plot;

pub use csv::csv;
pub use pages::comparison::{comparison, words as comparison_words};
pub use pages::explanation::words::{cause_name, headline, sentence};
pub use pages::explanation::{ExplanationPage, explanation};
pub use pages::prediction::capacity::capacity;
pub use pages::prediction::interrupts::{interrupts, waits};
pub use pages::prediction::queueing::queueing;
pub use pages::prediction::tail::tail;
pub use pages::recommendation::recommend;
pub use pages::run::{EXPLANATION_PAGE, RunPage, run};

/// Renders the report: one HTML file with verdicts, findings, figures and tables.
pub fn report(analysis: &Analysis) -> String {
    pages::report::report(analysis)
}

/// Renders a figure as a stand-alone SVG file.
pub fn svg(figure: &Figure) -> String {
    plot::stand_alone(figure)
}
