//! Traces of the kernel: from the pages of its ring buffers to typed events.
//!
//! A trace is a folder: `trace.json` ([`TraceInfo`](wiretail_schema::causes::trace::TraceInfo)) and a file of raw pages for each
//! processor and instance, as the kernel's `trace_pipe_raw` gave them out. Where a field stands in an event is read
//! from the formats in the document, never assumed: a trace of another kernel reads the same.
//!
//! - `format`: the kernel's `format` files to places of fields;
//! - `page`: a page to stamped records;
//! - `plan`: which events are known, and a record to an [`Event`];
//! - `stream`: the pages of a file to events, and the windows in which events were lost;
//! - `reader`: all streams of a trace, merged by time ([`Trace`]).

mod format;
mod page;
mod plan;
mod reader;
mod stream;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;

use std::io;

pub use wiretail_schema::causes::trace::{Event, Kind};

pub use reader::{Trace, TraceEnd};
pub use stream::Lost;

/// A trace that can't be read. Every message names the file, where in it, what was expected, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error(
        "{file}: cannot be read, at byte {offset}: {source}; check the path, the permissions and the disk"
    )]
    Io {
        /// The file.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The document is not one.
    #[error(
        "{file}: {detail}; expected the document of a trace, {expected}; is this the folder that `wiretail trace --out` wrote?"
    )]
    NotATrace {
        /// The file.
        file: String,
        /// What is wrong with it.
        detail: String,
        /// What the document says of itself.
        expected: &'static str,
    },
    /// Pages that make no sense.
    #[error("{file}: damaged at byte {offset}: {detail}; copy or record the trace again")]
    Damaged {
        /// The file.
        file: String,
        /// Where: the page, or the record in it.
        offset: u64,
        /// What was expected and found.
        detail: String,
    },
}
