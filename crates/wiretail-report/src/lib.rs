//! Results as a page: an [`Analysis`] becomes one self-contained HTML file.
//!
//! Four layers, each standing on the one before it:
//!
//! - [`mod@format`]: numbers for people ("12.34 µs"), the exact ones stay beside them;
//! - `scale` (where a value lies on an axis, which ticks it gets) and `html` (the only writer of
//!   markup; it escapes whatever it is given, so that a file name cannot become an element);
//! - `plot`: a [`Figure`] to SVG;
//! - `pages`: the documents, and what they share.
//!
//! Invariants: no I/O, no clock, no network. A page holds everything it shows, draws its figures
//! without scripts, and never asks for anything outside its file; the script adds hover and the
//! CSV downloads. Nothing here computes a statistic: what the page shows stands in the summary, or is
//! the sum of what it shows.

use wiretail_schema::summary::Analysis;
use wiretail_schema::summary::figure::Figure;

mod csv;
pub mod format;
mod html;
mod pages;
mod plot;

pub use csv::csv;
pub use pages::comparison::{Change, Difference, DifferenceRow, comparison};
pub use pages::explanation::words::{cause_name, headline, sentence};
pub use pages::explanation::{ExplanationPage, explanation};
pub use pages::prediction::capacity::capacity;
pub use pages::prediction::interrupts::{interrupts, waits};
pub use pages::prediction::queueing::queueing;
pub use pages::prediction::tail::tail;
pub use pages::recommendation::recommend;
pub use pages::run::{EXPLANATION_PAGE, RunPage, run};

/// The report: one HTML file with verdicts, findings, figures and tables.
pub fn report(analysis: &Analysis) -> String {
    pages::report::report(analysis)
}

/// A figure as a stand-alone SVG file.
pub fn svg(figure: &Figure) -> String {
    plot::stand_alone(figure)
}
